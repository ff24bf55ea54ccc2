//! Which programs may be started.
//!
//! A list of allowed tools is a wall: a program is started only if its name is on the list and the
//! file is the one that the worker itself finds under that name. A list of denied tools is a
//! fence: a copy under another name passes it. Neither looks at what an allowed program starts in
//! turn, so `sh`, `env`, `find` and the like on the list allow everything; the sandbox is for that.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

/// Variables by which the loader puts other code into a program.
const LOADER_VARIABLES: &str = "LD_";

/// The rules for programs.
#[derive(Clone, Debug, Default)]
pub struct Tools {
    /// `None` allows every name.
    allowed: Option<BTreeSet<String>>,
    denied: BTreeSet<String>,
    /// The worker's own, whatever a task sets.
    path: OsString,
}

/// A program that may not be started.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotAllowed {
    /// It is not on the list.
    #[error("{0} is not among the tools that this worker allows")]
    Unlisted(String),
    /// It is on the other list.
    #[error("this worker does not allow {0}")]
    Denied(String),
    /// It is one on the other list by another name.
    #[error("this worker does not allow {denied}, and {name} is the same program")]
    Alias { name: String, denied: String },
    /// It is another program of the same name.
    #[error("{} is not the {name} that this worker allows", .file.display())]
    Other { name: String, file: PathBuf },
    /// Other code would run.
    #[error("the variable {0} is not allowed, because this worker does not allow every tool")]
    Variable(String),
}

impl Tools {
    /// Only the tools `allowed`, if that is a list, and none that are `denied`; files are looked
    /// for in `path`.
    pub fn new(
        allowed: Option<BTreeSet<String>>,
        denied: BTreeSet<String>,
        path: impl Into<OsString>,
    ) -> Self {
        Self { allowed, denied, path: path.into() }
    }

    /// Whether a program may be started: `command` as it was asked for, `file` as it was found.
    pub(super) fn check(
        &self,
        command: &str,
        file: &Path,
        environment: &Environment,
    ) -> Result<(), NotAllowed> {
        if self.allowed.is_none() && self.denied.is_empty() {
            return Ok(());
        }
        let name = command.rsplit('/').next().unwrap_or(command);
        self.check_denied(name, file)?;
        self.check_allowed(name, file)?;
        let loader = environment.keys().map(|name| name.to_string_lossy());
        match loader.into_iter().find(|name| name.starts_with(LOADER_VARIABLES)) {
            Some(name) => Err(NotAllowed::Variable(name.into_owned())),
            None => Ok(()),
        }
    }

    fn check_denied(&self, name: &str, file: &Path) -> Result<(), NotAllowed> {
        if self.denied.contains(name) {
            return Err(NotAllowed::Denied(name.to_owned()));
        }
        let is_alias = |denied: &&String| {
            find_all(denied, &self.path).iter().any(|other| is_same_file(other, file))
        };
        match self.denied.iter().find(is_alias) {
            Some(denied) => {
                Err(NotAllowed::Alias { name: name.to_owned(), denied: denied.clone() })
            }
            None => Ok(()),
        }
    }

    /// The name counts as well as the file, for one file may be many programs by their names.
    fn check_allowed(&self, name: &str, file: &Path) -> Result<(), NotAllowed> {
        let Some(allowed) = &self.allowed else { return Ok(()) };
        if !allowed.contains(name) {
            return Err(NotAllowed::Unlisted(name.to_owned()));
        }
        match find_all(name, &self.path).first() {
            Some(own) if is_same_file(own, file) => Ok(()),
            Some(_) | None => {
                Err(NotAllowed::Other { name: name.to_owned(), file: file.to_owned() })
            }
        }
    }

    /// Those of the tools that may be started, for telling others.
    pub fn offered(&self, names: Vec<String>) -> Vec<String> {
        let is_offered = |name: &String| {
            if let Some(file) = find_all(name, &self.path).first() {
                return self.check(name, file, &Environment::new()).is_ok();
            }
            // A tool that is told without being on the path can only be judged by its name.
            let is_listed = self.allowed.as_ref().is_none_or(|allowed| allowed.contains(name));
            is_listed && !self.denied.contains(name)
        };
        names.into_iter().filter(is_offered).collect()
    }

    /// Allowed tools that are nowhere to be found.
    pub fn missing(&self) -> Vec<&str> {
        let names = self.allowed.iter().flatten().map(String::as_str);
        names.filter(|name| find_all(name, &self.path).is_empty()).collect()
    }
}

fn is_same_file(one: &Path, other: &Path) -> bool {
    let identity = |path: &Path| fs::metadata(path).map(|file| (file.dev(), file.ino())).ok();
    identity(one).is_some_and(|file| identity(other) == Some(file))
}

