use std::collections::BTreeMap;

use model::{Demand, ShardId, TaskSpec};
use protocol::session::payload::heartbeat::Metrics;

use super::super::convert::Understands;
use super::calls::Opening;
use super::*;
use crate::metrics::Metrics as ServerMetrics;
use crate::sessions::Call;

const NOW: Timestamp = Timestamp::from_millis(1_790_000_000_000);

#[test]
fn a_worker_is_asked_for_as_many_slots_as_are_free() {
    let mut desk = desk(3);
    let Question { id, request, .. } = desk.next_request(NOW).expect("all slots are free");
    assert_eq!((request.max, request.slots), (3, Some(3)));
    assert!(desk.next_request(NOW).is_none(), "all are asked for");
    desk.answered(id);
    desk.take(&grant(1, 1));
    desk.take(&grant(2, 1));
    assert_eq!(asked_for(&mut desk), 1, "one is free");
    assert!(desk.release(lease(1, 1)));
    assert_eq!(asked_for(&mut desk), 1, "another is free");
}

#[test]
fn after_a_full_session_less_is_asked_for_and_then_more_again() {
    let mut desk = desk(100);
    let Question { id, request, .. } = desk.next_request(NOW).expect("all are free");
    assert_eq!(request.max, 100);
    desk.answered(id);
    desk.note_delivered(0, false);
    let Question { id, request, .. } = desk.next_request(NOW).expect("asks");
    assert_eq!(request.max, 1);
    desk.answered(id);
    desk.note_delivered(1, true);
    assert_eq!(asked_for(&mut desk), 2);
}

#[test]
fn a_worker_that_leaves_is_not_asked() {
    let mut desk = desk(3);
    desk.is_leaving = true;
    assert!(desk.next_request(NOW).is_none());
}

#[test]
fn a_lease_is_confirmed_once_and_only_the_newest() {
    let mut desk = desk(3);
    desk.take(&grant(1, 2));
    assert!(!desk.confirm(lease(1, 1)), "an older epoch");
    assert!(desk.confirmed().is_empty());
    assert!(desk.confirm(lease(1, 2)));
    assert!(!desk.confirm(lease(1, 2)), "known already");
    assert_eq!(desk.confirmed(), [lease(1, 2)]);
    assert!(!desk.release(lease(1, 1)));
}

#[test]
fn what_a_worker_never_lists_is_not_kept_alive() {
    let mut desk = desk(3);
    for number in 1..=3 {
        desk.take(&grant(number, 1));
    }
    desk.confirm(lease(1, 1));
    desk.confirm(lease(2, 1));
    desk.note_listed(&[lease(1, 1)]);
    assert_eq!(desk.confirmed(), [lease(1, 1), lease(2, 1)], "it may have crossed the dispatch");
    desk.note_listed(&[lease(1, 1)]);
    assert_eq!(desk.confirmed(), [lease(1, 1)]);
    assert_eq!(desk.lease_of(task(3)), Some(lease(3, 1)), "unconfirmed, and not its fault");
}

#[test]
fn what_a_worker_lists_takes_a_slot_even_if_it_was_forgotten_here() {
    let mut desk = desk(2);
    desk.note_listed(&[lease(7, 4)]);
    assert_eq!(desk.confirmed(), [lease(7, 4)]);
    assert_eq!(asked_for(&mut desk), 1, "one is free");
}

#[test]
fn a_task_that_waits_in_next_needs_no_slot() {
    let mut desk = desk(1);
    desk.take(&grant(1, 1));
    assert!(desk.next_request(NOW).is_none(), "no slot is free");
    let call = call(lease(1, 1), "next-0");
    assert!(matches!(desk.calls.open(&call), Opening::Open(_)));
    assert!(matches!(desk.calls.open(&call), Opening::Known));
    let question = desk.next_request(NOW).expect("its slot is free");
    assert_eq!((question.request.max, question.request.slots), (1, Some(2)));
    desk.calls.close(&call);
    assert!(desk.next_request(NOW).is_none(), "it has its slot again");
    assert!(question.stop.is_cancelled(), "and nobody else may have it");
    desk.answered(question.id);
    assert!(desk.release(lease(1, 1)));
    assert_eq!(asked_for(&mut desk), 1);
}

