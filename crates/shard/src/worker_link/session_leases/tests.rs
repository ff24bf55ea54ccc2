use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use model::{Demand, ShardId, TaskSpec};
use protocol::session::payload::control::Metrics;

use super::super::convert::Understands;
use super::super::in_flight::RequestId;
use super::calls::Opening;
use super::*;
use crate::sessions::Call;

/// The request of a call of `next`.
const CALL: RequestId = RequestId(u64::MAX);
const NOW: Timestamp = Timestamp::from_millis(1_790_000_000_000);

#[test]
fn a_worker_is_asked_for_as_many_slots_as_are_free() {
    let mut session = session(3);
    let (id, request) = ask(&mut session).expect("all slots are free");
    assert_eq!((request.max, request.slots), (3, Some(3)));
    assert!(ask(&mut session).is_none(), "all are asked for");
    session.answered(id);
    session.take(&grant(1, 1));
    session.take(&grant(2, 1));
    assert_eq!(asked_for(&mut session), 1, "one is free");
    assert!(session.release(lease(1, 1)));
    assert_eq!(asked_for(&mut session), 1, "another is free");
}

#[test]
fn after_a_full_session_less_is_asked_for_and_then_more_again() {
    let mut session = session(100);
    let (id, request) = ask(&mut session).expect("all are free");
    assert_eq!(request.max, 100);
    session.answered(id);
    session.note_delivered(0, false);
    let (id, request) = ask(&mut session).expect("asks");
    assert_eq!(request.max, 1);
    session.answered(id);
    session.note_delivered(1, true);
    assert_eq!(asked_for(&mut session), 2);
}

#[test]
fn a_worker_that_leaves_is_not_asked() {
    let mut session = session(3);
    session.is_leaving = true;
    assert!(ask(&mut session).is_none());
}

#[test]
fn a_lease_is_confirmed_once_and_only_the_newest() {
    let mut session = session(3);
    session.take(&grant(1, 2));
    assert!(!session.confirm(lease(1, 1)), "an older epoch");
    assert!(session.confirmed().is_empty());
    assert!(session.confirm(lease(1, 2)));
    assert!(!session.confirm(lease(1, 2)), "known already");
    assert_eq!(session.confirmed(), [lease(1, 2)]);
    assert!(!session.release(lease(1, 1)));
}

#[test]
fn what_a_worker_never_lists_is_not_kept_alive() {
    let mut session = session(3);
    for number in 1..=3 {
        session.take(&grant(number, 1));
    }
    session.confirm(lease(1, 1));
    session.confirm(lease(2, 1));
    session.note_listed(&[lease(1, 1)]);
    assert_eq!(session.confirmed(), [lease(1, 1), lease(2, 1)], "it may have crossed the dispatch");
    session.note_listed(&[lease(1, 1)]);
    assert_eq!(session.confirmed(), [lease(1, 1)]);
    assert_eq!(session.lease_of(task(3)), Some(lease(3, 1)), "unconfirmed, and not its fault");
}

#[test]
fn what_a_worker_lists_takes_a_slot_even_if_it_was_forgotten_here() {
    let mut session = session(2);
    session.note_listed(&[lease(7, 4)]);
    assert_eq!(session.confirmed(), [lease(7, 4)]);
    assert_eq!(asked_for(&mut session), 1, "one is free");
}

#[test]
fn a_task_that_waits_in_next_needs_no_slot() {
    let mut session = session(1);
    session.take(&grant(1, 1));
    assert!(ask(&mut session).is_none(), "no slot is free");
    let call = call(lease(1, 1), "next-0");
    assert!(matches!(session.calls.open(&call, CALL), Opening::Open));
    assert!(matches!(session.calls.open(&call, CALL), Opening::Known));
    let (question, request) = ask(&mut session).expect("its slot is free");
    assert_eq!((request.max, request.slots), (1, Some(2)));
    session.calls.close(&call);
    assert!(ask(&mut session).is_none(), "it has its slot again");
    assert_eq!(session.withdrawn, [question], "and nobody else may have it");
    session.answered(question);
    assert!(session.release(lease(1, 1)));
    assert_eq!(asked_for(&mut session), 1);
}

#[test]
fn a_request_that_would_be_held_to_too_few_leases_is_made_again() {
    let mut session = session(2);
    session.take(&grant(1, 1));
    let first = ask(&mut session).expect("one is free");
    assert_eq!(first.1.slots, Some(2));
    assert!(matches!(session.calls.open(&call(lease(1, 1), "next-0"), CALL), Opening::Open));
    let second = ask(&mut session).expect("another is free");
    assert_eq!((second.1.max, second.1.slots), (1, Some(3)));
    assert_eq!(session.withdrawn, [first.0]);
    session.answered(first.0);
    let third = ask(&mut session).expect("the first one's is asked for again");
    assert_eq!((third.1.max, third.1.slots), (1, Some(3)));
}

#[test]
fn who_is_done_waits_for_nothing() {
    let mut session = session(1);
    session.take(&grant(1, 1));
    let call = call(lease(1, 1), "next-0");
    assert!(matches!(session.calls.open(&call, CALL), Opening::Open));
    assert_eq!(session.calls.all().len(), 1);
    session.release(lease(1, 1));
    assert!(session.withdrawn == [CALL] && !session.calls.is_open(&call));
}

