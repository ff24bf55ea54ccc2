//! The turn loop of one tenant, without I/O.
//!
//! Messages are handled in memory and collected into a turn. The driver takes a closed turn from
//! [`Shard::poll_commit`], commits it, and says so with [`Shard::on_committed`]. Only then do the
//! turn's effects come out of [`Shard::poll_effect`], in the order of the turns. Turns are
//! pipelined: while one becomes durable, the next is collected. When a commit is lost or fenced,
//! the driver drops the whole value; nothing that depended on the commit has left it.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;

use coordinator::{
    Answer, Command, Coordinator, Effect as Decided, LeaseRequest, LoadKey, LoadTicket, Moment,
    Preparation, PrepareTicket, Question, Step, TaskRecord,
};
use model::{Timestamp, WorkerId};

use crate::documents::TenantDocuments;
use crate::projection::{LogLine, Projections, Publication, WorkerNotice};
use crate::sessions::{
    Claimed, LinkId, LinkMessage, LinkWord, MemberMessage, Notice, Revoked, SessionEffect,
    SessionTable,
};
use crate::turn::{ClaimedShard, Document, DocumentKind, Restored, Turn};

/// Limit: messages that one turn takes up at most.
pub const MESSAGES_PER_TURN_MAX: usize = 1_024;
/// Limit: turns that are not durable yet; beyond this, messages wait outside.
const TURNS_IN_FLIGHT_MAX: usize = 256;

/// Everything that a tenant is.
#[derive(Debug)]
pub struct Shard<T: Tap = ()> {
    claim: ClaimedShard,
    limits: Limits,
    coordinator: Coordinator,
    sessions: SessionTable,
    documents: TenantDocuments,
    projections: Projections,
    tap: T,
    open: OpenTurn,
    last_turn: u64,
    /// Turns on their way to the store, oldest first.
    in_flight: VecDeque<PendingTurn>,
    /// What may leave: everything that it says is durable.
    ready: VecDeque<Effect>,
}

/// How much a shard takes up at a time.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// See [`MESSAGES_PER_TURN_MAX`].
    pub messages_per_turn: usize,
    /// See [`TURNS_IN_FLIGHT_MAX`].
    pub turns_in_flight: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { messages_per_turn: MESSAGES_PER_TURN_MAX, turns_in_flight: TURNS_IN_FLIGHT_MAX }
    }
}

/// What the driver carries out.
#[derive(Debug)]
pub enum Effect {
    /// What the coordinator decided. An answer that finds nobody comes back by
    /// [`Shard::on_undelivered`], a load by [`Shard::on_loaded`], and a preparation by
    /// [`Shard::on_prepared`].
    Decided(Decided),
    /// Tell everyone outside who follows what becomes true.
    Publish(Box<Publication>),
    /// Tell a connection. If a claim finds nobody, what it was granted is to be parked.
    ToLink {
        /// Which connection.
        link: LinkId,
        /// What it is told.
        word: LinkWord,
    },
    /// Tell whoever asked about documents.
    Tell(Tell),
}

/// An answer together with the way to its asker, which the driver brought along.
pub struct Tell(Box<dyn FnOnce() + Send>);

impl Tell {
    /// An answer that is told by calling this.
    pub fn new(tell: impl FnOnce() + Send + 'static) -> Self {
        Self(Box::new(tell))
    }

    /// Gives it to the asker.
    pub fn tell(self) {
        (self.0)();
    }
}

impl fmt::Debug for Tell {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Tell")
    }
}

/// Sees every command and the step that came of it; `()` sees nothing.
pub trait Tap {
    /// The coordinator is about to handle a command, or to look at its deadlines (`None`).
    fn before(&mut self, _at: Moment, _command: Option<&Command>) {}

    /// The coordinator took this step.
    fn after(&mut self, _coordinator: &Coordinator, _step: &Step) {}
}

impl Tap for () {}

/// The turn that is being collected.
#[derive(Debug, Default)]
struct OpenTurn {
    messages: usize,
    step: Step,
    documents: Vec<Document>,
    words: Vec<(LinkId, LinkWord)>,
    tells: Vec<Tell>,
    publication: Publication,
}

impl OpenTurn {
    /// Whether nothing came of its messages.
    fn is_empty(&self) -> bool {
        self.step.is_empty()
            && self.documents.is_empty()
            && self.words.is_empty()
            && self.tells.is_empty()
            && self.publication.members.is_empty()
    }
}

