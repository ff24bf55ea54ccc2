//! The same random commands for our keyspace and for a real Redis: they answer the same.
//!
//! `KEYSPACE_SEED` repeats a run, `KEYSPACE_COMMANDS` makes it longer.

use bytes::Bytes;
use keyspace::{Answer, Keyspace, Limits};
use model::Timestamp;
use resp_rs::resp3::Frame;

use crate::compare::{Version, agree};
use crate::generator::{Generator, Step};
use crate::grammar::Order;
use crate::redis::Redis;
use crate::support::{RowTable, execute, rows_of, setting, shown, wall_clock};

const COMMANDS_DEFAULT: u64 = 200_000;

/// Commands that are under way at once.
const COMMANDS_PER_BATCH: usize = 500;

/// After so many batches both start anew.
const BATCHES_PER_LIFE: u64 = 10;

/// The two versions are tried with different commands.
const SEEDS_APART: u64 = 1 << 50;

/// Commands that a failure shows.
const SHOWN_MAX: usize = 40;

#[test]
fn a_keyspace_answers_as_redis_does_in_version_2() {
    compare_with_redis(Version::Two);
}

#[test]
fn a_keyspace_answers_as_redis_does_in_version_3() {
    compare_with_redis(Version::Three);
}

fn compare_with_redis(version: Version) {
    let other_seeds = if version == Version::Three { SEEDS_APART } else { 0 };
    let seed = setting("KEYSPACE_SEED").unwrap_or_else(|| wall_clock() + other_seeds);
    let n_commands = setting("KEYSPACE_COMMANDS").unwrap_or(COMMANDS_DEFAULT) / 2;
    let mut redis = Redis::start();
    if version == Version::Three {
        redis.ask(&[words("hello 3")]);
    }
    let mut n_done = 0;
    for life in seed.. {
        println!("KEYSPACE_SEED={life} repeats what follows");
        n_done += live(&mut redis, life, version);
        if n_done >= n_commands {
            break;
        }
    }
}

/// One life of both, from empty on.
fn live(redis: &mut Redis, seed: u64, version: Version) -> u64 {
    redis.ask(&[words("flushall")]);
    let mut space = Keyspace::new(Limits::default());
    let mut generator = Generator::new(seed);
    let mut table = RowTable::default();
    let mut history = Vec::new();
    for _ in 0..BATCHES_PER_LIFE {
        let steps: Vec<Step> = (0..COMMANDS_PER_BATCH).map(|_| generator.step()).collect();
        let replies = ask(redis, &steps);
        let now = Timestamp::from_millis(wall_clock());
        for (step, reply) in steps.into_iter().zip(replies) {
            let answer = execute(&mut space, now, &step.arguments);
            let is_same = agree(&answer, &reply, step.order, version);
            history.push(step.arguments);
            assert!(is_same, "{}", difference(&history, &answer, &reply, seed));
        }
        table.apply(space.take_writes());
        assert_eq!(table.rows(), rows_of(&space), "the rows are not what the keyspace holds");
    }
    history.len() as u64
}

/// Replies to all steps. What could wait goes through a transaction, where nothing does.
fn ask(redis: &mut Redis, steps: &[Step]) -> Vec<Frame> {
    let mut commands = Vec::new();
    for step in steps {
        if step.order == Order::Blocking {
            commands.extend([words("multi"), step.arguments.clone(), words("exec")]);
        } else {
            commands.push(step.arguments.clone());
        }
    }
    let mut replies = redis.ask(&commands).into_iter();
    let mut reply = || replies.next().expect("one for each");
    let of_step = |step: &Step| {
        if step.order != Order::Blocking {
            return reply();
        }
        let (_, queued, executed) = (reply(), reply(), reply());
        if queued.is_error() { queued } else { executed.as_array().expect("an array")[0].clone() }
    };
    steps.iter().map(of_step).collect()
}

fn words(line: &str) -> Vec<Bytes> {
    line.split(' ').map(|word| Bytes::copy_from_slice(word.as_bytes())).collect()
}

/// The commands before that have to do with the same keys, and the two answers.
fn difference(history: &[Vec<Bytes>], answer: &Answer, reply: &Frame, seed: u64) -> String {
    let last = history.last().expect("at least one");
    let keys = Generator::keys();
    let keys: Vec<&Bytes> = last[1..].iter().filter(|one| keys.contains(one)).collect();
    let is_related = |arguments: &&Vec<Bytes>| arguments.iter().any(|one| keys.contains(&one));
    let related = history.iter().rev().filter(is_related).take(SHOWN_MAX);
    let mut lines: Vec<String> = related.map(|arguments| shown(arguments)).collect();
    lines.reverse();
    let commands = lines.join("\n");
    format!(
        "{commands}\nthe last of these: {}\nours:   {answer:?}\nRedis': {reply:?}\n\
         KEYSPACE_SEED={seed} KEYSPACE_COMMANDS=1 shows it again",
        shown(last)
    )
}
