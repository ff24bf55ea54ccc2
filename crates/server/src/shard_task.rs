//! The task that drives one shard: messages of the doors in, turns to the store, effects out.
//!
//! What a turn is and when its effects may leave is decided by [`Shard`]. A failed commit ends the
//! task, and with it everything that is held of the tenant; the directory decides what follows.

use std::collections::{HashMap, VecDeque};
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use coordinator::{
    Answer, Command, Effect as Decided, LoadKey, LoadTicket, Moment, Preparation, PrepareTicket,
    TaskRecord, Ticket,
};
use foldhash::fast::RandomState;
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, StreamExt};
use model::{Rng, TenantId, WorkerId};
use shard::projection::{LogLine, Publication};
use shard::sessions::{LinkId, LinkMessage, LinkWord};
use shard::{Effect, Limits, MESSAGES_PER_TURN_MAX, Shard, Tell};
use store::{CommitError, Committed, Store, StoreError, StoreFuture};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, Sleep};
use uuid::Uuid;

use crate::clock::wall_now;
use crate::directory::Tenant;
use crate::handle::{Asking, Message};
use crate::links::{Links, ToLink};
use crate::schedules::prepare::Preparer;

/// A store whose last transaction took longer than this commits on its own thread, so that a slow
/// disk holds up nobody else.
const COMMIT_HERE_MAX: Duration = Duration::from_millis(2);
/// A turn with more facts than this is worth a hand-off: while it is written, others are decided.
const FACTS_HERE_MAX: usize = 16;
/// How long a stopping shard waits for its last commits.
const STOP_WITHIN: Duration = Duration::from_secs(3);

/// Why a shard's memory came to its end.
pub(crate) enum Ended {
    /// The server stops.
    Stopped,
    /// Another server has claimed the shard.
    Fenced,
    /// The store could not keep a turn, or not give what it keeps.
    Unavailable(String),
    /// An assertion failed: what is in memory is not what the rules say. Nothing that was not
    /// durable has left, so the store still has the truth.
    Contradiction(String),
}

impl From<CommitError> for Ended {
    fn from(error: CommitError) -> Self {
        match error {
            CommitError::Fenced => Self::Fenced,
            CommitError::Unavailable(why) => Self::Unavailable(why),
        }
    }
}

/// Drives the shard of a tenant until the server stops or the shard is lost.
pub(crate) async fn run(tenant: &Tenant, inbox: &mut mpsc::Receiver<Message>) -> Ended {
    // Whatever a panic leaves half-done is dropped with the driver.
    let driven = AssertUnwindSafe(drive(tenant, inbox)).catch_unwind().await;
    tenant.set_ready(false);
    driven.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
        Ended::Contradiction(text.unwrap_or("no message").to_owned())
    })
}

async fn drive(tenant: &Tenant, inbox: &mut mpsc::Receiver<Message>) -> Ended {
    let mut driver = match Driver::begin(tenant).await {
        Ok(driver) => driver,
        Err(error) => return Ended::Unavailable(error.to_string()),
    };
    tenant.set_ready(true);
    driver.serve(inbox).await
}

type Commit = StoreFuture<Result<Committed, CommitError>>;
type Found = Option<Vec<(LoadKey, TaskRecord)>>;

/// A shard with what it waits for.
struct Driver<'a> {
    tenant: &'a Tenant,
    shard: Shard,
    rng: Rng,
    /// Who waits for an answer.
    replies: HashMap<Ticket, oneshot::Sender<Answer>, RandomState>,
    /// The connections of workers.
    links: Links,
    /// What people saw of turns that are not durable yet, by the turn's number, oldest first.
    seen: VecDeque<(u64, Tell)>,
    /// The last turn that is durable.
    durable: u64,
    /// Turns on their way to the store by number, oldest first.
    commits: VecDeque<(u64, Commit)>,
    loads: FuturesUnordered<StoreFuture<(LoadTicket, Found)>>,
    /// The run of a schedule that is being compiled.
    preparing: FuturesUnordered<StoreFuture<(PrepareTicket, Preparation)>>,
    /// Whether ids of events run low.
    wants_epoch: bool,
    /// How long the last transaction took.
    took: Duration,
    alarm: Pin<Box<Sleep>>,
}

