//! The command line, as clap knows it.

use clap::{Parser, Subcommand};

use crate::commands::{
    action, completion, demo, dev, events, explain, flow, hook, plan, queue, run, schedule, server,
    task, token, worker,
};
use crate::config::Flags;
use crate::output::{Color, Format};

/// The beginning of a help page.
pub(crate) fn examples(lines: &[&str]) -> String {
    let lines = lines.iter().map(|line| format!("  {line}\n"));
    std::iter::once("Examples:\n".to_owned()).chain(lines).collect()
}

/// AstraFlow: a coordinator that decides, and workers that only execute.
#[derive(Debug, Parser)]
#[command(name = "astra", version, before_help = examples(&[
    "astra demo                                   watch 2,000 tasks survive two kills, in seconds",
    "astra dev                                    server and worker in this folder, no account",
    "astra run -- echo hello                      a command on a worker, as if it ran here",
]), after_help = crate::failure::exit_codes())]
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
    /// Write, check, keep and run workflows.
    #[command(subcommand)]
    Flow(flow::Command),
    /// Run a server.
    #[command(subcommand)]
    Server(server::Command),
    /// Run a worker, or look at those that are there.
    #[command(subcommand)]
    Worker(worker::Command),
    /// Submit tasks, look at them, stop them.
    #[command(subcommand)]
    Task(task::Command),
    /// Keep plans of Unix tools.
    #[command(subcommand)]
    Plan(plan::Command),
    /// Make jobs of plans, look at them, stop them.
    #[command(subcommand)]
    Action(action::Command),
    /// Start workflows by the clock.
    #[command(subcommand)]
    Schedule(schedule::Command),
    /// Start workflows by a call from outside.
    #[command(subcommand)]
    Hook(hook::Command),
    Events(events::Arguments),
    Explain(explain::Arguments),
    /// Look at queues, pause them, bring dead tasks back.
    #[command(subcommand)]
    Queue(queue::Command),
    /// Make, list and revoke tokens.
    #[command(subcommand)]
    Token(token::Command),
    Demo(demo::Arguments),
    /// Say which build this is.
    Version,
    Completion(completion::Arguments),
}

#[cfg(test)]
mod tests;
