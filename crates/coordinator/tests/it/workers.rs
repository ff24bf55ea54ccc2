//! Workers: heard of, silent, lost, back, forgotten.

use std::sync::Arc;

use coordinator::{
    Command, Coordinator, Effect, Moment, Question, Renewal, SilenceLimits, Ticket, WORKERS_MAX,
};
use expect_test::expect;
use model::WorkerId;

use crate::story::{START, check, plain_request, shard};

#[test]
fn a_silent_worker_goes_through_warn_degraded_lost() {
    // Missed heartbeats count when they are half an interval late.
    check(
        "
            0s  w1 takes 1
        14999ms workers
           15s  workers
           24s  workers
           25s  workers
           34s  workers
           35s  workers
        ",
        expect![[r#"
            0s      w1 gets nothing
            14.999s w1 is HEALTHY, seen at 0s, 0 in flight of 0 granted, does not ask
            15s     w1 is WARN, seen at 0s, 0 in flight of 0 granted, does not ask
            24s     w1 is WARN, seen at 0s, 0 in flight of 0 granted, does not ask
            25s     w1 is DEGRADED, seen at 0s, 0 in flight of 0 granted, does not ask
            34s     w1 is DEGRADED, seen at 0s, 0 in flight of 0 granted, does not ask
            35s     w1 is LOST, seen at 0s, 0 in flight of 0 granted, does not ask
        "#]],
    );
}

#[test]
fn any_sign_of_life_brings_a_worker_back() {
    check(
        "
          0s  submit a
          0s  w1 takes 1
         16s  w1 beats
         30s  workers
         42s  w1 completes L1
         50s  workers
         60s  workers
         90s  w1 takes 1
         91s  workers
        100s  w1 beats nobody#1
        104s  workers
        ",
        expect![[r#"
            0s      a is QUEUED
            0s      L1 of a to w1 until 30s
            16s     w1: [EXTENDED until 46s]
            30s     w1 is HEALTHY, seen at 16s, 1 in flight of 1 granted, does not ask
            42s     a is COMPLETED with 1
            42s     w1: L1 COMMITTED; COMPLETED
            50s     w1 is HEALTHY, seen at 42s, 0 in flight of 1 granted, does not ask
            60s     w1 is WARN, seen at 42s, 0 in flight of 1 granted, does not ask
            90s     w1 gets nothing
            91s     w1 is HEALTHY, seen at 90s, 0 in flight of 1 granted, does not ask
            100s    w1: nobody#1 REJECTED (unknown_task)
            104s    w1 is HEALTHY, seen at 100s, 0 in flight of 1 granted, does not ask
        "#]],
    );
}

#[test]
fn a_worker_that_waits_for_work_is_alive() {
    check(
        "
          0s  w1 takes 1 waits 60s
         59s  workers
         61s  workers
         76s  workers
        ",
        expect![[r#"
            59s     w1 is HEALTHY, seen at 45s, 0 in flight of 0 granted, asks
            60s     w1 gets nothing
            61s     w1 is HEALTHY, seen at 60s, 0 in flight of 0 granted, does not ask
            76s     w1 is WARN, seen at 60s, 0 in flight of 0 granted, does not ask
        "#]],
    );
}

#[test]
fn a_lost_worker_is_forgotten_after_an_hour() {
    check(
        "
            0s  w1 takes 1
         3599s  workers
         3600s  workers
         3601s  workers
        ",
        expect![[r#"
            0s      w1 gets nothing
            3599s   w1 is LOST, seen at 0s, 0 in flight of 0 granted, does not ask
            3600s   w1 is LOST, seen at 0s, 0 in flight of 0 granted, does not ask
        "#]],
    );
}

#[test]
fn a_lost_worker_that_still_holds_a_lease_is_not_forgotten() {
    check(
        "
            0s  submit a ttl=2h
            0s  w1 takes 1
         3601s  workers
         7199s  w1 completes L1
         7200s  workers
        ",
        expect![[r#"
            0s      a is QUEUED
            0s      L1 of a to w1 until 2h
            3601s   w1 is LOST, seen at 0s, 1 in flight of 1 granted, does not ask
            7199s   a is COMPLETED with 1
            7199s   w1: L1 COMMITTED; COMPLETED
            2h      w1 is HEALTHY, seen at 7199s, 0 in flight of 1 granted, does not ask
        "#]],
    );
}

#[test]
fn the_leases_of_a_lost_worker_end_by_their_own_time() {
    check(
        "
           0s  submit a ttl=100s
           0s  w1 takes 1
          99s  workers
          99s  w1 completes L1
        ",
        expect![[r#"
            0s      a is QUEUED
            0s      L1 of a to w1 until 100s
            99s     w1 is LOST, seen at 0s, 1 in flight of 1 granted, does not ask
            99s     a is COMPLETED with 1
            99s     w1: L1 COMMITTED; COMPLETED
        "#]],
    );
}

#[test]
fn a_worker_is_counted_with_what_it_holds() {
    check(
        "
           0s  submit a + b + c
           0s  w1 takes 2
           0s  w2 takes 5
           1s  w1 completes L1
           2s  workers
           2s  queues
        ",
        expect![[r#"
            0s      a is QUEUED
            0s      b is QUEUED
            0s      c is QUEUED
            0s      L1 of a to w1 until 30s
            0s      L2 of b to w1 until 30s
            0s      L3 of c to w2 until 30s
            1s      a is COMPLETED with 1
            1s      w1: L1 COMMITTED; COMPLETED
            2s      w1 is HEALTHY, seen at 1s, 1 in flight of 2 granted, does not ask
            2s      w2 is HEALTHY, seen at 0s, 1 in flight of 1 granted, does not ask
            2s      queue default: 0 queued, 2 in flight, 0 retrying, 0 scheduled
        "#]],
    );
}

#[test]
fn a_registered_worker_is_known_before_it_asks() {
    check(
        "
           0s  submit a needs=tool:x
           0s  explain a
           1s  w1 registers standard offers tool:x
           1s  w2 registers standard offers tool:y
           1s  explain a
           2s  w2 registers standard offers tool:x
           2s  explain a
           2s  workers
        ",
        expect![[r#"
            0s      a is QUEUED
            0s      explain a: QUEUED, attempts 0: no worker is known
            1s      w1 registers standard offers tool:x: done
            1s      w2 registers standard offers tool:y: done
            1s      explain a: QUEUED, attempts 0: 1 could take it, none asks; 1 lack tool x
            2s      w2 registers standard offers tool:x: done
            2s      explain a: QUEUED, attempts 0: 2 could take it, none asks
            2s      w1 is HEALTHY, seen at 1s, 0 in flight of 0 granted, does not ask
            2s      w2 is HEALTHY, seen at 2s, 0 in flight of 0 granted, does not ask
        "#]],
    );
}

#[test]
fn a_worker_is_as_patient_as_it_registered() {
    check(
        "
            0s  w1 registers slow offers tool:x
        34999ms workers
           35s  workers
           65s  workers
        89999ms workers
           90s  workers
           91s  w1 takes 1
          125s  workers
          126s  workers
          127s  w1 registers standard offers tool:x
          142s  workers
          162s  workers
        ",
        expect![[r#"
            0s      w1 registers slow offers tool:x: done
            34.999s w1 is HEALTHY, seen at 0s, 0 in flight of 0 granted, does not ask
            35s     w1 is WARN, seen at 0s, 0 in flight of 0 granted, does not ask
            65s     w1 is DEGRADED, seen at 0s, 0 in flight of 0 granted, does not ask
            89.999s w1 is DEGRADED, seen at 0s, 0 in flight of 0 granted, does not ask
            90s     w1 is LOST, seen at 0s, 0 in flight of 0 granted, does not ask
            91s     w1 gets nothing
            125s    w1 is HEALTHY, seen at 91s, 0 in flight of 0 granted, does not ask
            126s    w1 is WARN, seen at 91s, 0 in flight of 0 granted, does not ask
            127s    w1 registers standard offers tool:x: done
            142s    w1 is WARN, seen at 127s, 0 in flight of 0 granted, does not ask
            162s    w1 is LOST, seen at 127s, 0 in flight of 0 granted, does not ask
        "#]],
    );
}

#[test]
fn a_worker_that_unregisters_gives_back_and_is_forgotten() {
    check(
        "
           0s  submit a + b needs=tool:x
           0s  w1 registers slow offers tool:y
           0s  w1 takes 1
           0s  drain w1 pressure
           1s  w1 takes 1 waits 60s offers tool:x
           1s  w2 takes 1 waits 60s
           2s  w1 unregisters
           2s  workers
           3s  w1 unregisters
           3s  w1 completes L1
           4s  w1 takes 1 offers tool:x
        ",
        expect![[r#"
            0s      a is QUEUED
            0s      b is QUEUED
            0s      w1 registers slow offers tool:y: done
            0s      L1 of a to w1 until 30s
            0s      drain w1 pressure: done
            2s      L1 of a expired; a is QUEUED (attempts 0, losses 1)
            2s      L2 of a to w2 until 32s
            2s      w1 gets nothing
            2s      w1 unregisters: it is forgotten
            2s      w2 is HEALTHY, seen at 2s, 1 in flight of 1 granted, does not ask
            3s      w1 unregisters: it was not known
            3s      w1: L1 CANCELLED (superseded); RUNNING
            4s      L3 of b to w1 until 34s
        "#]],
    );
}

#[test]
fn a_new_process_does_not_keep_the_leases_of_the_one_before_it_alive() {
    check(
        "
          0s  w1 registers slow offers tool:jq
          0s  submit a + b + c
          1s  w1 takes 1
          2s  w1 takes 1
          3s  w1 registers slow offers tool:jq
          4s  w1 takes 1
         20s  w1 beats
         29s  w1 beats and counts 2
         40s  w1 beats
         45s  w1 beats
        ",
        expect![[r#"
            0s      w1 registers slow offers tool:jq: done
            0s      a is QUEUED
            0s      b is QUEUED
            0s      c is QUEUED
            1s      L1 of a to w1 until 31s
            2s      L2 of b to w1 until 32s
            3s      w1 registers slow offers tool:jq: done
            4s      L3 of c to w1 until 34s
            20s     w1: [EXTENDED until 50s]
            29s     w1: [EXTENDED until 59s, EXTENDED until 59s]
            31s     L1 of a expired; a is QUEUED (attempts 1, losses 1)
            40s     w1: [EXTENDED until 70s]
            45s     w1: [EXTENDED until 75s]
        "#]],
    );
}

#[test]
fn a_lease_that_its_holder_names_is_the_process_s_own() {
    check(
        "
          0s  submit a
          1s  w1 takes 1
          3s  w1 registers slow offers tool:jq
          4s  w1 beats
         20s  w1 beats L1
         40s  w1 beats
         41s  restart
         42s  w1 beats
         43s  w1 beats L1
         44s  w1 beats
        ",
        expect![[r#"
            0s      a is QUEUED
            1s      L1 of a to w1 until 31s
            3s      w1 registers slow offers tool:jq: done
            4s      w1: []
            20s     w1: L1 EXTENDED until 50s
            40s     w1: [EXTENDED until 70s]
            41s     restarted with 1 live tasks
            42s     w1: []
            43s     w1: L1 EXTENDED until 73s
            44s     w1: [EXTENDED until 74s]
        "#]],
    );
}

#[test]
fn what_a_tool_showed_is_remembered_until_its_worker_registers_anew_or_leaves() {
    check(
        "
          0s  w1 registers slow offers tool:jq,tool:sort
          0s  w2 registers slow offers tool:jq
          1s  w1 shows jq 1.6
          2s  w1 shows jq 1.7
          2s  w1 shows sort 9.1
          2s  w2 shows jq 1.5
          3s  restart
          4s  w1 says slow offers tool:jq
          4s  w2 says slow offers tool:jq
          4s  workers
          5s  w1 registers slow offers tool:jq
          6s  w2 unregisters
          7s  restart
          8s  w1 says slow offers tool:jq
          8s  w2 says slow offers tool:jq
          8s  workers
        ",
        expect![[r#"
            0s      w1 registers slow offers tool:jq,tool:sort: done
            0s      w2 registers slow offers tool:jq: done
            1s      w1 shows jq 1.6: done
            2s      w1 shows jq 1.7: done
            2s      w1 shows sort 9.1: done
            2s      w2 shows jq 1.5: done
            3s      restarted with 0 live tasks
            4s      w1 says slow offers tool:jq: done
            4s      w2 says slow offers tool:jq: done
            4s      w1 is HEALTHY, seen at 4s, 0 in flight of 0 granted, does not ask, showed jq 1.7 at 2s, showed sort 9.1 at 2s
            4s      w2 is HEALTHY, seen at 4s, 0 in flight of 0 granted, does not ask, showed jq 1.5 at 2s
            5s      w1 registers slow offers tool:jq: done
            6s      w2 unregisters: it is forgotten
            7s      restarted with 0 live tasks
            8s      w1 says slow offers tool:jq: done
            8s      w2 says slow offers tool:jq: done
            8s      w1 is HEALTHY, seen at 8s, 0 in flight of 0 granted, does not ask
            8s      w2 is HEALTHY, seen at 8s, 0 in flight of 0 granted, does not ask
        "#]],
    );
}

#[test]
fn what_a_person_said_of_a_worker_outlives_its_leaving() {
    check(
        "
           0s  submit a
           0s  w1 registers slow offers tool:y
           0s  drain w1 by ada
           1s  w1 unregisters
           2s  w1 takes 1
        ",
        expect![[r#"
            0s      a is QUEUED
            0s      w1 registers slow offers tool:y: done
            0s      drain w1 by ada: done
            1s      w1 unregisters: it is forgotten
            2s      w1 gets nothing
        "#]],
    );
}

#[test]
fn a_reporter_that_was_never_heard_of_is_not_made_a_worker() {
    check(
        "
           0s  ghost completes nobody#1
           0s  workers
        ",
        expect![[r#"
            0s      ghost: nobody#1 REJECTED (unknown_task); no such task
        "#]],
    );
}

#[test]
fn one_worker_too_many_is_refused_by_every_way_in() {
    let mut coordinator = Coordinator::restore(shard(), 0, [], at());
    for number in 0..WORKERS_MAX {
        let request = plain_request(worker(number), at().now);
        let command = Command::Ask(Ticket(0), Question::RequestLeases { request });
        coordinator.handle(at(), command);
    }
    assert_eq!(n_workers(&mut coordinator), WORKERS_MAX);

    let request = plain_request(worker(WORKERS_MAX), at().now);
    let step =
        coordinator.handle(at(), Command::Ask(Ticket(0), Question::RequestLeases { request }));
    expect![[r#"
        Step {
            changes: [],
            runs: [],
            tenant: [],
            effects: [
                Answer {
                    ticket: Ticket(
                        0,
                    ),
                    answer: Refused(
                        WorkersFull,
                    ),
                },
            ],
        }
    "#]]
    .assert_debug_eq(&step);

    let (offer, silence_limits) = (Arc::default(), SilenceLimits::SLOW);
    let command = Command::Ask(
        Ticket(0),
        Question::Register { worker: worker(WORKERS_MAX), offer, silence_limits, anew: true },
    );
    assert_eq!(coordinator.handle(at(), command), step, "a register is refused like a request");

    let stranger = worker(WORKERS_MAX + 1);
    let (ticket, leases) = (Ticket(0), Renewal::Unlisted { n_active: 0 });
    coordinator
        .handle(at(), Command::Ask(ticket, Question::Heartbeat { worker: stranger, leases }));
    assert_eq!(n_workers(&mut coordinator), WORKERS_MAX);

    let request = plain_request(worker(0), at().now);
    let step =
        coordinator.handle(at(), Command::Ask(Ticket(0), Question::RequestLeases { request }));
    expect![[r#"
        Step {
            changes: [],
            runs: [],
            tenant: [],
            effects: [
                Answer {
                    ticket: Ticket(
                        0,
                    ),
                    answer: Leases(
                        [],
                    ),
                },
            ],
        }
    "#]]
    .assert_debug_eq(&step);
}

fn at() -> Moment {
    Moment { now: START, wall: START, entropy: 0 }
}

fn worker(number: usize) -> WorkerId {
    format!("w{number}").parse().expect("a worker")
}

fn n_workers(coordinator: &mut Coordinator) -> usize {
    let step = coordinator.handle(at(), Command::Ask(Ticket(0), Question::ListWorkers));
    match step.effects.as_slice() {
        [Effect::Answer { answer: coordinator::Answer::Workers(workers), .. }] => workers.len(),
        effects => panic!("one list of workers: {effects:?}"),
    }
}
