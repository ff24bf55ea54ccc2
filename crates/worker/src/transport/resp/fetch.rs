//! Pops jobs while there is a free slot (seed 004 section 4.1).

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use protocol::resp::reply::Reply;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, watch};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::connection::{Request, request};
use super::execution::Surroundings;
use super::heartbeat::Signal;
use super::job;
use super::job::{Claim, Draft, Job};
use super::reconnecting::Unanswered;
use super::registration::Dialect;
use super::report::{self, Heard, JobUpdates, PROCESSING};
use crate::core::verdict::Judgement;

/// Where jobs of a server that knows workers wait, unless other queues are named.
const QUEUES_REGISTERED: [&str; 1] = ["ready"];
/// Where jobs of the others wait, by generation.
const QUEUES_LISTED: [&str; 2] = ["default", "ready"];
/// How much longer than its wait the last pop may take when the worker leaves.
const LAST_POP: Duration = Duration::from_secs(2);

/// What came of a pop.
#[derive(Debug)]
pub(super) enum Fetched {
    /// A job, and the slot that it has.
    Job(Box<Job>, OwnedSemaphorePermit),
    /// A job that the server wanted back before it began.
    Judged(Judgement),
}

/// The task that pops.
pub(super) struct Fetcher {
    pub(super) around: Arc<Surroundings>,
    pub(super) slots: Arc<Semaphore>,
    pub(super) n_slots: usize,
    pub(super) signals: watch::Receiver<Signal>,
    /// Nothing new is wanted.
    pub(super) stop: CancellationToken,
    pub(super) jobs: mpsc::Sender<Fetched>,
    /// Whose turn it is, where only one queue can be asked at a time.
    pub(super) turn: usize,
    /// How many queues had nothing, one after the other.
    pub(super) n_missed: usize,
}

/// One way to ask for a job.
struct Pop {
    words: Request,
    /// The queue that is asked, or the first of them.
    queue: String,
    /// How long the server waits for one.
    wait: Duration,
}

/// A value that was popped.
struct Popped {
    value: Bytes,
    queue: String,
}

impl Fetcher {
    /// Pops until it is told to stop, or the line is over.
    pub(super) async fn run(mut self) {
        while let Some(slot) = self.free_slot().await {
            let Ok(fetched) = self.fetch(slot).await else { return };
            if let Some(fetched) = fetched
                && self.jobs.send(fetched).await.is_err()
            {
                return;
            }
        }
    }

    /// Waits until there is a slot and the server wants it filled. `None` when it is time to stop.
    async fn free_slot(&mut self) -> Option<OwnedSemaphorePermit> {
        let slots = Arc::clone(&self.slots);
        let free = async {
            let slot = slots.acquire_owned().await.ok()?;
            let wished = self.signals.wait_for(|signal| *signal == Signal::Work).await.is_ok();
            wished.then_some(slot)
        };
        tokio::select! {
            biased;
            () = self.stop.cancelled() => None,
            slot = free => slot,
        }
    }

    async fn fetch(&mut self, slot: OwnedSemaphorePermit) -> Result<Option<Fetched>, Unanswered> {
        let terms = tokio::select! {
            () = self.stop.cancelled() => return Err(Unanswered::Closed),
            terms = self.around.main.reach() => terms,
        };
        let popped = match terms {
            Ok(terms) => self.pop(terms.dialect).await?.map(|popped| (popped, terms.dialect)),
            Err(Unanswered::Lost) => None,
            Err(closed @ Unanswered::Closed) => return Err(closed),
        };
        let Some((popped, dialect)) = popped else { return Ok(None) };
        let Some(job) = self.read(popped, dialect).await? else { return Ok(None) };
        let judged = match dialect {
            Dialect::Registered => self.announce(&job).await,
            Dialect::Listed => None,
        };
        Ok(Some(judged.map_or_else(|| Fetched::Job(Box::new(job), slot), Fetched::Judged)))
    }

    async fn pop(&mut self, dialect: Dialect) -> Result<Option<Popped>, Unanswered> {
        let Pop { words, queue, wait } = match dialect {
            Dialect::Registered => self.pop_any(),
            Dialect::Listed => self.pop_in_turn(),
        };
        // A server that knows leases takes back what it gave to a connection that is gone. Another
        // one would leave it among what is worked on, for ever; so its last word is waited for.
        let patience = match dialect {
            Dialect::Registered => Duration::ZERO,
            Dialect::Listed => wait + LAST_POP,
        };
        let asked = tokio::select! {
            biased;
            reply = self.around.main.ask_waiting(words, wait) => reply,
            () = late(&self.stop, patience) => return Err(Unanswered::Closed),
        };
        let timing = &self.around.options.timing;
        match asked {
            Ok(Reply::Error(text)) => {
                tracing::error!(%text, queue, "the server gives no job; it is asked again");
                self.rest(timing.retry_pause).await;
                Ok(None)
            }
            Ok(reply) => {
                let popped = popped(reply, queue);
                self.n_missed = if popped.is_some() { 0 } else { self.n_missed + 1 };
                if wait.is_zero() && self.n_missed >= self.queues(&QUEUES_LISTED).len() {
                    self.n_missed = 0;
                    self.rest(timing.poll_every).await;
                }
                Ok(popped)
            }
            Err(Unanswered::Lost) => Ok(None),
            Err(closed @ Unanswered::Closed) => Err(closed),
        }
    }

