//! Small texts of a story: times, options, what is needed and what is offered.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use coordinator::LeaseRequest;
use model::{
    Demand, IdempotencyMark, NewTask, Offer, PackageRef, Pin, RetryPolicy, TaskSpec, Timestamp,
    WorkerId,
};

/// The moment that a story calls `0s`. Not the beginning of time, so that nothing saturates.
pub(crate) const START: Timestamp = Timestamp::from_millis(1_000_000_000_000);

/// `30s`, `1.5s`, `20ms`, `25h`.
pub(crate) fn duration(text: &str) -> Duration {
    let units = [("ms", 0.001), ("s", 1.0), ("h", 3600.0)];
    let fit = units.iter().find_map(|(unit, seconds)| {
        let number: f64 = text.strip_suffix(unit)?.parse().ok()?;
        Some(Duration::from_secs_f64(number * seconds))
    });
    fit.unwrap_or_else(|| panic!("no duration: {text}"))
}

/// The moment that a story calls `30s`.
pub(crate) fn moment(text: &str) -> Timestamp {
    START.after(duration(text))
}

/// How a story calls a moment.
pub(crate) fn time_text(time: Timestamp) -> String {
    let millis = time.since(START).as_millis();
    let (seconds, rest) = (millis / 1000, millis % 1000);
    match rest {
        0 if seconds >= 7200 && seconds.is_multiple_of(3600) => format!("{}h", seconds / 3600),
        0 => format!("{seconds}s"),
        _ => format!("{}s", format!("{seconds}.{rest:03}").trim_end_matches('0')),
    }
}

/// A stable digest, in place of the door's.
pub(crate) fn digest(text: &str) -> u128 {
    let fold = |hash: u128, byte: u8| {
        (hash ^ u128::from(byte)).wrapping_mul(0x0100_0000_0000_0000_0000_013b)
    };
    text.bytes().fold(0x6c62_272e_07bb_0142_62b8_2175_6295_c58d, fold)
}

/// `a key=k prio=5 after=10s ...`: the name and the task.
pub(crate) fn new_task(text: &str) -> (String, NewTask) {
    let (name, options) = text.split_once(' ').unwrap_or((text, ""));
    let mut task = plain_task();
    let mut spec = plain_spec();
    for option in options.split_whitespace() {
        let (key, value) = option.split_once('=').expect("an option is key=value");
        if key == "behind" {
            continue; // The story knows the names.
        }
        if !set_in_spec(&mut spec, key, value) {
            set_in_task(&mut task, key, value);
        }
    }
    if let Some(mark) = &mut task.idempotency {
        let bits = digest(options) & u128::from(u64::MAX);
        mark.fingerprint = u64::try_from(bits).expect("64 bits");
    }
    task.spec = Arc::new(spec);
    (name.to_owned(), task)
}

pub(crate) fn plain_task() -> NewTask {
    NewTask {
        spec: Arc::new(plain_spec()),
        parameters: Bytes::from_static(b"{}"),
        not_before: None,
        concurrency_key: None,
        idempotency: None,
        run: None,
        after: Vec::new(),
        pin: None,
    }
}

/// One lease of any kind.
pub(crate) fn plain_request(worker: WorkerId, wait_until: Timestamp) -> LeaseRequest {
    LeaseRequest {
        worker,
        offer: Arc::default(),
        max: 1,
        slots: None,
        wait_until,
        confirm_within: None,
        timeout_grace: Duration::ZERO,
        is_loss_noticed: true,
    }
}

pub(crate) fn plain_spec() -> TaskSpec {
    TaskSpec {
        demand: Demand {
            queue: "default".parse().expect("a name"),
            task_type: "noop".parse().expect("a name"),
            tools: BTreeSet::default(),
            tags: BTreeMap::default(),
            package: None,
        },
        priority: 0,
        lease_ttl: model::LEASE_TTL_DEFAULT,
        timeout: None,
        retry: RetryPolicy::default(),
    }
}

