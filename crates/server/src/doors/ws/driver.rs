//! Does what a link asks for: questions to the coordinator, to the table of sessions and to those
//! who know credentials. However the connection ends, what the link claimed is released.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use coordinator::Question;
use foldhash::fast::RandomState;
use futures_util::StreamExt;
use futures_util::future::AbortHandle;
use futures_util::stream::FuturesUnordered;
use model::{TenantId, Timestamp};
use protocol::session::server_session::SessionAccept;
use shard::sessions::{
    Carried, ClaimError, Claimed, LinkId, LinkMessage, LinkWord, SessionClaim, SessionRecord,
};
use shard::worker_link::{
    LinkAsk, LinkOptions, Refusal, RequestId, SessionAsk, SessionSeat, Unanswered, WorkerLink,
};
use tokio::sync::oneshot;
use tokio::time::Instant;
use uuid::Uuid;

use super::handshake;
use crate::app::App;
use crate::handle::{AskError, LinkAnswer, ShardHandle};
use crate::links::Told;
use crate::metrics::WsMetrics;
use crate::resources::{ReadFailure, Wanted};

/// Parts of resources that one worker is asked for at the same time.
const READS_MAX: usize = 64;

/// How soon a connection whose shard was rebuilt asks for its place again.
const ATTACH_EVERY: Duration = Duration::from_millis(500);

/// Something that was waited for has come.
pub(super) enum Done {
    /// The coordinator answered, or will not.
    Answered { request: RequestId, answer: LinkAnswer },
    /// Feedback is stored, or cannot be.
    Stored { request: RequestId },
    /// The shard of a worker's tenant is there.
    Shard {
        attempt: u64,
        tenant: TenantId,
        claim: Box<SessionClaim>,
        found: Result<ShardHandle, AskError>,
    },
    /// What became of the claim; nothing if the shard's memory is gone.
    Claimed(Option<LinkWord>),
    /// A session may begin or go on.
    Accepted { attempt: u64, accepted: Result<(SessionAccept, Box<SessionRecord>), Refusal> },
    /// It is time to ask for the place of a session that is open.
    Attach,
}

/// A claim that is made and not granted yet.
struct Pending {
    /// The attempt to open a session; none where an open session asks for its place again.
    attempt: Option<u64>,
    claim: SessionClaim,
    claimed: oneshot::Receiver<LinkWord>,
    /// Where the connection was told things before.
    former: Option<Told>,
}

/// What is under way for one link.
#[derive(Default)]
pub(super) struct Work {
    futures: FuturesUnordered<std::pin::Pin<Box<dyn Future<Output = Done> + Send>>>,
    pending: Option<Pending>,
}

impl Work {
    /// The next that is done; waits for ever when nothing is under way.
    pub(super) async fn next(&mut self) -> Done {
        let Self { futures, pending } = self;
        tokio::select! {
            biased;
            Some(done) = futures.next(), if !futures.is_empty() => done,
            done = granted(pending) => done,
        }
    }

    pub(super) fn later(&self, work: impl Future<Output = Done> + Send + 'static) {
        self.futures.push(Box::pin(work));
    }
}

/// What became of the claim; waits for ever where none is made.
async fn granted(pending: &mut Option<Pending>) -> Done {
    match pending {
        Some(pending) => Done::Claimed((&mut pending.claimed).await.ok()),
        None => std::future::pending().await,
    }
}

/// The link of one connection, and everything that it is connected to but its socket.
pub(super) struct Driver {
    pub(super) app: Arc<App>,
    pub(super) link: WorkerLink,
    pub(super) work: Work,
    pub(super) mailbox: Option<Told>,
    /// The peer has just proved who it is.
    pub(super) is_trusted: bool,
    pub(super) is_ping_due: bool,
    /// This server does not own the worker's tenant any more.
    pub(super) is_lost: bool,
    pub(super) id: LinkId,
    pub(super) tenant: Option<TenantId>,
    pub(super) handle: Option<ShardHandle>,
    pub(super) metrics: Option<Arc<WsMetrics>>,
    /// The session that is open, or was last.
    pub(super) record: Option<Box<SessionRecord>>,
    /// The attempt whose claim is to be made as soon as its shard is there.
    claiming: Option<u64>,
    stops: HashMap<RequestId, AbortHandle, RandomState>,
    pub(super) reads: BTreeMap<u64, oneshot::Sender<Result<Bytes, ReadFailure>>>,
}

