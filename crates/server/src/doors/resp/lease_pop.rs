//! Pops of queues: a pop is a lease, durable before it is answered.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use coordinator::{Command, Grant, LeaseRequest, Renewal};
use model::{LeaseId, Offer, QueueName, Timestamp, WorkerId};
use protocol::plan::PLAN_STEP;
use protocol::resp::reply::{Reply, write_bulk, write_null, write_null_array};

use super::answers::{Answered, PROCESSING, RespError, SCHEDULED, popped_job, queue_in, queues_of};
use super::client::Binding;
use super::connection::Connection;
use super::dispatch::Invocation;
use super::jobs::arity;
use super::listener::Shapes;
use super::queues::number;
use super::wire::Gone;
use crate::plans::job::{DEFAULT_QUEUE, job_id_in, retries_of};
use crate::resp_workers::{HeldJob, RespWorker};
use crate::resp_workers::{type_name, unregistered};

/// A connection that works in no worker's name renews what it took while it is open.
pub(super) const RENEW_EVERY_LOOKS: u64 = 30;
/// Limit: leases of one connection that are remembered for its end.
const TAKEN_MAX: usize = 4_096;
/// Jobs that one pop may take.
const POP_COUNT_MAX: u32 = 1_000;
/// A wait for ever is a chain of waits.
const WAIT_PIECE: Duration = Duration::from_mins(10);
/// How much later than its timeout a job ends here: the worker's own word takes some time.
const TIMEOUT_GRACE: Duration = Duration::from_secs(2);

/// How the answer to a pop looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    /// `[key, value]`.
    Pair,
    /// The value.
    Value,
    /// A list of values.
    List,
}

/// One pop, read.
struct Pop {
    /// The lists, in the order in which they are looked at.
    lists: Vec<BTreeSet<QueueName>>,
    names: Vec<bytes::Bytes>,
    shape: Shape,
    count: u32,
    /// `None` does not wait; a zero waits for ever.
    wait: Option<Duration>,
    /// Whether only single commands can be taken.
    steps_only: bool,
}

/// A job that was taken, and the place of its list among those that were named.
type Taken = (usize, Grant);

impl Connection {
    /// Equal pops in a row are one request for several leases.
    pub(super) async fn answer_pops(&mut self, run: &[Invocation]) -> Result<(), Gone> {
        for equal in run.chunk_by(|a, b| a.arguments == b.arguments) {
            self.answer_equal_pops(equal).await?;
        }
        Ok(())
    }

    async fn answer_equal_pops(&mut self, equal: &[Invocation]) -> Result<(), Gone> {
        let is_single = self.is_single_queue_worker();
        let read = self.allow(&equal[0]).and_then(|()| read_pop(&equal[0], is_single));
        let pop = match read {
            Ok(pop) => pop,
            Err(error) => {
                self.reply_each(equal.len(), &error);
                return Ok(());
            }
        };
        self.return_unproven();
        if pop.shape == Shape::List {
            for _ in equal {
                let taken = self.take(&pop, pop.count).await?;
                self.answer_list(taken);
                self.wire.flush_if_much().await?;
            }
            return Ok(());
        }
        let mut n_left = equal.len();
        while n_left > 0 {
            let count = u32::try_from(n_left).unwrap_or(POP_COUNT_MAX).min(POP_COUNT_MAX);
            let taken = match self.take(&pop, count).await? {
                Ok(taken) => taken,
                Err(error) => {
                    self.reply_each(n_left, &error);
                    return Ok(());
                }
            };
            if taken.is_empty() {
                self.answer_nothing(pop.shape);
                n_left -= 1;
            }
            for (list, grant) in taken {
                self.answer_one(&pop, list, &grant);
                self.wire.flush_if_much().await?;
                n_left -= 1;
            }
        }
        Ok(())
    }

    /// Takes up to so many jobs; the first named list goes first.
    async fn take(&mut self, pop: &Pop, count: u32) -> Result<Answered<Vec<Taken>>, Gone> {
        let now = self.app.clock.now();
        if pop.lists.len() > 1 || pop.wait.is_none() {
            for (idx, list) in pop.lists.iter().enumerate() {
                match self.ask_for(list.clone(), pop.steps_only, count, now).await? {
                    Ok(grants) if grants.is_empty() => {}
                    taken => {
                        let place = |grants: Vec<Grant>| {
                            grants.into_iter().map(|grant| (idx, grant)).collect()
                        };
                        return Ok(taken.map(place));
                    }
                }
            }
        }
        let Some(wait) = pop.wait else { return Ok(Ok(Vec::new())) };
        let until = if wait.is_zero() { Timestamp::MAX } else { now.after(wait) };
        let all: BTreeSet<QueueName> = pop.lists.iter().flatten().cloned().collect();
        // What was answered so far must not wait with this one.
        self.wire.flush().await?;
        loop {
            // A worker that has left must not come back by a pop that is still under way.
            if self.has_left() {
                return Ok(Ok(Vec::new()));
            }
            let piece = until.min(self.app.clock.now().after(WAIT_PIECE));
            let grants = match self.ask_for(all.clone(), pop.steps_only, count, piece).await? {
                Ok(grants) => grants,
                Err(error) => return Ok(Err(error)),
            };
            if !grants.is_empty() || self.app.clock.now() >= until {
                let place = |grant: Grant| {
                    let queue = &grant.spec.demand.queue;
                    let idx = pop.lists.iter().position(|list| list.contains(queue));
                    (idx.unwrap_or(0), grant)
                };
                return Ok(Ok(grants.into_iter().map(place).collect()));
            }
        }
    }

