//! What a worker says that it can do, in `control.register`.
//!
//! The schema is closed and other servers refuse unknown keys, so what it has no key for travels
//! as `features`: `type:<name>` is a node type, `tool:<name>` a program that is installed,
//! `tag:<key>=<value>` a label, `runtime:<name>=<version>` the version of a runtime. Anything else
//! in `features` is a feature. The queues that the worker serves travel as `channels`; none means
//! every queue.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Command, Stdio};

use protocol::rest::tasks::Package;
use protocol::session::control::COUNTED_ACKS_FEATURE;
use protocol::session::kind::{Kind, Payload};
use protocol::session::payload::control::{
    Capabilities, Concurrency, PackageStatus, Register, RegisteredPackage,
};
use serde_json::value::RawValue;

/// The most tools that are told.
const TOOLS_MAX: usize = 4096;
/// The longest name of a tool that is told.
const TOOL_BYTES_MAX: usize = 128;
/// The frames that a worker understands and sends.
///
/// Verdicts as frames are not among them: the acks of reports say the same.
const PAYLOAD_TYPES: [Kind; 11] = [
    Kind::ExecDispatch,
    Kind::ExecResult,
    Kind::ExecFeedback,
    Kind::ExecError,
    Kind::ExecCancel,
    Kind::NextRequest,
    Kind::NextResponse,
    Kind::ResourceReadRequest,
    Kind::ResourceReadChunk,
    Kind::ResourceRelease,
    Kind::RunRebind,
];

/// What a worker can do.
#[derive(Clone, Debug, Default)]
pub struct Offer {
    /// How many tasks at once.
    pub slots: usize,
    /// How many tasks of one type at once.
    pub per_type_limits: BTreeMap<String, usize>,
    /// The runtimes it has, at least one.
    pub runtimes: Vec<String>,
    /// The versions of runtimes, where they are known.
    pub runtime_versions: BTreeMap<String, String>,
    /// What else it knows.
    pub features: Vec<String>,
    /// The programs that are installed.
    pub tools: Vec<String>,
    /// Its labels.
    pub tags: BTreeMap<String, String>,
    /// The queues it serves; none means every queue.
    pub queues: Vec<String>,
    /// The packages it has.
    pub packages: Vec<Package>,
}

impl Offer {
    /// The payload of the register; `types` are what the executor executes.
    pub(crate) fn register(&self, types: &[String]) -> Box<RawValue> {
        let limits: BTreeMap<String, u64> = self
            .per_type_limits
            .iter()
            .map(|(name, limit)| (name.clone(), *limit as u64))
            .collect();
        let concurrency = Concurrency {
            max_parallel: self.slots as u64,
            per_node_limits: (!limits.is_empty()).then_some(limits),
        };
        let packages = self.packages.iter().map(|package| RegisteredPackage {
            name: package.name.clone(),
            version: package.version.clone(),
            status: PackageStatus::Installed,
        });
        let register = Register {
            capabilities: Capabilities {
                concurrency,
                runtimes: self.runtimes.clone(),
                features: self.features(types),
            },
            payload_types: Some(PAYLOAD_TYPES.map(|kind| kind.name().to_owned()).to_vec()),
            packages: Some(packages.collect()),
            manifests: None,
            channels: (!self.queues.is_empty()).then(|| self.queues.clone()),
        };
        Payload::Register(register).encode().1
    }

    fn features(&self, types: &[String]) -> Vec<String> {
        let types = types.iter().map(|name| format!("type:{name}"));
        let tags = self.tags.iter().map(|(key, value)| format!("tag:{key}={value}"));
        let versions = self.runtime_versions.iter();
        let versions = versions.map(|(name, version)| format!("runtime:{name}={version}"));
        let tools = self.tools.iter().map(|name| format!("tool:{name}"));
        let counts = std::iter::once(COUNTED_ACKS_FEATURE.to_owned());
        let own = self.features.iter().cloned().chain(counts);
        own.chain(types).chain(tags).chain(versions).chain(tools).collect()
    }
}

/// The names of the programs in the folders of a `PATH`, sorted; of too many the last are left out.
pub fn find_tools(path: &OsStr) -> Vec<String> {
    let mut names = BTreeSet::new();
    for folder in std::env::split_paths(path).filter(|folder| folder.is_absolute()) {
        let Ok(entries) = fs::read_dir(folder) else { continue };
        for entry in entries.flatten() {
            let Ok(name) = entry.file_name().into_string() else { continue };
            // The program itself is asked, not the link to it.
            let found = fs::metadata(entry.path());
            let is_program =
                found.is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0);
            if is_program && name.len() <= TOOL_BYTES_MAX {
                names.insert(name);
            }
        }
    }
    names.into_iter().take(TOOLS_MAX).collect()
}

/// The version of `python3`, if there is one.
pub fn find_python() -> Option<String> {
    let mut command = Command::new("python3");
    command.arg("--version").stdin(Stdio::null()).stderr(Stdio::null());
    let said = String::from_utf8(command.output().ok()?.stdout).ok()?;
    let version = said.trim().strip_prefix("Python ")?;
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '+' | '-');
    (!version.is_empty() && version.chars().all(is_plain)).then(|| version.to_owned())
}

/// How many tasks at once suit this machine.
pub fn slots_default() -> usize {
    const SLOTS_MIN: usize = 4;
    std::thread::available_parallelism().map_or(SLOTS_MIN, |cores| cores.get().max(SLOTS_MIN))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_schema_has_no_key_for_travels_as_features() {
        let offer = Offer {
            slots: 3,
            per_type_limits: BTreeMap::from([("command".into(), 2)]),
            runtimes: vec!["builtin".into()],
            runtime_versions: BTreeMap::from([("python".into(), "3.12.1".into())]),
            features: vec!["pkg.install".into()],
            tools: vec!["ffmpeg".into()],
            tags: BTreeMap::from([("zone".into(), "a".into())]),
            queues: vec!["video".into()],
            packages: vec![Package { name: "p".into(), version: "1".into() }],
        };
        let register = offer.register(&["core.noop".into()]);
        let Payload::Register(register) =
            Payload::decode(Kind::Register, &register).expect("follows the schema")
        else {
            panic!("a register is a register")
        };
        assert_eq!(
            register.capabilities.features,
            [
                "pkg.install",
                COUNTED_ACKS_FEATURE,
                "type:core.noop",
                "tag:zone=a",
                "runtime:python=3.12.1",
                "tool:ffmpeg"
            ]
        );
        let concurrency = register.capabilities.concurrency;
        assert_eq!(concurrency.max_parallel, 3);
        assert_eq!(concurrency.per_node_limits, Some(BTreeMap::from([("command".into(), 2)])));
        assert_eq!(register.channels, Some(vec!["video".into()]));
        assert_eq!(register.packages.expect("told")[0].name, "p");
    }

    #[test]
    fn tools_are_found_on_the_path() {
        let folder = tempfile::tempdir().expect("folder");
        for (name, mode) in [("run-me", 0o755), ("read-me", 0o644)] {
            let path = folder.path().join(name);
            fs::write(&path, "").expect("written");
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("set");
        }
        fs::create_dir(folder.path().join("folder")).expect("created");
        let path = std::env::join_paths([folder.path(), "relative".as_ref()]).expect("a path");
        assert_eq!(find_tools(&path), ["run-me"]);
        assert!(find_tools(OsStr::new("/bin")).contains(&"sh".to_owned()));
    }
}
