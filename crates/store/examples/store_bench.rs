//! How fast the embedded store is: `cargo run --release -p store --example store_bench`.
//!
//! Prints tasks per second for several sizes of turn, how long a restart with a million live tasks
//! takes, and what a large run costs. One turn is committed at a time, so a size of 1 shows the
//! price of a sync. `runs` as the second argument prints the last part alone.

use std::path::Path;
use std::time::{Duration, Instant};

use bytes::Bytes;
use coordinator::{Change, RunChange};
use model::{RunId, TaskId};
use shard::{ClaimedShard, Turn};
use store::{SqliteStore, Store};

#[expect(dead_code, reason = "tests of the store use the others")]
#[path = "../tests/it/conformance/run_sample.rs"]
mod run_sample;
#[path = "../tests/it/conformance/sample.rs"]
mod sample;

use run_sample::{linked, run_started};
use sample::{granted, settled, submitted, tenant};

const TURN_SIZES: [u64; 3] = [1, 16, 256];
const RUN_FOR: Duration = Duration::from_secs(3);
const LIVE_TASKS: u64 = 1_000_000;
const LIVE_TASKS_PER_TURN: u64 = 4_096;
const DEFINITION_BYTES: usize = 25_000_000;
const RUN_TASKS: u32 = 100_000;
const RUN_TASKS_PER_TURN: usize = 2_000;

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let base =
        std::env::args().nth(1).unwrap_or_else(|| std::env::temp_dir().display().to_string());
    let folder = tempfile::tempdir_in(base).expect("a folder to write to");
    measure_run(&folder.path().join("run")).await;
    if std::env::args().nth(2).as_deref() == Some("runs") {
        return;
    }
    for turn_size in TURN_SIZES {
        for way in [Way::Submit, Way::SubmitAndLease, Way::WholeLife, Way::LifeAtOnce] {
            measure(&folder.path().join(format!("{way:?}-{turn_size}")), way, turn_size).await;
        }
    }
    measure_restart(&folder.path().join("restart")).await;
}

#[derive(Clone, Copy, Debug)]
enum Way {
    /// Submits alone.
    Submit,
    /// Submit and lease in one turn: one write per task.
    SubmitAndLease,
    /// Submit, lease and settle in three turns.
    WholeLife,
    /// Submit, lease and settle in one turn: one write per task.
    LifeAtOnce,
}

impl Way {
    /// The turns that carry these tasks through.
    fn turns(self, tasks: &[TaskId]) -> Vec<Vec<Change>> {
        let each = |change: fn(TaskId) -> Change| tasks.iter().copied().map(change).collect();
        let submits: Vec<Change> = each(submit);
        let leases: Vec<Change> = each(|task| granted(task, 1));
        let ends: Vec<Change> = each(|task| settled(task, 1));
        match self {
            Self::Submit => vec![submits],
            Self::SubmitAndLease => vec![submits.into_iter().chain(leases).collect()],
            Self::WholeLife => vec![submits, leases, ends],
            Self::LifeAtOnce => vec![submits.into_iter().chain(leases).chain(ends).collect()],
        }
    }
}

/// A task with parameters of a usual size.
fn submit(task: TaskId) -> Change {
    let mut change = submitted(task);
    if let Change::TaskSubmitted(record) = &mut change {
        record.parameters =
            Bytes::from_static(b"{\"a\": 19, \"b\": 23, \"note\": \"add the two\"}");
    }
    change
}

fn tasks(claim: ClaimedShard, first: u64, count: u64) -> Vec<TaskId> {
    (first..first + count).map(|number| TaskId::of(claim.shard, number)).collect()
}

async fn measure(folder: &Path, way: Way, turn_size: u64) {
    let store = SqliteStore::open(folder).expect("opens");
    let claim = store.claim(tenant("bench")).await.expect("claims");
    let began = Instant::now();
    let cpu_before = writer_cpu();
    let mut n_tasks = 0;
    let mut waits = Vec::new();
    // The time to make the turns is not the store's.
    let mut in_store = Duration::ZERO;
    while began.elapsed() < RUN_FOR {
        let turns = way.turns(&tasks(claim, n_tasks, turn_size));
        let asked = Instant::now();
        for changes in turns {
            let asked = Instant::now();
            store.commit(Turn { changes, ..Turn::empty(claim) }).await.expect("kept");
            waits.push(asked.elapsed());
        }
        in_store += asked.elapsed();
        n_tasks += turn_size;
    }
    let cpu = (writer_cpu() - cpu_before) / n_tasks;
    waits.sort_unstable();
    let percentile = |share: usize| waits[waits.len() * share / 1_000].as_secs_f64() * 1_000.0;
    let way = format!("{way:?}");
    #[expect(clippy::cast_precision_loss, reason = "a figure for people")]
    let per_second = n_tasks as f64 / in_store.as_secs_f64();
    println!(
        "{way:15} turns of {turn_size:4}: {per_second:9.0} tasks/s   \
         commit p50 {:6.2} ms  p99 {:6.2} ms  p99.9 {:6.2} ms   writer CPU {cpu:7} ns/task",
        percentile(500),
        percentile(990),
        percentile(999),
    );
}