impl Driver {
    pub(super) fn new(app: Arc<App>) -> Self {
        let seed = Uuid::new_v4().as_u64_pair().0;
        let options = LinkOptions { window: app.session_window, seed };
        Self {
            link: WorkerLink::new(app.clock.now(), options),
            id: LinkId(app.last_link.fetch_add(1, Ordering::Relaxed)),
            app,
            work: Work::default(),
            mailbox: None,
            is_trusted: false,
            is_ping_due: false,
            is_lost: false,
            tenant: None,
            handle: None,
            metrics: None,
            record: None,
            claiming: None,
            stops: HashMap::default(),
            reads: BTreeMap::new(),
        }
    }

    pub(super) fn now(&self) -> Timestamp {
        self.app.clock.now()
    }

    pub(super) fn next_due(&self) -> Instant {
        self.app.clock.instant_of(self.link.next_deadline())
    }

    /// Does what the link asks for, and passes on what it observed.
    pub(super) fn act(&mut self) {
        self.link.act(self.now());
        self.perform();
    }

    fn perform(&mut self) {
        loop {
            while let Some(event) = self.link.poll_event() {
                self.observe(event);
            }
            match self.link.poll_ask() {
                Some(LinkAsk::Ask { request, question }) => self.ask(request, question),
                Some(LinkAsk::Withdraw { request }) => {
                    if let Some(stop) = self.stops.remove(&request) {
                        stop.abort();
                    }
                }
                Some(LinkAsk::Tell(command)) => {
                    if let Some(handle) = &self.handle {
                        handle.tell(command);
                    }
                }
                Some(LinkAsk::Session(ask)) => self.ask_session(ask),
                None => return,
            }
        }
    }

    fn ask(&mut self, request: RequestId, question: Question) {
        let Some(handle) = self.handle.clone() else {
            return self.link.on_unanswered(self.now(), request, Unanswered::Stopping);
        };
        // The answer may take so long that it is withdrawn when it is no longer wanted.
        let is_patient = matches!(question, Question::RequestLeases { .. } | Question::Next { .. });
        let stop = is_patient.then(AbortHandle::new_pair).map(|(stop, registration)| {
            self.stops.insert(request, stop);
            registration
        });
        self.work.later(async move {
            Done::Answered { request, answer: handle.ask_for_link(question, stop).await }
        });
    }

    fn ask_session(&mut self, ask: SessionAsk) {
        match ask {
            SessionAsk::Authenticate { attempt, authenticate } => {
                let applicant = handshake::authenticate(&self.app, *authenticate);
                self.is_trusted |= applicant.is_ok();
                self.link.on_authenticated(self.now(), attempt, applicant);
            }
            SessionAsk::Claim { attempt, tenant, claim } => {
                self.find_shard(attempt, Ok((tenant, claim)));
            }
            SessionAsk::Resume { attempt, tenant, instance_id, resume } => {
                let checked = handshake::check_resume(&self.app, &tenant, &instance_id, &resume);
                self.find_shard(attempt, checked);
            }
            SessionAsk::Accept { attempt, opening } => {
                let Some((tenant, handle)) = self.tenant.clone().zip(self.handle.clone()) else {
                    return;
                };
                let own = (handle, self.id);
                let accepting = handshake::accept(Arc::clone(&self.app), tenant, own, opening);
                self.work
                    .later(async move { Done::Accepted { attempt, accepted: accepting.await } });
            }
            SessionAsk::End { session_id } => {
                if let Some(handle) = &self.handle {
                    handle.tell_link(self.id, LinkMessage::End { session_id });
                }
            }
            SessionAsk::Park { carried } => self.park(*carried),
        }
    }

