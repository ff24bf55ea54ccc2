//! The command line, as clap knows it.

use clap::{Parser, Subcommand};

use crate::commands::{
    action, bench, completion, demo, dev, events, explain, flow, hook, internal, plan, queue, run,
    schedule, server, task, token, worker,
};
use crate::config::Flags;
use crate::output::{Color, Format};

const EXAMPLES: &str = "\
Examples:
  astra demo                                   watch 2,000 tasks survive two kills, in seconds
  astra dev                                    server and worker in this folder, no account
  astra run -- echo hello                      a command on a worker, as if it ran here
";

/// AstraFlow: a coordinator that decides, and workers that only execute.
#[derive(Debug, Parser)]
#[command(name = "astra", version, before_help = EXAMPLES, after_help = crate::exit_code::help())]
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
    /// Measure this build on this machine.
    #[command(subcommand)]
    Bench(bench::Command),
    /// Say which build this is.
    Version,
    Completion(completion::Arguments),
    /// For the project's own tools.
    #[command(subcommand, hide = true)]
    Internal(internal::Command),
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_visible_command_starts_its_help_with_examples() {
        fn check(command: &clap::Command) {
            let is_group = command.has_subcommands();
            let has_examples = command
                .get_before_help()
                .is_some_and(|text| text.to_string().starts_with("Examples:"));
            let is_plain = ["version", "help"].contains(&command.get_name());
            assert!(is_group || is_plain || has_examples, "{}", command.get_name());
            command.get_subcommands().filter(|sub| !sub.is_hide_set()).for_each(check);
        }
        check(&Cli::command());
    }
}
