//! One loop per shard: commands in, facts to the store, effects out.
//!
//! Turns are pipelined: while one turn's facts become durable, the next is handled in memory.
//! The effects of a turn leave when it and all turns before it are durable. A failed commit ends
//! the loop's memory: it claims the shard anew, restores it from the store and goes on.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use coordinator::{
    Answer, Change, Command, Coordinator, DrainCause, Effect, Ending, LostAuthority, Moment, Step,
    Ticket,
};
use model::{LeaseId, TenantId, WorkerId};
use shard::{ClaimedShard, Turn};
use store::{CommitError, Committed, NoteKind, Store, StoreError, StoreFuture};
use tokio::sync::mpsc;
use tokio::time::{Instant, Sleep};
use tokio_util::sync::CancellationToken;

use crate::clock::Clock;
use crate::crews::Crews;
use crate::dice::Dice;
use crate::events::{Event, Events, TenantEvents};
use crate::handle::Message;
use crate::metrics::Metrics;
use crate::outbox::Outbox;
use crate::pauses;
use crate::sessions::{Notice, Revoked, Sessions};
use crate::shards::CurrentClaim;
use crate::updates::{TaskUpdate, Updates};

/// Commands that one turn takes up at most.
pub const COMMANDS_PER_TURN_MAX: usize = 1_024;
/// Turns whose facts are not durable yet; beyond this, commands wait in the inbox.
pub const TURNS_IN_FLIGHT_MAX: usize = 256;
/// The pause between two tries to get a store back.
const RECOVERY_EVERY: Duration = Duration::from_millis(500);
/// How long a stopping loop waits for its last commits.
const STOP_WITHIN: Duration = Duration::from_secs(3);

/// What a loop needs from the server.
#[derive(Clone)]
pub(crate) struct LoopParts {
    pub(crate) tenant: TenantId,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) clock: Clock,
    pub(crate) metrics: Arc<Metrics>,
    /// Workers that are told at once when a lease is over.
    pub(crate) sessions: Arc<Sessions>,
    /// Whoever wants to hear of tasks.
    pub(crate) updates: Arc<Updates>,
    /// What is told of runs.
    pub(crate) events: Arc<Events>,
    /// Whether the shard answers right now.
    pub(crate) is_ready: Arc<AtomicBool>,
    /// Where others find the claim.
    pub(crate) claim: CurrentClaim,
    pub(crate) shutdown: CancellationToken,
}

/// Why a loop's memory came to its end.
enum Ended {
    /// The server stops.
    Stopped,
    /// A turn could not be kept.
    Failed(CommitError),
}

/// Runs a shard until the server stops, through every failure of its store.
pub(crate) async fn run(
    parts: LoopParts,
    mut claim: Option<ClaimedShard>,
    mut inbox: mpsc::Receiver<Message>,
) {
    while !parts.shutdown.is_cancelled() {
        match Live::begin(&parts, claim.take()).await {
            Ok(mut live) => {
                set_ready(&parts, true);
                let ended = live.serve(&mut inbox).await;
                set_ready(&parts, false);
                match ended {
                    Ended::Stopped => return,
                    Ended::Failed(error) => {
                        let tenant = &parts.tenant;
                        tracing::error!(%tenant, %error, "a turn is lost; starting over");
                    }
                }
            }
            Err(error) => tracing::error!(tenant = %parts.tenant, %error, "cannot restore"),
        }
        refuse_for(&mut inbox, RECOVERY_EVERY, &parts.shutdown).await;
    }
}

fn set_ready(parts: &LoopParts, is_ready: bool) {
    parts.is_ready.store(is_ready, Ordering::Release);
}

/// Lets askers know at once that nothing can be kept: their replies are dropped.
async fn refuse_for(
    inbox: &mut mpsc::Receiver<Message>,
    pause: Duration,
    shutdown: &CancellationToken,
) {
    let refusing = async { while inbox.recv().await.is_some() {} };
    tokio::select! {
        () = refusing => {}
        () = tokio::time::sleep(pause) => {}
        () = shutdown.cancelled() => {}
    }
}

/// A shard with its memory.
struct Live<'a> {
    parts: &'a LoopParts,
    claim: ClaimedShard,
    coordinator: Coordinator,
    outbox: Outbox,
    events: Arc<TenantEvents>,
    crews: Crews,
    dice: Dice,
    /// Turns on their way to the store, oldest first.
    in_flight: VecDeque<PendingTurn>,
    /// Orders that the loop gives itself.
    own: Vec<Command>,
    /// What the turn has to tell beside its facts.
    overheard: Vec<Event>,
    alarm: Pin<Box<Sleep>>,
}

struct PendingTurn {
    commit: StoreFuture<Result<Committed, CommitError>>,
    effects: Vec<Effect>,
    changes: usize,
    /// Leases that ended without a word of their holders.
    revoked: Vec<(WorkerId, Revoked)>,
    /// What workers hear of runs that they had work of.
    words: Vec<(WorkerId, Notice)>,
    /// What those hear who listen to tasks.
    updates: Vec<TaskUpdate>,
    /// What those hear who watch runs.
    events: Vec<Event>,
}

