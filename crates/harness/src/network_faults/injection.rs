//! Workers behind proxies; and faults, kills and tasks, spread over the whole run.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};

use super::program::{Program, executions_path};
use crate::ledger::Ledger;
use crate::proxy::{Direction, Fault, Kind, Proxy};
use crate::rng::Rng;
use crate::test_cluster::{Process, TestCluster};
use crate::verdict_log::{self, Verdict};

/// Short, so that a connection that is open and dead is found soon.
const HEARTBEAT_SECONDS: &str = "0.5";
/// Connections that end do so within this many bytes: in the handshake, in a frame, between two.
const AFTER_BYTES_MAX: u64 = 6_000;
/// From one look at the tasks to the next.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// Whatever happens, tasks come to their end: with no progress for so long, they never will.
const STUCK_AFTER: Duration = Duration::from_secs(90);
/// Tasks that are submitted before the first fault, and never fewer at a time.
const AHEAD: usize = 50;
/// Workers are not left without tasks for longer.
const IDLE_MAX: Duration = Duration::from_secs(2);
/// A worker has so much peace between two faults, in milliseconds.
const PEACE_MS: (u64, u64) = (100, 800);

/// A worker and its way to the server.
pub(super) struct ProxiedWorker {
    // Before the proxy: without it the worker would connect in vain.
    pub(super) process: Process,
    pub(super) proxy: Proxy,
    log: std::path::PathBuf,
}

impl ProxiedWorker {
    pub(super) async fn start(cluster: &TestCluster, name: &str, slots: usize) -> Result<Self> {
        let proxy = Proxy::start(cluster.address()).await?;
        let server = format!("http://{}", proxy.address());
        let process = cluster.astra_worker(name, &server, slots, HEARTBEAT_SECONDS)?;
        Ok(Self { process, proxy, log: cluster.log(name) })
    }

    /// The verdicts that it was told.
    pub(super) fn verdicts(&self) -> Result<Vec<Verdict>> {
        verdict_log::read(&self.log)
    }
}

/// What became of the workers' sessions.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(super) struct Sessions {
    /// Connections that went on with a session.
    resumed: usize,
    /// Sessions that began.
    begun: usize,
    /// Sessions that ended openly.
    reset: usize,
}

impl Sessions {
    pub(super) fn of(workers: &[ProxiedWorker]) -> Result<Self> {
        #[derive(Deserialize)]
        struct Line {
            message: String,
            is_resumed: Option<bool>,
        }
        let mut sessions = Self::default();
        for worker in workers {
            let log = std::fs::read_to_string(&worker.log).context("a worker without a log")?;
            let lines = log.lines().filter_map(|line| serde_json::from_str::<Line>(line).ok());
            for line in lines {
                sessions.resumed += usize::from(line.is_resumed == Some(true));
                sessions.begun += usize::from(line.is_resumed == Some(false));
                sessions.reset += usize::from(line.message == "the session is lost");
            }
        }
        Ok(sessions)
    }
}

/// What happened to all connections, by kind.
pub(super) fn happened(workers: &[ProxiedWorker]) -> BTreeMap<&'static str, u64> {
    let mut sum = BTreeMap::new();
    for (kind, count) in workers.iter().flat_map(|worker| worker.proxy.happened()) {
        *sum.entry(Kind::word(kind)).or_default() += count;
    }
    sum
}

/// `n_faults` faults of these kinds, each for one of so many workers; each kind is there as often
/// as others.
pub(super) fn plan(
    n_faults: usize,
    kinds: &[Kind],
    n_workers: usize,
    rng: &mut Rng,
) -> Vec<(usize, Fault)> {
    let mut faults: Vec<_> = (0..n_faults)
        .map(|number| (rng.index(n_workers), fault(kinds[number % kinds.len()], rng)))
        .collect();
    for last in (1..faults.len()).rev() {
        faults.swap(last, rng.index(last + 1));
    }
    faults
}

fn fault(kind: Kind, rng: &mut Rng) -> Fault {
    let direction = if rng.one_in(2) { Direction::Up } else { Direction::Down };
    // One in four ends at once: right after whatever was written last.
    let after_bytes = if rng.one_in(4) { 0 } else { rng.below(AFTER_BYTES_MAX) };
    let lasts = match kind {
        Kind::Delay => rng.millis(50, 800),
        Kind::Stall => rng.millis(100, 1_500),
        _ => rng.millis(200, 1_500),
    };
    Fault { kind, direction, after_bytes, lasts }
}

/// What is to happen. Tasks are submitted as faults happen, so that the run is full of both from
/// its beginning to its end.
pub(super) struct Injection<'a> {
    programs: &'a [Program],
    ledger: &'a Ledger,
    n_faults: usize,
    n_kills: usize,
    /// What happens to each worker, and when the next of it may.
    queues: Vec<(VecDeque<Fault>, Instant)>,
    rng: Rng,
    seen: Seen,
}