#[test]
fn a_request_that_would_be_held_to_too_few_leases_is_made_again() {
    let mut desk = desk(2);
    desk.take(&grant(1, 1));
    let first = desk.next_request(NOW).expect("one is free");
    assert_eq!(first.request.slots, Some(2));
    assert!(matches!(desk.calls.open(&call(lease(1, 1), "next-0")), Opening::Open(_)));
    let second = desk.next_request(NOW).expect("another is free");
    assert_eq!((second.request.max, second.request.slots), (1, Some(3)));
    assert!(first.stop.is_cancelled() && !second.stop.is_cancelled());
    desk.answered(first.id);
    let third = desk.next_request(NOW).expect("the first one's is asked for again");
    assert_eq!((third.request.max, third.request.slots), (1, Some(3)));
}

#[test]
fn who_is_done_waits_for_nothing() {
    let mut desk = desk(1);
    desk.take(&grant(1, 1));
    let call = call(lease(1, 1), "next-0");
    let Opening::Open(stop) = desk.calls.open(&call) else { panic!("new") };
    assert_eq!(desk.calls.all().len(), 1);
    desk.release(lease(1, 1));
    assert!(stop.is_cancelled() && !desk.calls.is_open(&call));
}

#[test]
fn limits_of_types_do_not_count_who_waits() {
    let mut desk = desk(4);
    let offer =
        Offer { limits: [("core.noop".parse().expect("a name"), 1)].into(), ..Offer::default() };
    desk.refresh(Registered { offer, ..desk.registered.clone() });
    desk.take(&grant(1, 1));
    assert!(matches!(desk.calls.open(&call(lease(1, 1), "next-0")), Opening::Open(_)));
    let offer = desk.next_request(NOW).expect("asks").request.offer;
    assert_eq!(offer.limits.values().copied().collect::<Vec<_>>(), [2]);
}

fn asked_for(desk: &mut Desk) -> u32 {
    desk.next_request(NOW).expect("asks").request.max
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
    let mut desk = desk(1);
    let mut say = |mem, disk| {
        let metrics = Metrics { mem_pct: mem, disk_pct: disk, ..Metrics::default() };
        desk.pressure_changed(&metrics)
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
    let mut desk = desk(2);
    assert_eq!(desk.beat_every, BEAT_EVERY);
    let short = Grant { heartbeat_every: Duration::from_secs(1), ..grant(1, 1) };
    desk.take(&short);
    desk.take(&grant(2, 1));
    assert_eq!(desk.beat_every, Duration::from_secs(1));
    desk.take(&Grant { heartbeat_every: Duration::from_millis(1), ..grant(1, 2) });
    assert_eq!(desk.beat_every, BEAT_EVERY_MIN);
    desk.release(lease(1, 2));
    desk.release(lease(2, 1));
    assert_eq!(desk.beat_every, BEAT_EVERY, "nothing is held");
}

fn desk(slots: u32) -> Desk {
    let tenant: TenantId = "acme".parse().expect("a name");
    let place = Place {
        metrics: ServerMetrics::new().ws(&tenant),
        tenant,
        instance_id: "i-1".into(),
        worker: "w1".parse().expect("a name"),
        connection: 1,
        session_id: "s-1".into(),
        handle: CoordinatorHandle::new(shard()).0,
    };
    let registered = Registered {
        offer: Offer::default(),
        slots,
        understands: Understands::default(),
        wants_named_acks: true,
    };
    Desk::new(place, registered, &Carried::default(), true)
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
        expires_at: NOW,
        heartbeat_every: Duration::from_secs(10),
    }
}
