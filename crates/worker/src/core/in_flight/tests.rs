use serde_json::value::RawValue;

use super::*;
use crate::core::executor::Assignment;
use crate::resources::Registry;

#[test]
fn a_lease_is_started_once() {
    let mut in_flight = in_flight(2);
    assert_eq!(in_flight.check(&leased("a", None)), Ok(()));
    start(&mut in_flight, "a", None);
    assert_eq!(in_flight.check(&leased("a", None)), Err(Refusal::Known));
    assert!(in_flight.end(0, Outcome::stopped()).is_none(), "it is reported first");
    assert_eq!(in_flight.check(&leased("a", None)), Err(Refusal::Known));
}

#[test]
fn slots_and_limits_of_types_are_kept() {
    let mut in_flight = in_flight(2);
    start(&mut in_flight, "a", None);
    refused(&in_flight, &leased("b", None), "1 tasks of type t");
    let other = |lease: &str| LeasedTask { node_type: "u".into(), ..leased(lease, None) };
    assert_eq!(in_flight.check(&other("b")), Ok(()));
    begin(&mut in_flight, other("b"));
    refused(&in_flight, &other("c"), "2 tasks run here");
    in_flight.end(1, Outcome::stopped());
    assert_eq!(in_flight.check(&other("c")), Ok(()), "a task that ended needs no slot");
}

#[test]
fn work_that_is_told_to_stop_frees_its_slot_but_not_its_key() {
    let mut in_flight = in_flight(1);
    start(&mut in_flight, "a", Some("k"));
    assert!(in_flight.cancel("a") && !in_flight.cancel("b"));
    assert_eq!(in_flight.check(&leased("b", None)), Ok(()));
    refused(&in_flight, &leased("b", Some("k")), "concurrency key k");
    let gone = in_flight.end(0, Outcome::stopped()).expect("nothing to wait for");
    assert!(matches!(gone.phase, Phase::Stopping { is_given_back: false }));
    assert_eq!(in_flight.check(&leased("b", Some("k"))), Ok(()));
    assert!(in_flight.is_clear());
}

#[test]
fn a_lease_that_is_lost_is_not_given_back() {
    let mut in_flight = in_flight(3);
    start(&mut in_flight, "a", None);
    start(&mut in_flight, "b", None);
    assert_eq!(in_flight.leases().collect::<Vec<_>>(), ["a", "b"]);
    in_flight.give_back_all();
    in_flight.cancel("a");
    assert_eq!((in_flight.leases().count(), in_flight.n_running()), (0, 0));
    let phases =
        [0, 1].map(|number| in_flight.end(number, Outcome::stopped()).expect("gone").phase);
    assert!(matches!(phases[0], Phase::Stopping { is_given_back: false }));
    assert!(matches!(phases[1], Phase::Stopping { is_given_back: true }));
}

fn refused(in_flight: &InFlight, leased: &LeasedTask, expected: &str) {
    match in_flight.check(leased) {
        Err(Refusal::Because(code, why)) => {
            assert_eq!(code, CONCURRENCY_VIOLATION);
            assert!(why.contains(expected), "{why}");
        }
        other => panic!("{other:?}"),
    }
}

fn in_flight(slots: usize) -> InFlight {
    InFlight::new(Limits { slots, per_type: BTreeMap::from([("t".into(), slots.max(2) - 1)]) })
}

#[test]
fn who_calls_the_next_in_line_gives_its_slot_away_and_takes_the_next_free_one() {
    let mut in_flight = in_flight(1);
    start(&mut in_flight, "a", None);
    assert!(in_flight.wait(0));
    assert_eq!(
        (in_flight.n_running(), in_flight.leases().count()),
        (0, 1),
        "the lease is held all the same"
    );
    assert_eq!(in_flight.check(&leased("b", None)), Ok(()));
    start(&mut in_flight, "b", None);
    assert!(!in_flight.answered(0), "there is no slot");
    assert!(in_flight.admit().is_none());
    in_flight.end(1, Outcome::stopped());
    assert!(matches!(in_flight.admit(), Some(Admitted::Back(0))));
    assert_eq!(in_flight.n_running(), 1);
}