/// Whether this can be the name of a tool, and not its path.
pub fn is_name(text: &str) -> bool {
    !text.is_empty() && text != "." && text != ".." && !text.contains(['/', '\0', ',', ' '])
}

/// The worker's own `PATH`.
pub fn own_path() -> OsString {
    std::env::var_os(OsStr::new("PATH")).unwrap_or_default()
}

/// What a program may know of the worker's own environment. Everything else stays here, tokens
/// first of all.
pub const INHERITED: [&str; 5] = ["PATH", "HOME", "LANG", "TZ", "TMPDIR"];
/// Where programs are looked for without a `PATH`, as the C library does.
const PATH_DEFAULT: &str = "/bin:/usr/bin";

/// Names and values.
pub type Environment = BTreeMap<OsString, OsString>;

/// What may be inherited of an environment.
pub fn scrubbed(own: impl IntoIterator<Item = (OsString, OsString)>) -> Environment {
    own.into_iter().filter(|(name, _)| INHERITED.iter().any(|known| name == known)).collect()
}

/// A program that cannot be started.
#[derive(Debug, thiserror::Error)]
pub enum NotFound {
    /// Nothing of that name.
    #[error("no program {0} in {1}")]
    Nowhere(String, String),
    /// Nothing at that path.
    #[error("no program at {}", .0.display())]
    NoFile(PathBuf),
    /// It is there, but is no program.
    #[error("{} is not executable", .0.display())]
    NotExecutable(PathBuf),
}

/// The file of a program, found once and by us: the C library would hand a script without an
/// interpreter line to a shell. Relative entries of `PATH` don't count, because a task could put
/// a file there.
pub fn find_program(
    name: &str,
    cwd: Option<&Path>,
    environment: &Environment,
) -> Result<PathBuf, NotFound> {
    if name.contains('/') {
        let path = cwd.map_or_else(|| PathBuf::from(name), |cwd| cwd.join(name));
        // The program starts in its own folder, from where a relative path leads elsewhere.
        return usable(path).map(|path| std::path::absolute(&path).unwrap_or(path));
    }
    let folders = environment.get(OsStr::new("PATH")).map_or(OsStr::new(PATH_DEFAULT), |path| path);
    let mut unusable = None;
    for folder in std::env::split_paths(folders).filter(|folder| folder.is_absolute()) {
        match usable(folder.join(name)) {
            Ok(path) => return Ok(path),
            Err(NotFound::NotExecutable(path)) => unusable = Some(path),
            Err(NotFound::NoFile(_) | NotFound::Nowhere(..)) => {}
        }
    }
    let nowhere = || NotFound::Nowhere(name.into(), folders.to_string_lossy().into_owned());
    Err(unusable.map_or_else(nowhere, NotFound::NotExecutable))
}

/// Every file that a name stands for in the folders of a `PATH`, the first one first.
pub(super) fn find_all(name: &str, path: &OsStr) -> Vec<PathBuf> {
    let folders = std::env::split_paths(path).filter(|folder| folder.is_absolute());
    folders.filter_map(|folder| usable(folder.join(name)).ok()).collect()
}

