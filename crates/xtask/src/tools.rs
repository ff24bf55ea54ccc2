//! Other programs: how they are started, and what to say when one is missing.

use std::env;
use std::ffi::OsStr;
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use serde::Deserialize;

/// A program that a chore cannot do without.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Tool {
    Rustfmt,
    Clippy,
    CCompiler,
    Python,
    Redis,
    Node,
    CargoDeny,
    CargoCycloneDx,
}

impl Tool {
    /// Gets a tool that is missing where that is possible; otherwise fails with one sentence that
    /// names it and how to get it.
    pub(crate) fn require(self) -> Result<()> {
        if self.is_present() {
            return Ok(());
        }
        if let Some(packages) = self.packages()
            && install(packages)
            && self.is_present()
        {
            return Ok(());
        }
        bail!("{}", self.missing())
    }

    /// What Debian calls it, for tools that only tests need.
    fn packages(self) -> Option<&'static [&'static str]> {
        match self {
            Self::Redis => Some(&["redis-server"]),
            Self::Node => Some(&["nodejs", "npm"]),
            Self::Python => Some(&["python3-venv"]),
            Self::Rustfmt
            | Self::Clippy
            | Self::CCompiler
            | Self::CargoDeny
            | Self::CargoCycloneDx => None,
        }
    }

    fn is_present(self) -> bool {
        match self {
            Self::Rustfmt => answers(cargo().args(["fmt", "--version"])),
            Self::Clippy => answers(cargo().args(["clippy", "--version"])),
            Self::CargoDeny => answers(cargo().args(["deny", "--version"])),
            Self::CargoCycloneDx => answers(cargo().args(["cyclonedx", "--version"])),
            Self::CCompiler => {
                c_compilers().iter().any(|name| answers(Command::new(name).arg("--version")))
            }
            // Some systems ship `venv` without what fills it.
            Self::Python => answers(Command::new("python3").args(["-c", "import venv, ensurepip"])),
            Self::Redis => answers(Command::new("redis-server").arg("--version")),
            Self::Node => {
                ["node", "npm"].iter().all(|name| answers(Command::new(name).arg("--version")))
            }
        }
    }

    fn missing(self) -> &'static str {
        match self {
            Self::Rustfmt => "rustfmt is missing; run: rustup component add rustfmt",
            Self::Clippy => "clippy is missing; run: rustup component add clippy",
            Self::CargoDeny => "cargo-deny is missing; run: cargo install cargo-deny --locked",
            Self::CargoCycloneDx => {
                "cargo-cyclonedx is missing; run: cargo install cargo-cyclonedx --locked"
            }
            Self::CCompiler => {
                "a C compiler is missing (SQLite is compiled from source); install gcc or clang, \
                 for example: apt-get install gcc libc6-dev"
            }
            Self::Python => {
                "python3 with venv is missing; install it, for example: apt-get install \
                 python3-venv"
            }
            Self::Redis => {
                "redis-server is missing (the keyspace is compared with it); install it, for \
                 example: apt-get install redis-server"
            }
            Self::Node => {
                "node or npm is missing (a Redis client of theirs is tested); install them, for \
                 example: apt-get install nodejs npm"
            }
        }
    }
}

/// A chore that ended because its time was over, not because something failed.
#[derive(Debug)]
pub(crate) struct OutOfTime(pub(crate) String);

/// What a chore that is to be continued exits with: "try again" in `sysexits.h`.
pub(crate) const OUT_OF_TIME: u8 = 75;

impl fmt::Display for OutOfTime {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "time is over: {}; continue with the same command", self.0)
    }
}

impl std::error::Error for OutOfTime {}

/// Installs packages of the system; only root can, and only where there is `apt-get`.
fn install(packages: &[&str]) -> bool {
    let apt_get = |arguments: &[&str]| {
        let mut command = Command::new("apt-get");
        answers(command.env("DEBIAN_FRONTEND", "noninteractive").args(arguments))
    };
    if !apt_get(&["--version"]) {
        return false;
    }
    println!("installing {}", packages.join(" "));
    let with = [&["install", "--yes", "--no-install-recommends"], packages].concat();
    apt_get(&["update"]) && apt_get(&with)
}

/// `CC` wins, as it does in the build scripts that need the compiler.
fn c_compilers() -> Vec<String> {
    let chosen = env::var("CC").unwrap_or_default();
    match chosen.split_whitespace().next() {
        // As in `ccache gcc`: the first word is the program.
        Some(program) => vec![program.to_owned()],
        None => ["cc", "gcc", "clang"].map(String::from).to_vec(),
    }
}

