//! `harness`: kills, network faults and measurements of real processes, and some of those processes.
//!
//! `cargo xtask chaos`, `faults` and `bench` run it. Reading order: `test_cluster` (a server and
//! workers as processes), `worker` (one with task types for tests), `verdict_log` and `ledger` (what
//! workers and clients were told), `audit` (whether that is true); then `chaos`, `network_faults`
//! with its `proxy`, and `bench`.

mod audit;
mod bench;
mod chaos;
mod ledger;
mod network_faults;
mod proxy;
mod pull_worker;
mod rng;
mod test_cluster;
mod verdict_log;
#[cfg(test)]
#[path = "../../../tests/waiting.rs"]
mod waiting;
mod worker;

use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;

use anyhow::Result;
use clap::{Parser, Subcommand};
use rustix::process::{Signal, set_parent_process_death_signal};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Kills, network faults and measurements of real processes.
#[derive(Parser)]
struct Arguments {
    /// The binary that is tried. Default: `astra` beside this program.
    #[arg(long, global = true, value_name = "PATH")]
    astra: Option<PathBuf>,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Kill processes at random moments, and check that nothing is lost or counted twice.
    Chaos(chaos::Arguments),
    /// Break connections between workers and a server, and check that nothing is lost or doubled.
    Faults(network_faults::Arguments),
    /// Measure: a real server, real workers, over loopback, durable.
    Bench(bench::Plan),
    /// A worker that also executes `core.crash` and `core.stamp`.
    #[command(hide = true)]
    Worker(worker::Arguments),
    /// A load generator.
    #[command(hide = true)]
    Load(bench::load::Arguments),
    /// Becomes another program, which is killed when the process that started it ends.
    #[command(hide = true)]
    Leash {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, required = true)]
        program: Vec<OsString>,
    },
}

fn main() -> Result<()> {
    let Arguments { astra, command } = Arguments::parse();
    let mut builder = match command {
        // Load generators share two cores with the server that they measure.
        Command::Load(_) => tokio::runtime::Builder::new_current_thread(),
        _ => tokio::runtime::Builder::new_multi_thread(),
    };
    let runtime = builder.enable_all().build()?;
    runtime.block_on(async {
        match command {
            Command::Chaos(arguments) => chaos::run(&arguments, astra.as_deref()).await,
            Command::Faults(arguments) => network_faults::run(&arguments, astra.as_deref()).await,
            Command::Bench(plan) => bench::run(&plan, astra.as_deref()).await,
            Command::Worker(arguments) => worker::run(arguments).await,
            Command::Load(arguments) => bench::load::run(arguments).await,
            Command::Leash { program } => leash(&program),
        }
    })
}

/// What was started for a run does not outlive it, however the run ends.
fn leash(program: &[OsString]) -> Result<()> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    let (name, arguments) = program.split_first().expect("clap requires one");
    Err(std::process::Command::new(name).args(arguments).exec().into())
}
