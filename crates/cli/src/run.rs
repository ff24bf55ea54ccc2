//! From the command line to the exit code.

use std::ffi::OsString;

use clap::FromArgMatches as _;
use clap::error::ErrorKind;

use crate::args::{self, Cli, Command};
use crate::commands::{
    self, action, completion, demo, dev, events, explain, flow, hook, plan, queue, schedule,
    server, task, token, version, worker,
};
use crate::config::{self, ServerFlags};
use crate::context::Context;
use crate::failure::{ExitCode, Failure, Result};
use crate::output::{Color, Format, Output};

pub(crate) fn main() -> ExitCode {
    let parsed = args::command().try_get_matches();
    let cli = match parsed.and_then(|matches| Cli::from_arg_matches(&matches)) {
        Ok(cli) => cli,
        Err(error) => return misunderstood(&error),
    };
    let output = Output::new(cli.view.format(), cli.view.color);
    let runtime = match tokio::runtime::Runtime::new() {
        Ok(runtime) => runtime,
        Err(error) => {
            output.failure(&Failure::new(ExitCode::Failed, error, ""));
            return ExitCode::Failed;
        }
    };
    let ended = runtime.block_on(run(cli, output));
    // A thread that waits for stdin or a disk must not keep the process.
    runtime.shutdown_background();
    ended.unwrap_or_else(|failure| {
        output.failure(&failure);
        failure.exit
    })
}

async fn run(cli: Cli, output: Output) -> Result<ExitCode> {
    // Services have a way of their own to stop, and runs outlive the first Ctrl-C.
    let handles_interrupts = matches!(
        cli.command,
        Command::Dev(_)
            | Command::Run(_)
            | Command::Server(_)
            | Command::Worker(_)
            | Command::Flow(flow::Command::Run(_))
            | Command::Schedule(schedule::Command::Run { .. })
    );
    let work = dispatch(cli, output);
    if handles_interrupts {
        return work.await;
    }
    tokio::select! {
        // The command first: it may know better what an interruption means.
        biased;
        ended = work => ended,
        Ok(()) = tokio::signal::ctrl_c() => Err(interrupted("")),
    }
}

async fn dispatch(cli: Cli, output: Output) -> Result<ExitCode> {
    let Cli { command, flags, .. } = cli;
    let context = || Context::new(&config::load(&flags, ServerFlags::default())?, output);
    match command {
        Command::Dev(arguments) => dev::run(arguments, &flags, output).await,
        Command::Run(arguments) => commands::run::run(arguments, &context()?).await,
        Command::Flow(command) => flow::run(command, &flags, output).await,
        Command::Schedule(command) => schedule::run(command, &context()?).await,
        Command::Hook(command) => hook::run(command, &context()?).await,
        Command::Server(command) => server::run(command, &flags).await,
        Command::Worker(command) => worker::run(command, &flags, output).await,
        Command::Task(command) => task::run(command, &context()?).await,
        Command::Plan(command) => plan::run(command, &context()?).await,
        Command::Action(command) => action::run(command, &context()?).await,
        Command::Events(arguments) => events::run(arguments, &context()?).await,
        Command::Explain(arguments) => explain::run(arguments, &context()?).await,
        Command::Queue(command) => queue::run(command, &context()?).await,
        Command::Token(command) => token::run(command, &flags, output).await,
        Command::Demo(arguments) => demo::run(arguments, output).await,
        Command::Version => Ok(version::run(output)),
        Command::Completion(arguments) => Ok(completion::run(&arguments)),
    }
}

pub(crate) fn interrupted(hint: &str) -> Failure {
    Failure::new(ExitCode::Interrupted, "interrupted", hint)
}

/// Help and version are answers; the rest is a usage error, in the format that was asked for.
fn misunderstood(error: &clap::Error) -> ExitCode {
    let is_answer = matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion);
    let wants_json = wants_json(std::env::args_os());
    let format = if wants_json { Format::Json } else { Format::Text };
    let words: Vec<_> =
        std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect();
    if let Some(failure) = commands::run::usage_hint(error, &words) {
        Output::new(format, Color::Auto).failure(&failure);
        return ExitCode::Usage;
    }
    if is_answer || !wants_json {
        let _ = error.print();
        return if is_answer { ExitCode::Success } else { ExitCode::Usage };
    }
    let text = error.to_string();
    let message = text.lines().next().unwrap_or_default().trim_start_matches("error: ").to_owned();
    let failure = Failure::usage(message, "look at `astra --help`");
    Output::new(Format::Json, Color::Never).failure(&failure);
    ExitCode::Usage
}

fn wants_json(arguments: impl Iterator<Item = OsString>) -> bool {
    let words: Vec<String> = arguments.map(|word| word.to_string_lossy().into_owned()).collect();
    let is_json = |word: &str| word == "json" || word == "jsonl";
    words.iter().any(|word| {
        word == "--json"
            || word.strip_prefix("-o").is_some_and(|rest| is_json(rest.trim_start_matches('=')))
            || word.strip_prefix("--output=").is_some_and(is_json)
    }) || words.windows(2).any(|pair| ["-o", "--output"].contains(&&*pair[0]) && is_json(&pair[1]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wish_for_json_is_seen_even_in_a_wrong_command_line() {
        for words in ["--json", "-o json", "-ojson", "--output=json", "-o jsonl", "x --output json"]
        {
            assert!(wants_json(words.split(' ').map(OsString::from)), "{words}");
        }
        for words in ["-o text", "json", "submit core.echo", "-o quiet"] {
            assert!(!wants_json(words.split(' ').map(OsString::from)), "{words}");
        }
    }
}
