//! Workflows that the clock starts: once for each moment, whatever crashes and however clocks are
//! set.

use coordinator::{BACKFILL_WAITING_MAX, Command, Question, SCHEDULES_MAX, WAITING_MOMENTS_MAX};
use expect_test::{Expect, expect};
use model::{RunId, Timestamp};

use self::world::{Crash, World, later, schedule_id, second};
use crate::story::START;

mod world;

#[test]
fn a_moment_starts_its_run_in_the_turn_that_says_so() {
    check(
        "
          add skip */10 * * * * *
          wait 10
          prepared
          wait 5
          show
        ",
        expect![[r#"
            0s    add skip */10 * * * * *: done
            10s   prepare 10s
            10s   run 1 started
            10s   10s gave run 1; waiting [], past []
            15s   10s gave run 1; waiting [], past []
        "#]],
    );
}

#[test]
fn while_the_run_before_goes_on_a_moment_is_skipped() {
    check(
        "
          add skip */10 * * * * *
          wait 10
          prepared
          wait 10
          ends 1
          wait 10
          prepared
          show
        ",
        expect![[r#"
            0s    add skip */10 * * * * *: done
            10s   prepare 10s
            10s   run 1 started
            10s   10s gave run 1; waiting [], past []
            20s   20s gave run 1 still went on; waiting [], past []
            20s   run 1 ended
            20s   ends 1: done
            30s   prepare 30s
            30s   run 2 started
            30s   30s gave run 2; waiting [], past []
            30s   30s gave run 2; waiting [], past []
        "#]],
    );
}

#[test]
fn or_it_waits_and_starts_in_the_turn_that_ends_the_run_before() {
    check(
        "
          add queue */10 * * * * *
          wait 10
          prepared
          wait 20
          ends 1
          prepared
          restart
          ends 2
          prepared
          show
        ",
        expect![[r#"
            0s    add queue */10 * * * * *: done
            10s   prepare 10s
            10s   run 1 started
            10s   10s gave run 1; waiting [], past []
            20s   10s gave run 1; waiting [20s], past []
            30s   10s gave run 1; waiting [20s 30s], past []
            30s   run 1 ended
            30s   ends 1: done
            30s   prepare 20s
            30s   run 2 started
            30s   20s gave run 2; waiting [30s], past []
            30s   restarted
            30s   run 2 ended
            30s   ends 2: done
            30s   prepare 30s
            30s   run 3 started
            30s   30s gave run 3; waiting [], past []
            30s   30s gave run 3; waiting [], past []
        "#]],
    );
}

#[test]
fn or_it_stops_the_run_before_in_the_same_turn() {
    check(
        "
          add cancel */10 * * * * *
          wait 10
          prepared
          wait 10
          lost prepared
          prepared
          show
        ",
        expect![[r#"
            0s    add cancel */10 * * * * *: done
            10s   prepare 10s
            10s   run 1 started
            10s   10s gave run 1; waiting [], past []
            20s   prepare 20s
            20s   restarted
            20s   prepare 20s
            20s   run 1 ended
            20s   run 2 started
            20s   20s gave run 2; waiting [], past []
            20s   20s gave run 2; waiting [], past []
        "#]],
    );
}

#[test]
fn or_it_runs_beside_it() {
    check(
        "
          add allow */10 * * * * *
          wait 10
          prepared
          wait 10
          prepared
          show
        ",
        expect![[r#"
            0s    add allow */10 * * * * *: done
            10s   prepare 10s
            10s   run 1 started
            10s   10s gave run 1; waiting [], past []
            20s   prepare 20s
            20s   run 2 started
            20s   20s gave run 2; waiting [], past []
            20s   20s gave run 2; waiting [], past []
        "#]],
    );
}

#[test]
fn a_run_that_ends_while_the_next_is_prepared_is_not_stopped() {
    check(
        "
          add cancel */10 * * * * *
          wait 10
          prepared
          wait 10
          ends 1
          prepared
        ",
        expect![[r#"
            0s    add cancel */10 * * * * *: done
            10s   prepare 10s
            10s   run 1 started
            10s   10s gave run 1; waiting [], past []
            20s   prepare 20s
            20s   run 1 ended
            20s   ends 1: done
            20s   run 2 started
            20s   20s gave run 2; waiting [], past []
        "#]],
    );
}

#[test]
fn a_crash_before_the_turn_is_durable_prepares_again_and_one_after_it_does_not() {
    check(
        "
          add skip */10 * * * * *
          wait 10
          restart
          lost prepared
          prepared
          restart
          wait 5
          show
        ",
        expect![[r#"
            0s    add skip */10 * * * * *: done
            10s   prepare 10s
            10s   restarted
            10s   prepare 10s
            10s   restarted
            10s   prepare 10s
            10s   run 1 started
            10s   10s gave run 1; waiting [], past []
            10s   restarted
            15s   10s gave run 1; waiting [], past []
        "#]],
    );
}

#[test]
fn of_moments_that_passed_while_nobody_looked_the_latest_gets_a_run() {
    check(
        "
          add allow */10 * * * * *
          down 35
          restart
          prepared
          wait 4
          show
        ",
        expect![[r#"
            0s    add allow */10 * * * * *: done
            35s   restarted
            35s   prepare 30s
            35s   run 1 started
            35s   30s gave run 1; waiting [], past []
            39s   30s gave run 1; waiting [], past []
        "#]],
    );
}

#[test]
fn the_wall_clock_may_be_set() {
    check(
        "
          add allow 0 * * * * *
          wall 300
          wait 30
          prepared
          wall -240
          wait 60
          show
          wait 240
          prepared
        ",
        expect![[r#"
            0s    add allow 0 * * * * *: done
            20s   prepare 320s
            30s   run 1 started
            30s   320s gave run 1; waiting [], past []
            90s   320s gave run 1; waiting [], past []
            320s  prepare 380s
            330s  run 2 started
            330s  380s gave run 2; waiting [], past []
        "#]],
    );
}

#[test]
fn what_passes_during_a_pause_is_not_made_up_for() {
    check(
        "
          add queue */10 * * * * *
          wait 10
          prepared
          wait 10
          pause
          wait 20
          resume
          ends 1
          wait 4
          show
          wait 6
          prepared
        ",
        expect![[r#"
            0s    add queue */10 * * * * *: done
            10s   prepare 10s
            10s   run 1 started
            10s   10s gave run 1; waiting [], past []
            20s   10s gave run 1; waiting [20s], past []
            20s   pause: done
            40s   resume: done
            40s   run 1 ended
            40s   ends 1: done
            44s   10s gave run 1; waiting [], past []
            50s   prepare 50s
            50s   run 2 started
            50s   50s gave run 2; waiting [], past []
        "#]],
    );
}

#[test]
fn what_waits_goes_on_during_a_pause() {
    check(
        "
          add queue */10 * * * * *
          wait 10
          prepared
          wait 10
          pause
          ends 1
          prepared
          ends 2
          wait 60
          show
        ",
        expect![[r#"
            0s    add queue */10 * * * * *: done
            10s   prepare 10s
            10s   run 1 started
            10s   10s gave run 1; waiting [], past []
            20s   10s gave run 1; waiting [20s], past []
            20s   pause: done
            20s   run 1 ended
            20s   ends 1: done
            20s   prepare 20s
            20s   run 2 started
            20s   20s gave run 2; waiting [], past []
            20s   run 2 ended
            20s   ends 2: done
            80s   20s gave run 2; waiting [], past []
        "#]],
    );
}

#[test]
fn a_backfill_follows_what_runs_and_ends_with_its_rule() {
    check(
        "
          add skip */10 * * * * *
          pause
          backfill -30 -20
          prepared
          backfill -20 -10
          ends 1
          impossible
          restart
          existing 1
          show
          backfill -50 -40
          rule 0 0 1 1 *
          prepared
          show
        ",
        expect![[r#"
            0s    add skip */10 * * * * *: done
            0s    pause: done
            0s    nothing yet; waiting [], past [-30s -20s]
            0s    backfill -30 -20: done
            0s    prepare -30s
            0s    run 1 started
            0s    -30s gave run 1; waiting [], past [-20s]
            0s    -30s gave run 1; waiting [], past [-20s -10s]
            0s    backfill -20 -10: done
            0s    run 1 ended
            0s    ends 1: done
            0s    prepare -20s
            0s    -20s gave no such flow; waiting [], past [-10s]
            0s    prepare -10s
            0s    restarted
            0s    prepare -10s
            0s    -10s gave run 1; waiting [], past []
            0s    -10s gave run 1; waiting [], past []
            0s    -10s gave run 1; waiting [], past [-50s -40s]
            0s    backfill -50 -40: done
            0s    prepare -50s
            0s    rule 0 0 1 1 *: done
            0s    -10s gave run 1; waiting [], past []
        "#]],
    );
}

#[test]
fn what_the_clock_asked_for_comes_before_the_past() {
    check(
        "
          add queue */10 * * * * *
          wait 10
          prepared
          backfill -30 -20
          wait 10
          ends 1
          prepared
          ends 2
          prepared
          pause
          ends 3
          prepared
          show
        ",
        expect![[r#"
            0s    add queue */10 * * * * *: done
            10s   prepare 10s
            10s   run 1 started
            10s   10s gave run 1; waiting [], past []
            10s   10s gave run 1; waiting [], past [-30s -20s]
            10s   backfill -30 -20: done
            20s   10s gave run 1; waiting [20s], past [-30s -20s]
            20s   run 1 ended
            20s   ends 1: done
            20s   prepare 20s
            20s   run 2 started
            20s   20s gave run 2; waiting [], past [-30s -20s]
            20s   run 2 ended
            20s   ends 2: done
            20s   prepare -30s
            20s   run 3 started
            20s   -30s gave run 3; waiting [], past [-20s]
            20s   pause: done
            20s   run 3 ended
            20s   ends 3: done
            20s   prepare -20s
            20s   run 4 started
            20s   -20s gave run 4; waiting [], past []
            20s   -20s gave run 4; waiting [], past []
        "#]],
    );
}

#[test]
fn what_cannot_start_for_now_is_tried_again_and_holds_up_no_other() {
    check(
        "
          add skip */10 * * * * *
          schedule 2
          add skip */10 * * * * *
          wait 10
          later
          prepared
          wait 1
          wait 1
          prepared
        ",
        expect![[r#"
            0s    add skip */10 * * * * *: done
            0s    add skip */10 * * * * *: done
            10s   prepare 10s
            10s   2: prepare 10s
            10s   run 1 started
            10s   2: 10s gave run 1; waiting [], past []
            12s   prepare 10s
            12s   run 2 started
            12s   10s gave run 2; waiting [], past []
        "#]],
    );
}

#[test]
fn what_was_changed_while_it_was_prepared_is_prepared_anew() {
    check(
        "
          add skip */10 * * * * *
          wait 10
          change cancel
          prepared
          prepared
          show
        ",
        expect![[r#"
            0s    add skip */10 * * * * *: done
            10s   prepare 10s
            10s   change cancel: done
            10s   prepare 10s
            10s   run 1 started
            10s   10s gave run 1; waiting [], past []
            10s   10s gave run 1; waiting [], past []
        "#]],
    );
}

#[test]
fn what_was_paused_while_it_was_prepared_does_not_start() {
    check(
        "
          add skip */10 * * * * *
          wait 10
          pause
          prepared
          show
        ",
        expect![[r#"
            0s    add skip */10 * * * * *: done
            10s   prepare 10s
            10s   pause: done
            10s   nothing yet; waiting [], past []
        "#]],
    );
}

#[test]
fn what_was_removed_while_it_was_prepared_does_not_start() {
    check(
        "
          add skip */10 * * * * *
          schedule 2
          add skip */10 * * * * *
          wait 10
          schedule 1
          remove
          prepared
          prepared
          wait 30
          remove
        ",
        expect![[r#"
            0s    add skip */10 * * * * *: done
            0s    add skip */10 * * * * *: done
            10s   prepare 10s
            10s   remove: done
            10s   2: prepare 10s
            10s   run 1 started
            10s   2: 10s gave run 1; waiting [], past []
            20s   2: 20s gave run 1 still went on; waiting [], past []
            30s   2: 30s gave run 1 still went on; waiting [], past []
            40s   2: 40s gave run 1 still went on; waiting [], past []
            40s   remove: Refused(UnknownSchedule)
        "#]],
    );
}

/// Whatever turn the server dies at, before or after it is durable, every moment comes to what it
/// comes to without a crash.
#[test]
fn a_crash_at_any_turn_leaves_one_run_per_moment() {
    for overlap in ["skip", "queue", "cancel", "allow"] {
        let (without, n_turns) = outcomes(overlap, None);
        assert!(without.len() >= 5 && n_turns > 10, "{overlap}: {without:?}");
        for turns_left in 0..n_turns {
            for is_durable in [false, true] {
                let (with, _) = outcomes(overlap, Some(Crash { turns_left, is_durable }));
                assert_eq!(with, without, "{overlap}, turn {turns_left}, durable: {is_durable}");
            }
        }
    }
}

/// The moments of a minute and whether they got a run, and how many turns that took.
fn outcomes(overlap: &str, crash: Option<Crash>) -> (Vec<(String, bool)>, usize) {
    let mut world = World::new();
    world.deed(&format!("add {overlap} */10 * * * * *"));
    world.deed("backfill -20 -10");
    let far = Crash { turns_left: usize::MAX, is_durable: false };
    world.crash = Some(crash.unwrap_or(far));
    world.play(15);
    let n_turns = world.crash.map_or(0, |crash| usize::MAX - crash.turns_left);
    assert_eq!(world.crash.is_some(), crash.is_none(), "the crash came");
    let with_run = world.fired.iter().filter_map(|(_, run)| *run);
    let started: Vec<RunId> = world.runs.keys().copied().collect();
    assert_eq!(with_run.collect::<Vec<_>>(), started, "every run belongs to a moment");
    let fired = world.fired.iter().map(|(due, run)| (second(*due), run.is_some())).collect();
    (fired, n_turns)
}

#[test]
fn too_many_moments_of_the_past_are_refused() {
    let mut world = World::new();
    world.deed("add skip */10 * * * * *");
    let moments = |count: usize| (0..count as u64).map(Timestamp::from_millis).collect();
    let schedule = world.id;
    let full = moments(BACKFILL_WAITING_MAX);
    world
        .ask("full", |ticket| Command::Ask(ticket, Question::Backfill { schedule, moments: full }));
    let again = vec![Timestamp::from_millis(0)];
    world.ask("again", |ticket| {
        Command::Ask(ticket, Question::Backfill { schedule, moments: again })
    });
    assert!(world.transcript.ends_with("again: done\n"), "what waits already is not added");
    let one_more = vec![Timestamp::from_millis(99_999)];
    world.ask("one more", |ticket| {
        Command::Ask(ticket, Question::Backfill { schedule, moments: one_more })
    });
    assert!(world.transcript.ends_with("one more: Refused(BackfillFull)\n"));
}

#[test]
fn when_too_many_moments_wait_the_next_passes_without_a_run() {
    let mut world = World::new();
    world.deed("add queue * * * * * *");
    world.deed("wait 1");
    world.deed("prepared");
    let waiting = |world: &World| world.kept.settings.schedules[&world.id].progress.waiting.len();
    world.pass(i64::try_from(WAITING_MOMENTS_MAX).expect("few"));
    assert_eq!(waiting(&world), WAITING_MOMENTS_MAX);
    world.deed("wait 1");
    assert_eq!(waiting(&world), WAITING_MOMENTS_MAX);
    let last = world.transcript.lines().last().expect("a line");
    assert!(last.starts_with("102s  102s gave 100 other times wait"), "{last}");
}

#[test]
fn one_schedule_too_many_is_refused() {
    let mut world = World::new();
    for number in 0..=SCHEDULES_MAX as u128 {
        world.id = schedule_id(number);
        world.deed("add skip 0 0 1 1 *");
    }
    assert!(world.transcript.ends_with(": Refused(SchedulesFull)\n"));
    assert_eq!(world.kept.settings.schedules.len(), SCHEDULES_MAX);
}

/// A tenant with a schedule is not looked at more often than the wall clock needs.
#[test]
fn a_schedule_wakes_the_shell_when_it_is_due_and_every_thirty_seconds() {
    let mut world = World::new();
    assert_eq!(world.coordinator.next_deadline(), None, "nothing without schedules");
    world.deed("add skip 40 * * * * *");
    assert_eq!(world.coordinator.next_deadline(), Some(later(START, 30)));
    world.deed("down 45");
    world.coordinator.tick(world.at());
    assert_eq!(world.coordinator.next_deadline(), Some(later(START, 60)));
    world.deed("pause");
    assert_eq!(world.coordinator.next_deadline(), None, "a paused one wakes nobody");
}

#[expect(clippy::needless_pass_by_value, reason = "`expect![[..]]` is a value where it is written")]
fn check(story: &str, expect: Expect) {
    let mut world = World::new();
    for line in story.lines().map(str::trim).filter(|line| !line.is_empty()) {
        world.deed(line);
    }
    expect.assert_eq(&world.transcript);
}