fn answers(command: &mut Command) -> bool {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

/// The cargo that runs this program, so that nested builds use the same toolchain.
pub(crate) fn cargo() -> Command {
    Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}

/// Runs `command` in the repository root with its output on our own, and fails if it does.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let shown = shown(command);
    let status = command
        .current_dir(repository_root()?)
        .status()
        .with_context(|| format!("cannot start `{shown}`"))?;
    if !status.success() {
        bail!("`{shown}` ended with {status}");
    }
    Ok(())
}

/// Runs cargo with these arguments, see [`run`].
pub(crate) fn run_cargo<S: AsRef<OsStr>>(arguments: &[S]) -> Result<()> {
    run(cargo().args(arguments))
}

/// The command as one would type it; the folder of the program is of no interest.
fn shown(command: &Command) -> String {
    let program = Path::new(command.get_program()).file_name().unwrap_or_default();
    let words = std::iter::once(program).chain(command.get_args());
    words.map(OsStr::to_string_lossy).collect::<Vec<_>>().join(" ")
}

/// A program of this workspace, built from the code as it stands. All are built together: each by
/// itself would compile what they share once more, with only the features that it needs.
pub(crate) fn built(program: &str) -> Result<PathBuf> {
    run_cargo(&["build", "--release", "--workspace", "--bins"])?;
    Ok(workspace()?.target_directory.join("release").join(program))
}

/// The hash of the commit that is checked out; none outside of a checkout.
pub(crate) fn commit() -> Option<String> {
    let said = Command::new("git").args(["rev-parse", "HEAD"]).output().ok()?;
    let hash = String::from_utf8(said.stdout).ok()?;
    (said.status.success() && !hash.trim().is_empty()).then(|| hash.trim().to_owned())
}

/// The last commit that changed one of these folders.
pub(crate) fn commit_of(folders: &[&str]) -> Result<String> {
    let mut git = Command::new("git");
    git.args(["log", "-1", "--format=%H", "--"]).args(folders).current_dir(repository_root()?);
    let said = git.output().context("cannot start git")?;
    let hash = String::from_utf8_lossy(&said.stdout).trim().to_owned();
    if !said.status.success() || hash.is_empty() {
        bail!("git knows no commit of {}", folders.join(", "));
    }
    Ok(hash)
}

pub(crate) fn repository_root() -> Result<PathBuf> {
    // Cargo sets the variable for programs that it runs; the search serves a binary started by hand.
    let here = match env::var_os("CARGO_MANIFEST_DIR") {
        Some(folder) => PathBuf::from(folder),
        None => env::current_dir().context("cannot read the current folder")?,
    };
    here.ancestors()
        .find(|folder| folder.join("crates/xtask/Cargo.toml").is_file())
        .map(Path::to_path_buf)
        .with_context(|| format!("{} is not inside the repository", here.display()))
}

/// What cargo knows about the workspace, without its dependencies.
#[derive(Debug, Deserialize)]
pub(crate) struct Workspace {
    pub(crate) packages: Vec<Package>,
    pub(crate) target_directory: PathBuf,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Package {
    pub(crate) name: String,
    pub(crate) dependencies: Vec<Dependency>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Dependency {
    /// The real name of the package, even where it is renamed.
    pub(crate) name: String,
    /// Nothing for an ordinary dependency, else `dev` or `build`.
    pub(crate) kind: Option<String>,
}

pub(crate) fn workspace() -> Result<Workspace> {
    let output = cargo()
        .args(["metadata", "--no-deps", "--format-version", "1"])
        .current_dir(repository_root()?)
        .stderr(Stdio::inherit())
        .output()
        .context("cannot start `cargo metadata`")?;
    if !output.status.success() {
        bail!("`cargo metadata` ended with {}", output.status);
    }
    serde_json::from_slice(&output.stdout).context("cannot read what `cargo metadata` printed")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_tool_is_named_with_its_fix() {
        let tools = [
            Tool::Rustfmt,
            Tool::Clippy,
            Tool::CCompiler,
            Tool::Python,
            Tool::Redis,
            Tool::Node,
            Tool::CargoDeny,
            Tool::CargoCycloneDx,
        ];
        for tool in tools {
            let sentence = tool.missing();
            assert!(sentence.contains("is missing"), "{sentence}");
            assert!(sentence.contains("run: ") || sentence.contains("install"), "{sentence}");
        }
    }

    #[test]
    fn a_program_that_does_not_exist_or_fails_does_not_answer() {
        assert!(!answers(&mut Command::new("a-program-that-does-not-exist")));
        assert!(!answers(&mut Command::new("false")));
        assert!(answers(&mut Command::new("true")));
    }

    #[test]
    fn a_failing_command_is_shown_as_it_would_be_typed() {
        let error = run(Command::new("false").args(["--cycles", "3"])).expect_err("false fails");
        let text = error.to_string();
        assert!(text.starts_with("`false --cycles 3` ended with "), "{text}");
    }
}