/// A turn that waits for its commit, with what leaves after it.
#[derive(Debug)]
struct PendingTurn {
    number: u64,
    effects: Vec<Decided>,
    words: Vec<(LinkId, LinkWord)>,
    tells: Vec<Tell>,
    publication: Publication,
}

impl<T: Tap> Shard<T> {
    /// A shard that knows what the store knows.
    pub fn restore(
        claim: ClaimedShard,
        restored: Restored,
        limits: Limits,
        (at, tap): (Moment, T),
    ) -> Self {
        let projections = Projections::restored(&restored);
        let Restored { tasks, next_number, runs, next_run, settings, documents } = restored;
        let mut coordinator = Coordinator::restore(claim.shard, next_number, tasks, at);
        coordinator.restore_runs(next_run, runs, at);
        coordinator.restore_settings(settings);
        let mut shard = Self {
            claim,
            limits,
            coordinator,
            sessions: SessionTable::default(),
            documents: TenantDocuments::default(),
            projections,
            tap,
            open: OpenTurn::default(),
            last_turn: 0,
            in_flight: VecDeque::new(),
            ready: VecDeque::new(),
        };
        for document in documents {
            shard.take_back(at, document);
        }
        shard.take_session_effects();
        shard.documents.take_rows(&mut shard.open.documents);
        shard
    }

    /// A document comes back. A session that cannot be read is of no use to anyone, and goes.
    fn take_back(&mut self, at: Moment, document: Document) {
        let Document { kind, key, json, .. } = document;
        let json = json.unwrap_or_default();
        let is_read = match kind {
            DocumentKind::Session => serde_json::from_str(&json)
                .map(|record| self.sessions.restore(at.now, record))
                .is_ok(),
            DocumentKind::Member => {
                let read = key.parse().ok().zip(serde_json::from_str(&json).ok());
                read.map(|(worker, own)| self.sessions.restore_member(at.now, worker, own))
                    .is_some()
            }
            kind => return self.documents.restore(kind, key, &json),
        };
        if !is_read {
            self.open.documents.push(Document { kind, key, json: None, body: None });
        }
    }

    /// The right to commit under which this shard acts.
    pub fn claim(&self) -> ClaimedShard {
        self.claim
    }

    /// The shard's owner raised its epoch, while no turn was under way.
    pub fn renew(&mut self, claim: ClaimedShard) {
        assert!(self.in_flight.is_empty(), "a turn under way would be fenced");
        assert!(claim.shard == self.claim.shard, "a claim of another shard");
        assert!(claim.epoch > self.claim.epoch, "an epoch only rises");
        self.claim = claim;
    }

    /// The rules behind the shard, for gauges and checks.
    pub fn coordinator(&self) -> &Coordinator {
        &self.coordinator
    }

    /// The same for tests, which may set a smaller world.
    pub fn coordinator_mut(&mut self) -> &mut Coordinator {
        &mut self.coordinator
    }

    /// The workers that are connected, and who was.
    pub fn sessions(&self) -> &SessionTable {
        &self.sessions
    }

    /// What the tenant keeps as documents.
    pub fn documents(&self) -> &TenantDocuments {
        &self.documents
    }

    /// What watches the steps.
    pub fn tap(&mut self) -> &mut T {
        &mut self.tap
    }

    /// Whether anyone listens to updates of tasks; if not, nobody puts them together.
    pub fn set_has_listeners(&mut self, has_listeners: bool) {
        self.projections.has_listeners = has_listeners;
    }

    /// Whether the open turn takes up another message.
    pub fn wants_messages(&self) -> bool {
        self.open.messages < self.limits.messages_per_turn
            && self.in_flight.len() < self.limits.turns_in_flight
    }

    /// The moment at which [`Shard::tick`] has something to do.
    pub fn next_deadline(&self) -> Option<Timestamp> {
        let deadlines = [self.coordinator.next_deadline(), self.sessions.next_deadline()];
        deadlines.into_iter().flatten().min()
    }

    /// The number of the turn after whose commit everything that is true in memory now is durable.
    pub fn latest_turn(&self) -> u64 {
        self.last_turn + u64::from(!self.open.is_empty())
    }

    /// Handles a command as part of the open turn.
    pub fn on_message(&mut self, at: Moment, command: Command) {
        // A flood of messages must not keep what is due from happening.
        if self.open.messages == 0 && self.next_deadline().is_some_and(|due| due <= at.now) {
            self.tick(at);
        }
        self.open.messages += 1;
        self.handle(at, command);
    }