impl<'a> Live<'a> {
    async fn begin(parts: &'a LoopParts, claim: Option<ClaimedShard>) -> Result<Self, StoreError> {
        let claim = match claim {
            Some(claim) => claim,
            None => parts.store.claim(parts.tenant.clone()).await?,
        };
        parts.claim.set(claim);
        let restored = parts.store.restore(claim).await?;
        let live_tasks = restored.tasks.len();
        let known = (&restored.tasks[..], &restored.runs[..]);
        let events = parts.events.begin(&parts.tenant, claim, known).await?;
        let crews = Crews::restored(&restored.tasks, &restored.runs);
        let mut dice = Dice::seeded();
        let at = Moment { now: parts.clock.now(), entropy: dice.roll() };
        let mut coordinator =
            Coordinator::restore(claim.shard, restored.next_number, restored.tasks, at);
        coordinator.restore_runs(restored.next_run, restored.runs, at);
        for worker in drained_workers(parts).await? {
            // Nobody waits for the answer, and nothing but the drain comes of it.
            let (ticket, cause) = (Ticket(0), DrainCause::Person);
            coordinator.handle(at, Command::SetDrain { ticket, worker, cause, on: true });
        }
        for (queue, pause) in pauses::of_tenant(&*parts.store, &parts.tenant).await? {
            let (ticket, pause) = (Ticket(0), Some(pause));
            coordinator.handle(at, Command::SetPause { ticket, queue, pause });
        }
        tracing::info!(tenant = %parts.tenant, live_tasks, epoch = claim.epoch, "shard restored");
        Ok(Self {
            parts,
            claim,
            coordinator,
            outbox: Outbox::new(claim.shard, Arc::clone(&parts.store)),
            events,
            dice,
            crews,
            in_flight: VecDeque::new(),
            own: Vec::new(),
            overheard: Vec::new(),
            alarm: Box::pin(tokio::time::sleep(Duration::ZERO)),
        })
    }

    async fn serve(&mut self, inbox: &mut mpsc::Receiver<Message>) -> Ended {
        let mut messages = Vec::with_capacity(COMMANDS_PER_TURN_MAX);
        loop {
            self.obey_own();
            self.set_alarm();
            let has_room = self.in_flight.len() < TURNS_IN_FLIGHT_MAX;
            tokio::select! {
                biased;
                () = self.parts.shutdown.cancelled() => return self.finish(inbox).await,
                committed = next_commit(&mut self.in_flight) => {
                    if let Err(error) = self.release(committed) {
                        return Ended::Failed(error);
                    }
                }
                command = self.outbox.next_loaded() => self.obey(command),
                _ = inbox.recv_many(&mut messages, COMMANDS_PER_TURN_MAX), if has_room => {
                    self.take_up(&mut messages);
                }
                () = self.alarm.as_mut(), if has_room => {
                    self.turn(|live, at| live.coordinator.tick(at));
                }
            }
        }
    }

    /// Handles everything that came in, as one turn.
    fn take_up(&mut self, messages: &mut Vec<Message>) {
        let messages = messages.drain(..);
        self.turn(|live, at| {
            // A flood of commands must not keep what is due from happening: the alarm is only
            // looked at when the inbox is empty.
            let is_due = live.coordinator.next_deadline().is_some_and(|due| due <= at.now);
            let mut step = if is_due { live.coordinator.tick(at) } else { Step::default() };
            for message in messages {
                let command = match message {
                    Message::Ask { command, ticket, reply } => {
                        live.outbox.expect(ticket, reply);
                        command
                    }
                    Message::Tell(command) => command,
                };
                if let Command::Withdraw { ticket } = &command {
                    live.outbox.forget(*ticket);
                }
                live.overhear(&command, at);
                let more = live.coordinator.handle(at, command);
                step.changes.extend(more.changes);
                step.runs.extend(more.runs);
                step.effects.extend(more.effects);
            }
            step
        });
    }

    /// A sign of life shows that a worker has what it was given. No fact comes of it.
    fn overhear(&mut self, command: &Command, at: Moment) {
        if let Command::Heartbeat { worker, leases: Some(leases), .. } = command {
            self.overheard.extend(self.events.confirmed(worker, leases, at.now));
        }
    }

