//! What is under way: which leases run, what may start, what has to stop; and what ran before.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::fmt;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use protocol::session::payload::resource::ResourceChunk;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

use crate::core::drain::STOP_LIMIT;
use crate::core::executor::{Assignment, Context, Executor, Outcome, TIMEOUT};
use crate::core::feedback::FeedbackSink;
use crate::core::next::{Calling, ChainPlace, Next};
use crate::resources::{Lent, Registry};

/// Too much at once.
pub(crate) const CONCURRENCY_VIOLATION: &str = "E.CMD.CONCURRENCY_VIOLATION";
/// Nothing new is taken.
pub(crate) const DRAINING: &str = "E.WORKER.DRAINING";
/// A type that is not offered.
pub(crate) const UNKNOWN: &str = "E.CMD.UNKNOWN";

/// A dispatch as it is reported about.
#[derive(Clone, Debug)]
pub(crate) struct LeasedTask {
    pub(crate) lease_id: String,
    pub(crate) run_id: String,
    pub(crate) task_id: String,
    pub(crate) node_id: String,
    pub(crate) node_type: String,
    pub(crate) concurrency_key: Option<String>,
    pub(crate) seq: Option<u64>,
}

/// A task that was taken.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) leased: LeasedTask,
    /// Where it stands in a chain of middlewares, if in any.
    pub(crate) place: Option<Arc<ChainPlace>>,
    pub(crate) feedback: FeedbackSink,
    pub(crate) started: Instant,
    pub(crate) phase: Phase,
    /// It called the next in line before: its slot may have been given away meanwhile, and so it
    /// is the one that is too many.
    has_called: bool,
    stop: CancellationToken,
}

/// ```text
/// Queued    --> Running    there is a slot
/// Queued    --> (gone)     its lease is lost, or the worker leaves
/// Running   --> Calling    it waits for the next in line, and gives its slot away
/// Calling   --> Returning  the next in line has come to its end
/// Returning --> Running    there is a slot
/// Running, Calling, Returning --> Ended      the work is over
/// Running, Calling, Returning --> Stopping   its lease is lost, or the worker leaves
/// Stopping  --> (gone)     the work is over
/// Ended     --> (gone)     all it said was sent, and it is reported
/// ```
#[derive(Debug)]
pub(crate) enum Phase {
    /// It begins when there is a slot.
    Queued(Box<Attempt>),
    /// The work goes on.
    Running,
    /// The work waits for the next in line, and has no slot.
    Calling {
        /// How many calls have no answer yet.
        n_open: usize,
    },
    /// The work goes on when there is a slot.
    Returning,
    /// The work was told to stop.
    Stopping {
        /// Whether the server is told that the lease was given up.
        is_given_back: bool,
    },
    /// The work is over; what it said last is on its way.
    Ended { outcome: Outcome, duration: Duration },
}

/// Who was given a slot.
#[derive(Debug)]
pub(crate) enum Admitted {
    /// One that comes back from the next in line.
    Back(Number),
    /// One that begins.
    Start(Box<Attempt>),
}

/// Why a dispatch is not started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// It runs or ran here already: nothing is said, for the first one speaks for it.
    Known,
    /// The server is told why.
    Because(&'static str, String),
}

/// How much may run at once.
#[derive(Clone, Debug)]
pub(crate) struct Limits {
    pub(crate) slots: usize,
    pub(crate) per_type: BTreeMap<String, usize>,
}

/// What is under way.
#[derive(Debug)]
pub(crate) struct InFlight {
    limits: Limits,
    entries: BTreeMap<Number, Entry>,
    by_lease: HashMap<String, Number>,
    keys: HashMap<String, Number>,
    n_running: usize,
    /// Who waits for a slot to go on.
    returning: VecDeque<Number>,
    /// Who waits for a slot to begin.
    queued: VecDeque<Number>,
    next: Number,
    pub(crate) history: History,
}

impl InFlight {
    pub(crate) fn new(limits: Limits) -> Self {
        Self {
            limits,
            entries: BTreeMap::new(),
            by_lease: HashMap::new(),
            keys: HashMap::new(),
            n_running: 0,
            returning: VecDeque::new(),
            queued: VecDeque::new(),
            next: 0,
            history: History::default(),
        }
    }