impl<'a> Driver<'a> {
    async fn begin(tenant: &'a Tenant) -> Result<Self, StoreError> {
        let (claim, common) = (tenant.claim(), &tenant.common);
        let restored = common.store.restore(claim).await?;
        let live_tasks = restored.tasks.len();
        tenant.events.begin(claim.epoch, (&restored.tasks, &restored.runs));
        let mut rng = Rng::new(Uuid::new_v4().as_u64_pair().0);
        let at = Moment { now: common.clock.now(), wall: wall_now(), entropy: rng.next_u64() };
        let shard = Shard::restore(claim, restored, Limits::default(), (at, ()));
        tenant.handle().workers().restore(shard.sessions().registrations());
        tracing::info!(tenant = %tenant.id(), live_tasks, epoch = claim.epoch, "shard restored");
        Ok(Self {
            tenant,
            shard,
            rng,
            replies: HashMap::default(),
            links: Links::default(),
            seen: VecDeque::new(),
            durable: 0,
            commits: VecDeque::new(),
            loads: FuturesUnordered::new(),
            preparing: FuturesUnordered::new(),
            wants_epoch: false,
            took: Duration::ZERO,
            alarm: Box::pin(tokio::time::sleep(Duration::ZERO)),
        })
    }

    fn moment(&mut self) -> Moment {
        Moment {
            now: self.tenant.common.clock.now(),
            wall: wall_now(),
            entropy: self.rng.next_u64(),
        }
    }

    async fn serve(&mut self, inbox: &mut mpsc::Receiver<Message>) -> Ended {
        let mut messages = Vec::with_capacity(MESSAGES_PER_TURN_MAX);
        loop {
            self.commit(inbox.is_empty());
            if self.wants_epoch
                && self.commits.is_empty()
                && let Err(error) = self.raise_epoch().await
            {
                return error.into();
            }
            self.set_alarm();
            let has_room = self.shard.wants_messages() && !self.wants_epoch;
            tokio::select! {
                biased;
                () = self.tenant.common.shutdown.cancelled() => return self.finish(inbox).await,
                (number, committed) = next_commit(&mut self.commits) => {
                    match committed {
                        Ok(committed) => self.release(number, committed),
                        Err(error) => return error.into(),
                    }
                }
                Some((load, found)) = self.loads.next(), if !self.loads.is_empty() => {
                    let at = self.moment();
                    self.shard.on_loaded(at, load, found);
                }
                Some((prepare, preparation)) = self.preparing.next(), if !self.preparing.is_empty() =>
                {
                    let at = self.moment();
                    self.shard.on_prepared(at, prepare, preparation);
                }
                _ = inbox.recv_many(&mut messages, MESSAGES_PER_TURN_MAX), if has_room => {
                    self.take_up(&mut messages);
                }
                () = self.alarm.as_mut(), if has_room => {
                    let at = self.moment();
                    self.shard.tick(at);
                }
            }
        }
    }

    /// Ids of events count from the epoch: a shard that has used up half of them raises it. Nothing
    /// is under way, so nothing of it is fenced.
    async fn raise_epoch(&mut self) -> Result<(), CommitError> {
        let claim = self.tenant.common.store.raise_epoch(self.shard.claim()).await?;
        tracing::info!(tenant = %self.tenant.id(), epoch = claim.epoch, "epoch raised");
        self.wants_epoch = false;
        self.shard.renew(claim);
        self.tenant.renew(claim);
        Ok(())
    }

    /// Handles everything that came in, as one turn.
    fn take_up(&mut self, messages: &mut Vec<Message>) {
        let at = self.moment();
        self.shard.set_has_listeners(self.tenant.updates.has_listeners());
        for message in messages.drain(..) {
            self.take(at, message);
        }
    }

