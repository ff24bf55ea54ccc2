//! What is done to the processes.

use std::time::Duration;

use anyhow::Result;

use super::outside::LEASE_TTL;
use crate::rng::Rng;
use crate::test_cluster::{Door, Process, TestCluster};

const WORKERS: usize = 3;
const SLOTS: usize = 6;
/// A server whose failpoint is not reached by then is killed like any other.
const FAILPOINT_WITHIN: Duration = Duration::from_secs(3);
const FAILPOINT_COMMITS_MAX: u64 = 60;

/// Something that goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Accident {
    /// The server is killed and comes back.
    Server,
    /// The server is killed, and killed again while it comes back.
    ServerTwice,
    /// A worker is killed.
    Worker,
    /// The server and a worker are killed.
    Both,
    /// The server ends between a commit and the answer that says so.
    AfterCommit,
    /// The server ends just before a commit.
    BeforeCommit,
    /// A worker hangs until its leases are over, and goes on.
    Freeze,
}

const ACCIDENTS: [Accident; 10] = [
    Accident::Server,
    Accident::Server,
    Accident::ServerTwice,
    Accident::Worker,
    Accident::Worker,
    Accident::Both,
    Accident::AfterCommit,
    Accident::AfterCommit,
    Accident::BeforeCommit,
    Accident::Freeze,
];

/// The processes, and who may be killed next.
pub(super) struct Killer {
    // Before the cluster: workers leave its folder before it is removed.
    workers: Vec<Process>,
    pub(super) cluster: TestCluster,
    rng: Rng,
    pub(super) kills: usize,
}

impl Killer {
    pub(super) fn new(cluster: TestCluster, rng: Rng) -> Result<Self> {
        let workers: Result<Vec<_>> = (0..WORKERS).map(|index| worker(&cluster, index)).collect();
        Ok(Self { workers: workers?, cluster, rng, kills: 0 })
    }

    /// One accident, after a moment of peace. Everything runs again afterwards.
    pub(super) async fn cycle(&mut self) -> Result<Accident> {
        tokio::time::sleep(self.rng.millis(50, 600)).await;
        let accident = ACCIDENTS[self.rng.index(ACCIDENTS.len())];
        match accident {
            Accident::Server => self.kill_server().await?,
            Accident::ServerTwice => {
                self.kill_server().await?;
                self.kill_server().await?;
            }
            Accident::Worker => self.kill_worker().await?,
            Accident::Both => {
                self.kill_worker().await?;
                self.kill_server().await?;
            }
            Accident::AfterCommit => self.end_at("after_commit_before_answer").await?,
            Accident::BeforeCommit => self.end_at("before_commit").await?,
            Accident::Freeze => self.freeze().await?,
        }
        self.revive()?;
        Ok(accident)
    }

    async fn kill_server(&mut self) -> Result<()> {
        self.cluster.server().kill().await?;
        self.kills += 1;
        tokio::time::sleep(self.rng.millis(1, 150)).await;
        self.cluster.restart_server(None).await?;
        Ok(())
    }

    async fn kill_worker(&mut self) -> Result<()> {
        let index = self.rng.index(WORKERS);
        self.workers[index].kill().await?;
        self.kills += 1;
        Ok(())
    }

    /// Lets the server run into a failpoint of its store after some commits.
    async fn end_at(&mut self, place: &str) -> Result<()> {
        self.cluster.server().kill().await?;
        let failpoint = format!("{place}:{}", 1 + self.rng.below(FAILPOINT_COMMITS_MAX));
        // It may end before it is ready: then the failpoint was reached already.
        if self.cluster.restart_server(Some(&failpoint)).await.is_ok() {
            let ended = tokio::time::timeout(FAILPOINT_WITHIN, self.cluster.server().wait()).await;
            if ended.is_err() {
                self.cluster.server().kill().await?;
            }
        }
        self.kills += 2;
        self.cluster.restart_server(None).await?;
        Ok(())
    }

    async fn freeze(&mut self) -> Result<()> {
        let index = self.rng.index(WORKERS);
        if self.workers[index].has_ended() {
            return Ok(());
        }
        self.workers[index].freeze()?;
        tokio::time::sleep(LEASE_TTL + self.rng.millis(50, 400)).await;
        self.workers[index].thaw()
    }

    /// Starts workers that have ended, whoever ended them.
    pub(super) fn revive(&mut self) -> Result<()> {
        for index in 0..self.workers.len() {
            if self.workers[index].has_ended() {
                self.workers[index] = worker(&self.cluster, index)?;
            }
        }
        Ok(())
    }
}

fn worker(cluster: &TestCluster, index: usize) -> Result<Process> {
    // Both doors lead to one lease table; neither may be the one that loses something.
    let door = if index.is_multiple_of(2) { Door::Ws } else { Door::Http };
    cluster.test_worker(&format!("w{}", index + 1), SLOTS, door)
}
