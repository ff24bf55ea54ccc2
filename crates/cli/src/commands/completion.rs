//! `astra completion`.

use clap_complete::Shell;

use crate::args;
use crate::failure::ExitCode;

/// Print the completion script of a shell.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Which shell.
    shell: Shell,
}

pub(crate) fn run(arguments: &Arguments) -> ExitCode {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut args::command(), "astra", &mut script);
    // A reader that went away needs no message.
    let _ = std::io::Write::write_all(&mut std::io::stdout(), &script);
    ExitCode::Success
}
