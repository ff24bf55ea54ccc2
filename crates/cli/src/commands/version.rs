//! `astra version`.

use serde::Serialize;

use crate::failure::ExitCode;
use crate::output::Output;

/// This build's version.
pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");

#[derive(Serialize)]
struct Build {
    version: &'static str,
    os: &'static str,
    arch: &'static str,
}

pub(crate) fn run(output: Output) -> ExitCode {
    let (os, arch) = (std::env::consts::OS, std::env::consts::ARCH);
    let text = format!("astra {VERSION} ({os} {arch})");
    output.answer(&Build { version: VERSION, os, arch }, text, VERSION);
    ExitCode::Success
}