    /// Asks for leases; a client that goes meanwhile takes nothing with it.
    async fn ask_for(
        &mut self,
        queues: BTreeSet<QueueName>,
        steps_only: bool,
        max: u32,
        wait_until: Timestamp,
    ) -> Result<Answered<Vec<Grant>>, Gone> {
        let member = self.member().clone();
        let worker = member.worker();
        let (offer, slots) = self.offer(&worker, queues, steps_only);
        let request = LeaseRequest {
            worker,
            offer,
            max,
            slots,
            wait_until,
            confirm_within: None,
            timeout_grace: TIMEOUT_GRACE,
            is_loss_noticed: true,
        };
        let granted = self.while_connected(member.handle.request_leases(request)).await?;
        if let Ok(grants) = &granted {
            self.note_taken(&member.worker(), grants);
        }
        Ok(granted.map_err(RespError::from))
    }

    fn offer(
        &self,
        worker: &WorkerId,
        queues: BTreeSet<QueueName>,
        steps_only: bool,
    ) -> (Arc<Offer>, Option<u32>) {
        let look = |known: &mut RespWorker| {
            let abilities = &mut known.abilities;
            if abilities.offer.types.is_none() {
                *abilities = unregistered(worker);
            }
            (abilities.offer.clone(), abilities.slots)
        };
        let member = self.member();
        let (mut offer, slots) = match member.binding {
            // A pop that crossed its worker's leave does not bring the worker back.
            Binding::Registered(_) => member.workers().known(worker, look).unwrap_or_else(|| {
                let abilities = unregistered(worker);
                (abilities.offer, abilities.slots)
            }),
            Binding::None | Binding::Credential(_) | Binding::Single(_) => {
                member.with_worker(worker, look)
            }
        };
        offer.queues = Some(queues);
        if steps_only {
            offer.types = Some([type_name(PLAN_STEP)].into());
        }
        (Arc::new(offer), slots)
    }

    /// Whether the worker that this connection registered is gone.
    fn has_left(&self) -> bool {
        let member = self.member();
        matches!(member.binding, Binding::Registered(_))
            && member.workers().known(&member.worker(), |_| ()).is_none()
    }

    /// A worker that has one connection and reads `queue:default` executes single commands alone.
    fn is_single_queue_worker(&self) -> bool {
        matches!(self.member().binding, Binding::Single(_))
    }

    fn note_taken(&mut self, worker: &WorkerId, grants: &[Grant]) {
        let now = self.app.clock.now();
        let member = self.client.member.as_ref().expect("it asked");
        if grants.is_empty() {
            // A worker that has left meanwhile does not come back by the end of its wait.
            member.workers().known(worker, |known| known.last_seen = now);
            return;
        }
        member.with_worker(worker, |member| {
            member.last_seen = now;
            for grant in grants {
                let held = HeldJob {
                    lease: grant.lease,
                    attempt: grant.attempt,
                    retries: retries_of(&grant.spec),
                    outputs: std::collections::BTreeMap::new(),
                };
                member.hold(held, job_id_in(&grant.parameters));
            }
        });
        self.client.unproven.extend(grants.iter().map(|grant| grant.lease));
        self.client.taken.extend(grants.iter().map(|grant| grant.lease));
        for leases in [&mut self.client.unproven, &mut self.client.taken] {
            while leases.len() > TAKEN_MAX {
                leases.pop_first();
            }
        }
    }

    fn answer_one(&mut self, pop: &Pop, list: usize, grant: &Grant) {
        let worker = self.member().worker();
        let job = popped_job(grant, &worker);
        let out = &mut self.wire.output;
        if pop.shape == Shape::Pair && self.app.resp.shapes == Shapes::Redis {
            protocol::resp::reply::write_array_head(out, 2);
            write_bulk(out, &pop.names[list]);
        }
        write_bulk(out, &job);
    }

    fn answer_nothing(&mut self, shape: Shape) {
        let version = self.client.version;
        let out = &mut self.wire.output;
        match (shape, self.app.resp.shapes) {
            (Shape::Pair, Shapes::Redis) => write_null_array(out, version),
            (Shape::Pair | Shape::Value | Shape::List, _) => write_null(out, version),
        }
    }