#[test]
fn limits_of_types_do_not_count_who_waits() {
    let mut session = session(4);
    let offer =
        Offer { limits: [("core.noop".parse().expect("a name"), 1)].into(), ..Offer::default() };
    session.refresh(Registered { offer, ..session.registered.clone() });
    session.take(&grant(1, 1));
    assert!(matches!(session.calls.open(&call(lease(1, 1), "next-0"), CALL), Opening::Open));
    let offer = ask(&mut session).expect("asks").1.offer;
    assert_eq!(offer.limits.values().copied().collect::<Vec<_>>(), [2]);
}

fn asked_for(session: &mut SessionLeases) -> u32 {
    ask(session).expect("asks").1.max
}

/// The next request, with an id that no other request of the session has.
fn ask(session: &mut SessionLeases) -> Option<(RequestId, LeaseRequest)> {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    session.next_request(NOW, || RequestId(NEXT.fetch_add(1, Ordering::Relaxed)))
}

fn call(lease: LeaseId, request: &str) -> Arc<Call> {
    Arc::new(Call {
        lease,
        request: request.into(),
        run_id: "r".into(),
        node_id: "n".into(),
        middleware_id: "m".into(),
        payload: bytes::Bytes::new(),
        until: None,
    })
}

#[test]
fn pressure_drains_and_its_end_needs_some_room() {
    let mut session = session(1);
    let mut say = |mem, disk| {
        let metrics = Metrics { mem_pct: mem, disk_pct: disk, ..Metrics::default() };
        session.pressure_changed(&metrics)
    };
    assert_eq!(say(Some(89.9), Some(94.9)), None);
    assert_eq!(say(Some(90.0), None), Some(true));
    assert_eq!(say(Some(95.0), None), None, "drained already");
    assert_eq!(say(Some(86.0), None), None, "not far enough below");
    assert_eq!(say(Some(84.0), None), Some(false));
    assert_eq!(say(None, Some(95.0)), Some(true));
    assert_eq!(say(None, None), Some(false));
}

#[test]
fn short_leases_make_for_frequent_signs_of_life() {
    let mut session = session(2);
    assert_eq!(session.beat_every, BEAT_EVERY);
    let short = Grant { heartbeat_every: Duration::from_secs(1), ..grant(1, 1) };
    session.take(&short);
    session.take(&grant(2, 1));
    assert_eq!(session.beat_every, Duration::from_secs(1));
    session.take(&Grant { heartbeat_every: Duration::from_millis(1), ..grant(1, 2) });
    assert_eq!(session.beat_every, BEAT_EVERY_MIN);
    session.release(lease(1, 2));
    session.release(lease(2, 1));
    assert_eq!(session.beat_every, BEAT_EVERY, "nothing is held");
}

fn session(slots: u32) -> SessionLeases {
    let owner = Owner {
        instance_id: "i-1".into(),
        worker: "w1".parse().expect("a name"),
        session_id: "s-1".into(),
        shard: shard(),
    };
    let registered = Registered {
        offer: Offer::default(),
        slots,
        understands: Understands::default(),
        wants_named_acks: true,
    };
    SessionLeases::new(owner, registered, &Carried::default(), true)
}

fn shard() -> ShardId {
    ShardId::new(1).expect("fits")
}

fn task(number: u64) -> TaskId {
    TaskId::of(shard(), number)
}

fn lease(number: u64, epoch: u32) -> LeaseId {
    LeaseId { task: task(number), epoch }
}

fn grant(number: u64, epoch: u32) -> Grant {
    let demand = Demand {
        queue: "default".parse().expect("a name"),
        task_type: "core.noop".parse().expect("a name"),
        tools: [].into(),
        tags: BTreeMap::new(),
        package: None,
    };
    let spec = TaskSpec {
        demand,
        priority: 0,
        lease_ttl: Duration::from_secs(30),
        timeout: None,
        retry: model::RetryPolicy::default(),
    };
    Grant {
        lease: lease(number, epoch),
        attempt: epoch,
        spec: Arc::new(spec),
        parameters: bytes::Bytes::from_static(b"{}"),
        run: None,
        concurrency_key: None,
        link: None,
        chain: None,
        fact: None,
        expires_at: NOW,
        heartbeat_every: Duration::from_secs(10),
    }
}

/// A peer may list 10,000 leases with every heartbeat, of which it holds 4,096: the work must grow
/// with the list, not with the product. Ten times as many of both make the difference plain, and
/// the time that it takes to grant them measures the machine.
#[test]
fn a_long_list_of_leases_takes_time_in_proportion() {
    let mut session = session(SLOTS_MAX);
    let start = std::time::Instant::now();
    for number in 1..=40_960 {
        session.take(&grant(number, 1));
        session.confirm(lease(number, 1));
    }
    let granting = start.elapsed();
    // None that it holds is listed, so a search would go through the whole list every time.
    let listed: Vec<_> = (0..100_000).map(|n| lease(1_000_000 + n, 1)).collect();
    let start = std::time::Instant::now();
    session.note_listed(&listed);
    let listing = start.elapsed();
    assert_eq!(session.confirmed().len(), 40_960 + 100_000);
    assert!(listing < granting * 20, "granting took {granting:?}, listing {listing:?}");
}
