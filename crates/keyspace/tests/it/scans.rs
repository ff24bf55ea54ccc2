//! A scan gives everything that stays, however much comes and goes meanwhile.

use std::collections::BTreeSet;

use bytes::Bytes;
use keyspace::{Answer, Keyspace, Limits};

use crate::chance::Chance;
use crate::compare::answers;
use crate::support::run;

const ELEMENTS: usize = 300;

#[test]
fn what_stays_is_given_whatever_else_happens() {
    check("scan CURSOR", "set NAME 1", "del NAME", 1);
    check("hscan key CURSOR", "hset key NAME 1", "hdel key NAME", 2);
    check("sscan key CURSOR", "sadd key NAME", "srem key NAME", 1);
    check("zscan key CURSOR", "zadd key 1 NAME", "zrem key NAME", 2);
}

/// Half of the elements stay; the others come and go between the portions.
fn check(scan: &str, add: &str, remove: &str, elements_per_name: usize) {
    for seed in 0..20 {
        let mut chance = Chance::new(seed);
        let mut space = Keyspace::new(Limits::default());
        let alter = |space: &mut Keyspace, command: &str, n: usize| {
            run(space, 0, &command.replace("NAME", &format!("n{n}")));
        };
        for n in 0..ELEMENTS {
            alter(&mut space, add, n);
        }
        let mut cursor = String::from("0");
        let mut seen = BTreeSet::new();
        loop {
            let command = format!("{} count 7", scan.replace("CURSOR", &cursor));
            let (next, found) = portion(&run(&mut space, 0, &command));
            seen.extend(found.into_iter().step_by(elements_per_name));
            if next == "0" {
                break;
            }
            cursor = next;
            for _ in 0..chance.below(9) {
                let n = 1 + 2 * chance.below(ELEMENTS / 2);
                let command = if chance.percent(70) { remove } else { add };
                alter(&mut space, command, n);
            }
        }
        for n in (0..ELEMENTS).step_by(2) {
            assert!(seen.contains(format!("n{n}").as_bytes()), "{scan}: n{n}, seed {seed}");
        }
    }
}

fn portion(answer: &Answer) -> (String, Vec<Bytes>) {
    let Answer::Array(parts) = answer else {
        panic!("{answer:?}");
    };
    let [Answer::Bulk(cursor), Answer::Array(found)] = &parts[..] else {
        panic!("{answer:?}");
    };
    (String::from_utf8(cursor.to_vec()).expect("digits"), answers(found))
}

#[test]
fn chance_reaches_every_element() {
    let mut space = Keyspace::new(Limits::default());
    run(&mut space, 0, "sadd set a b c d e");
    run(&mut space, 0, "hset hash a 1 b 2 c 3 d 4 e 5");
    for command in ["srandmember set", "hrandfield hash"] {
        let all: BTreeSet<_> =
            (0..200).map(|n| format!("{:?}", run(&mut space, n, command))).collect();
        assert_eq!(all.len(), 5, "{command}");
    }
    let mut popped = BTreeSet::new();
    for n in 0..5 {
        popped.insert(format!("{:?}", run(&mut space, n, "spop set")));
    }
    assert_eq!(popped.len(), 5);
    assert_eq!(run(&mut space, 0, "exists set"), Answer::Integer(0));
}