    /// The store read what a load asked for, or could not (`None`).
    pub fn on_loaded(
        &mut self,
        at: Moment,
        load: LoadTicket,
        found: Option<Vec<(LoadKey, TaskRecord)>>,
    ) {
        let command = match found {
            Some(found) => Command::Loaded { load, found },
            None => Command::LoadFailed { load },
        };
        self.handle(at, command);
    }

    /// The run of a schedule's moment, or why there is none.
    pub fn on_prepared(&mut self, at: Moment, prepare: PrepareTicket, preparation: Preparation) {
        self.handle(at, Command::Prepared { prepare, preparation });
    }

    /// An answer found nobody. A grant that nobody hears of would block its task until the lease
    /// ends, so it is taken back; any other answer may be lost: the asker asks again.
    pub fn on_undelivered(&mut self, at: Moment, answer: &Answer) {
        let Answer::Leases(grants) = answer else { return };
        if !grants.is_empty() {
            let leases = grants.iter().map(|grant| grant.lease).collect();
            self.handle(at, Command::ReturnLeases { leases });
        }
    }

    /// A connection says something about the worker that it speaks for, or wants to speak for.
    pub fn on_link(&mut self, at: Moment, link: LinkId, message: LinkMessage) {
        self.open.messages += 1;
        let is_resumed = matches!(message, LinkMessage::Renew);
        if let Some(word) = self.sessions.on_message(at.now, link, message) {
            if let LinkWord::Opened { is_held: true } = word {
                let record = self.sessions.record_of(link);
                let opened = record.map(|record| LogLine::opened(record, is_resumed));
                self.open.publication.log.extend(opened);
            }
            self.open.words.push((link, word));
        }
        self.take_session_effects();
    }

    /// A claim that was granted found nobody: what it carried waits for the next connection.
    pub fn on_unclaimed(&mut self, at: Moment, link: LinkId, claimed: Claimed) {
        self.sessions.put_back(at.now, link, claimed);
        self.take_session_effects();
    }

    /// A worker without a session says who it is, perhaps with a command that tells the coordinator
    /// the same. The command is refused where the worker is.
    pub fn on_member(
        &mut self,
        at: Moment,
        (worker, message): (&WorkerId, MemberMessage),
        command: Option<Command>,
    ) {
        self.open.messages += 1;
        let taken_in = self.sessions.on_member(at.now, worker, message);
        self.take_session_effects();
        let Some(command) = command else { return };
        let Err(refusal) = taken_in else { return self.handle(at, command) };
        if let Command::Ask(ticket, _) = command {
            let answer = Answer::Refused(refusal);
            self.open.step.effects.push(Decided::Answer { ticket, answer });
        }
    }

    /// A credential is no longer good: the sessions that it opened end.
    pub fn on_credential_gone(&mut self, token_id: &str) {
        let gone = |link| (link, LinkWord::Notice(Notice::CredentialGone));
        self.open.words.extend(self.sessions.links_of_credential(token_id).map(gone));
    }

    /// Someone reads or changes documents. What came of it is told when the turn is durable, even
    /// where nothing changed: a refusal may rest on what the same turn decided.
    pub fn on_documents(&mut self, change: impl FnOnce(&mut TenantDocuments) -> Tell) {
        self.open.messages += 1;
        let tell = change(&mut self.documents);
        self.documents.take_rows(&mut self.open.documents);
        self.open.tells.push(tell);
    }

    fn take_session_effects(&mut self) {
        let OpenTurn { documents, words, publication, .. } = &mut self.open;
        let document = |kind, key, json| Document { kind, key, json, body: None };
        let session = |key, json| document(DocumentKind::Session, key, json);
        let member = |key, json| document(DocumentKind::Member, key, json);
        while let Some(effect) = self.sessions.poll_effect() {
            match effect {
                SessionEffect::Claimed { link, claimed } => {
                    words.push((link, LinkWord::Claimed(claimed)));
                }
                SessionEffect::HandOver { link } => words.push((link, LinkWord::HandOver)),
                SessionEffect::Keep(record) => {
                    let json = serde_json::to_string(&record).expect("texts and numbers are JSON");
                    documents.push(session(record.instance_id, Some(json)));
                }
                SessionEffect::Forget { instance_id } => {
                    let ended = LogLine::SessionEnded { instance_id: instance_id.clone() };
                    publication.log.push(ended);
                    documents.push(session(instance_id, None));
                }
                SessionEffect::KeepMember { worker, registration } => {
                    let json = serde_json::to_string(&*registration).expect("texts are JSON");
                    documents.push(member(worker.to_string(), Some(json)));
                    publication.members.push((worker, Some(registration)));
                }
                SessionEffect::ForgetMember { worker, was_registered } => {
                    if was_registered {
                        documents.push(member(worker.to_string(), None));
                    }
                    publication.members.push((worker, None));
                }
            }
        }
    }

