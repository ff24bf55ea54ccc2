//! Files by pattern: `*`, `?`, `[a-z]`, `[!a]` within a name, `**` for any folders.
//!
//! As in a shell, a name that starts with a dot is matched only by a pattern that does.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Folders below folders; a deeper tree is a circle of links.
const DEPTH_MAX: usize = 64;

/// The matching paths, sorted; at most `max`. Relative patterns start at `root` and give relative
/// paths.
pub(super) fn expand(root: &Path, pattern: &str, max: usize) -> io::Result<Vec<String>> {
    let is_absolute = pattern.starts_with('/');
    let parts: Vec<&str> = pattern.split('/').filter(|part| !part.is_empty()).collect();
    let mut search = Search { found: Vec::new(), max };
    let (folder, shown) = if is_absolute {
        (PathBuf::from("/"), String::from("/"))
    } else {
        (root.to_owned(), String::new())
    };
    search.walk(&folder, &shown, &parts, 0)?;
    search.found.sort_unstable();
    search.found.dedup();
    Ok(search.found)
}

struct Search {
    found: Vec<String>,
    max: usize,
}

impl Search {
    fn walk(&mut self, folder: &Path, shown: &str, parts: &[&str], depth: usize) -> io::Result<()> {
        let Some((part, rest)) = parts.split_first() else { return Ok(()) };
        if self.found.len() >= self.max || depth > DEPTH_MAX {
            return Ok(());
        }
        if *part == "**" {
            return self.walk_below(folder, shown, (parts, rest), depth);
        }
        if !part.contains(['*', '?', '[']) {
            return self.take(&folder.join(part), format!("{shown}{part}"), rest, depth);
        }
        for name in names(folder)? {
            if is_shown_by(part, &name) && matches(part, &name) {
                self.take(&folder.join(&name), format!("{shown}{name}"), rest, depth)?;
            }
        }
        Ok(())
    }

    /// `**`: here, and in every folder below. Links are not followed: they may lead in circles.
    fn walk_below(
        &mut self,
        folder: &Path,
        shown: &str,
        (parts, rest): (&[&str], &[&str]),
        depth: usize,
    ) -> io::Result<()> {
        // A pattern that ends so means all files below.
        let rest = if rest.is_empty() { &["*"] } else { rest };
        self.walk(folder, shown, rest, depth + 1)?;
        for name in names(folder)? {
            let path = folder.join(&name);
            let is_folder = fs::symlink_metadata(&path).is_ok_and(|file| file.is_dir());
            if is_folder && !name.starts_with('.') {
                self.walk(&path, &format!("{shown}{name}/"), parts, depth + 1)?;
            }
        }
        Ok(())
    }

    fn take(&mut self, path: &Path, shown: String, rest: &[&str], depth: usize) -> io::Result<()> {
        if rest.is_empty() {
            if path.symlink_metadata().is_ok() {
                self.found.push(shown);
            }
            return Ok(());
        }
        if path.is_dir() {
            return self.walk(path, &format!("{shown}/"), rest, depth + 1);
        }
        Ok(())
    }
}

/// Names in a folder that are text; one that cannot be listed has none, as in a shell.
fn names(folder: &Path) -> io::Result<Vec<String>> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => return Ok(Vec::new()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    Ok(names.collect())
}

fn is_shown_by(pattern: &str, name: &str) -> bool {
    !name.starts_with('.') || pattern.starts_with('.')
}

/// Whether a name fits a pattern. A star that turns out too short is tried one letter longer;
/// only the last star ever needs that.
fn matches(pattern: &str, name: &str) -> bool {
    let pattern: Vec<char> = pattern.chars().collect();
    let name: Vec<char> = name.chars().collect();
    let (mut p, mut n) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while n < name.len() {
        if pattern.get(p) == Some(&'*') {
            star = Some((p, n));
            p += 1;
        } else if let Some(next) = step(&pattern, p, name[n]) {
            (p, n) = (next, n + 1);
        } else if let Some((star_p, star_n)) = star {
            star = Some((star_p, star_n + 1));
            (p, n) = (star_p + 1, star_n + 1);
        } else {
            return false;
        }
    }
    pattern[p..].iter().all(|letter| *letter == '*')
}