    fn take(&mut self, at: Moment, message: Message) {
        match message {
            Message::Ask(asking) => {
                let command = self.expect(asking);
                self.shard.on_message(at, command);
            }
            Message::Tell(command) => {
                if let Command::Withdraw { ticket } = &command {
                    self.replies.remove(ticket);
                }
                self.shard.on_message(at, command);
            }
            Message::Claim { link, claim, reply, mailbox } => {
                self.links.claims(link, *mailbox);
                self.links.expect(link, reply);
                self.shard.on_link(at, link, LinkMessage::Claim(claim));
            }
            Message::Link { link, message, reply } => {
                if matches!(message, LinkMessage::Park(_)) {
                    self.links.remove(link);
                }
                if let Some(reply) = reply {
                    self.links.expect(link, reply);
                }
                self.shard.on_link(at, link, message);
            }
            Message::ToWorker { worker, word, reply } => {
                // Whoever asked may have gone.
                let _ = reply.send(self.tell_worker(&worker, word));
            }
            Message::Member { worker, message, ask } => {
                let command = ask.map(|asking| self.expect(asking));
                self.shard.on_member(at, (&worker, message), command);
            }
            Message::CredentialGone { token_id } => self.shard.on_credential_gone(&token_id),
            Message::Look(look) => {
                let tell = look(&self.shard);
                self.seen.push_back((self.shard.latest_turn(), tell));
                self.tell_seen();
            }
            Message::Change(change) => self.shard.on_documents(change),
        }
    }

    fn expect(&mut self, Asking { question, ticket, reply }: Asking) -> Command {
        self.replies.insert(ticket, reply);
        Command::Ask(ticket, question)
    }

    fn tell_seen(&mut self) {
        let durable = self.durable;
        while let Some((_, tell)) = self.seen.pop_front_if(|(turn, _)| *turn <= durable) {
            tell.tell();
        }
    }

    fn tell_worker(&self, worker: &WorkerId, word: ToLink) -> bool {
        let link = self.shard.sessions().link_of(worker);
        link.is_some_and(|link| self.links.tell(link, word))
    }

    /// Gives what was decided to the store. When nobody else waits, the commit is made here: two
    /// hand-offs between threads cost more than they gain.
    fn commit(&mut self, is_quiet: bool) {
        while let Some(turn) = self.shard.poll_commit() {
            let (number, store) = (turn.number, &self.tenant.common.store);
            let is_here = is_quiet
                && self.commits.is_empty()
                && turn.n_facts() <= FACTS_HERE_MAX
                // A long body would hold up everyone else on this thread.
                && turn.documents.iter().all(|document| document.body.is_none())
                && self.took <= COMMIT_HERE_MAX;
            let commit = if is_here { store.commit_here(turn) } else { store.commit(turn) };
            self.commits.push_back((number, commit));
        }
    }

    /// The oldest turn is durable: its effects leave.
    fn release(&mut self, number: u64, committed: Committed) {
        self.took = committed.took;
        self.durable = number;
        self.tell_seen();
        self.shard.on_committed(number);
        while let Some(effect) = self.shard.poll_effect() {
            match effect {
                Effect::Decided(Decided::Answer { ticket, answer }) => self.deliver(ticket, answer),
                Effect::Decided(Decided::Load { load, keys }) => {
                    let shard = self.shard.claim().shard;
                    self.loads.push(read(&*self.tenant.common.store, shard, load, keys));
                }
                Effect::Decided(Decided::Prepare { prepare, schedule, due, spec }) => {
                    let preparing = self.preparer().prepare(schedule, due, spec);
                    self.preparing.push(Box::pin(async move { (prepare, preparing.await) }));
                }
                Effect::Publish(publication) => self.publish(*publication, committed),
                Effect::ToLink { link, word } => self.pass_on(link, word),
                Effect::Tell(tell) => tell.tell(),
            }
        }
    }

    fn pass_on(&mut self, link: LinkId, word: LinkWord) {
        if let Some(LinkWord::Claimed(claimed)) = self.links.pass_on(link, word) {
            // The connection has gone: what it was given waits for the next one.
            let at = self.moment();
            self.shard.on_unclaimed(at, link, *claimed);
        }
    }

    fn preparer(&self) -> Preparer {
        Preparer {
            tenant: self.tenant.id().clone(),
            shard: self.shard.claim().shard,
            store: Arc::clone(&self.tenant.common.store),
            programs: Arc::clone(&self.tenant.common.programs),
        }
    }