    /// Acts on everything that is due.
    pub fn tick(&mut self, at: Moment) {
        self.sessions.tick(at.now);
        self.take_session_effects();
        self.tap.before(at, None);
        let step = self.coordinator.tick(at);
        self.take(at, step);
    }

    fn handle(&mut self, at: Moment, command: Command) {
        self.tap.before(at, Some(&command));
        if let Command::Ask(
            _,
            Question::Heartbeat { worker, .. }
            | Question::RequestLeases { request: LeaseRequest { worker, .. } },
        ) = &command
        {
            self.sessions.hear(at.now, worker);
        }
        self.projections.overhear(&command, at, &mut self.open.publication);
        let step = self.coordinator.handle(at, command);
        self.take(at, step);
    }

    fn take(&mut self, at: Moment, step: Step) {
        self.tap.after(&self.coordinator, &step);
        self.projections.observe(&step, at, &mut self.open.publication);
        let open = &mut self.open.step;
        // Most turns of a quiet shard have one message, whose step needs no copy.
        if open.is_empty() {
            *open = step;
        } else {
            open.append(step);
        }
    }

    /// Closes the open turn; `None` when nothing came of its messages. A turn without facts is
    /// committed too: only so its answers are ordered and fenced.
    pub fn poll_commit(&mut self) -> Option<Turn> {
        self.open.messages = 0;
        if self.open.is_empty() {
            return None;
        }
        let OpenTurn { step, documents, words, tells, mut publication, .. } =
            std::mem::take(&mut self.open);
        self.last_turn += 1;
        let number = self.last_turn;
        let last = self.in_flight.back().map_or(number - 1, |turn| turn.number);
        assert!(last + 1 == number, "turns under way have no gaps");
        let Step { changes, runs, tenant, effects } = step;
        let turn = Turn { claim: self.claim, number, changes, runs, tenant, documents };
        publication.n_facts = turn.n_facts();
        publication.load = self.coordinator.load();
        self.in_flight.push_back(PendingTurn { number, effects, words, tells, publication });
        Some(turn)
    }

    /// A turn is durable, and with it all turns before it: the store keeps them in order. Their
    /// effects may leave.
    pub fn on_committed(&mut self, number: u64) {
        assert!(number <= self.last_turn, "only a turn that was closed becomes durable");
        while self.in_flight.front().is_some_and(|turn| turn.number <= number)
            && let Some(mut turn) = self.in_flight.pop_front()
        {
            let n_effects = turn.effects.len() + turn.words.len() + turn.tells.len();
            let n_ready = self.ready.len();
            let notices = std::mem::take(&mut turn.publication.notices);
            self.ready.push_back(Effect::Publish(Box::new(turn.publication)));
            self.ready.extend(turn.effects.into_iter().map(Effect::Decided));
            let words = turn.words.into_iter();
            self.ready.extend(words.map(|(link, word)| Effect::ToLink { link, word }));
            self.ready.extend(turn.tells.into_iter().map(Effect::Tell));
            assert!(self.ready.len() == n_ready + 1 + n_effects, "no effect of a turn is lost");
            self.tell_workers(notices);
        }
    }

    /// What workers are told goes to the connections that speak for them.
    fn tell_workers(&mut self, notices: Vec<(WorkerId, WorkerNotice)>) {
        let mut revoked: BTreeMap<WorkerId, Vec<Revoked>> = BTreeMap::new();
        let mut told = Vec::new();
        for (worker, notice) in notices {
            match notice {
                WorkerNotice::Revoked(one) => revoked.entry(worker).or_default().push(one),
                WorkerNotice::RunEnded(run) => told.push((worker, Notice::RunEnded(run))),
                WorkerNotice::Rebound(rebind) => told.push((worker, Notice::Rebound(rebind))),
            }
        }
        let revoked = revoked.into_iter().map(|(worker, all)| (worker, Notice::Revoked(all)));
        for (worker, notice) in told.into_iter().chain(revoked) {
            if let Some(link) = self.sessions.link_of(&worker) {
                self.ready.push_back(Effect::ToLink { link, word: LinkWord::Notice(notice) });
            }
        }
    }

    /// The next thing to carry out.
    pub fn poll_effect(&mut self) -> Option<Effect> {
        self.ready.pop_front()
    }
}
