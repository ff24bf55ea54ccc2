//! The writes are right: what a store keeps of them gives the same keyspace back.

use std::collections::BTreeMap;

use bytes::Bytes;
use keyspace::{Answer, Keyspace, Kind, Limits, Row, Write};
use model::Timestamp;

use crate::chance::Chance;
use crate::generator::{Generator, Step};
use crate::grammar::{GRAMMAR, Order};
use crate::support::{COMMANDS, RowTable, execute, rows_of, setting, shown, wall_clock};

/// Near the moments at which the generator lets keys end, so that some do.
const START_MILLIS: u64 = 4_000_000_000_000;

const LIVES: u64 = 20;

/// All rows are compared after so many of the steps.
const LOOKED_AT_PERCENT: usize = 10;

const STEPS_PER_LIFE: usize = 2_000;
const STEPS_AFTERWARDS: usize = 300;

#[test]
fn a_keyspace_comes_back_from_its_writes() {
    let first = setting("KEYSPACE_SEED").unwrap_or_else(wall_clock);
    for seed in first..first + LIVES {
        println!("KEYSPACE_SEED={seed} repeats what follows");
        let mut world = World::new(seed, Limits::default());
        for _ in 0..STEPS_PER_LIFE {
            world.step();
        }
        world.come_back();
    }
}

#[test]
fn nothing_grows_over_its_limit() {
    let limits = Limits {
        keyspace_bytes_max: 16_000,
        keys_max: 9,
        string_bytes_max: 60,
        collection_bytes_max: 70,
        collection_elements_max: 6,
        reply_bytes_max: 60,
    };
    let first = setting("KEYSPACE_SEED").unwrap_or_else(wall_clock);
    for seed in first..first + LIVES {
        println!("KEYSPACE_SEED={seed} repeats what follows");
        let mut world = World::new(seed, limits);
        for _ in 0..STEPS_PER_LIFE {
            world.step();
            assert!(world.space.used_bytes() <= limits.keyspace_bytes_max);
            assert!(world.space.len() <= limits.keys_max);
            for row in world.space.rows() {
                let is_string = row.kind == Kind::String;
                let bytes_max =
                    if is_string { limits.string_bytes_max } else { limits.collection_bytes_max };
                assert!(row.value.len() <= bytes_max, "{row:?}");
            }
        }
        world.come_back();
    }
}

#[test]
fn the_generator_reaches_every_command() {
    let mut world = World::new(1, Limits::default());
    for _ in 0..60_000 {
        world.step();
    }
    assert!(COMMANDS.iter().all(|(name, ..)| GRAMMAR.iter().any(|(known, ..)| known == name)));
    for (name, _, _) in GRAMMAR {
        let n_useful = world.n_useful.get(*name).copied().unwrap_or(0);
        assert!(n_useful >= 20, "{name} gave something {n_useful} times only");
    }
}

/// A keyspace, the store that keeps its rows, and the time.
struct World {
    space: Keyspace,
    limits: Limits,
    table: RowTable,
    generator: Generator,
    chance: Chance,
    millis: u64,
    /// Answers that gave something, by command.
    n_useful: BTreeMap<String, usize>,
}

