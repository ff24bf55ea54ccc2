use super::*;

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
    desk.start(other("b"), FeedbackSink::deaf(), CancellationToken::new());
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

fn start(desk: &mut Desk, lease: &str, key: Option<&str>) {
    desk.start(errand(lease, key), FeedbackSink::deaf(), CancellationToken::new());
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