    fn deliver(&mut self, ticket: Ticket, answer: Answer) {
        let metrics = &self.tenant.metrics;
        match &answer {
            Answer::Judgements(judgements) => metrics.observe_verdicts(judgements),
            Answer::Leases(grants) => {
                metrics.observe_grants(grants, self.tenant.common.clock.now());
            }
            _ => {} // No other answer is counted.
        }
        let undelivered = match self.replies.remove(&ticket) {
            Some(reply) => reply.send(answer).err(),
            None => Some(answer),
        };
        if let Some(answer) = undelivered {
            let at = self.moment();
            self.shard.on_undelivered(at, &answer);
        }
    }

    fn publish(&mut self, publication: Publication, committed: Committed) {
        let Tenant { metrics, updates, events, .. } = self.tenant;
        metrics.observe_turn(&publication, committed.took);
        let workers = self.tenant.handle().workers();
        if !publication.members.is_empty() {
            workers.apply(publication.members);
        }
        for line in publication.log {
            if let LogLine::JobTimedOut { worker } = &line {
                workers.known(worker, |known| known.timed_out += 1);
            }
            write_log_line(self.tenant.id(), line);
        }
        updates.tell(publication.updates);
        events.publish_turn(publication.events);
        self.wants_epoch |= events.wants_epoch();
    }

    fn set_alarm(&mut self) {
        let far = || Instant::now() + Duration::from_hours(1);
        let deadline = self.shard.next_deadline();
        let at = deadline.map_or_else(far, |at| self.tenant.common.clock.instant_of(at));
        if deadline.is_some() && self.alarm.deadline() != at || self.alarm.is_elapsed() {
            self.alarm.as_mut().reset(at);
        }
    }

    /// The server stops: what is under way becomes durable and is answered, nothing new begins.
    async fn finish(&mut self, inbox: &mut mpsc::Receiver<Message>) -> Ended {
        inbox.close();
        let all = async {
            while !self.commits.is_empty() {
                let (number, committed) = next_commit(&mut self.commits).await;
                match committed {
                    Ok(committed) => self.release(number, committed),
                    Err(_) => return,
                }
            }
        };
        if tokio::time::timeout(STOP_WITHIN, all).await.is_err() {
            tracing::warn!(tenant = %self.tenant.id(), "stopped before the last commits were done");
        }
        Ended::Stopped
    }
}

/// Waits for the oldest turn; for ever when there is none.
async fn next_commit(
    commits: &mut VecDeque<(u64, Commit)>,
) -> (u64, Result<Committed, CommitError>) {
    let Some((number, commit)) = commits.front_mut() else { return std::future::pending().await };
    let number = *number;
    let committed = commit.await;
    commits.pop_front();
    (number, committed)
}

fn read(
    store: &dyn Store,
    shard: model::ShardId,
    load: LoadTicket,
    keys: Vec<LoadKey>,
) -> StoreFuture<(LoadTicket, Found)> {
    let reading = store.load(shard, keys);
    Box::pin(async move {
        match reading.await {
            Ok(found) => (load, Some(found)),
            Err(error) => {
                tracing::warn!(%error, "cannot read settled tasks");
                (load, None)
            }
        }
    })
}

/// Writes one fact of a durable turn.
fn write_log_line(tenant: &TenantId, line: LogLine) {
    match line {
        LogLine::SessionOpened { worker, instance_id, session_id, is_resumed } => tracing::info!(
            %tenant, worker, sender.id = instance_id, session_id, resumed = is_resumed,
            "session opened"
        ),
        LogLine::SessionEnded { instance_id } => {
            tracing::info!(%tenant, sender.id = instance_id, "session ended");
        }
        LogLine::WorkerDrained { worker, by } => {
            tracing::info!(%tenant, %worker, by, on = true, "worker drain");
        }
        LogLine::WorkerUndrained { worker } => {
            tracing::info!(%tenant, %worker, on = false, "worker drain");
        }
        LogLine::JobTimedOut { worker } => {
            tracing::warn!(%tenant, %worker, "a job went over its time; the worker may hang");
        }
    }
}