    fn find_shard(&mut self, attempt: u64, checked: Result<(TenantId, SessionClaim), Refusal>) {
        match checked {
            Ok((tenant, claim)) => {
                self.claiming = Some(attempt);
                let app = Arc::clone(&self.app);
                self.work.later(async move {
                    let found = app.directory.of(&tenant).await;
                    Done::Shard { attempt, tenant, claim: Box::new(claim), found }
                });
            }
            Err(refusal) => self.link.on_refused(self.now(), attempt, refusal),
        }
    }

    /// Asks the shard for the place of a worker, for an attempt to open a session or for the
    /// session that is open.
    fn claim(&mut self, now: Timestamp, attempt: Option<u64>, claim: SessionClaim) {
        let Some(handle) = &self.handle else { return };
        match (handle.claim(self.id, claim.clone()), attempt) {
            (Ok((claimed, told)), _) => {
                let former = self.mailbox.replace(told);
                self.work.pending = Some(Pending { attempt, claim, claimed, former });
            }
            (Err(error), Some(attempt)) => {
                self.link.on_refused(now, attempt, handshake::trouble(&error.to_string()));
            }
            (Err(_), None) => self.attach_later(),
        }
    }

    fn on_claimed(&mut self, now: Timestamp, word: Option<LinkWord>) {
        let Some(Pending { attempt, claim, former, .. }) = self.work.pending.take() else { return };
        match (word, attempt) {
            (Some(LinkWord::Claimed(claimed)), Some(attempt)) => {
                self.on_granted(now, attempt, &claim, *claimed);
            }
            // The session goes on with the windows that it has.
            (Some(LinkWord::Claimed(_)), None) => {}
            (Some(LinkWord::NotClaimed(error)), Some(attempt)) => {
                self.mailbox = former;
                self.on_not_claimed(now, attempt, claim, error);
            }
            // Another connection was faster: it speaks for the worker.
            (Some(_), None) => self.on_superseded(),
            (_, Some(attempt)) => {
                self.mailbox = former;
                let refusal = handshake::trouble(&AskError::Unavailable.to_string());
                self.link.on_refused(now, attempt, refusal);
            }
            (None, None) => self.attach_later(),
        }
    }

    fn on_granted(&mut self, now: Timestamp, attempt: u64, claim: &SessionClaim, claimed: Claimed) {
        let Some(handle) = &self.handle else { return };
        let record = claimed.record.as_ref().filter(|_| claim.resumes.is_some());
        if let Err(refusal) = handshake::check_credential(&self.app, record) {
            return self.link.on_refused(now, attempt, refusal);
        }
        let session_id = Uuid::new_v4().to_string();
        let seat = SessionSeat { shard: handle.shard(), session_id };
        self.link.on_claimed(now, attempt, claimed, seat);
    }

    fn on_not_claimed(
        &mut self,
        now: Timestamp,
        attempt: u64,
        claim: SessionClaim,
        error: ClaimError,
    ) {
        match error {
            ClaimError::OtherCredential(holder)
                if claim.revoked.is_none() && !self.app.auth.is_live(&holder, now) =>
            {
                self.claim(now, Some(attempt), SessionClaim { revoked: Some(holder), ..claim });
            }
            error => self.link.on_refused(now, attempt, handshake::not_claimed(error)),
        }
    }

    /// Gives a worker up: whatever was claimed for it, granted or not, and what it carried.
    fn park(&mut self, carried: Carried) {
        self.claiming = None;
        self.mailbox = None;
        let granted = self.work.pending.take().and_then(|mut pending| {
            // From here on nothing more can be granted to this connection.
            pending.claimed.close();
            pending.claimed.try_recv().ok()
        });
        let carried = match granted {
            Some(LinkWord::Claimed(claimed)) if carried.is_nothing() => claimed.carried,
            _ => carried,
        };
        if let Some(handle) = &self.handle {
            handle.tell_link(self.id, LinkMessage::Park(Box::new(carried)));
        }
    }

    pub(super) fn on_superseded(&mut self) {
        self.mailbox = None;
        self.link.on_superseded();
    }

    /// The shard was rebuilt and knows nothing of this connection.
    pub(super) fn on_detached(&mut self) {
        self.mailbox = None;
        // A claim that is under way hears of it by itself.
        if self.work.pending.is_none() && self.link.worker().is_some() {
            self.attach_later();
        }
    }