/// Nanoseconds that the writer thread has computed, which other programs on the machine disturb
/// less than the clock; 0 where the kernel does not tell.
fn writer_cpu() -> u64 {
    let Ok(threads) = std::fs::read_dir("/proc/self/task") else { return 0 };
    let of_writer = |thread: std::fs::DirEntry| {
        let name = std::fs::read_to_string(thread.path().join("comm")).ok()?;
        let times = std::fs::read_to_string(thread.path().join("schedstat")).ok()?;
        let computed = times.split_whitespace().next()?.parse::<u64>().ok()?;
        (name.trim() == "store-writer").then_some(computed)
    };
    threads.filter_map(|thread| of_writer(thread.ok()?)).sum()
}

async fn measure_restart(folder: &Path) {
    let store = SqliteStore::open(folder).expect("opens");
    let claim = store.claim(tenant("bench")).await.expect("claims");
    let began = Instant::now();
    for first in (0..LIVE_TASKS).step_by(usize::try_from(LIVE_TASKS_PER_TURN).expect("small")) {
        let count = LIVE_TASKS_PER_TURN.min(LIVE_TASKS - first);
        let changes = tasks(claim, first, count).into_iter().map(submit).collect();
        store.commit(Turn { changes, ..Turn::empty(claim) }).await.expect("kept");
    }
    println!("{LIVE_TASKS} live tasks submitted in {:.2} s", began.elapsed().as_secs_f64());
    drop(store);

    let began = Instant::now();
    let store = SqliteStore::open(folder).expect("opens");
    let opened = began.elapsed().as_secs_f64() * 1_000.0;
    let claim = store.claim(tenant("bench")).await.expect("claims");
    let restoring = Instant::now();
    let restored = store.restore(claim).await.expect("restores");
    println!(
        "{} live tasks restored in {:.2} s (opened in {opened:.1} ms)",
        restored.tasks.len(),
        restoring.elapsed().as_secs_f64(),
    );
}

/// One run: how long its start takes, and how long it takes to read all its tasks.
async fn measure_run(folder: &Path) {
    let store = SqliteStore::open(folder).expect("opens");
    let claim = store.claim(tenant("bench")).await.expect("claims");
    let run = RunId::of(claim.shard, 1);
    let mut start = run_started(run);
    if let RunChange::RunStarted(record) = &mut start {
        record.definition = Bytes::from(format!("\"{}\"", "x".repeat(DEFINITION_BYTES)));
    }
    let began = Instant::now();
    store.commit(Turn { runs: vec![start], ..Turn::empty(claim) }).await.expect("kept");
    let started = began.elapsed().as_secs_f64() * 1_000.0;
    println!("a run with a definition of {DEFINITION_BYTES} bytes started in {started:.0} ms");

    let began = Instant::now();
    let nodes: Vec<u32> = (0..RUN_TASKS).collect();
    for nodes in nodes.chunks(RUN_TASKS_PER_TURN) {
        let life = |&node: &u32| {
            let task = TaskId::of(claim.shard, u64::from(node));
            [linked(submit(task), run, node), granted(task, 1), settled(task, 1)]
        };
        let changes = nodes.iter().flat_map(life).collect();
        store.commit(Turn { changes, ..Turn::empty(claim) }).await.expect("kept");
    }
    println!("its {RUN_TASKS} tasks lived in {:.2} s", began.elapsed().as_secs_f64());

    let began = Instant::now();
    let parts = store.run_parts(claim.shard, run).await.expect("reads");
    let n_tasks = parts.tasks.len();
    println!("its {n_tasks} tasks read in {:.2} s", began.elapsed().as_secs_f64());
    let began = Instant::now();
    let restored = store.restore(claim).await.expect("restores");
    let n_settled: usize = restored.runs.iter().map(|run| run.parts.tasks.len()).sum();
    println!("the run restored with {n_settled} in {:.2} s", began.elapsed().as_secs_f64());
}
