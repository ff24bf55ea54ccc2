//! Pops of queues: a pop is a lease, durable before it is answered.

use std::collections::BTreeSet;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use coordinator::{Command, Grant, LeaseRequest, Renewal};
use model::{LeaseId, Offer, QueueName, Timestamp, WorkerId};
use protocol::plan::PLAN_STEP;
use protocol::resp::reply::{Reply, write_bulk, write_null, write_null_array};
use protocol::resp::request::Request;

use super::answers::popped_job;
use super::answers::{PROCESSING, SCHEDULED, queue_in, queues_of};
use super::client::Binding;
use super::connection::{Connection, Event};
use super::dispatch::Invocation;
use super::listener::Shapes;
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
        let mut rest = run;
        while let [first, ..] = rest {
            let n_equal = rest.iter().take_while(|one| one.arguments == first.arguments).count();
            let (equal, after) = rest.split_at(n_equal);
            self.answer_equal_pops(equal).await?;
            rest = after;
        }
        Ok(())
    }

    async fn answer_equal_pops(&mut self, equal: &[Invocation]) -> Result<(), Gone> {
        if let Some(reply) = self.refuse_role(&equal[0]) {
            for _ in equal {
                self.reply(&reply);
            }
            return Ok(());
        }
        let pop = match read_pop(&equal[0], self.is_single_queue_worker()) {
            Ok(pop) => pop,
            Err(text) => {
                for _ in equal {
                    self.reply(&Reply::error(format!("ERR {text}")));
                }
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
        let mut n_left = u32::try_from(equal.len()).unwrap_or(POP_COUNT_MAX);
        while n_left > 0 {
            let taken = match self.take(&pop, n_left.min(POP_COUNT_MAX)).await? {
                Ok(taken) => taken,
                Err(reply) => {
                    (0..n_left).for_each(|_| self.reply(&reply));
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
    async fn take(&mut self, pop: &Pop, count: u32) -> Result<Result<Vec<Taken>, Reply>, Gone> {
        let now = self.app.clock.now();
        if pop.lists.len() > 1 || pop.wait.is_none() {
            for (idx, list) in pop.lists.iter().enumerate() {
                match self.ask_for(list.clone(), pop.steps_only, count, now).await? {
                    Ok(grants) if grants.is_empty() => {}
                    Ok(grants) => {
                        return Ok(Ok(grants.into_iter().map(|grant| (idx, grant)).collect()));
                    }
                    Err(reply) => return Ok(Err(reply)),
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
                Err(reply) => return Ok(Err(reply)),
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

    /// Asks for leases, and watches the client meanwhile: one that goes takes nothing with it.
    async fn ask_for(
        &mut self,
        queues: BTreeSet<QueueName>,
        steps_only: bool,
        max: u32,
        wait_until: Timestamp,
    ) -> Result<Result<Vec<Grant>, Reply>, Gone> {
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
        let mut asking = pin!(member.handle.request_leases(request));
        let granted = loop {
            tokio::select! {
                biased;
                granted = &mut asking => break granted,
                event = self.next_event() => match event {
                    Event::Input => {}
                    Event::Message(message) => self.tell(&message).await,
                    Event::Over(gone) => return Err(gone),
                },
            }
        };
        if let Ok(grants) = &granted {
            self.note_taken(&member.worker(), grants);
        }
        Ok(granted.map_err(Reply::from))
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

    fn answer_list(&mut self, taken: Result<Vec<Taken>, Reply>) {
        let worker = self.member().worker();
        let reply = match taken {
            Ok(taken) if taken.is_empty() => Reply::Null,
            Ok(taken) => {
                let jobs = taken.iter().map(|(_, grant)| Reply::Bulk(popped_job(grant, &worker)));
                Reply::Array(jobs.collect())
            }
            Err(reply) => reply,
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

fn read_pop(request: &Request, is_single: bool) -> Result<Pop, String> {
    let name = request.upper_name().map(|name| name.as_str().to_owned()).unwrap_or_default();
    let arguments = &request.arguments[1..];
    let arity = || format!("wrong number of arguments for '{}' command", name.to_lowercase());
    let (keys, shape, count, wait) = match (name.as_str(), arguments) {
        ("BRPOP" | "BLPOP", [keys @ .., timeout]) if !keys.is_empty() => {
            (keys, Shape::Pair, 1, Some(read_timeout(timeout)?))
        }
        ("RPOP" | "LPOP", [_]) => (arguments, Shape::Value, 1, None),
        ("RPOP" | "LPOP", [_, count]) => (&arguments[..1], Shape::List, read_count(count)?, None),
        ("BRPOPLPUSH", [_, to, timeout]) | ("BLMOVE", [_, to, _, _, timeout]) => {
            check_target(to)?;
            (&arguments[..1], Shape::Value, 1, Some(read_timeout(timeout)?))
        }
        ("RPOPLPUSH", [_, to]) | ("LMOVE", [_, to, _, _]) => {
            check_target(to)?;
            (&arguments[..1], Shape::Value, 1, None)
        }
        _ => return Err(arity()),
    };
    let mut lists = Vec::with_capacity(keys.len());
    for key in keys {
        let queue = queue_in(key).ok_or("queues and other lists do not go into one pop")?;
        if queue == PROCESSING || queue == SCHEDULED {
            return Err(format!("queue:{queue} shows jobs; nothing can be taken from it"));
        }
        lists.push(queues_of(queue)?);
    }
    let reads_default = queue_in(&keys[0]) == Some(DEFAULT_QUEUE);
    let steps_only = is_single && reads_default;
    Ok(Pop { lists, names: keys.to_vec(), shape, count, wait, steps_only })
}

/// A job that was taken stands in `queue:processing`, whatever the client calls that list.
fn check_target(key: &[u8]) -> Result<(), String> {
    match queue_in(key) {
        Some(queue) if queue.starts_with(PROCESSING) => Ok(()),
        _ => Err("a job that is taken goes to queue:processing".to_owned()),
    }
}

fn read_timeout(text: &[u8]) -> Result<Duration, String> {
    let seconds = std::str::from_utf8(text).ok().and_then(|text| text.parse::<f64>().ok());
    match seconds {
        Some(seconds) if seconds < 0.0 => Err("timeout is negative".to_owned()),
        Some(seconds) => Duration::try_from_secs_f64(seconds)
            .map_err(|_| "timeout is not a float or out of range".to_owned()),
        None => Err("timeout is not a float or out of range".to_owned()),
    }
}

fn read_count(text: &[u8]) -> Result<u32, String> {
    let count = std::str::from_utf8(text).ok().and_then(|text| text.parse::<i64>().ok());
    match count {
        Some(count @ 0..) => Ok(u32::try_from(count).unwrap_or(u32::MAX).min(POP_COUNT_MAX)),
        Some(_) => Err("value is out of range, must be positive".to_owned()),
        None => Err("value is not an integer or out of range".to_owned()),
    }
}