#[test]
fn what_was_sent_into_the_slot_of_one_that_came_back_waits_its_turn() {
    let mut in_flight = in_flight(1);
    start(&mut in_flight, "a", None);
    assert!(in_flight.wait(0) && !in_flight.answered(0));
    assert!(matches!(in_flight.admit(), Some(Admitted::Back(0))));
    assert_eq!(in_flight.check(&leased("b", None)), Ok(()), "its dispatch was on its way");
    add(&mut in_flight, leased("b", None));
    assert!(in_flight.admit().is_none(), "there is no slot");
    refused(&in_flight, &leased("c", None), "tasks run here");
    assert!(in_flight.wait(0), "it calls again");
    assert!(matches!(in_flight.admit(), Some(Admitted::Start(_))));
    assert!(!in_flight.answered(0));
    in_flight.cancel("b");
    in_flight.end(1, Outcome::stopped());
    assert!(matches!(in_flight.admit(), Some(Admitted::Back(0))));
}

#[test]
fn what_has_not_begun_is_given_back_on_the_spot() {
    let mut in_flight = in_flight(1);
    start(&mut in_flight, "a", None);
    assert!(in_flight.wait(0) && !in_flight.answered(0) && in_flight.admit().is_some());
    add(&mut in_flight, leased("b", Some("k")));
    let given_back = in_flight.give_back_all();
    assert_eq!(given_back.len(), 1);
    assert_eq!(given_back[0].lease_id, "b");
    assert_eq!(in_flight.check(&leased("c", Some("k"))), Ok(()), "its key is free");
    assert!(in_flight.end(0, Outcome::stopped()).is_some() && in_flight.is_clear());
}

#[test]
fn a_call_of_several_is_heard_at_once_and_the_last_one_needs_a_slot() {
    let mut in_flight = in_flight(1);
    start(&mut in_flight, "a", None);
    assert!(in_flight.wait(0) && in_flight.wait(0));
    assert!(in_flight.answered(0));
    assert!(!in_flight.answered(0) && in_flight.admit().is_some());
    assert!(!in_flight.wait(7), "unknown");
    in_flight.cancel("a");
    assert!(!in_flight.wait(0), "stopped");
    assert_eq!(in_flight.n_running(), 0);
}

fn start(in_flight: &mut InFlight, lease: &str, key: Option<&str>) {
    begin(in_flight, leased(lease, key));
}

fn begin(in_flight: &mut InFlight, leased: LeasedTask) {
    add(in_flight, leased);
    assert!(matches!(in_flight.admit(), Some(Admitted::Start(_))));
}

fn add(in_flight: &mut InFlight, leased: LeasedTask) {
    let assignment = Assignment {
        lease_id: leased.lease_id.clone(),
        task_id: leased.task_id.clone(),
        attempt: 1,
        task_type: leased.node_type.clone(),
        parameters: RawValue::NULL.to_owned(),
    };
    let data = tempfile::tempdir().expect("folder");
    let attempt = Attempt {
        run_id: "r".into(),
        number: in_flight.next_number(),
        executor: Arc::new(crate::builtin::Builtin),
        assignment,
        feedback: FeedbackSink::deaf(),
        stop: CancellationToken::new(),
        time: None,
        place: None,
        resources: Arc::new(
            Registry::open(data.path(), "w", crate::resources::Limits::default()).expect("opens"),
        ),
        lent: Vec::new(),
        notes: tokio::sync::mpsc::unbounded_channel().0,
    };
    in_flight.add(leased, None, Box::new(attempt));
}

fn leased(lease: &str, key: Option<&str>) -> LeasedTask {
    LeasedTask {
        lease_id: lease.into(),
        run_id: "r".into(),
        task_id: "t".into(),
        node_id: "n".into(),
        node_type: "t".into(),
        concurrency_key: key.map(Into::into),
        seq: None,
    }
}

#[test]
fn a_verdict_counts_once() {
    let mut history = History::default();
    history.add("a", End::Reported);
    assert!(history.knows("a") && !history.is_settled("a"));
    assert!(history.settle("a") && !history.settle("a") && !history.settle("b"));
    assert!(history.is_settled("a"));
    assert_eq!(history.n_unjudged(), 0);
}

#[test]
fn the_last_ten_thousand_are_remembered() {
    let mut history = History::default();
    for n in 0..=REMEMBERED_MAX {
        history.add(&n.to_string(), End::Reported);
    }
    assert!(!history.knows("0") && history.knows("1"));
    assert_eq!(history.n_unjudged(), REMEMBERED_MAX);
}