fn set_in_spec(spec: &mut TaskSpec, key: &str, value: &str) -> bool {
    match key {
        "prio" => spec.priority = value.parse().expect("a priority"),
        "ttl" => spec.lease_ttl = duration(value),
        "timeout" => spec.timeout = Some(duration(value)),
        "attempts" => spec.retry.max_attempts = value.parse().expect("a number"),
        "backoff" => spec.retry.backoff = duration(value),
        "backoff_max" => spec.retry.backoff_max = duration(value),
        "type" => spec.demand.task_type = value.parse().expect("a name"),
        "queue" => spec.demand.queue = value.parse().expect("a name"),
        "needs" => value.split(',').for_each(|need| add_need(&mut spec.demand, need)),
        _ => return false,
    }
    true
}

fn set_in_task(task: &mut NewTask, key: &str, value: &str) {
    match key {
        "after" => task.not_before = Some(moment(value)),
        "ckey" => task.concurrency_key = Some(value.parse().expect("a key")),
        "pin" | "prefer" => task.pin = Some(Box::new(worker_pin(value, key == "pin"))),
        "stick" | "like" => task.pin = Some(Box::new(key_pin(value, key == "stick"))),
        "key" => {
            let key = value.parse().expect("a key");
            task.idempotency = Some(IdempotencyMark { key, fingerprint: 0 });
        }
        _ => panic!("no such option: {key}"),
    }
}

/// `w1`, or `w1:30s` for one that gives up.
fn worker_pin(text: &str, is_hard: bool) -> Pin {
    let (worker, wait_max) = match text.split_once(':') {
        Some((worker, wait_max)) => (worker, Some(duration(wait_max))),
        None => (text, None),
    };
    let worker = worker.parse().expect("a worker");
    Pin::Worker { worker, is_hard, wait_max, because: "resource r1".to_owned() }
}

/// `k`, or `k:30s` for one that is kept in mind so long.
fn key_pin(text: &str, is_hard: bool) -> Pin {
    let (key, ttl) = text.split_once(':').unwrap_or((text, "1h"));
    Pin::Key { key: key.parse().expect("a key"), is_hard, ttl: duration(ttl) }
}

fn add_need(demand: &mut Demand, need: &str) {
    match need.split_once(':').expect("tool:x, tag:k=v or package:n@v") {
        ("tool", tool) => {
            demand.tools.insert(tool.parse().expect("a name"));
        }
        ("tag", tag) => {
            let (key, value) = tag.split_once('=').expect("tag:k=v");
            demand.tags.insert(key.parse().expect("a name"), value.parse().expect("a value"));
        }
        ("package", package) => demand.package = Some(package_ref(package)),
        (what, _) => panic!("no such need: {what}"),
    }
}

/// `tool:x,tag:k=v types=a,b queues=c`
pub(crate) fn offer(words: &[&str]) -> Offer {
    let mut offer = Offer::default();
    for word in words {
        match word.split_once('=') {
            Some(("types", types)) => offer.types = Some(names(types)),
            Some(("limit", limit)) => {
                let (task_type, limit) = limit.split_once(':').expect("limit=type:n");
                let limit = limit.parse().expect("how many");
                offer.limits.insert(task_type.parse().expect("a type"), limit);
            }
            Some(("queues", queues)) => offer.queues = Some(names(queues)),
            _ => word.split(',').for_each(|what| add_offer(&mut offer, what)),
        }
    }
    offer
}

fn add_offer(offer: &mut Offer, what: &str) {
    match what.split_once(':').expect("tool:x, tag:k=v or package:n@v") {
        ("tool", "any") => offer.all_tools = true,
        ("tool", tool) => {
            offer.tools.insert(tool.parse().expect("a name"));
        }
        ("tag", tag) => {
            let (key, value) = tag.split_once('=').expect("tag:k=v");
            offer.tags.insert(key.parse().expect("a name"), value.parse().expect("a value"));
        }
        ("package", package) => {
            offer.packages.insert(package_ref(package));
        }
        (what, _) => panic!("no such offer: {what}"),
    }
}

fn package_ref(text: &str) -> PackageRef {
    let (name, version) = text.split_once('@').expect("package:n@v");
    PackageRef { name: name.parse().expect("a name"), version: version.parse().expect("a name") }
}

pub(crate) fn names<T: std::str::FromStr + Ord>(text: &str) -> BTreeSet<T> {
    let name = |name: &str| name.parse().unwrap_or_else(|_| panic!("a name: {name}"));
    text.split(',').map(name).collect()
}