fn usable(path: PathBuf) -> Result<PathBuf, NotFound> {
    match std::fs::metadata(&path) {
        Ok(found) if found.is_file() && found.permissions().mode() & 0o111 != 0 => Ok(path),
        Ok(_) => Err(NotFound::NotExecutable(path)),
        Err(_) => Err(NotFound::NoFile(path)),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use tempfile::TempDir;

    use super::*;

    #[test]
    fn without_lists_everything_is_allowed() {
        let scene = Scene::new();
        scene.check(&Tools::default(), "elsewhere/sort", None);
    }

    #[test]
    fn a_list_allows_the_file_that_the_worker_finds_and_no_other() {
        let scene = Scene::new();
        let tools = scene.tools(Some(&["sort"]), &[]);
        scene.check(&tools, "bin/sort", None);
        scene.check(&tools, "bin/uniq", Some("uniq is not among the tools"));
        scene.check(&tools, "elsewhere/sort", Some("is not the sort that this worker allows"));
        scene.check(&tools, "elsewhere/link/sort", None);
        scene.check(&tools, "bin/gsort", Some("gsort is not among the tools"));
        assert_eq!(tools.offered(vec!["sort".into(), "uniq".into(), "gsort".into()]), ["sort"]);
    }

    #[test]
    fn a_denied_tool_is_denied_by_its_other_names_too() {
        let scene = Scene::new();
        let tools = scene.tools(None, &["sort"]);
        scene.check(&tools, "bin/sort", Some("this worker does not allow sort"));
        scene.check(&tools, "elsewhere/sort", Some("this worker does not allow sort"));
        scene.check(&tools, "bin/gsort", Some("and gsort is the same program"));
        scene.check(&tools, "bin/uniq", None);
        assert_eq!(tools.offered(vec!["gsort".into(), "uniq".into()]), ["uniq"]);
        let both = scene.tools(Some(&["sort", "uniq"]), &["sort"]);
        scene.check(&both, "bin/sort", Some("does not allow sort"));
    }

    #[test]
    fn the_loader_puts_no_other_code_into_an_allowed_tool() {
        let scene = Scene::new();
        let file = scene.folder.path().join("bin/sort");
        let told = Environment::from([("LD_PRELOAD".into(), "/tmp/own.so".into())]);
        let tools = scene.tools(Some(&["sort"]), &[]);
        let refused = tools.check("sort", &file, &told).expect_err("refused");
        assert_eq!(refused, NotAllowed::Variable("LD_PRELOAD".into()));
        Tools::default().check("sort", &file, &told).expect("every tool is allowed");
    }

    #[test]
    fn a_name_that_is_nowhere_is_told() {
        let scene = Scene::new();
        assert_eq!(scene.tools(Some(&["sort", "srot"]), &[]).missing(), ["srot"]);
        assert!(
            is_name("g++") && is_name("[") && !is_name("/bin/sh") && !is_name("..") && !is_name("")
        );
    }

    /// `bin` is on the path; `bin/gsort` and `elsewhere/link/sort` lead to `bin/sort`.
    struct Scene {
        folder: TempDir,
    }

    impl Scene {
        fn new() -> Self {
            let folder = tempfile::tempdir().expect("folder");
            let at = |path: &str| folder.path().join(path);
            fs::create_dir_all(at("bin")).expect("created");
            fs::create_dir_all(at("elsewhere/link")).expect("created");
            for name in ["bin/sort", "bin/uniq", "elsewhere/sort"] {
                fs::write(at(name), "").expect("written");
                fs::set_permissions(at(name), fs::Permissions::from_mode(0o755)).expect("set");
            }
            symlink(at("bin/sort"), at("bin/gsort")).expect("linked");
            symlink(at("bin/sort"), at("elsewhere/link/sort")).expect("linked");
            Self { folder }
        }

        fn tools(&self, allowed: Option<&[&str]>, denied: &[&str]) -> Tools {
            let set = |list: &[&str]| list.iter().map(|name| (*name).to_owned()).collect();
            Tools::new(allowed.map(set), set(denied), self.folder.path().join("bin"))
        }

        fn check(&self, tools: &Tools, path: &str, refusal: Option<&str>) {
            let file = self.folder.path().join(path);
            let command = file.to_string_lossy();
            let refused = tools.check(&command, &file, &Environment::new()).err();
            match (refused.map(|refused| refused.to_string()), refusal) {
                (None, None) => {}
                (Some(refused), Some(expected)) => assert!(refused.contains(expected), "{refused}"),
                (refused, expected) => panic!("{path}: {refused:?} and not {expected:?}"),
            }
        }
    }

    #[test]
    fn secrets_of_the_worker_are_not_inherited() {
        let own =
            ["PATH", "ASTRA_TOKEN", "HOME", "ASTRA_TASK_ID", "AWS_SECRET_ACCESS_KEY", "PATHS"];
        let kept = scrubbed(own.map(|name| (name.into(), "x".into())));
        assert_eq!(kept.into_keys().collect::<Vec<_>>(), ["HOME", "PATH"]);
    }

    #[test]
    fn a_program_is_found_by_name_or_path() {
        check("sh", "/nowhere:bin:/bin", "/bin/sh");
        check("/bin/sh", "", "/bin/sh");
        check("sh", "bin:.", "no program sh in bin:.");
        check("no-such-program", "/bin", "no program no-such-program in /bin");
        check("./no-such", "/bin", "no program at ./no-such");
        check("passwd", "/etc", "/etc/passwd is not executable");
        check("/etc", "", "/etc is not executable");
    }

    #[test]
    fn a_relative_program_is_relative_to_its_folder() {
        let found = find_program("bin/sh", Some(Path::new("/")), &Environment::new());
        assert_eq!(found.expect("there"), Path::new("/bin/sh"));
    }

    fn check(name: &str, path: &str, expected: &str) {
        let environment = Environment::from([("PATH".into(), path.into())]);
        let shown = match find_program(name, None, &environment) {
            Ok(path) => path.display().to_string(),
            Err(error) => error.to_string(),
        };
        assert_eq!(shown, expected);
    }
}