    fn turn(&mut self, decide: impl FnOnce(&mut Self, Moment) -> Step) {
        let at = Moment { now: self.parts.clock.now(), entropy: self.dice.roll() };
        let step = decide(self, at);
        if step.changes.is_empty() && step.runs.is_empty() && step.effects.is_empty() {
            return;
        }
        let (tenant, metrics) = (&self.parts.tenant, &self.parts.metrics);
        metrics.observe_step(tenant, &step.changes, at.now);
        let load = self.coordinator.load();
        metrics.set_live(tenant, load.live, load.ready, load.in_flight);
        let changes = step.changes.len();
        let revoked = step.changes.iter().filter_map(revoked).collect();
        let words = self.crews.take(&step);
        self.parts.updates.note_timed_out(tenant, &step.changes);
        let updates = if self.parts.updates.has_listeners(tenant) {
            step.changes.iter().map(|change| TaskUpdate::of(change, at.now)).collect()
        } else {
            Vec::new()
        };
        let mut events = std::mem::take(&mut self.overheard);
        events.extend(self.events.make(&step.changes, &step.runs, at.now));
        let turn = Turn { claim: self.claim, changes: step.changes, runs: step.runs };
        let commit = self.parts.store.commit(turn);
        let effects = step.effects;
        self.in_flight.push_back(PendingTurn {
            commit,
            effects,
            changes,
            revoked,
            words,
            updates,
            events,
        });
    }

    /// The oldest turn is durable: its effects may leave. Or it is lost.
    fn release(
        &mut self,
        (committed, turn): (Result<Committed, CommitError>, PendingTurn),
    ) -> Result<(), CommitError> {
        let committed = committed?;
        if turn.changes > 0 {
            self.parts.metrics.observe_commit(committed.took, turn.changes);
        }
        if !turn.revoked.is_empty() {
            self.parts.sessions.tell_revoked(&self.parts.tenant, turn.revoked);
        }
        self.parts.sessions.tell_all(&self.parts.tenant, turn.words);
        if !turn.updates.is_empty() {
            self.parts.updates.tell(&self.parts.tenant, turn.updates);
        }
        self.events.publish(turn.events);
        for effect in turn.effects {
            self.observe(&effect);
            let leases = self.outbox.send(effect);
            if !leases.is_empty() {
                self.own.push(Command::ReturnLeases { leases });
            }
        }
        Ok(())
    }

    fn observe(&self, effect: &Effect) {
        let (tenant, metrics) = (&self.parts.tenant, &self.parts.metrics);
        let Effect::Answer { answer, .. } = effect else { return };
        if let Answer::Judgements(judgements) = answer {
            metrics.observe_verdicts(tenant, judgements);
        } else if let Answer::Leases(grants) = answer {
            metrics.observe_grants(tenant, grants, self.parts.clock.now());
        }
    }

    fn obey_own(&mut self) {
        while let Some(command) = self.own.pop() {
            self.obey(command);
        }
    }

    fn obey(&mut self, command: Command) {
        self.turn(|live, at| live.coordinator.handle(at, command));
    }

    fn set_alarm(&mut self) {
        let far = || Instant::now() + Duration::from_hours(1);
        let deadline = self.coordinator.next_deadline();
        let at = deadline.map_or_else(far, |at| self.parts.clock.instant_of(at));
        if deadline.is_some() && self.alarm.deadline() != at || self.alarm.is_elapsed() {
            self.alarm.as_mut().reset(at);
        }
    }

    /// The server stops: what is under way becomes durable and is answered, nothing new begins.
    async fn finish(&mut self, inbox: &mut mpsc::Receiver<Message>) -> Ended {
        inbox.close();
        let all = async {
            while !self.in_flight.is_empty() {
                let committed = next_commit(&mut self.in_flight).await;
                if self.release(committed).is_err() {
                    return;
                }
            }
        };
        if tokio::time::timeout(STOP_WITHIN, all).await.is_err() {
            tracing::warn!(tenant = %self.parts.tenant, "stopped before the last commits were done");
        }
        Ended::Stopped
    }
}

/// The workers that people drained, before this process began.
async fn drained_workers(parts: &LoopParts) -> Result<Vec<WorkerId>, StoreError> {
    let notes = parts.store.notes(NoteKind::Drain).await?;
    let own = notes.iter().filter(|note| note.tenant == parts.tenant.as_str());
    Ok(own.filter_map(|note| note.key.parse().ok()).collect())
}

/// The lease that a fact ended although its holder said nothing.
fn revoked(change: &Change) -> Option<(WorkerId, Revoked)> {
    let attempt = change.ended_attempt()?;
    let why = match attempt.ending {
        Ending::Failed { .. } => return None,
        Ending::Expired | Ending::TimedOut | Ending::Undelivered => LostAuthority::Expired,
        Ending::Stopped => LostAuthority::TaskCancelled,
    };
    let lease = LeaseId { task: change.task(), epoch: attempt.epoch };
    Some((attempt.worker.clone(), Revoked { lease, why }))
}

/// Waits for the oldest turn; for ever when there is none.
async fn next_commit(
    in_flight: &mut VecDeque<PendingTurn>,
) -> (Result<Committed, CommitError>, PendingTurn) {
    let Some(oldest) = in_flight.front_mut() else { return std::future::pending().await };
    let committed = poll_fn(|context| oldest.commit.as_mut().poll(context)).await;
    let turn = in_flight.pop_front().expect("it was there");
    (committed, turn)
}
