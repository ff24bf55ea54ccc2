//! What a program is told, and where it is found.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

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
    use super::*;

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