/// The place after what matches one letter, if it does.
fn step(pattern: &[char], p: usize, letter: char) -> Option<usize> {
    match pattern.get(p)? {
        '?' => Some(p + 1),
        '[' => match class(pattern, p, letter) {
            Some((true, end)) => Some(end),
            Some((false, _)) => None,
            // Without its end it is a bracket.
            None => (letter == '[').then_some(p + 1),
        },
        own => (*own == letter).then_some(p + 1),
    }
}

/// Whether a letter is in the class that starts at `p`, and where the class ends.
fn class(pattern: &[char], p: usize, letter: char) -> Option<(bool, usize)> {
    let is_negated = matches!(pattern.get(p + 1), Some('!' | '^'));
    let first = p + 1 + usize::from(is_negated);
    // A bracket that comes first is a letter of the class.
    let end = (first + 1..pattern.len()).find(|place| pattern[*place] == ']')?;
    let mut is_in = false;
    let mut place = first;
    while place < end {
        if place + 2 < end && pattern[place + 1] == '-' {
            is_in |= (pattern[place]..=pattern[place + 2]).contains(&letter);
            place += 3;
        } else {
            is_in |= pattern[place] == letter;
            place += 1;
        }
    }
    Some((is_in != is_negated, end + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_fit_patterns_as_in_a_shell() {
        for (pattern, fitting, others) in [
            ("*.jpg", &["a.jpg", ".jpg"][..], &["a.jpeg", "a.jpg2"][..]),
            ("a*b*c", &["abc", "axxbyyc", "abbc"], &["ab", "acb"]),
            ("?x", &["ax", "éx"], &["x", "aax"]),
            ("[a-c]1", &["a1", "c1"], &["d1", "a2", "1"]),
            ("[!a-c]", &["d", "-"], &["a", ""]),
            ("[]x]", &["]", "x"], &["y"]),
            ("[a-]", &["a", "-"], &["b"]),
            ("a[b", &["a[b"], &["ab"]),
            ("*", &["", "x"], &[]),
        ] {
            assert!(fitting.iter().all(|name| matches(pattern, name)), "{pattern}");
            assert!(!others.iter().any(|name| matches(pattern, name)), "{pattern}");
        }
    }

    #[test]
    fn files_are_found_sorted_and_relative() {
        let folder = tempfile::tempdir().expect("folder");
        for path in ["b/2.txt", "a/1.txt", "a/deep/3.txt", "top.txt", ".hidden/4.txt", ".dot.txt"] {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().expect("a parent")).expect("made");
            fs::write(path, "").expect("written");
        }
        std::os::unix::fs::symlink(folder.path(), folder.path().join("a/circle")).expect("linked");
        let check = |pattern: &str, expected: &str| {
            let found = expand(folder.path(), pattern, 100).expect("reads");
            assert_eq!(found.join(" "), expected, "{pattern}");
        };
        check("*.txt", "top.txt");
        check(".*.txt", ".dot.txt");
        check("*/*.txt", "a/1.txt b/2.txt");
        check("**/*.txt", "a/1.txt a/deep/3.txt b/2.txt top.txt");
        check("a/**", "a/1.txt a/circle a/deep a/deep/3.txt");
        check("top.txt", "top.txt");
        check("a//1.txt", "a/1.txt");
        check("nothing*", "");
        check("top.txt/*", "");
        let absolute = format!("{}/b/*", folder.path().display());
        check(&absolute, &format!("{}/b/2.txt", folder.path().display()));
        assert!(expand(folder.path(), "**/*", 2).expect("reads").len() >= 2);
    }
}
