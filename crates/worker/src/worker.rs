//! The worker's loop: ask for leases, execute, leave when told to.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use model::WorkerId;
use protocol::rest::leases::{GrantedLease, GrantedLeases, RequestLeases, VerdictWord};
use protocol::rest::tasks::Package;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::attempt::{self, CONFIRM, Judgement, Listener, Surroundings};
use crate::builtin::middleware::is_middleware;
use crate::client::{Client, ClientError};
use crate::executor::Executor;

/// How long one request for work waits at the server.
const LEASE_WAIT: Duration = Duration::from_secs(20);
/// The first pause when the server does not answer; it doubles up to the longest.
const PAUSE: Duration = Duration::from_millis(50);
const PAUSE_MAX: Duration = Duration::from_secs(2);

/// What a worker is made of.
pub struct Options {
    /// How it reaches the server.
    pub client: Client,
    /// Its name, the same one every time it starts.
    pub worker_id: WorkerId,
    /// How many attempts it executes at a time.
    pub slots: usize,
    /// The queues it serves; `None` means every queue.
    pub queues: Option<Vec<String>>,
    /// The tools it has.
    pub tools: Vec<String>,
    /// The tags it carries.
    pub tags: BTreeMap<String, String>,
    /// The packages it has installed.
    pub packages: Vec<Package>,
    /// What it can do.
    pub executor: Arc<dyn Executor>,
    /// Is told every judgement.
    pub listener: Listener,
}

/// Why a worker ended without being asked to.
#[derive(Debug, thiserror::Error)]
pub enum WorkerError {
    /// The server does not want it: wrong token, wrong role, wrong offer.
    #[error("the server refuses this worker")]
    Refused(#[source] ClientError),
}

/// What a worker did, in numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Reports that count.
    pub committed: u64,
    /// Reports that lost authority.
    pub cancelled: u64,
    /// Reports that were refused: bugs.
    pub rejected: u64,
    /// Attempts that ended without a verdict.
    pub unheard: u64,
}

impl Summary {
    pub(crate) fn add(&mut self, judgement: Option<&Judgement>) {
        let counter = match judgement.map(|judgement| judgement.verdict) {
            Some(VerdictWord::Committed) => &mut self.committed,
            Some(VerdictWord::Cancelled) => &mut self.cancelled,
            Some(VerdictWord::Rejected) => &mut self.rejected,
            None => &mut self.unheard,
        };
        *counter += 1;
    }
}

/// Pulls leases and executes them.
pub struct Worker {
    around: Arc<Surroundings>,
    request: RequestLeases,
    slots: usize,
    attempts: JoinSet<Option<Judgement>>,
    summary: Summary,
}

impl Worker {
    /// A worker that has not asked for anything yet.
    pub fn new(options: Options) -> Self {
        let mut types = options.executor.types();
        // This door has no way to call the next in line.
        types.retain(|name| !is_middleware(name));
        let request = RequestLeases {
            worker_id: options.worker_id.to_string(),
            types: Some(types),
            queues: options.queues,
            tools: options.tools,
            tags: options.tags,
            packages: options.packages,
            max: None,
            wait_ms: Some(millis(LEASE_WAIT)),
            confirm_ms: Some(millis(CONFIRM)),
        };
        let around = Surroundings {
            client: options.client,
            worker_id: options.worker_id,
            executor: options.executor,
            listener: options.listener,
        };
        Self {
            around: Arc::new(around),
            request,
            slots: options.slots.max(1),
            attempts: JoinSet::new(),
            summary: Summary::default(),
        }
    }

    /// Works until `shutdown`, then finishes what it holds and leaves. Dropping the future stops
    /// at once; what was held comes back when its leases end.
    pub async fn run(mut self, shutdown: CancellationToken) -> Result<Summary, WorkerError> {
        let mut pause = PAUSE;
        while self.has_slot(&shutdown).await {
            match self.ask(&shutdown).await {
                Some(Ok(leases)) => {
                    pause = PAUSE;
                    self.start(leases);
                }
                Some(Err(error)) if error.is_passing() => {
                    self.rest(&error, pause, &shutdown).await;
                    pause = (pause * 2).min(PAUSE_MAX);
                }
                Some(Err(error)) => {
                    self.drain().await;
                    return Err(WorkerError::Refused(error));
                }
                None => break,
            }
        }
        self.drain().await;
        Ok(self.summary)
    }

    /// Waits for a free slot; `false` when it is time to leave.
    async fn has_slot(&mut self, shutdown: &CancellationToken) -> bool {
        while let Some(ended) = self.attempts.try_join_next() {
            self.summary.add(ended.ok().flatten().as_ref());
        }
        while self.attempts.len() >= self.slots {
            tokio::select! {
                () = shutdown.cancelled() => return false,
                Some(ended) = self.attempts.join_next() => {
                    self.summary.add(ended.ok().flatten().as_ref());
                }
            }
        }
        !shutdown.is_cancelled()
    }

    /// `None` when it is time to leave: the server takes back what it grants to nobody.
    async fn ask(
        &self,
        shutdown: &CancellationToken,
    ) -> Option<Result<Vec<GrantedLease>, ClientError>> {
        let free = self.slots - self.attempts.len();
        let request =
            RequestLeases { max: Some(i64::try_from(free).unwrap_or(1)), ..self.request.clone() };
        let client = &self.around.client;
        tokio::select! {
            () = shutdown.cancelled() => None,
            granted = client.post_waiting::<GrantedLeases>("/api/v1/leases", &request, LEASE_WAIT)
                => Some(granted.map(|granted| granted.leases)),
        }
    }

    fn start(&mut self, leases: Vec<GrantedLease>) {
        for lease in leases {
            self.attempts.spawn(attempt::run(Arc::clone(&self.around), lease));
        }
    }

    async fn rest(&self, error: &ClientError, pause: Duration, shutdown: &CancellationToken) {
        tracing::warn!(%error, "asking for work again in {pause:?}");
        tokio::select! {
            () = shutdown.cancelled() => {}
            () = tokio::time::sleep(pause) => {}
        }
    }

    async fn drain(&mut self) {
        while let Some(ended) = self.attempts.join_next().await {
            self.summary.add(ended.ok().flatten().as_ref());
        }
    }
}

fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests;
