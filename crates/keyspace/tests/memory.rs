//! The bytes that a keyspace counts are about those that the process takes. In a process of its
//! own, where nothing else takes any.

use std::fs;

use bytes::Bytes;
use keyspace::{Keyspace, Limits, Moment};
use model::Timestamp;

const PAGE_BYTES: usize = 4_096;

/// How many elements of each kind.
const ELEMENTS: usize = 60_000;

/// How far the count may be from what the process takes, in percent.
const COUNT_PERCENT_MIN: usize = 60;
const COUNT_PERCENT_MAX: usize = 250;

#[test]
fn counted_bytes_are_about_what_the_process_takes() {
    for (name, length) in [
        ("set NAME VALUE", 10),
        ("set NAME VALUE", 500),
        ("rpush key VALUE", 10),
        ("rpush key VALUE", 500),
        ("hset key NAME VALUE", 10),
        ("sadd key NAME", 0),
        ("zadd key 1 NAME", 0),
        ("rpush NAME VALUE", 10),
        ("set NAME VALUE px 1000", 10),
    ] {
        let mut space = Keyspace::new(Limits::default());
        let before = resident_bytes();
        for n in 0..ELEMENTS {
            let value = "x".repeat(length);
            let words = name.replace("NAME", &format!("name-{n}")).replace("VALUE", &value);
            let words: Vec<Bytes> = words.split(' ').map(|word| word.to_owned().into()).collect();
            let at = Moment { now: Timestamp::from_millis(0), entropy: 0 };
            space.execute(at, &words);
            space.take_writes();
            space.take_grown();
        }
        let taken = resident_bytes().saturating_sub(before);
        let percent = space.used_bytes() * 100 / taken.max(1);
        println!("{name} of {length}: {percent} % of {taken} bytes are counted");
        assert!((COUNT_PERCENT_MIN..=COUNT_PERCENT_MAX).contains(&percent), "{name}: {percent} %");
        // What is freed must not serve the next one, whose growth would not show.
        std::mem::forget(space);
    }
}

fn resident_bytes() -> usize {
    let statm = fs::read_to_string("/proc/self/statm").expect("Linux");
    let pages: usize = statm.split(' ').nth(1).expect("a second number").parse().expect("digits");
    pages * PAGE_BYTES
}
