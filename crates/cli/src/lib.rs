//! The commands of `astra`. Reading order: `args`, `run`, then one file per command.

mod args;
mod commands;
mod config;
mod context;
mod duration;
mod embedded;
mod events;
mod failure;
mod format;
mod interrupts;
mod output;
mod pages;
mod reconnect;
mod run;
mod selector;
mod workflow_run;

/// Does what the command line asks for.
pub fn main() -> std::process::ExitCode {
    run::main().into()
}

/// The command line, for its page of the reference.
pub fn command() -> clap::Command {
    args::command()
}

/// The exit codes and what each means.
pub fn exit_codes() -> impl Iterator<Item = (u8, &'static str)> {
    let codes = <failure::ExitCode as clap::ValueEnum>::value_variants();
    codes.iter().map(|code| (code.number(), code.meaning()))
}

/// The settings, for their page of the reference.
pub fn settings() -> &'static confique::meta::Meta {
    &<config::Config as confique::Config>::META
}