impl World {
    fn new(seed: u64, limits: Limits) -> Self {
        Self {
            space: Keyspace::new(limits),
            limits,
            table: RowTable::default(),
            generator: Generator::new(seed),
            chance: Chance::new(!seed),
            millis: START_MILLIS,
            n_useful: BTreeMap::new(),
        }
    }

    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.millis)
    }

    fn step(&mut self) {
        if self.chance.percent(3) {
            self.millis += self.chance.bits() % 100_000_000_000;
        }
        if self.chance.percent(1) {
            self.space.sweep(Timestamp::from_millis(self.millis), 3);
        }
        self.keep();
        let before = self.chance.percent(LOOKED_AT_PERCENT).then(|| rows_of(&self.space));
        let Step { arguments, .. } = self.generator.step();
        let now = self.now();
        let answer = execute(&mut self.space, now, &arguments);
        self.count(&arguments, &answer);
        let writes = self.space.take_writes();
        let is_refused = matches!(answer, Answer::Error(_) | Answer::Block { .. });
        if let Some(before) = before.filter(|_| is_refused) {
            // Only what had ended is gone.
            let is_alive = |end: Option<Timestamp>| end.is_none_or(|end| end > now);
            let alive = |rows: Vec<Row>| -> Vec<_> {
                rows.into_iter().filter(|row| is_alive(row.expires_at)).collect()
            };
            let is_deletion = |write: &Write| matches!(write, Write::Delete(_));
            assert!(writes.iter().all(is_deletion), "{}: {writes:?}", shown(&arguments));
            assert_eq!(alive(before), alive(rows_of(&self.space)), "{}", shown(&arguments));
        }
        self.table.apply(writes);
        if self.chance.percent(LOOKED_AT_PERCENT) {
            assert_eq!(self.table.rows(), rows_of(&self.space), "{}", shown(&arguments));
        }
    }

    fn count(&mut self, arguments: &[Bytes], answer: &Answer) {
        let is_empty = match answer {
            Answer::Null | Answer::NullArray | Answer::Error(_) => true,
            Answer::Array(elements) => elements.is_empty(),
            Answer::Map(fields) => fields.is_empty(),
            Answer::Integer(number) => *number == 0,
            _ => false,
        };
        let name = String::from_utf8_lossy(&arguments[0]).to_ascii_lowercase();
        *self.n_useful.entry(name).or_default() += usize::from(!is_empty);
    }

    fn keep(&mut self) {
        self.table.apply(self.space.take_writes());
    }

    /// Starts a second keyspace from the rows, which goes on as the first one does.
    fn come_back(&mut self) {
        self.keep();
        let mut restored = Keyspace::restore(self.limits, self.table.rows()).expect("restores");
        assert_eq!(sorted_fields(&restored), sorted_fields(&self.space));
        assert_eq!(restored.used_bytes(), self.space.used_bytes());
        assert_eq!(restored.next_expiry(), self.space.next_expiry());
        assert_eq!(restored.take_writes(), []);
        for _ in 0..STEPS_AFTERWARDS {
            let Step { arguments, order } = self.generator.step();
            if matches!(order, Order::Form | Order::Scan) {
                continue; // Positions differ, and with them the portions.
            }
            let now = self.now();
            let first = normal(execute(&mut self.space, now, &arguments), order);
            let second = normal(execute(&mut restored, now, &arguments), order);
            assert_eq!(first, second, "{}", shown(&arguments));
        }
        assert_eq!(sorted_fields(&restored), sorted_fields(&self.space));
        assert_eq!(restored.used_bytes(), self.space.used_bytes());
        self.delete_all();
    }

    fn delete_all(&mut self) {
        let mut arguments = vec![Bytes::from_static(b"del")];
        arguments.extend(self.space.rows().map(|row| row.key));
        let now = self.now();
        execute(&mut self.space, now, &arguments);
        assert_eq!((self.space.len(), self.space.used_bytes()), (0, 0));
        assert_eq!(self.space.next_expiry(), None);
    }
}

/// What has no order is put in one.
fn normal(answer: Answer, order: Order) -> Answer {
    match answer {
        Answer::Map(mut pairs) => {
            pairs.sort();
            Answer::Map(pairs)
        }
        Answer::Array(elements) if order == Order::Free => {
            let mut elements = crate::compare::answers(&elements);
            elements.sort();
            Answer::Array(elements.into_iter().map(Answer::Bulk).collect())
        }
        other => other,
    }
}

/// The rows of a keyspace; the fields of hashes, which have no order, as a sorted list of bytes.
fn sorted_fields(space: &Keyspace) -> Vec<Row> {
    let mut rows = rows_of(space);
    for row in rows.iter_mut().filter(|row| row.kind == Kind::Hash) {
        let mut bytes = row.value.to_vec();
        bytes.sort_unstable();
        row.value = bytes.into();
    }
    rows
}