    /// Whether a task is taken. The server keeps to the limits too; this is a guard. Tasks that
    /// came back from the next in line may be too many: what was dispatched into their slots waits
    /// its turn here.
    pub(crate) fn check(&self, leased: &LeasedTask) -> Result<(), Refusal> {
        let lease_id = leased.lease_id.as_str();
        if self.by_lease.contains_key(lease_id) || self.history.knows(lease_id) {
            return Err(Refusal::Known);
        }
        let refuse = |why| Err(Refusal::Because(CONCURRENCY_VIOLATION, why));
        let n_taken = self.n_running + self.queued.len();
        if n_taken >= self.limits.slots && self.n_fresh(|_| true) >= self.limits.slots {
            return refuse(format!("{n_taken} tasks run here, which is all"));
        }
        let is_same_type = |entry: &Entry| entry.leased.node_type == leased.node_type;
        if let Some(limit) = self.limits.per_type.get(&leased.node_type)
            && self.n_fresh(is_same_type) >= *limit
        {
            return refuse(format!("{limit} tasks of type {} run here", leased.node_type));
        }
        if let Some(key) = &leased.concurrency_key
            && self.keys.contains_key(key)
        {
            return refuse(format!("a task with the concurrency key {key} runs here"));
        }
        Ok(())
    }

    /// Those that have a slot or wait for their first one, without those that came back.
    fn n_fresh(&self, is_meant: impl Fn(&Entry) -> bool) -> usize {
        let is_fresh = |entry: &&Entry| {
            !entry.has_called && matches!(entry.phase, Phase::Queued(_) | Phase::Running)
        };
        self.entries.values().filter(is_fresh).filter(|entry| is_meant(entry)).count()
    }

    /// The number of the next task that starts.
    pub(crate) fn next_number(&self) -> Number {
        self.next
    }

    /// A task is taken; it begins when it is admitted.
    pub(crate) fn add(
        &mut self,
        leased: LeasedTask,
        place: Option<Arc<ChainPlace>>,
        attempt: Box<Attempt>,
    ) {
        let number = self.next;
        self.next += 1;
        self.queued.push_back(number);
        self.by_lease.insert(leased.lease_id.clone(), number);
        if let Some(key) = &leased.concurrency_key {
            self.keys.insert(key.clone(), number);
        }
        let (feedback, stop) = (attempt.feedback.clone(), attempt.stop.clone());
        let (started, phase, has_called) = (Instant::now(), Phase::Queued(attempt), false);
        let entry = Entry { leased, place, feedback, started, phase, has_called, stop };
        self.entries.insert(number, entry);
    }

    /// Gives a free slot to the next who waits for one: first those who come back, for others wait
    /// for them.
    pub(crate) fn admit(&mut self) -> Option<Admitted> {
        while self.n_running < self.limits.slots {
            let number = self.returning.pop_front().or_else(|| self.queued.pop_front())?;
            // Whoever was stopped meanwhile left its place in the line empty.
            let Some(entry) = self.entries.get_mut(&number) else { continue };
            match std::mem::replace(&mut entry.phase, Phase::Running) {
                Phase::Returning => {
                    self.n_running += 1;
                    return Some(Admitted::Back(number));
                }
                Phase::Queued(attempt) => {
                    self.n_running += 1;
                    entry.started = Instant::now();
                    return Some(Admitted::Start(attempt));
                }
                other => entry.phase = other,
            }
        }
        None
    }

    /// The work calls the next in line. `false` if it has no business to do so any more.
    pub(crate) fn wait(&mut self, number: Number) -> bool {
        let Some(entry) = self.entries.get_mut(&number) else { return false };
        let n_open = match entry.phase {
            Phase::Running => {
                self.n_running -= 1;
                1
            }
            Phase::Calling { n_open } => n_open + 1,
            // It went on without waiting for its slot.
            Phase::Returning => 1,
            Phase::Queued(_) | Phase::Stopping { .. } | Phase::Ended { .. } => return false,
        };
        entry.phase = Phase::Calling { n_open };
        entry.has_called = true;
        true
    }

    /// A call was answered. `true` if the work hears it at once; otherwise when it has a slot.
    pub(crate) fn answered(&mut self, number: Number) -> bool {
        let Some(entry) = self.entries.get_mut(&number) else { return false };
        let Phase::Calling { n_open } = entry.phase else { return false };
        if n_open > 1 {
            entry.phase = Phase::Calling { n_open: n_open - 1 };
            return true;
        }
        entry.phase = Phase::Returning;
        self.returning.push_back(number);
        false
    }

    pub(crate) fn get(&self, number: Number) -> Option<&Entry> {
        self.entries.get(&number)
    }

