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
    // Half of the keys stay; the others come and go between the portions.
    for seed in 0..20 {
        let mut chance = Chance::new(seed);
        let mut space = Keyspace::new(Limits::default());
        let alter = |space: &mut Keyspace, command: &str, n: usize| {
            run(space, 0, &command.replace("NAME", &format!("n{n}")));
        };
        for n in 0..ELEMENTS {
            alter(&mut space, "set NAME 1", n);
        }
        let mut cursor = String::from("0");
        let mut seen = BTreeSet::new();
        loop {
            let command = format!("scan {cursor} count 7");
            let (next, found) = portion(&run(&mut space, 0, &command));
            seen.extend(found);
            if next == "0" {
                break;
            }
            cursor = next;
            for _ in 0..chance.below(9) {
                let n = 1 + 2 * chance.below(ELEMENTS / 2);
                let command = if chance.percent(70) { "del NAME" } else { "set NAME 1" };
                alter(&mut space, command, n);
            }
        }
        for n in (0..ELEMENTS).step_by(2) {
            assert!(seen.contains(format!("n{n}").as_bytes()), "n{n}, seed {seed}");
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
