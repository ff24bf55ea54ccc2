use serde_json::value::RawValue;

use super::*;
use crate::executor::Assignment;
use crate::resources::Registry;

#[test]
fn a_lease_is_started_once() {
    let mut desk = desk(2);
    assert_eq!(desk.check(&errand("a", None)), Ok(()));
    start(&mut desk, "a", None);
    assert_eq!(desk.check(&errand("a", None)), Err(Refusal::Known));
    assert!(desk.end(0, Outcome::stopped()).is_none(), "it is reported first");
    assert_eq!(desk.check(&errand("a", None)), Err(Refusal::Known));
}

#[test]
fn slots_and_limits_of_types_are_kept() {
    let mut desk = desk(2);
    start(&mut desk, "a", None);
    refused(&desk, &errand("b", None), "1 tasks of type t");
    let other = |lease: &str| Errand { node_type: "u".into(), ..errand(lease, None) };
    assert_eq!(desk.check(&other("b")), Ok(()));
    begin(&mut desk, other("b"));
    refused(&desk, &other("c"), "2 tasks run here");
    desk.end(1, Outcome::stopped());
    assert_eq!(desk.check(&other("c")), Ok(()), "a task that ended needs no slot");
}

#[test]
fn work_that_is_told_to_stop_frees_its_slot_but_not_its_key() {
    let mut desk = desk(1);
    start(&mut desk, "a", Some("k"));
    assert!(desk.cancel("a") && !desk.cancel("b"));
    assert_eq!(desk.check(&errand("b", None)), Ok(()));
    refused(&desk, &errand("b", Some("k")), "concurrency key k");
    let gone = desk.end(0, Outcome::stopped()).expect("nothing to wait for");
    assert!(matches!(gone.phase, Phase::Stopping { is_given_back: false }));
    assert_eq!(desk.check(&errand("b", Some("k"))), Ok(()));
    assert!(desk.is_clear());
}

#[test]
fn a_lease_that_is_lost_is_not_given_back() {
    let mut desk = desk(3);
    start(&mut desk, "a", None);
    start(&mut desk, "b", None);
    assert_eq!(desk.leases().collect::<Vec<_>>(), ["a", "b"]);
    desk.give_back_all();
    desk.cancel("a");
    assert_eq!((desk.leases().count(), desk.n_running()), (0, 0));
    let phases = [0, 1].map(|number| desk.end(number, Outcome::stopped()).expect("gone").phase);
    assert!(matches!(phases[0], Phase::Stopping { is_given_back: false }));
    assert!(matches!(phases[1], Phase::Stopping { is_given_back: true }));
}

fn refused(desk: &Desk, errand: &Errand, expected: &str) {
    match desk.check(errand) {
        Err(Refusal::Because(code, why)) => {
            assert_eq!(code, CONCURRENCY_VIOLATION);
            assert!(why.contains(expected), "{why}");
        }
        other => panic!("{other:?}"),
    }
}

fn desk(slots: usize) -> Desk {
    Desk::new(Limits { slots, per_type: BTreeMap::from([("t".into(), slots.max(2) - 1)]) })
}

#[test]
fn who_calls_the_next_in_line_gives_its_slot_away_and_takes_the_next_free_one() {
    let mut desk = desk(1);
    start(&mut desk, "a", None);
    assert!(desk.wait(0));
    assert_eq!((desk.n_running(), desk.leases().count()), (0, 1), "the lease is held all the same");
    assert_eq!(desk.check(&errand("b", None)), Ok(()));
    start(&mut desk, "b", None);
    assert!(!desk.answered(0), "there is no slot");
    assert!(desk.admit().is_none());
    desk.end(1, Outcome::stopped());
    assert!(matches!(desk.admit(), Some(Admitted::Back(0))));
    assert_eq!(desk.n_running(), 1);
}

#[test]
fn what_was_sent_into_the_slot_of_one_that_came_back_waits_its_turn() {
    let mut desk = desk(1);
    start(&mut desk, "a", None);
    assert!(desk.wait(0) && !desk.answered(0));
    assert!(matches!(desk.admit(), Some(Admitted::Back(0))));
    assert_eq!(desk.check(&errand("b", None)), Ok(()), "its dispatch was on its way");
    add(&mut desk, errand("b", None));
    assert!(desk.admit().is_none(), "there is no slot");
    refused(&desk, &errand("c", None), "tasks run here");
    assert!(desk.wait(0), "it calls again");
    assert!(matches!(desk.admit(), Some(Admitted::Start(_))));
    assert!(!desk.answered(0));
    desk.cancel("b");
    desk.end(1, Outcome::stopped());
    assert!(matches!(desk.admit(), Some(Admitted::Back(0))));
}

#[test]
fn what_has_not_begun_is_given_back_on_the_spot() {
    let mut desk = desk(1);
    start(&mut desk, "a", None);
    assert!(desk.wait(0) && !desk.answered(0) && desk.admit().is_some());
    add(&mut desk, errand("b", Some("k")));
    let given_back = desk.give_back_all();
    assert_eq!(given_back.len(), 1);
    assert_eq!(given_back[0].lease_id, "b");
    assert_eq!(desk.check(&errand("c", Some("k"))), Ok(()), "its key is free");
    assert!(desk.end(0, Outcome::stopped()).is_some() && desk.is_clear());
}

#[test]
fn a_call_of_several_is_heard_at_once_and_the_last_one_needs_a_slot() {
    let mut desk = desk(1);
    start(&mut desk, "a", None);
    assert!(desk.wait(0) && desk.wait(0));
    assert!(desk.answered(0));
    assert!(!desk.answered(0) && desk.admit().is_some());
    assert!(!desk.wait(7), "unknown");
    desk.cancel("a");
    assert!(!desk.wait(0), "stopped");
    assert_eq!(desk.n_running(), 0);
}

fn start(desk: &mut Desk, lease: &str, key: Option<&str>) {
    begin(desk, errand(lease, key));
}

fn begin(desk: &mut Desk, errand: Errand) {
    add(desk, errand);
    assert!(matches!(desk.admit(), Some(Admitted::Start(_))));
}

fn add(desk: &mut Desk, errand: Errand) {
    let assignment = Assignment {
        lease_id: errand.lease_id.clone(),
        task_id: errand.task_id.clone(),
        attempt: 1,
        task_type: errand.node_type.clone(),
        parameters: RawValue::NULL.to_owned(),
    };
    let attempt = Attempt {
        run_id: "r".into(),
        number: desk.next_number(),
        executor: Arc::new(crate::builtin::Builtin::default()),
        assignment,
        feedback: FeedbackSink::deaf(),
        stop: CancellationToken::new(),
        time: None,
        place: None,
        resources: Arc::new(
            Registry::passing("w", crate::resources::Limits::default()).expect("opens"),
        ),
        lent: Vec::new(),
        notes: tokio::sync::mpsc::unbounded_channel().0,
    };
    desk.add(errand, None, Box::new(attempt));
}

fn errand(lease: &str, key: Option<&str>) -> Errand {
    Errand {
        lease_id: lease.into(),
        run_id: "r".into(),
        task_id: "t".into(),
        node_id: "n".into(),
        node_type: "t".into(),
        concurrency_key: key.map(Into::into),
        seq: None,
    }
}