    /// The work of a task is over. Gives it back if there is nothing to wait for.
    pub(crate) fn end(&mut self, number: Number, outcome: Outcome) -> Option<Entry> {
        let entry = self.entries.get_mut(&number)?;
        // The work is over, so another with the same key may begin.
        if let Some(key) = &entry.leased.concurrency_key {
            self.keys.remove(key);
        }
        match entry.phase {
            Phase::Stopping { .. } => self.remove(number),
            Phase::Running | Phase::Calling { .. } | Phase::Returning => {
                self.n_running -= usize::from(matches!(entry.phase, Phase::Running));
                entry.feedback.finish();
                entry.phase = Phase::Ended { outcome, duration: entry.started.elapsed() };
                None
            }
            // What has not begun cannot end.
            Phase::Queued(_) | Phase::Ended { .. } => None,
        }
    }

    /// Forgets a task.
    pub(crate) fn remove(&mut self, number: Number) -> Option<Entry> {
        let entry = self.entries.remove(&number)?;
        self.by_lease.remove(&entry.leased.lease_id);
        if matches!(entry.phase, Phase::Running) {
            self.n_running -= 1;
        }
        Some(entry)
    }

    /// The lease is lost: the work stops at once and nothing is reported. `false` if it did not
    /// run here.
    pub(crate) fn cancel(&mut self, lease_id: &str) -> bool {
        let Some(&number) = self.by_lease.get(lease_id) else { return false };
        let Some(entry) = self.entries.get_mut(&number) else { return false };
        entry.feedback.close();
        match entry.phase {
            Phase::Running | Phase::Calling { .. } | Phase::Returning => {
                self.n_running -= usize::from(matches!(entry.phase, Phase::Running));
                entry.phase = Phase::Stopping { is_given_back: false };
                entry.stop.cancel();
            }
            Phase::Stopping { .. } => entry.phase = Phase::Stopping { is_given_back: false },
            Phase::Queued(_) | Phase::Ended { .. } => {
                let key = entry.leased.concurrency_key.take();
                key.map(|key| self.keys.remove(&key));
                self.remove(number);
            }
        }
        true
    }

    /// The time is up: all work stops, and the server is told so when it has. Gives what has not
    /// begun.
    pub(crate) fn give_back_all(&mut self) -> Vec<LeasedTask> {
        for entry in self.entries.values_mut() {
            if matches!(entry.phase, Phase::Running | Phase::Calling { .. } | Phase::Returning) {
                self.n_running -= usize::from(matches!(entry.phase, Phase::Running));
                entry.phase = Phase::Stopping { is_given_back: true };
                entry.stop.cancel();
                entry.feedback.close();
            }
        }
        let queued = std::mem::take(&mut self.queued);
        let never_begun = queued.into_iter().filter_map(|number| self.remove(number));
        let mut leased_tasks = Vec::new();
        for entry in never_begun {
            leased_tasks.push(entry.leased);
        }
        for key in leased_tasks.iter().filter_map(|leased| leased.concurrency_key.as_ref()) {
            self.keys.remove(key);
        }
        leased_tasks
    }

    /// How many tasks run.
    pub(crate) fn n_running(&self) -> usize {
        self.n_running
    }

    /// Whether nothing is under way.
    pub(crate) fn is_clear(&self) -> bool {
        self.entries.is_empty()
    }

    /// The leases that are held.
    pub(crate) fn leases(&self) -> impl Iterator<Item = &str> {
        let is_held = |entry: &&Entry| !matches!(entry.phase, Phase::Stopping { .. });
        self.entries.values().filter(is_held).map(|entry| entry.leased.lease_id.as_str())
    }
}

/// How much longer an executor that watches its deadline itself may take; it ends more orderly.
const DEADLINE_SLACK: Duration = Duration::from_millis(100);
/// The work ended in a panic.
pub(crate) const PANICKED: &str = "E.RUNNER.PANIC";

/// Which attempt of this process.
pub(crate) type Number = u64;

/// What attempts tell the session. Each has a few on its way at most, so that nothing piles up.
#[derive(Debug)]
pub(crate) enum AttemptEvent {
    /// It has something to say.
    Said(Number),
    /// It calls the next in line.
    Calls(Number, Calling),
    /// It is over.
    Ended(Number, Outcome),
    /// A part of a resource was read for the server.
    Read(Box<ResourceChunk>),
}

