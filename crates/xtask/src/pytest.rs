//! The tests in `tests/`: programs of other hands against the real binary.
//!
//! They are written in Python so that nothing of our own protocol code can agree with itself.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::tools;

const REQUIREMENTS: &str = "tests/requirements.txt";
/// What the virtual environment was filled from. Written last, so a broken install is done again.
const INSTALLED: &str = "installed-requirements.txt";

pub(crate) fn run() -> Result<()> {
    let astra = tools::built("astra")?;
    let target = tools::workspace()?.target_directory;
    let python = environment(&target.join("pytest-venv"))?;
    let mut tests = Command::new(python);
    tests.args(["-B", "-m", "pytest", "-q", "tests"]);
    tests.env("ASTRA_BIN", astra);
    tools::run(&mut tests)
}

/// The Python of a virtual environment that holds what the tests need.
fn environment(folder: &Path) -> Result<PathBuf> {
    let root = tools::repository_root()?;
    let wanted = fs::read_to_string(root.join(REQUIREMENTS))
        .with_context(|| format!("cannot read {REQUIREMENTS}"))?;
    let python = folder.join("bin").join("python");
    let installed = folder.join(INSTALLED);
    if python.exists() && is_installed(&installed, &wanted) {
        return Ok(python);
    }
    tools::run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(folder))?;
    let install = ["-m", "pip", "install", "--quiet", "--requirement", REQUIREMENTS];
    tools::run(Command::new(&python).args(install))?;
    fs::write(&installed, wanted)
        .with_context(|| format!("cannot write {}", installed.display()))?;
    Ok(python)
}

fn is_installed(installed: &Path, wanted: &str) -> bool {
    fs::read_to_string(installed).is_ok_and(|text| text == wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_of_the_requirements_is_noticed() {
        let folder = tempfile::tempdir().expect("a folder");
        let installed = folder.path().join(INSTALLED);
        assert!(!is_installed(&installed, "pytest==1\n"));
        fs::write(&installed, "pytest==1\n").expect("written");
        assert!(is_installed(&installed, "pytest==1\n"));
        assert!(!is_installed(&installed, "pytest==2\n"));
    }

    #[test]
    fn every_requirement_is_pinned() {
        let root = tools::repository_root().expect("the repository");
        let text = fs::read_to_string(root.join(REQUIREMENTS)).expect("requirements");
        let lines = text.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
        for line in lines {
            assert!(line.contains("=="), "{line}");
        }
    }
}