/// What was seen meanwhile.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Seen {
    submitted: usize,
    pub(super) injected: usize,
    pub(super) kills: usize,
    /// Tasks that lost too many workers.
    pub(super) requeued: usize,
    pub(super) resident_bytes_max: u64,
}

impl<'a> Injection<'a> {
    pub(super) fn new(
        programs: &'a [Program],
        ledger: &'a Ledger,
        faults: &[(usize, Fault)],
        n_kills: usize,
        rng: Rng,
    ) -> Self {
        let n_workers = faults.iter().map(|(worker, _)| worker + 1).max().unwrap_or(0);
        let mut queues = vec![(VecDeque::new(), Instant::now()); n_workers];
        for (worker, fault) in faults {
            queues[*worker].0.push_back(*fault);
        }
        let (n_faults, seen) = (faults.len(), Seen::default());
        Self { programs, ledger, n_faults, n_kills, queues, rng, seen }
    }

    /// Lets everything happen, and returns when all tasks have come to their end.
    pub(super) async fn run(
        mut self,
        cluster: &mut TestCluster,
        workers: &[ProxiedWorker],
    ) -> Result<Seen> {
        let (mut least, mut moved_at) = (usize::MAX, Instant::now());
        let mut busy_at = Instant::now();
        loop {
            if self.submit_due(cluster, busy_at.elapsed() >= IDLE_MAX).await? {
                (least, moved_at) = (usize::MAX, Instant::now());
            }
            tokio::time::sleep(LOOK_EVERY).await;
            let live = usize::try_from(cluster.live_tasks().await?).unwrap_or(usize::MAX);
            if live == 0 && self.seen.submitted == self.programs.len() {
                // None harmed its workers; whether leases could end at all is for the audit.
                let requeued = cluster.requeue_dead(&std::collections::BTreeSet::new()).await?;
                if requeued == 0 {
                    return Ok(self.seen);
                }
                self.seen.requeued += requeued;
            }
            if live > 0 {
                busy_at = Instant::now();
            }
            if live < least {
                (least, moved_at) = (live, Instant::now());
            }
            ensure!(
                moved_at.elapsed() < STUCK_AFTER,
                "{live} tasks are left, and none has ended for {STUCK_AFTER:?}"
            );
            let bytes = cluster.server().resident_bytes()?;
            self.seen.resident_bytes_max = self.seen.resident_bytes_max.max(bytes);
            self.inject(workers);
            self.kill_if_due(cluster).await?;
        }
    }

    /// As large a part of the tasks as of the faults, and some ahead. Idle workers get some more:
    /// a fault may wait for what they send.
    async fn submit_due(&mut self, cluster: &TestCluster, are_idle: bool) -> Result<bool> {
        let part = self.programs.len() * self.seen.injected / self.n_faults.max(1);
        let is_last = self.seen.injected == self.n_faults;
        let ahead = if are_idle { part.max(self.seen.submitted) + AHEAD } else { part + AHEAD };
        let due = if is_last { self.programs.len() } else { ahead.min(self.programs.len()) };
        let batch = &self.programs[self.seen.submitted..due.max(self.seen.submitted)];
        if batch.is_empty() {
            return Ok(false);
        }
        let executions = executions_path(cluster);
        let tasks: Vec<_> = batch.iter().map(|program| program.task(&executions)).collect();
        self.seen.submitted += self.ledger.submit(&cluster.client, &tasks).await?.len();
        Ok(true)
    }

    /// The next fault of each worker that has none before it.
    fn inject(&mut self, workers: &[ProxiedWorker]) {
        let now = Instant::now();
        for ((queue, next_at), worker) in self.queues.iter_mut().zip(workers) {
            if !worker.proxy.is_calm() {
                *next_at = now + self.rng.millis(PEACE_MS.0, PEACE_MS.1);
            } else if *next_at <= now
                && let Some(fault) = queue.pop_front()
            {
                worker.proxy.inject(fault);
                self.seen.injected += 1;
            }
        }
    }

    async fn kill_if_due(&mut self, cluster: &mut TestCluster) -> Result<()> {
        // Spread over the run: never before its first part is over.
        let due = self.seen.submitted * (self.n_kills + 1) / self.programs.len().max(1);
        if self.seen.kills >= due.min(self.n_kills) {
            return Ok(());
        }
        cluster.server().kill().await?;
        tokio::time::sleep(self.rng.millis(1, 300)).await;
        cluster.restart_server(None).await?;
        self.seen.kills += 1;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use clap::ValueEnum;

    use super::*;

    #[test]
    fn a_seed_makes_one_plan_with_every_kind_in_it() {
        let of = |seed| plan(40, Kind::value_variants(), 3, &mut Rng::new(seed));
        assert_eq!(of(7), of(7));
        assert_ne!(of(7), of(8));
        for kind in Kind::value_variants() {
            assert_eq!(of(7).iter().filter(|(_, fault)| fault.kind == *kind).count(), 5);
        }
        assert!((0..3).all(|worker| of(7).iter().any(|(one, _)| *one == worker)));
    }
}
