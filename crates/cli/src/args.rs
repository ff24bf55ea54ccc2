//! The command line, as clap knows it.

use clap::{CommandFactory as _, Parser, Subcommand};

use crate::commands::{
    action, completion, demo, dev, events, explain, flow, hook, plan, queue, run, schedule, server,
    task, token, worker,
};
use crate::config::Flags;
use crate::output::{Color, Format};

/// What help pages begin with: the name of each command, then lines that can be typed.
const EXAMPLES: &str = include_str!("examples.txt");

/// The command line with its examples.
pub(crate) fn command() -> clap::Command {
    with_examples(Cli::command(), "astra")
}

fn with_examples(command: clap::Command, path: &str) -> clap::Command {
    let lines = EXAMPLES.lines().skip_while(|line| *line != format!("[{path}]")).skip(1);
    let lines: Vec<&str> = lines.take_while(|line| !line.is_empty()).collect();
    let command = match lines.as_slice() {
        [] => command,
        lines => command.before_help(format!("Examples:\n  {}\n", lines.join("\n  "))),
    };
    command.mut_subcommands(|sub| {
        let path = format!("{path} {}", sub.get_name());
        with_examples(sub, &path)
    })
}

/// AstraFlow: a coordinator that decides, and workers that only execute.
#[derive(Debug, Parser)]
#[command(name = "astra", version, after_help = crate::failure::exit_codes())]
#[command(propagate_version = false, max_term_width = 100, arg_required_else_help = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
    #[command(flatten)]
    pub(crate) view: View,
    #[command(flatten)]
    pub(crate) flags: Flags,
}

/// How answers look.
#[derive(Clone, Copy, Debug, clap::Args)]
#[command(next_help_heading = "Output")]
pub(crate) struct View {
    /// How data is written to stdout. In JSON, an error is `{"error":{code,message,hint}}`.
    #[arg(short, long, global = true, value_name = "FORMAT", default_value = "text")]
    pub(crate) output: Format,
    /// The same as `-o json`.
    #[arg(long, global = true, conflicts_with = "output")]
    pub(crate) json: bool,
    /// When colours are used; `NO_COLOR` is honoured.
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto")]
    pub(crate) color: Color,
}

impl View {
    pub(crate) fn format(self) -> Format {
        if self.json { Format::Json } else { self.output }
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Dev(dev::Arguments),
    Run(run::Arguments),
    /// Write, check, save and run workflows.
    #[command(subcommand)]
    Flow(flow::Command),
    /// Start workflows by the clock.
    #[command(subcommand)]
    Schedule(schedule::Command),
    /// Start workflows by a call from outside.
    #[command(subcommand)]
    Hook(hook::Command),
    /// Run a server.
    #[command(subcommand)]
    Server(server::Command),
    /// Run, list and drain workers.
    #[command(subcommand)]
    Worker(worker::Command),
    /// Submit, show and stop tasks.
    #[command(subcommand)]
    Task(task::Command),
    /// Save plans of Unix tools.
    #[command(subcommand)]
    Plan(plan::Command),
    /// Make, show and stop jobs of plans.
    #[command(subcommand)]
    Action(action::Command),
    Events(events::Arguments),
    Explain(explain::Arguments),
    /// List and pause queues, and requeue dead tasks.
    #[command(subcommand)]
    Queue(queue::Command),
    /// Make, list and revoke tokens.
    #[command(subcommand)]
    Token(token::Command),
    Demo(demo::Arguments),
    /// Show the version of this build.
    Version,
    Completion(completion::Arguments),
}

#[cfg(test)]
mod tests;
