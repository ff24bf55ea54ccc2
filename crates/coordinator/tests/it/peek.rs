//! A look at what would be granted next.

use coordinator::{Answer, Command, Coordinator, Effect, Moment, PEEK_MAX, Question, Ticket};
use expect_test::expect;
use model::TaskId;

use crate::story::{START, check, plain_task, shard};

#[test]
fn the_order_is_that_of_the_grants() {
    check(
        "
          0s  submit a + b type=y prio=5 + c type=z + d prio=5 + e queue=slow prio=9 type=y
          0s  peek
          1s  peek skip=1 limit=3
          1s  peek skip=4
          1s  peek skip=9
          1s  peek limit=0
          2s  w1 takes 9
          2s  peek
        ",
        expect![[r#"
            0s      a is QUEUED
            0s      b is QUEUED
            0s      c is QUEUED
            0s      d is QUEUED
            0s      e is QUEUED
            0s      peek: [e, b, d, a, c] of 5
            1s      peek skip=1 limit=3: [b, d, a] of 5
            1s      peek skip=4: [c] of 5
            1s      peek skip=9: [] of 5
            1s      peek limit=0: [] of 5
            2s      L1 of e to w1 until 32s
            2s      L2 of b to w1 until 32s
            2s      L3 of d to w1 until 32s
            2s      L4 of a to w1 until 32s
            2s      L5 of c to w1 until 32s
            2s      peek: [] of 0
        "#]],
    );
}

#[test]
fn queues_and_types_narrow_it() {
    check(
        "
          0s  submit a + b type=y queue=q1 + c type=z queue=q2 + d type=y queue=q2
          0s  peek queues=q1,q2
          0s  peek queues=q1,q1
          0s  peek types=y,noop
          0s  peek queues=q2 types=y limit=1
          0s  peek queues=nobody
        ",
        expect![[r#"
            0s      a is QUEUED
            0s      b is QUEUED
            0s      c is QUEUED
            0s      d is QUEUED
            0s      peek queues=q1,q2: [b, c, d] of 3
            0s      peek queues=q1,q1: [b] of 1
            0s      peek types=y,noop: [a, b, d] of 3
            0s      peek queues=q2 types=y limit=1: [d] of 1
            0s      peek queues=nobody: [] of 0
        "#]],
    );
}

#[test]
fn what_waits_or_runs_or_stands_behind_a_key_is_not_shown_and_what_is_paused_is() {
    check(
        "
          0s  submit later after=9s + first ckey=k + second ckey=k + slow queue=slow + held prio=9
          0s  w1 takes 1
          0s  pause slow by ada
          1s  peek
         10s  peek
        ",
        expect![[r#"
            0s      later is WAITING until 9s
            0s      first is QUEUED
            0s      second is QUEUED
            0s      slow is QUEUED
            0s      held is QUEUED
            0s      L1 of held to w1 until 30s
            0s      pause slow by ada: done
            1s      peek: [first, slow] of 2
            10s     peek: [later, first, slow] of 3
        "#]],
    );
}

#[test]
fn no_call_looks_further_than_it_may() {
    let at = Moment { now: START, wall: START, entropy: 0 };
    let mut coordinator = Coordinator::restore(shard(), 0, [], at);
    let tasks = vec![plain_task(); PEEK_MAX + 10];
    coordinator.handle(at, Command::Ask(Ticket(0), Question::Submit { tasks }));
    let mut peek = |skip, limit| {
        let (ticket, queues, types) = (Ticket(0), Vec::new(), None);
        let command = Command::Ask(ticket, Question::Peek { queues, types, skip, limit });
        match coordinator.handle(at, command).effects.remove(0) {
            Effect::Answer { answer: Answer::Peeked { tasks, total }, .. } => (tasks, total),
            effect => panic!("not a look: {effect:?}"),
        }
    };
    let most = u32::try_from(PEEK_MAX).expect("a small number");
    let (all, total) = peek(0, u32::MAX);
    assert_eq!((all.len(), total), (PEEK_MAX, PEEK_MAX as u64 + 10));
    assert_eq!(peek(most - 1, u32::MAX).0, [TaskId::of(shard(), u64::from(most) - 1)]);
    assert_eq!(peek(u32::MAX, u32::MAX).0, []);
}
