//! A copy of the tree, for chores that change product code on purpose.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::tools;

/// The tracked files of the tree, with a target folder of their own.
pub(crate) struct Copy {
    pub(crate) tree: PathBuf,
    pub(crate) target: PathBuf,
}

impl Copy {
    /// A place below the target folder; nothing is written yet.
    pub(crate) fn at(folder: &str) -> Result<Self> {
        let folder = tools::workspace()?.target_directory.join(folder);
        Ok(Self { tree: folder.join("tree"), target: folder.join("target") })
    }

    /// Makes the copy equal to the tracked files of `root`, of which `changed` may change some and
    /// to which it may add others: it gives the content of a name that it wants to be different.
    pub(crate) fn write<'c>(
        &self,
        root: &Path,
        added: &[&str],
        changed: impl Fn(&str) -> Option<&'c str>,
    ) -> Result<()> {
        let listed = Command::new("git").args(["ls-files", "-z"]).current_dir(root).output()?;
        let listed = String::from_utf8(listed.stdout).context("file names are UTF-8")?;
        let tracked = listed.split('\0').filter(|name| !name.is_empty());
        let names: Vec<&str> = tracked.chain(added.iter().copied()).collect();
        for name in &names {
            let from = root.join(name);
            let content = match changed(name) {
                Some(text) => Cow::Borrowed(text.as_bytes()),
                None => fs::read(&from)
                    .with_context(|| format!("cannot read {}", from.display()))?
                    .into(),
            };
            write_if_changed(&content, &self.tree.join(name))?;
        }
        self.remove_others(&names)
    }

    /// Files that the tree no longer has.
    fn remove_others(&self, names: &[&str]) -> Result<()> {
        let kept: BTreeSet<PathBuf> = names.iter().map(|name| self.tree.join(name)).collect();
        let mut folders = vec![self.tree.clone()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder)? {
                let path = entry?.path();
                if path.is_dir() {
                    folders.push(path);
                } else if !kept.contains(&path) {
                    fs::remove_file(path)?;
                }
            }
        }
        Ok(())
    }

    /// Cargo in the copy.
    pub(crate) fn cargo(&self) -> Command {
        let mut cargo = tools::cargo();
        cargo.current_dir(&self.tree).env("CARGO_TARGET_DIR", &self.target);
        cargo
    }
}

/// An untouched file keeps its time, so that cargo does not compile it again.
fn write_if_changed(content: &[u8], to: &Path) -> Result<()> {
    if fs::read(to).is_ok_and(|before| before == content) {
        return Ok(());
    }
    if let Some(folder) = to.parent() {
        fs::create_dir_all(folder)?;
    }
    fs::write(to, content).with_context(|| format!("cannot write {}", to.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_untouched_file_keeps_its_time_and_a_changed_one_is_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a/b.txt");
        write_if_changed(b"one", &path).unwrap();
        let written = fs::metadata(&path).unwrap().modified().unwrap();
        write_if_changed(b"one", &path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().modified().unwrap(), written);
        write_if_changed(b"two", &path).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"two");
    }

    #[test]
    fn what_the_tree_does_not_have_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        let copy = Copy { tree: folder.path().to_owned(), target: folder.path().join("target") };
        write_if_changed(b"", &copy.tree.join("kept")).unwrap();
        write_if_changed(b"", &copy.tree.join("sub/old")).unwrap();
        copy.remove_others(&["kept"]).unwrap();
        assert!(copy.tree.join("kept").exists() && !copy.tree.join("sub/old").exists());
    }
}
