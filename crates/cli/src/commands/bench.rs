//! `astra bench`.

use std::path::PathBuf;

use crate::bench::{self, Door, Part, Plan};
use crate::exit_code::ExitCode;
use crate::failure::Result;
use crate::output::Output;

const EXAMPLES: &str = "\
Examples:
  astra bench tasks
  astra bench tasks --batch 1 --clients 64 --only throughput
  astra bench tasks --queued 1000000 --only memory,restart,grants -o json
  astra bench tasks --door ws --workers 4 --slots 256 --only throughput,latency
  astra bench tasks --only sessions --sessions 2000
";

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    Tasks(Arguments),
}

/// Measure tasks: real server, real workers, over loopback, durable.
///
/// Each measurement starts a server of its own in a new folder below --data. How each number is
/// measured stands in bench/README.md.
#[derive(Debug, clap::Args)]
#[command(before_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Tasks of the throughput measurement.
    #[arg(long, default_value_t = 200_000)]
    tasks: u64,
    /// Worker processes.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u64).range(1..=64))]
    workers: u64,
    /// Tasks per request: submitted, leased and reported.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..=1_000))]
    batch: u64,
    /// Connections that submit, and as many that work.
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u64).range(1..=4_096))]
    clients: u64,
    /// Bytes of parameters per task.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u64).range(..=60_000))]
    payload: u64,
    /// Queued tasks of the other measurements.
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u64).range(1_000..))]
    queued: u64,
    /// Samples of the latency measurement.
    #[arg(long, default_value_t = 2_000, value_parser = clap::value_parser!(u64).range(1..))]
    samples: u64,
    /// How workers reach the server: they pull leases over HTTP, or hold sessions.
    #[arg(long, default_value = "http")]
    door: Door,
    /// Tasks that one worker with a session has at a time.
    #[arg(long, default_value_t = 256, value_parser = clap::value_parser!(u64).range(1..=1_024))]
    slots: u64,
    /// Sessions of that measurement.
    #[arg(long, default_value_t = 2_000, value_parser = clap::value_parser!(u64).range(1..=15_000))]
    sessions: u64,
    /// Also measure a restart with all queued tasks.
    #[arg(long)]
    restart: bool,
    /// Also measure grants with few and with many queued tasks.
    #[arg(long)]
    grants: bool,
    /// Measure only these.
    #[arg(long, value_delimiter = ',', value_name = "PART")]
    only: Vec<Part>,
    /// Where data folders are made: a real disk. Default: this folder.
    #[arg(long, value_name = "DIR", default_value = ".")]
    data: PathBuf,
}

pub(crate) async fn run(command: Command, output: Output) -> Result<ExitCode> {
    let Command::Tasks(arguments) = command;
    let report = bench::run(&plan(arguments), output).await?;
    output.show(&report);
    Ok(ExitCode::Success)
}

fn plan(arguments: Arguments) -> Plan {
    let parts = if arguments.only.is_empty() {
        let mut parts = vec![Part::Throughput, Part::Latency, Part::Memory];
        parts.extend(arguments.restart.then_some(Part::Restart));
        parts.extend(arguments.grants.then_some(Part::Grants));
        parts
    } else {
        arguments.only
    };
    Plan {
        parts,
        tasks: arguments.tasks,
        workers: arguments.workers,
        batch: arguments.batch,
        clients: arguments.clients,
        payload: arguments.payload,
        queued: arguments.queued,
        samples: arguments.samples,
        door: arguments.door,
        slots: arguments.slots,
        sessions: arguments.sessions,
        place: arguments.data,
    }
}
