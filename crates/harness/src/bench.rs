//! Measurements with real processes over loopback, on a real disk. `bench/README.md` says how each
//! number is measured.
//!
//! Reading order: this file, `measure` (tasks, memory, sessions), `flows` (runs of workflows), `load`
//! (what runs in the processes that make the load), `ws` and `resp` (the same over sessions and over
//! the Redis protocol), `figures` (samples become numbers).

mod figures;
mod flows;
pub(crate) mod load;
mod measure;
mod resp;
mod ws;

use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::ValueEnum;
use serde::{Serialize, Serializer};
use serde_json::Value;

use crate::test_cluster::{Door, TestCluster};

/// One measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Part {
    /// Tasks per second, end to end.
    Throughput,
    /// Submit to verdict, one at a time.
    Latency,
    /// Memory per queued task.
    Memory,
    /// Time to serve again after SIGKILL, with all queued tasks.
    Restart,
    /// Time per grant, with few and with many queued tasks.
    Grants,
    /// Memory per idle session, and the time until all are back after SIGKILL of the server.
    Sessions,
    /// Runs of workflows.
    Flows,
}

/// What is measured. Each measurement starts a server of its own in a new folder below --data.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Plan {
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
    /// How workers reach the server.
    #[arg(long, default_value = "http")]
    door: Door,
    /// Tasks that one worker with a session has at a time.
    #[arg(long, default_value_t = 256, value_parser = clap::value_parser!(u64).range(1..=1_024))]
    slots: u64,
    /// Sessions of that measurement.
    #[arg(long, default_value_t = 2_000, value_parser = clap::value_parser!(u64).range(1..=15_000))]
    sessions: u64,
    /// What is measured.
    #[arg(long, value_delimiter = ',', value_name = "PART")]
    #[arg(default_values = ["throughput", "latency", "memory"])]
    only: Vec<Part>,
    /// Where data folders are made: a real disk.
    #[arg(long, value_name = "DIR", default_value = ".")]
    data: PathBuf,
    #[arg(skip)]
    astra: Option<PathBuf>,
}

impl Plan {
    async fn cluster(&self) -> Result<TestCluster> {
        TestCluster::start(self.astra.as_deref(), Some(&self.data)).await
    }
}

/// The numbers of one run: said as they are measured, and all together as the last line on stdout.
struct Figures(Vec<(&'static str, Value)>);

impl Figures {
    fn of(plan: &Plan) -> Self {
        let Plan { tasks, workers, batch, clients, payload, queued, .. } = *plan;
        let given = [
            ("tasks", tasks),
            ("workers", workers),
            ("batch", batch),
            ("clients", clients),
            ("payload_bytes", payload),
            ("queued", queued),
        ];
        Self(given.map(|(name, number)| (name, number.into())).into())
    }

    fn add(&mut self, name: &'static str, value: impl Serialize) -> Result<()> {
        let value = serde_json::to_value(value)?;
        eprintln!("{name:<28} {value}");
        self.0.push((name, value));
        Ok(())
    }
}

impl Serialize for Figures {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, value)| (name, value)))
    }
}

/// Measures part after part.
pub(crate) async fn run(plan: &Plan, astra: Option<&Path>) -> Result<()> {
    let plan = Plan { astra: astra.map(Path::to_owned), ..plan.clone() };
    let mut figures = Figures::of(&plan);
    for part in Part::value_variants().iter().filter(|part| plan.only.contains(part)) {
        match part {
            Part::Throughput => measure::throughput(&plan, &mut figures).await?,
            Part::Latency => measure::latency(&plan, &mut figures).await?,
            // With the memory, where both are asked for: filling a server takes long.
            Part::Restart if plan.only.contains(&Part::Memory) => {}
            Part::Memory | Part::Restart => measure::memory(&plan, &mut figures).await?,
            Part::Grants => measure::grants(&plan, &mut figures).await?,
            Part::Sessions => measure::sessions(&plan, &mut figures).await?,
            Part::Flows => flows::measure(&plan, &mut figures).await?,
        }
    }
    println!("{}", serde_json::to_string(&figures)?);
    Ok(())
}
