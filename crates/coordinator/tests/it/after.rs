//! Tasks that wait for others.

use coordinator::{
    Answer, Change, Command, Coordinator, Effect, LeaseRequest, Moment, Question, Refusal, Step,
    Ticket,
};
use expect_test::expect;
use model::{AFTER_MAX, LeaseId, NewTask, Report, ReportKey, ReportedOutcome, TaskId, WorkerId};

use crate::story::{START, check, plain_request, plain_task, shard};

#[test]
fn a_task_starts_when_all_that_it_waits_for_are_completed() {
    check(
        "
          0s  submit a + b + c behind=a,b
          0s  w1 takes 9
          1s  w1 completes L1
          2s  explain c
          3s  w1 completes L2
          3s  w1 takes 9
          4s  w1 completes L3
        ",
        expect![[r#"
            0s      a is QUEUED
            0s      b is QUEUED
            0s      c is WAITING for others
            0s      L1 of a to w1 until 30s
            0s      L2 of b to w1 until 30s
            1s      a is COMPLETED with 1
            1s      w1: L1 COMMITTED; COMPLETED
            2s      explain c: WAITING, attempts 0: 1 must complete first: b
            3s      b is COMPLETED with 1
            3s      c is QUEUED
            3s      w1: L2 COMMITTED; COMPLETED
            3s      L3 of c to w1 until 33s
            4s      c is COMPLETED with 1
            4s      w1: L3 COMMITTED; COMPLETED
        "#]],
    );
}

#[test]
fn a_worker_that_waits_is_given_it_by_the_completion() {
    check(
        "
          0s  submit a
          0s  w1 takes 1
          1s  submit b behind=a + c behind=b,a
          2s  w2 takes 1 waits 60s
          3s  w1 completes L1
          4s  w1 takes 1 waits 60s
          5s  w2 completes L2
        ",
        expect![[r#"
            0s      a is QUEUED
            0s      L1 of a to w1 until 30s
            1s      b is WAITING for others
            1s      c is WAITING for others
            3s      a is COMPLETED with 1
            3s      b is QUEUED
            3s      L2 of b to w2 until 33s
            3s      w1: L1 COMMITTED; COMPLETED
            5s      b is COMPLETED with 1
            5s      c is QUEUED
            5s      L3 of c to w1 until 35s
            5s      w2: L2 COMMITTED; COMPLETED
        "#]],
    );
}

#[test]
fn a_failure_takes_everyone_down_the_line_along() {
    check(
        "
          0s  submit a attempts=1 + b behind=a + c behind=b + d behind=a,c + e + f behind=e
          0s  watch c 60s
          0s  w1 takes 9
          1s  w1 fails L1
          2s  explain f
          2s  queues
        ",
        expect![[r#"
            0s      a is QUEUED
            0s      b is WAITING for others
            0s      c is WAITING for others
            0s      d is WAITING for others
            0s      e is QUEUED
            0s      f is WAITING for others
            0s      L1 of a to w1 until 30s
            0s      L2 of e to w1 until 30s
            1s      a is FAILED: E.TEST boom (attempts 1, losses 0)
            1s      b is FAILED: E.TASK.DEPENDENCY it was to run after task a, which failed (attempts 0, losses 0)
            1s      d is FAILED: E.TASK.DEPENDENCY it was to run after task a, which failed (attempts 0, losses 0)
            1s      c is FAILED: E.TASK.DEPENDENCY it was to run after task b, which failed (attempts 0, losses 0)
            1s      watch c 60s: ended
            1s      w1: L1 COMMITTED; FAILED
            2s      explain f: WAITING, attempts 0: 1 must complete first: e
            2s      queue default: 0 queued, 1 in flight, 0 retrying, 0 scheduled, 1 blocked
        "#]],
    );
}

#[test]
fn a_stop_and_a_death_fail_those_who_wait_too() {
    check(
        "
          0s  submit a + b behind=a + c ttl=1s attempts=1 + d behind=c
          1s  stop a
          2s  w1 takes 9
          4s  workers
        ",
        expect![[r#"
            0s      a is QUEUED
            0s      b is WAITING for others
            0s      c is QUEUED
            0s      d is WAITING for others
            1s      a is STOPPED
            1s      b is FAILED: E.TASK.DEPENDENCY it was to run after task a, which was stopped (attempts 0, losses 0)
            1s      stop a: done
            2s      L1 of c to w1 until 3s
            3s      L1 of c expired; c is DEAD: E.WORKER.LOST its worker was lost, and no attempt is left (attempts 1, losses 1)
            3s      d is FAILED: E.TASK.DEPENDENCY it was to run after task c, which is dead (attempts 0, losses 0)
            4s      w1 is HEALTHY, seen at 2s, 0 in flight of 1 granted, does not ask
        "#]],
    );
}

#[test]
fn one_that_waits_can_be_stopped_and_its_own_dependents_fail() {
    check(
        "
          0s  submit a + b behind=a + c behind=b
          1s  stop b
          2s  w1 takes 9
          3s  w1 completes L1
          4s  requeue b
          4s  requeue c
          5s  w1 takes 9
        ",
        expect![[r#"
            0s      a is QUEUED
            0s      b is WAITING for others
            0s      c is WAITING for others
            1s      b is STOPPED
            1s      c is FAILED: E.TASK.DEPENDENCY it was to run after task b, which was stopped (attempts 0, losses 0)
            1s      stop b: done
            2s      L1 of a to w1 until 32s
            3s      a is COMPLETED with 1
            3s      w1: L1 COMMITTED; COMPLETED
            4s      loading b
            4s      b is QUEUED again
            4s      requeue b: done
            4s      loading c
            4s      c is QUEUED again
            4s      requeue c: done
            5s      L2 of b to w1 until 35s
            5s      L3 of c to w1 until 35s
        "#]],
    );
}

#[test]
fn one_that_failed_by_another_is_requeued_without_waiting() {
    check(
        "
          0s  submit a + b behind=a
          1s  stop a
          2s  requeue b
          3s  w1 takes 9
          4s  w1 fails L1
          5s  explain b
        ",
        expect![[r#"
            0s      a is QUEUED
            0s      b is WAITING for others
            1s      a is STOPPED
            1s      b is FAILED: E.TASK.DEPENDENCY it was to run after task a, which was stopped (attempts 0, losses 0)
            1s      stop a: done
            2s      loading b
            2s      b is QUEUED again
            2s      requeue b: done
            3s      L1 of b to w1 until 33s
            4s      L1 of b failed (boom); b is RETRYING until 4.529s (attempts 1, losses 0)
            4s      w1: L1 COMMITTED; RETRYING
            5s      explain b: QUEUED, attempts 1: 1 could take it, none asks
        "#]],
    );
}

#[test]
fn what_is_settled_is_looked_up_when_one_is_to_run_after_it() {
    check(
        "
          0s  submit a + b
          0s  w1 takes 1
          1s  w1 completes L1
          1s  stop b
          2s  submit c behind=a
          3s  submit d behind=a,b + e behind=d + f behind=c
        ",
        expect![[r#"
            0s      a is QUEUED
            0s      b is QUEUED
            0s      L1 of a to w1 until 30s
            1s      a is COMPLETED with 1
            1s      w1: L1 COMMITTED; COMPLETED
            1s      b is STOPPED
            1s      stop b: done
            2s      loading a
            2s      c is QUEUED
            3s      loading a, b
            3s      d is WAITING for others
            3s      d is FAILED: E.TASK.DEPENDENCY it was to run after task b, which was stopped (attempts 0, losses 0)
            3s      loading d
            3s      e is WAITING for others
            3s      e is FAILED: E.TASK.DEPENDENCY it was to run after task d, which failed (attempts 0, losses 0)
            3s      f is WAITING for others
        "#]],
    );
}

#[test]
fn an_unknown_dependency_refuses_the_whole_submit_and_is_named() {
    check(
        "
          0s  submit a + b behind=nobody
          1s  submit a
          2s  submit b behind=foreign:a
          3s  queues
        ",
        expect![[r#"
            0s      submit: refused, unknown dependency 50c3e51a-8512-8674-a1b6-07675936185d
            1s      a is QUEUED
            2s      submit: refused, unknown dependency f786cfec-ca17-8e52-adf0-54c01ddc1063
            3s      queue default: 1 queued since 1s, 0 in flight, 0 retrying, 0 scheduled
        "#]],
    );
}

#[test]
fn the_moment_and_the_others_must_both_have_come() {
    check(
        "
          0s  submit a + late after=10s behind=a + early after=2s behind=a
          0s  w1 takes 1
          3s  explain late
          3s  explain early
          4s  w1 completes L1
          5s  explain late
          5s  queues
          6s  submit next after=20s behind=a
         11s  w1 takes 9
        ",
        expect![[r#"
            0s      a is QUEUED
            0s      late is WAITING for others, until 10s
            0s      early is WAITING for others, until 2s
            0s      L1 of a to w1 until 30s
            3s      explain late: WAITING, attempts 0: 1 must complete first: a; not before 10s
            3s      explain early: WAITING, attempts 0: 1 must complete first: a
            4s      a is COMPLETED with 1
            4s      early is QUEUED
            4s      w1: L1 COMMITTED; COMPLETED
            5s      explain late: WAITING, attempts 0: not before 10s
            5s      queue default: 1 queued since 0s, 0 in flight, 0 retrying, 0 scheduled, 1 blocked
            6s      loading a
            6s      next is WAITING for others, until 20s
            11s     L2 of late to w1 until 41s
            11s     L3 of early to w1 until 41s
        "#]],
    );
}

#[test]
fn a_restart_finds_out_who_still_waits() {
    check(
        "
          0s  submit a + b + c behind=a,b + d after=9s behind=a + e behind=c
          0s  w1 takes 9
          1s  w1 completes L1
          2s  restart
          2s  explain c
          2s  explain d
          3s  w1 completes L2
          4s  restart
          4s  explain e
         10s  w1 takes 9
        ",
        expect![[r#"
            0s      a is QUEUED
            0s      b is QUEUED
            0s      c is WAITING for others
            0s      d is WAITING for others, until 9s
            0s      e is WAITING for others
            0s      L1 of a to w1 until 30s
            0s      L2 of b to w1 until 30s
            1s      a is COMPLETED with 1
            1s      w1: L1 COMMITTED; COMPLETED
            2s      restarted with 4 live tasks
            2s      explain c: WAITING, attempts 0: 1 must complete first: b
            2s      explain d: WAITING, attempts 0: not before 9s
            3s      b is COMPLETED with 1
            3s      c is QUEUED
            3s      w1: L2 COMMITTED; COMPLETED
            4s      restarted with 3 live tasks
            4s      explain e: WAITING, attempts 0: 1 must complete first: c
            10s     L3 of c to w1 until 40s
            10s     L4 of d to w1 until 40s
        "#]],
    );
}

#[test]
fn a_restart_with_a_lease_that_then_fails_still_takes_them_along() {
    check(
        "
          0s  submit a attempts=1 + b behind=a
          0s  w1 takes 9
          1s  restart
          2s  w1 fails L1
        ",
        expect![[r#"
            0s      a is QUEUED
            0s      b is WAITING for others
            0s      L1 of a to w1 until 30s
            1s      restarted with 2 live tasks
            2s      a is FAILED: E.TEST boom (attempts 1, losses 0)
            2s      b is FAILED: E.TASK.DEPENDENCY it was to run after task a, which failed (attempts 0, losses 0)
            2s      w1: L1 COMMITTED; FAILED
        "#]],
    );
}

#[test]
fn a_repeated_submit_is_recognised_whatever_became_of_the_others() {
    check(
        "
          0s  submit a key=ka + b key=kb behind=a
          1s  submit a key=ka + b key=kb behind=a + c behind=b
          2s  stop a
          3s  submit a key=ka + b key=kb behind=a + d behind=b
          4s  submit x key=kx behind=b + x2 key=kx behind=b
        ",
        expect![[r#"
            0s      loading key ka
            0s      a is QUEUED
            0s      loading key kb
            0s      b is WAITING for others
            1s      a is a, which exists: QUEUED
            1s      b is b, which exists: WAITING
            1s      c is WAITING for others
            2s      a is STOPPED
            2s      b is FAILED: E.TASK.DEPENDENCY it was to run after task a, which was stopped (attempts 0, losses 0)
            2s      c is FAILED: E.TASK.DEPENDENCY it was to run after task b, which failed (attempts 0, losses 0)
            2s      stop a: done
            3s      loading key ka
            3s      a is a, which exists: STOPPED
            3s      loading key kb, a
            3s      b is b, which exists: FAILED
            3s      loading b
            3s      d is WAITING for others
            3s      d is FAILED: E.TASK.DEPENDENCY it was to run after task b, which failed (attempts 0, losses 0)
            4s      loading key kx, key kx, b
            4s      x is WAITING for others
            4s      x is FAILED: E.TASK.DEPENDENCY it was to run after task b, which failed (attempts 0, losses 0)
            4s      x2 is x, which exists: FAILED
        "#]],
    );
}

#[test]
fn two_that_share_a_key_run_one_by_one_when_they_are_released() {
    check(
        "
          0s  submit a + b ckey=k behind=a + c ckey=k behind=a prio=1
          0s  w1 takes 1
          1s  w1 completes L1
          2s  w1 takes 9
          3s  w1 completes L2
          3s  w1 takes 9
        ",
        expect![[r#"
            0s      a is QUEUED
            0s      b is WAITING for others
            0s      c is WAITING for others
            0s      L1 of a to w1 until 30s
            1s      a is COMPLETED with 1
            1s      b is QUEUED
            1s      c is QUEUED
            1s      w1: L1 COMMITTED; COMPLETED
            2s      L2 of c to w1 until 32s
            3s      c is COMPLETED with 1
            3s      w1: L2 COMMITTED; COMPLETED
            3s      L3 of b to w1 until 33s
        "#]],
    );
}

#[test]
fn a_report_about_one_that_fails_in_the_same_call_is_still_judged() {
    check(
        "
          0s  submit a attempts=1 + b behind=a
          0s  w1 takes 9
          1s  w1 fails L1,b#1
          2s  w1 fails b#1
        ",
        expect![[r#"
            0s      a is QUEUED
            0s      b is WAITING for others
            0s      L1 of a to w1 until 30s
            1s      a is FAILED: E.TEST boom (attempts 1, losses 0)
            1s      b is FAILED: E.TASK.DEPENDENCY it was to run after task a, which failed (attempts 0, losses 0)
            1s      w1: L1 COMMITTED; FAILED
            1s      w1: b#1 REJECTED (unknown_lease); FAILED
            2s      loading b
            2s      w1: b#1 REJECTED (unknown_lease); FAILED
        "#]],
    );
}

#[test]
fn as_many_as_may_be_and_not_one_more() {
    let mut coordinator = Coordinator::restore(shard(), 0, [], at());
    submit(&mut coordinator, vec![plain_task(); AFTER_MAX + 1]);
    let all = |count: usize| NewTask {
        after: (0..count).map(|n| TaskId::of(shard(), n as u64)).collect(),
        ..plain_task()
    };
    let refused = submit(&mut coordinator, vec![all(AFTER_MAX + 1)]);
    let refusal = Refusal::TooManyDependencies { count: AFTER_MAX + 1 };
    let answer = Answer::Refused(refusal);
    assert_eq!(refused.effects, [Effect::Answer { ticket: Ticket(0), answer }]);
    assert_eq!(submit(&mut coordinator, vec![all(AFTER_MAX)]).changes.len(), 1);
    coordinator.check_invariants();
}

/// A long line must neither grow the stack nor be slow.
#[test]
fn a_long_line_falls_in_one_step() {
    const LENGTH: usize = 100_000;
    let mut coordinator = Coordinator::restore(shard(), 0, [], at());
    let task = |place: usize| TaskId::of(shard(), place as u64);
    for place in 0..LENGTH {
        let after = place.checked_sub(1).map(task).into_iter().collect();
        submit(&mut coordinator, vec![NewTask { after, ..plain_task() }]);
    }
    let first = task(0);
    let step = coordinator.handle(at(), Command::Ask(Ticket(0), Question::Stop { task: first }));
    assert_eq!(step.changes.len(), LENGTH, "the first is stopped, all others fail");
    assert_eq!(coordinator.load().live, 0);
}

/// A line is walked step by step: each completion releases the next one alone.
#[test]
fn a_completion_costs_the_same_however_many_others_wait() {
    const WIDTH: usize = 20_000;
    let mut coordinator = Coordinator::restore(shard(), 0, [], at());
    submit(&mut coordinator, vec![plain_task()]);
    let after = vec![TaskId::of(shard(), 0)];
    submit(&mut coordinator, vec![NewTask { after, ..plain_task() }; WIDTH - 1]);
    let worker: WorkerId = "w1".parse().expect("a worker");
    let request = LeaseRequest { max: 10, ..plain_request(worker.clone(), START) };
    let granted = coordinator
        .handle(at(), Command::Ask(Ticket(0), Question::RequestLeases { request }))
        .changes;
    assert_eq!(granted.len(), 1, "all others wait for the first");
    let report = Report {
        lease: LeaseId { task: granted[0].task(), epoch: 1 },
        worker,
        key: ReportKey(1),
        outcome: ReportedOutcome::Completed { result: "1".into(), extra: None },
    };
    let step = coordinator
        .handle(at(), Command::Ask(Ticket(0), Question::Report { reports: vec![report] }));
    let is_release = |change: &&Change| matches!(change, Change::TaskReleased { .. });
    assert_eq!(step.changes.iter().filter(is_release).count(), WIDTH - 1);
    coordinator.check_invariants();
}

fn at() -> Moment {
    Moment { now: START, wall: START, entropy: 0 }
}

fn submit(coordinator: &mut Coordinator, tasks: Vec<NewTask>) -> Step {
    coordinator.handle(at(), Command::Ask(Ticket(0), Question::Submit { tasks }))
}