    fn answer_list(&mut self, taken: Answered<Vec<Taken>>) {
        let worker = self.member().worker();
        let reply = match taken {
            Ok(taken) if taken.is_empty() => Reply::Null,
            Ok(taken) => Reply::array(taken.iter().map(|(_, grant)| popped_job(grant, &worker))),
            Err(error) => error.into(),
        };
        self.reply(&reply);
    }

    // ----- leases whose answer may not have been read

    /// The client spoke of a job: it has read the answer that gave it.
    pub(super) fn prove(&mut self, lease: LeaseId) {
        self.client.unproven.remove(&lease);
    }

    /// The job is done with.
    pub(super) fn forget_taken(&mut self, lease: LeaseId) {
        self.prove(lease);
        self.client.taken.remove(&lease);
    }

    /// A worker with one connection asks for its job right after the pop; one that pops again or
    /// only gives a sign of life never got the answer.
    pub(super) fn return_unproven(&mut self) {
        if !self.is_single_queue_worker() || self.client.unproven.is_empty() {
            return;
        }
        let leases = std::mem::take(&mut self.client.unproven);
        self.client.taken.retain(|lease| !leases.contains(lease));
        let leases = leases.into_iter().collect();
        self.member().handle.tell(Command::ReturnLeases { leases });
    }

    /// The connection is over. Jobs whose answer was never read go back at once.
    pub(super) async fn return_unread(&mut self, gone: Gone) {
        let Some(member) = &self.client.member else { return };
        if self.client.unproven.is_empty() {
            return;
        }
        let handle = member.handle.clone();
        let was_read = self.wire.output.is_empty() && gone == Gone::Closed;
        if was_read && self.wire.was_read().await {
            return;
        }
        let leases = std::mem::take(&mut self.client.unproven).into_iter().collect();
        handle.tell(Command::ReturnLeases { leases });
    }

    /// Whoever works in no worker's name sends no heartbeats: the open connection is the sign.
    pub(super) fn renew_taken(&mut self) {
        let Some(member) = self.client.member.clone() else { return };
        if member.is_bound() || self.client.taken.is_empty() {
            return;
        }
        let leases = Renewal::Listed(self.client.taken.iter().copied().collect());
        let worker = member.worker();
        tokio::spawn(async move {
            // A lease that is over is told when its job is reported.
            let _ = member.handle.heartbeat(worker, leases).await;
        });
    }
}

fn read_pop(request: &Invocation, is_single: bool) -> Answered<Pop> {
    let arguments = &request.arguments[1..];
    let (keys, shape, count, wait) = match (request.command(), arguments) {
        ("brpop" | "blpop", [keys @ .., timeout]) => {
            (keys, Shape::Pair, 1, Some(read_timeout(timeout)?))
        }
        ("rpop" | "lpop", [_]) => (arguments, Shape::Value, 1, None),
        ("rpop" | "lpop", [_, count]) => (&arguments[..1], Shape::List, read_count(count)?, None),
        ("brpoplpush", [_, to, timeout]) => {
            check_target(to)?;
            (&arguments[..1], Shape::Value, 1, Some(read_timeout(timeout)?))
        }
        ("rpoplpush", [_, to]) | ("lmove", [_, to, _, _]) => {
            check_target(to)?;
            (&arguments[..1], Shape::Value, 1, None)
        }
        _ => return Err(arity(request)),
    };
    let mut lists = Vec::with_capacity(keys.len());
    for key in keys {
        let text = "ERR queues and other lists do not go into one pop";
        let queue = queue_in(key).ok_or(RespError::new(text))?;
        if queue == PROCESSING || queue == SCHEDULED {
            return Err(format!("queue:{queue} shows jobs; nothing can be taken from it").into());
        }
        lists.push(queues_of(queue)?);
    }
    let reads_default = queue_in(&keys[0]) == Some(DEFAULT_QUEUE);
    let steps_only = is_single && reads_default;
    Ok(Pop { lists, names: keys.to_vec(), shape, count, wait, steps_only })
}

/// A job that was taken stands in `queue:processing`, whatever the client calls that list.
fn check_target(key: &[u8]) -> Answered<()> {
    match queue_in(key) {
        Some(queue) if queue.starts_with(PROCESSING) => Ok(()),
        _ => Err(RespError::new("ERR a job that is taken goes to queue:processing")),
    }
}

fn read_timeout(text: &[u8]) -> Answered<Duration> {
    let seconds = std::str::from_utf8(text).ok().and_then(|text| text.parse::<f64>().ok());
    if seconds.is_some_and(|seconds| seconds < 0.0) {
        return Err(RespError::new("ERR timeout is negative"));
    }
    let timeout = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    timeout.ok_or(RespError::new("ERR timeout is not a float or out of range"))
}

fn read_count(text: &[u8]) -> Answered<u32> {
    match number(text)? {
        count @ 0.. => Ok(u32::try_from(count).unwrap_or(u32::MAX).min(POP_COUNT_MAX)),
        _ => Err(RespError::new("ERR value is out of range, must be positive")),
    }
}