    /// `BRPOP queue:a queue:b 5`.
    fn pop_any(&self) -> Pop {
        let (queues, wait) = (self.queues(&QUEUES_REGISTERED), self.around.options.timing.pop_wait);
        let seconds = wait.as_secs().to_string();
        let names = queues.iter().map(String::as_str);
        let words: Vec<&str> = std::iter::once("BRPOP").chain(names).chain([&*seconds]).collect();
        Pop { words: request(&words), queue: queues[0].clone(), wait }
    }

    /// `BRPOPLPUSH queue:a queue:processing 5`. While something is under way it does not wait at
    /// the server: reports go over the same connection.
    fn pop_in_turn(&mut self) -> Pop {
        let (queues, timing) = (self.queues(&QUEUES_LISTED), &self.around.options.timing);
        let queue = queues[self.turn % queues.len()].clone();
        self.turn = self.turn.wrapping_add(1);
        // The slot that is to be filled is taken already.
        let is_busy = self.slots.available_permits() + 1 < self.n_slots;
        if is_busy {
            let words = request(&["RPOPLPUSH", &queue, PROCESSING]);
            return Pop { words, queue, wait: Duration::ZERO };
        }
        let wait = if queues.len() > 1 { timing.pop_wait_shared } else { timing.pop_wait };
        let seconds = wait.as_secs().to_string();
        Pop { words: request(&["BRPOPLPUSH", &queue, PROCESSING, &seconds]), queue, wait }
    }

    fn queues(&self, usual: &[&str]) -> Vec<String> {
        let usual = usual.iter().map(|name| (*name).to_owned());
        let chosen = &self.around.options.offer.queues;
        let names = if chosen.is_empty() { usual.collect() } else { chosen.clone() };
        names.into_iter().map(|name| format!("queue:{name}")).collect()
    }

    async fn rest(&self, pause: Duration) {
        tokio::select! {
            () = self.stop.cancelled() => {}
            () = sleep(pause) => {}
        }
    }

    /// Finds out what was popped. What is not even a job stays where it is.
    async fn read(&self, popped: Popped, dialect: Dialect) -> Result<Option<Job>, Unanswered> {
        let Popped { value, queue } = popped;
        let line = &self.around.main;
        let is_json = value.trim_ascii_start().starts_with(b"{");
        let name = if is_json { None } else { std::str::from_utf8(&value).ok() };
        let json = match name {
            None => Ok(value.clone()),
            Some(name) => job::find_job(line, name).await?,
        };
        let document = json.as_ref().map_or(&b""[..], |json| json);
        let Some(draft) = Draft::read(document, name) else {
            tracing::error!(queue, "what was popped is no job; it is left where it is");
            return Ok(None);
        };
        let claim = match dialect {
            Dialect::Registered => Claim::Leased(draft.lease_id.clone()),
            Dialect::Listed => Claim::Listed { value, queue },
        };
        if let Err(why) = json {
            return Ok(Some(Job { plan: Err(why), ..draft.finish(claim, None) }));
        }
        let plan = match draft.missing_plan() {
            Some(plan_id) => Some(job::find_plan(line, plan_id).await?),
            None => None,
        };
        Ok(Some(draft.finish(claim, plan)))
    }

    /// Says that the work begins, on the connection that gave the job: now the server knows that
    /// it was read. Gives the verdict if the server wants it back.
    async fn announce(&self, job: &Job) -> Option<Judgement> {
        let updates = JobUpdates { job, worker_id: &self.around.options.worker_id };
        // Without an answer the work begins all the same; its report is judged in any case.
        let reply = self.around.main.ask(updates.started()).await.ok()?;
        match report::hear(&reply) {
            Heard::Taken | Heard::Passing(_) => None,
            Heard::Judged(verdict, text) => {
                let judgement = Judgement { lease_id: job.id.clone(), verdict, reason: Some(text) };
                crate::core::verdict::log(&judgement);
                Some(judgement)
            }
        }
    }
}

/// Waits until it is time to stop, and for `patience` more.
async fn late(stop: &CancellationToken, patience: Duration) {
    stop.cancelled().await;
    sleep(patience).await;
}

/// Some servers give the queue and the value, some the value alone.
fn popped(reply: Reply, asked: String) -> Option<Popped> {
    match reply {
        Reply::Bulk(value) => Some(Popped { value, queue: asked }),
        Reply::Array(items) => match &items[..] {
            [Reply::Bulk(queue), Reply::Bulk(value)] => {
                let queue = String::from_utf8_lossy(queue).into_owned();
                Some(Popped { value: value.clone(), queue })
            }
            _ => None,
        },
        _ => None,
    }
}
