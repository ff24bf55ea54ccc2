use std::collections::BTreeMap;

use model::{Demand, ShardId, TaskSpec};
use protocol::session::payload::heartbeat::Metrics;

use super::*;
use crate::metrics::Metrics as ServerMetrics;

const NOW: Timestamp = Timestamp::from_millis(1_790_000_000_000);

#[test]
fn a_worker_is_asked_for_as_many_slots_as_are_free() {
    let mut desk = desk(3);
    let (asked, request) = desk.next_request(NOW).expect("all slots are free");
    assert_eq!((asked, request.max, request.slots), (3, 3, Some(3)));
    assert!(desk.next_request(NOW).is_none(), "all are asked for");
    desk.answered(3);
    desk.take(&grant(1, 1));
    desk.take(&grant(2, 1));
    assert_eq!(desk.next_request(NOW).expect("one is free").0, 1);
    assert!(desk.release(lease(1, 1)));
    assert_eq!(desk.next_request(NOW).expect("another is free").0, 1);
}

#[test]
fn after_a_full_session_less_is_asked_for_and_then_more_again() {
    let mut desk = desk(100);
    let (asked, _) = desk.next_request(NOW).expect("all are free");
    assert_eq!(asked, 100);
    desk.answered(100);
    desk.note_delivered(0, false);
    let (asked, _) = desk.next_request(NOW).expect("asks");
    assert_eq!(asked, 1);
    desk.answered(1);
    desk.note_delivered(1, true);
    assert_eq!(desk.next_request(NOW).expect("asks").0, 2);
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
    assert_eq!(desk.next_request(NOW).expect("one is free").0, 1);
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
        wants_verdicts: false,
        wants_cancels: true,
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