/// What the task of an attempt needs.
pub(crate) struct Attempt {
    pub(crate) number: Number,
    /// The run that it belongs to.
    pub(crate) run_id: String,
    pub(crate) executor: Arc<dyn Executor>,
    pub(crate) assignment: Assignment,
    pub(crate) feedback: FeedbackSink,
    pub(crate) stop: CancellationToken,
    pub(crate) time: Option<Duration>,
    pub(crate) place: Option<Arc<ChainPlace>>,
    pub(crate) resources: Arc<Registry>,
    /// The resources that it was given by name.
    pub(crate) lent: Vec<Lent>,
    pub(crate) notes: mpsc::UnboundedSender<AttemptEvent>,
}

impl fmt::Debug for Attempt {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Attempt").field("number", &self.number).finish_non_exhaustive()
    }
}

impl Attempt {
    /// Executes it and says how it ended.
    pub(crate) async fn run(self) {
        let (number, notes) = (self.number, self.notes.clone());
        // A panic is one failed attempt, not the end of the worker.
        let outcome = AssertUnwindSafe(self.execute()).catch_unwind().await;
        let outcome = outcome.unwrap_or_else(|_| {
            Outcome::passing(PANICKED, "the work ended in a panic; the worker's log has it")
        });
        // Nobody listens when the session has ended, and then nobody needs to know.
        let _ = notes.send(AttemptEvent::Ended(number, outcome));
    }

    async fn execute(self) -> Outcome {
        let deadline = self.time.map(|time| Instant::now() + time);
        let inner_stop = self.stop.child_token();
        let (number, notes) = (self.number, self.notes);
        let next = self.place.map_or_else(Next::nowhere, |place| {
            Next::new(place, inner_stop.clone(), move |calling| {
                // Nobody listens when the session has ended; then the work is stopped too.
                let _ = notes.send(AttemptEvent::Calls(number, calling));
            })
        });
        let context = Context {
            run_id: Some(self.run_id),
            feedback: self.feedback,
            stop: inner_stop.clone(),
            deadline,
            next,
            resources: Some(self.resources),
        };
        // What it works with stays until it is done.
        let _lent = self.lent;
        let mut work = self.executor.execute(self.assignment, context);
        let time_is_up = async {
            match deadline {
                Some(deadline) => sleep_until(deadline + DEADLINE_SLACK).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            outcome = &mut work => outcome,
            () = self.stop.cancelled() => {
                let ended = timeout(STOP_LIMIT, work).await;
                ended.unwrap_or_else(|_| Outcome::stopped())
            }
            () = time_is_up => {
                inner_stop.cancel();
                // However it ends now, it took too long.
                let _ = timeout(STOP_LIMIT, work).await;
                let ms = self.time.unwrap_or_default().as_millis();
                Outcome::passing(TIMEOUT, format!("the task took longer than {ms} ms"))
            }
        }
    }
}

/// How many leases are remembered.
const REMEMBERED_MAX: usize = 10_000;

/// The last leases that ended here, and whether anything was said about them.
#[derive(Debug, Default)]
pub(crate) struct History {
    ends: HashMap<String, End>,
    order: VecDeque<String>,
    n_unjudged: usize,
}

/// How a lease ended here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// It was reported and no verdict came yet.
    Reported,
    /// A verdict came, or none will.
    Settled,
}

impl History {
    /// Remembers a lease; of too many the oldest is forgotten.
    pub(crate) fn add(&mut self, lease_id: &str, end: End) {
        if self.ends.contains_key(lease_id) {
            return;
        }
        if self.order.len() >= REMEMBERED_MAX
            && let Some(oldest) = self.order.pop_front()
            && self.ends.remove(&oldest) == Some(End::Reported)
        {
            self.n_unjudged -= 1;
        }
        self.n_unjudged += usize::from(end == End::Reported);
        self.ends.insert(lease_id.to_owned(), end);
        self.order.push_back(lease_id.to_owned());
    }

    pub(crate) fn knows(&self, lease_id: &str) -> bool {
        self.ends.contains_key(lease_id)
    }

    /// A verdict came. `true` for the first one about a report of ours.
    pub(crate) fn settle(&mut self, lease_id: &str) -> bool {
        match self.ends.get_mut(lease_id) {
            Some(end @ End::Reported) => {
                *end = End::Settled;
                self.n_unjudged -= 1;
                true
            }
            Some(End::Settled) | None => false,
        }
    }

    /// Whether a verdict about this lease came.
    pub(crate) fn is_settled(&self, lease_id: &str) -> bool {
        self.ends.get(lease_id) == Some(&End::Settled)
    }

    /// Reports without a verdict.
    pub(crate) fn n_unjudged(&self) -> usize {
        self.n_unjudged
    }
}

#[cfg(test)]
mod tests;
