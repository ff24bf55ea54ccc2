//! The tree as tidy sees it: every file that is not ignored, in memory.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use crate::tools::{self, Package};

#[derive(Debug, Default)]
pub(crate) struct Repository {
    /// Files that are valid UTF-8 without zero bytes, by path.
    pub(crate) texts: Vec<TextFile>,
    /// Every file, relative to the root, with `/` between folders.
    pub(crate) paths: BTreeSet<String>,
    pub(crate) packages: Vec<Package>,
}

#[derive(Debug)]
pub(crate) struct TextFile {
    pub(crate) path: String,
    pub(crate) text: String,
}

impl TextFile {
    pub(crate) fn has_extension(&self, extension: &str) -> bool {
        self.path.rsplit_once('.').is_some_and(|(_, end)| end == extension)
    }
}

impl Repository {
    /// Every file that git tracks, or would track: a new file is checked before it is added.
    pub(crate) fn read(root: &Path) -> Result<Self> {
        let mut repository = Self { packages: tools::workspace()?.packages, ..Self::default() };
        repository.read_files(root)?;
        Ok(repository)
    }

    fn read_files(&mut self, root: &Path) -> Result<()> {
        let listed = Command::new("git")
            .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
            .current_dir(root)
            .output()
            .context("cannot ask git for the files")?;
        let listed = String::from_utf8(listed.stdout).context("file names are UTF-8")?;
        let paths: BTreeSet<&str> = listed.split('\0').filter(|path| !path.is_empty()).collect();
        for path in paths {
            self.read_file(&root.join(path), path.to_owned())?;
        }
        Ok(())
    }

    fn read_file(&mut self, file: &Path, path: String) -> Result<()> {
        let bytes = match fs::read(file) {
            Ok(bytes) => bytes,
            // A file that was removed is tracked until the next commit.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error).with_context(|| format!("cannot read {path}")),
        };
        self.paths.insert(path.clone());
        if !bytes.contains(&0)
            && let Ok(text) = String::from_utf8(bytes)
        {
            self.texts.push(TextFile { path, text });
        }
        Ok(())
    }

    /// Whether a file or a folder has this path; the root is the empty path.
    pub(crate) fn holds(&self, path: &str) -> bool {
        let folder = format!("{path}/");
        path.is_empty()
            || self.paths.contains(path)
            || self.paths.range(folder.clone()..).next().is_some_and(|at| at.starts_with(&folder))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ignored_and_binary_files_are_not_read_as_text() {
        let folder = tempfile::tempdir().unwrap();
        for (path, bytes) in [
            (".gitignore", &b"/target\n*.pyc\n"[..]),
            ("target/a.rs", b"x\n"),
            ("a/b.pyc", b"x\n"),
            ("a/b.py", b"x\n"),
            ("a/logo.png", b"\x89PNG\0"),
            ("a/latin.txt", b"\xe4\n"),
        ] {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, bytes).unwrap();
        }

        let init = Command::new("git").args(["init", "-q"]).current_dir(folder.path()).status();
        assert!(init.unwrap().success());
        let mut repository = Repository::default();
        repository.read_files(folder.path()).unwrap();

        let texts: Vec<_> = repository.texts.iter().map(|file| file.path.as_str()).collect();
        assert_eq!(texts, [".gitignore", "a/b.py"]);
        assert!(repository.holds("a/logo.png"));
        assert!(repository.holds("a"));
        assert!(!repository.holds("target"));
        assert!(!repository.holds("a/b"));
    }
}