    /// Asks for the place of the open session in the shard that was rebuilt. It never makes the
    /// directory claim a shard: that would take the tenant back from a server that it moved to.
    fn attach(&mut self, now: Timestamp, claim: SessionClaim) {
        let found = self.tenant.as_ref().and_then(|tenant| self.app.directory.find(tenant));
        match found {
            Some(handle) => {
                self.handle = Some(handle);
                self.claim(now, None, claim);
            }
            None => self.is_lost = true,
        }
    }

    fn attach_later(&self) {
        self.work.later(async {
            tokio::time::sleep(ATTACH_EVERY).await;
            Done::Attach
        });
    }

    pub(super) fn on_done(&mut self, now: Timestamp, done: Done) {
        match done {
            Done::Answered { request, answer } => {
                self.stops.remove(&request);
                match answer {
                    Ok(answer) => self.link.on_answer(now, request, answer),
                    Err(why) => self.link.on_unanswered(now, request, why),
                }
            }
            Done::Stored { request } => self.link.on_stored(now, request),
            Done::Shard { attempt, tenant, claim, found } if self.claiming == Some(attempt) => {
                self.claiming = None;
                match found {
                    Ok(handle) => {
                        self.handle = Some(handle);
                        self.metrics = Some(self.app.metrics.ws(&tenant));
                        self.tenant = Some(tenant);
                        self.claim(now, Some(attempt), *claim);
                    }
                    Err(error) => {
                        let refusal = handshake::trouble(&error.to_string());
                        self.link.on_refused(now, attempt, refusal);
                    }
                }
            }
            // The worker began anew meanwhile.
            Done::Shard { .. } => {}
            Done::Claimed(word) => self.on_claimed(now, word),
            Done::Accepted { attempt, accepted } => {
                self.is_trusted |= accepted.is_ok();
                match accepted {
                    Ok((accept, record)) => {
                        self.record = Some(record);
                        self.link.on_accepted(now, attempt, accept);
                    }
                    Err(refusal) => self.link.on_refused(now, attempt, refusal),
                }
            }
            Done::Attach => {
                let is_free = self.work.pending.is_none() && self.mailbox.is_none();
                if let Some(claim) = self.link.attach_claim().filter(|_| is_free) {
                    self.attach(now, claim);
                }
            }
        }
    }

    /// Asks for a part of a resource. Where the session has no room for it, it is dropped, and
    /// asked for again.
    pub(super) fn read(&mut self, now: Timestamp, wanted: Wanted) {
        let Wanted { resource_id, offset, length, reply } = wanted;
        self.reads.retain(|_, reply| !reply.is_closed());
        if self.reads.len() < READS_MAX
            && let Some(number) = self.link.read(now, resource_id, (offset, length))
        {
            self.reads.insert(number, reply);
        }
    }

    pub(super) fn note_latency(&self, took: Duration) {
        if let (Some(metrics), true) = (&self.metrics, self.link.worker().is_some()) {
            metrics.answered_after(took);
        }
    }

    pub(super) fn count_bytes(&self, bytes_in: &mut u64, bytes_out: &mut u64) {
        if let (Some(metrics), true) = (&self.metrics, self.link.worker().is_some()) {
            metrics.count_bytes(bytes_in, bytes_out);
        }
    }

    /// Finishes what delivered frames have begun.
    pub(super) async fn settle(&mut self) {
        self.perform();
        while !self.link.is_settled() {
            let due = self.app.clock.instant_of(self.link.next_deadline());
            let done = tokio::time::timeout_at(due, self.work.next()).await;
            let now = self.now();
            match done {
                Ok(done) => self.on_done(now, done),
                Err(_) => self.link.tick(now),
            }
            self.perform();
        }
    }

    /// The connection has ended: its session waits for the next one.
    pub(super) fn finish(&mut self, reason: &str) {
        if let (Some(tenant), Some(worker)) = (&self.tenant, self.link.worker()) {
            tracing::info!(%tenant, %worker, reason, "worker disconnected");
        }
        self.link.close();
        self.perform();
        // Also where the link had nothing to park: no claim outlives its connection.
        self.park(Carried::default());
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        self.finish("the connection was dropped");
    }
}
