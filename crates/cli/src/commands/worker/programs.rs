//! Which programs a worker starts, and what holds them.

use std::collections::BTreeSet;
use std::path::PathBuf;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use worker::core::capabilities;
use worker::runner::command;
use worker::runner::tools::{Tools, is_name, own_path};
use worker::sandbox::cell::{Sandbox, SandboxError};
use worker::sandbox::profile::{Level, Profile};
use worker::sandbox::profile::{MEMORY_BYTES, MEMORY_BYTES_MIN};
use worker::transport::ws::settings::Settings;

use crate::failure::{ExitCode, Failure, Result};
use crate::output;

const MIB: u64 = 1024 * 1024;
/// The label by which tasks ask for a sandbox.
pub(super) const SANDBOX_LABEL: &str = "sandbox";

/// What tasks may start.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "Programs")]
pub(crate) struct ProgramFlags {
    /// A tool that tasks may use, by name; may be given several times. Default: every tool. For
    /// `astra worker start` also `ASTRA_WORKER_ALLOW_TOOLS`.
    #[arg(long, value_name = "NAME", value_parser = parse_tool)]
    allow_tool: Vec<String>,
    /// A tool that tasks may not use, by name; may be given several times. For `astra worker start`
    /// also `ASTRA_WORKER_DENY_TOOLS`.
    #[arg(long, value_name = "NAME", value_parser = parse_tool)]
    deny_tool: Vec<String>,
    /// What holds the programs of tasks: `basic` sets limits on time, memory, files and processes,
    /// gives no new rights and an own folder; with `strict` they also see only system files, write
    /// only to their own folder and make no dangerous calls. Default: off; for
    /// `astra worker start` also `ASTRA_WORKER_SANDBOX`. A worker with a sandbox carries the label
    /// sandbox=LEVEL, so that tasks can ask for it.
    #[arg(long, value_name = "LEVEL", value_parser = level())]
    sandbox: Option<Level>,
    /// A file or folder that programs in the strict sandbox may read, besides those of the system;
    /// may be given several times.
    #[arg(long, value_name = "PATH")]
    sandbox_ro: Vec<PathBuf>,
    /// A file or folder that programs in the strict sandbox may change, besides their own folder;
    /// may be given several times.
    #[arg(long, value_name = "PATH")]
    sandbox_rw: Vec<PathBuf>,
    /// Programs in the strict sandbox have no network.
    #[arg(long)]
    sandbox_no_net: bool,
    /// The address space of each process in a sandbox, in MiB. Default: 4096.
    #[arg(long, value_name = "MIB", value_parser = parse_memory)]
    sandbox_memory_mib: Option<u64>,
}

fn level() -> impl TypedValueParser<Value = Level> {
    let names = PossibleValuesParser::new(["off", "basic", "strict"]);
    names.map(|name| Level::from_name(&name).expect("one of these"))
}

fn parse_tool(text: &str) -> std::result::Result<String, String> {
    let wanted = "not the name of a tool, like sort; paths are not taken".to_owned();
    if is_name(text) { Ok(text.to_owned()) } else { Err(wanted) }
}

fn parse_memory(text: &str) -> std::result::Result<u64, String> {
    let least = MEMORY_BYTES_MIN / MIB;
    match text.parse() {
        Ok(mib) if (least..=u64::MAX / MIB).contains(&mib) => Ok(mib),
        _ => Err(format!("not a number from {least} on")),
    }
}

impl ProgramFlags {
    /// How programs are started; a sandbox that cannot be had is a failure. A flag goes before a
    /// variable.
    pub(crate) fn options(&self, settings: &Settings) -> Result<command::Options> {
        let list = |flags: &[String], set: &Option<Vec<String>>| -> BTreeSet<String> {
            if flags.is_empty() {
                set.clone().unwrap_or_default().into_iter().collect()
            } else {
                flags.iter().cloned().collect()
            }
        };
        let allowed = list(&self.allow_tool, &settings.allow_tools);
        let denied = list(&self.deny_tool, &settings.deny_tools);
        let tools = Tools::new((!allowed.is_empty()).then_some(allowed), denied, own_path());
        for name in tools.missing() {
            output::warn(format!("{name} is allowed but not on PATH, so it is not offered"));
        }
        let sandbox = Sandbox::open(self.profile(settings)?).map_err(|error| failure(&error))?;
        Ok(command::Options { tools, sandbox, ..command::Options::default() })
    }

    fn profile(&self, settings: &Settings) -> Result<Profile> {
        let level = self.sandbox.or(settings.sandbox).unwrap_or_default();
        let wants_strict =
            self.sandbox_no_net || !self.sandbox_ro.is_empty() || !self.sandbox_rw.is_empty();
        if wants_strict && level != Level::Strict {
            return Err(Failure::usage(
                format!("the sandbox {level} hides no files and keeps no network away"),
                "--sandbox-ro, --sandbox-rw and --sandbox-no-net go with --sandbox strict",
            ));
        }
        Ok(Profile {
            level,
            read_only: self.sandbox_ro.clone(),
            read_write: self.sandbox_rw.clone(),
            no_network: self.sandbox_no_net,
            memory_bytes: self.sandbox_memory_mib.map_or(MEMORY_BYTES, |mib| mib * MIB),
            ..Profile::default()
        })
    }
}

/// The tools that a worker tells about: those on PATH and those in `also`, as far as tasks may use
/// them.
pub(super) fn offered(commands: &command::Options, also: Vec<String>) -> Vec<String> {
    let mut names = capabilities::find_tools(&own_path());
    names.extend(also);
    names.sort_unstable();
    names.dedup();
    commands.tools.offered(names)
}

/// The label of a worker whose programs are held.
pub(super) fn label(commands: &command::Options) -> Option<(String, String)> {
    let level = commands.sandbox.as_ref()?.level();
    Some((SANDBOX_LABEL.to_owned(), level.name().to_owned()))
}

fn failure(error: &SandboxError) -> Failure {
    match error {
        SandboxError::Unavailable { .. } => Failure::new(
            ExitCode::Failed,
            error,
            "choose another level with --sandbox, or a kernel that has what is missing",
        ),
        SandboxError::Path { .. } => Failure::usage(error, "check --sandbox-ro and --sandbox-rw"),
        SandboxError::Folder { .. } => {
            Failure::new(ExitCode::Failed, error, "check the folder, or set TMPDIR to another")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_only_the_strict_sandbox_keeps_is_not_promised_by_another() {
        let flags = ProgramFlags { sandbox_no_net: true, ..ProgramFlags::default() };
        let refused = flags.profile(&Settings::default()).expect_err("off keeps nothing");
        assert!(refused.message.contains("the sandbox off"), "{}", refused.message);
        let settings = Settings { sandbox: Some(Level::Strict), ..Settings::default() };
        assert!(flags.profile(&settings).expect("strict").no_network);
        let flags = ProgramFlags { sandbox: Some(Level::Basic), ..flags };
        flags.profile(&settings).expect_err("a flag goes before a variable");
    }

    #[test]
    fn a_tool_is_named_and_memory_is_enough_to_start() {
        assert!(parse_tool("g++").is_ok() && parse_tool("/bin/sh").is_err());
        assert!(parse_memory("64").is_ok() && parse_memory("63").is_err());
        assert!(parse_memory(&u64::MAX.to_string()).is_err());
    }
}
