//! `astra completion`.

use clap::CommandFactory;
use clap_complete::Shell;

use crate::args::Cli;
use crate::args::examples;
use crate::failure::ExitCode;

/// Print the completion script of a shell.
#[derive(Debug, clap::Args)]
#[command(before_help = examples(&[
    "source <(astra completion bash)",
    "astra completion zsh > ~/.zfunc/_astra",
    "astra completion fish > ~/.config/fish/completions/astra.fish",
]))]
pub(crate) struct Arguments {
    /// Which shell.
    shell: Shell,
}

pub(crate) fn run(arguments: &Arguments) -> ExitCode {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut Cli::command(), "astra", &mut script);
    // A reader that went away needs no message.
    let _ = std::io::Write::write_all(&mut std::io::stdout(), &script);
    ExitCode::Success
}
