//! The bytes that a keyspace counts are about those that the process takes. In a process of its
//! own, where nothing else takes any.

use std::fs;
use std::sync::Mutex;

use bytes::Bytes;
use keyspace::{Keyspace, Limits, Operation, hashes, lists, sorted_sets, strings};
use model::Timestamp;

const PAGE_BYTES: usize = 4_096;

/// How many elements of each kind.
const ELEMENTS: usize = 60_000;

/// Rows are taken after so many commands, as a store would.
const COMMANDS_PER_BATCH: usize = 1_000;

/// How far the count may be from what the process takes, in percent.
const COUNT_PERCENT_MIN: usize = 60;
const COUNT_PERCENT_MAX: usize = 250;

/// How much may stay of what was removed, in all.
const LEFT_BYTES_MAX: usize = 16 << 20;

/// The tests take turns, because each looks at the whole process.
static TURN: Mutex<()> = Mutex::new(());

#[test]
fn what_is_removed_gives_its_memory_back() {
    let _turn = TURN.lock().expect("no other test has failed");
    for (add, remove) in [
        ("rpush KEY NAME", "rpop KEY"),
        ("hset KEY NAME 1", "hdel KEY NAME"),
        ("zadd KEY 1 NAME", "zrem KEY NAME"),
    ] {
        let mut space = Keyspace::new(roomy());
        let before = resident_bytes();
        for key in 0..10 {
            let words = |line: &str, n: usize| {
                line.replace("KEY", &format!("key-{key}")).replace("NAME", &format!("name-{n}"))
            };
            (0..ELEMENTS).for_each(|n| run(&mut space, &words(add, n)));
            // One element stays, so that the key does.
            (1..ELEMENTS).for_each(|n| run(&mut space, &words(remove, n)));
            space.take_writes();
        }
        assert_eq!(space.len(), 10, "{add}");
        let left = resident_bytes().saturating_sub(before);
        println!("{add}: {left} bytes are left");
        assert!(left < LEFT_BYTES_MAX, "{add}: {left} bytes are left");
    }
}

#[test]
fn counted_bytes_are_about_what_the_process_takes() {
    let _turn = TURN.lock().expect("no other test has failed");
    for (name, length) in [
        ("set NAME VALUE", 10),
        ("set NAME VALUE", 500),
        ("rpush key VALUE", 10),
        ("rpush key VALUE", 500),
        ("hset key NAME VALUE", 10),
        ("zadd key 1 NAME", 0),
        ("rpush NAME VALUE", 10),
        ("set NAME VALUE px 1000", 10),
    ] {
        let mut space = Keyspace::new(roomy());
        let before = resident_bytes();
        for n in 0..ELEMENTS {
            let value = "x".repeat(length);
            let words = name.replace("NAME", &format!("name-{n}")).replace("VALUE", &value);
            run(&mut space, &words);
            if n % COMMANDS_PER_BATCH == 0 {
                space.take_writes();
            }
        }
        space.take_writes();
        let taken = resident_bytes().saturating_sub(before);
        let percent = space.used_bytes() * 100 / taken.max(1);
        println!("{name} of {length}: {percent} % of {taken} bytes are counted");
        assert!((COUNT_PERCENT_MIN..=COUNT_PERCENT_MAX).contains(&percent), "{name}: {percent} %");
        // What is freed must not serve the next one, whose growth would not show.
        std::mem::forget(space);
    }
}

/// Collections may be large, so that their elements outweigh everything else.
fn roomy() -> Limits {
    let (collection_bytes_max, collection_elements_max) = (usize::MAX, usize::MAX);
    Limits { collection_bytes_max, collection_elements_max, ..Limits::default() }
}

fn run(space: &mut Keyspace, words: &str) {
    let words: Vec<Bytes> = words.split(' ').map(|word| word.to_owned().into()).collect();
    let operation: Operation = match &words[0][..] {
        b"set" => strings::set,
        b"rpush" => lists::rpush,
        b"rpop" => lists::rpop,
        b"hset" => hashes::hset,
        b"hdel" => hashes::hdel,
        b"zadd" => sorted_sets::zadd,
        b"zrem" => sorted_sets::zrem,
        other => panic!("{other:?}"),
    };
    space.execute(Timestamp::from_millis(0), operation, &words);
    space.take_grown();
}

fn resident_bytes() -> usize {
    let statm = fs::read_to_string("/proc/self/statm").expect("Linux");
    let pages: usize = statm.split(' ').nth(1).expect("a second number").parse().expect("digits");
    pages * PAGE_BYTES
}
