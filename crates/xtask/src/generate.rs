//! `cargo xtask generate`: files that are made from the code and checked in.
//!
//! They are checked in so that a reader, and a reviewer of a change, sees them without building.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::tools;

/// Every file that the generator owes us. Its silence about one must not pass for freshness.
const GENERATED: [&str; 8] = [
    "openapi/v1.json",
    "docs/reference/rest.md",
    "docs/reference/cli.md",
    "docs/reference/config.md",
    "docs/reference/limits.md",
    "docs/reference/error-codes.md",
    "docs/reference/metrics.md",
    "docs/reference/redis.md",
];

const DIFFERING_LINES_SHOWN: usize = 3;

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Change nothing; fail if a checked-in file differs from what the code says.
    #[arg(long)]
    pub(crate) check: bool,
}

pub(crate) fn run(options: &Options) -> Result<()> {
    let root = tools::repository_root()?;
    if options.check {
        return check(&root);
    }
    write_below(&root)?;
    println!("generate: wrote {}", GENERATED.join(", "));
    Ok(())
}

fn check(root: &Path) -> Result<()> {
    let fresh = tempfile::tempdir().context("cannot create a temporary folder")?;
    write_below(fresh.path())?;
    let stale = stale_files(root, fresh.path())?;
    if stale.is_empty() {
        println!("generate: {} files are fresh", GENERATED.len());
        return Ok(());
    }
    for difference in &stale {
        eprintln!("{difference}");
    }
    bail!("{} generated files are not fresh; run: cargo xtask generate", stale.len())
}

fn write_below(folder: &Path) -> Result<()> {
    let generate = tools::built("generate")?;
    tools::run(Command::new(generate).arg(folder))
}

/// One description per file that differs, is missing, or is written without being listed.
fn stale_files(checked_in: &Path, fresh: &Path) -> Result<Vec<String>> {
    let mut stale = Vec::new();
    for path in GENERATED {
        let Some(generated) = read_if_any(&fresh.join(path))? else {
            stale.push(format!("{path}: the generator did not write it"));
            continue;
        };
        match read_if_any(&checked_in.join(path))? {
            None => stale.push(format!("{path}: not checked in")),
            Some(old) if old != generated => stale.push(difference(path, &old, &generated)),
            Some(_) => {}
        }
    }
    for path in files_below(fresh, "")? {
        if !GENERATED.contains(&path.as_str()) {
            stale.push(format!("{path}: written, but not listed in crates/xtask/src/generate.rs"));
        }
    }
    Ok(stale)
}

fn read_if_any(path: &Path) -> Result<Option<Vec<u8>>> {
    match fs::read(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).with_context(|| format!("cannot read {}", path.display())),
    }
}

fn files_below(folder: &Path, prefix: &str) -> Result<Vec<String>> {
    let mut files = Vec::new();
    for entry in
        fs::read_dir(folder).with_context(|| format!("cannot list {}", folder.display()))?
    {
        let entry = entry?;
        let path = format!("{prefix}{}", entry.file_name().to_string_lossy());
        if entry.file_type()?.is_dir() {
            files.extend(files_below(&entry.path(), &format!("{path}/"))?);
        } else {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

/// The first lines that differ, the checked-in ones with `-`, the generated ones with `+`.
fn difference(path: &str, old: &[u8], new: &[u8]) -> String {
    let (old, new) = (String::from_utf8_lossy(old), String::from_utf8_lossy(new));
    let same = old.lines().zip(new.lines()).take_while(|(left, right)| left == right).count();
    let mut shown = vec![format!("{path}: differs from line {}", same + 1)];
    for (sign, text) in [('-', &old), ('+', &new)] {
        let lines = text.lines().skip(same).take(DIFFERING_LINES_SHOWN);
        shown.extend(lines.map(|line| format!("  {sign} {line}")));
    }
    shown.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_files_are_fresh() {
        check_with(|_, _| {}, &[]);
    }

    #[test]
    fn a_changed_line_is_shown_with_its_number() {
        check_with(
            |checked_in, _| put(checked_in, "docs/reference/cli.md", "one\nTWO\n"),
            &["docs/reference/cli.md: differs from line 2\n  - TWO\n  + two"],
        );
    }

    #[test]
    fn a_missing_last_newline_is_a_difference() {
        check_with(
            |checked_in, _| put(checked_in, "openapi/v1.json", "one\ntwo"),
            &["openapi/v1.json: differs from line 3"],
        );
    }

    #[test]
    fn a_file_that_is_not_checked_in_is_named() {
        check_with(
            |checked_in, _| fs::remove_file(checked_in.join("openapi/v1.json")).unwrap(),
            &["openapi/v1.json: not checked in"],
        );
    }

    #[test]
    fn a_generator_that_writes_too_little_is_not_fresh() {
        check_with(
            |_, fresh| fs::remove_file(fresh.join("docs/reference/rest.md")).unwrap(),
            &["docs/reference/rest.md: the generator did not write it"],
        );
    }

    #[test]
    fn a_file_that_nobody_listed_is_named() {
        check_with(
            |_, fresh| put(fresh, "docs/reference/new.md", "x\n"),
            &["docs/reference/new.md: written, but not listed in crates/xtask/src/generate.rs"],
        );
    }

    fn check_with(disturb: impl Fn(&Path, &Path), expected: &[&str]) {
        let (checked_in, fresh) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        for path in GENERATED {
            put(checked_in.path(), path, "one\ntwo\n");
            put(fresh.path(), path, "one\ntwo\n");
        }
        disturb(checked_in.path(), fresh.path());
        assert_eq!(stale_files(checked_in.path(), fresh.path()).unwrap(), expected);
    }

    fn put(folder: &Path, path: &str, text: &str) {
        let path = folder.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
}
