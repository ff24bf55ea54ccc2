//! The tree as tidy sees it: every file that is not ignored, in memory.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use super::ignore::Ignored;
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
    /// Reads the folder itself and asks no version control: an unpacked archive is checked too, and
    /// a new file is checked before it is added.
    pub(crate) fn read(root: &Path) -> Result<Self> {
        let mut repository = Self { packages: tools::workspace()?.packages, ..Self::default() };
        repository.read_folder(root, "", &mut Ignored::default())?;
        repository.texts.sort_by(|left, right| left.path.cmp(&right.path));
        Ok(repository)
    }

    fn read_folder(&mut self, folder: &Path, prefix: &str, ignored: &mut Ignored) -> Result<()> {
        if let Ok(patterns) = fs::read_to_string(folder.join(".gitignore")) {
            ignored.add(prefix, &patterns)?;
        }
        let entries = fs::read_dir(folder);
        for entry in entries.with_context(|| format!("cannot list {}", folder.display()))? {
            let entry = entry?;
            let path = format!("{prefix}{}", entry.file_name().to_string_lossy());
            let kind = entry.file_type()?;
            if path == ".git" || ignored.covers(&path, kind.is_dir()) {
                continue;
            }
            if kind.is_dir() {
                self.read_folder(&entry.path(), &format!("{path}/"), ignored)?;
            } else if kind.is_file() {
                self.read_file(&entry.path(), path)?;
            }
        }
        Ok(())
    }

    fn read_file(&mut self, file: &Path, path: String) -> Result<()> {
        let bytes = match fs::read(file) {
            Ok(bytes) => bytes,
            // An editor or a build may remove a file between the listing and the reading.
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
            (".git/config", b"x\n"),
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

        let mut repository = Repository::default();
        repository.read_folder(folder.path(), "", &mut Ignored::default()).unwrap();

        let mut texts: Vec<_> = repository.texts.iter().map(|file| file.path.as_str()).collect();
        texts.sort_unstable();
        assert_eq!(texts, [".gitignore", "a/b.py"]);
        assert!(repository.holds("a/logo.png"));
        assert!(repository.holds("a"));
        assert!(!repository.holds("target"));
        assert!(!repository.holds("a/b"));
    }
}
