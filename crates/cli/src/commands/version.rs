//! `astra version`.

use serde::Serialize;

use crate::exit_code::ExitCode;
use crate::output::{Output, Show};

/// This build's version.
pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");

#[derive(Serialize)]
struct Build {
    version: &'static str,
    os: &'static str,
    arch: &'static str,
}

impl Show for Build {
    fn text(&self) -> String {
        format!("astra {} ({} {})", self.version, self.os, self.arch)
    }

    fn quiet(&self) -> String {
        self.version.into()
    }
}

pub(crate) fn run(output: Output) -> ExitCode {
    let (os, arch) = (std::env::consts::OS, std::env::consts::ARCH);
    output.show(&Build { version: VERSION, os, arch });
    ExitCode::Success
}
