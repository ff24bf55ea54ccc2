//! Random commands: few keys of every kind, edge numbers, odd options, wrong arities, binary texts.

use bytes::Bytes;
use keyspace::Kind;

use crate::chance::Chance;
use crate::grammar::{GRAMMAR, Order, Part};

/// One command, and how its replies are compared.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    pub(crate) arguments: Vec<Bytes>,
    pub(crate) order: Order,
}

/// Names of keys for each kind, so that most commands find what they are for.
const KEYS_PER_KIND: usize = 3;

const KINDS: [(Kind, &str); 4] = [
    (Kind::String, "text"),
    (Kind::List, "list"),
    (Kind::Hash, "hash"),
    (Kind::SortedSet, "sorted"),
];

const VALUES: [&[u8]; 23] = [
    b"a",
    b"b",
    b"abc",
    b"",
    b"0",
    b"1",
    b"-1",
    b"10",
    b"9223372036854775807",
    b"-9223372036854775808",
    b"9223372036854775808",
    b"3.5",
    b"1e5",
    b" 1",
    b"01",
    b"+1",
    b"-0",
    b"inf",
    b"nan",
    b"1.0e400",
    b"line\r\nbreak",
    b"\x00\xff\xfe binary \x80",
    b"0123456789012345678901234567890123456789012345678901234567890123456789",
];

const INTEGERS: [&str; 14] = [
    "0",
    "1",
    "-1",
    "2",
    "10",
    "-10",
    "1000",
    "9223372036854775807",
    "-9223372036854775808",
    "9223372036854775808",
    "4611686018427387904",
    "-4611686018427387905",
    "a",
    "1.5",
];

const FLOATS: [&str; 32] = [
    "0",
    "-0",
    "1",
    "-1",
    "1.5",
    "-2.25",
    "0.1",
    "0.2",
    "1e3",
    "1E-3",
    "3.0e5",
    "1e17",
    "1e16",
    "123456789.123456789",
    "1e300",
    "-1e300",
    "1e-300",
    "1e-310",
    "1e400",
    "1e-400",
    "inf",
    "-inf",
    "+inf",
    "Infinity",
    "nan",
    "",
    "a",
    " 1",
    "1 ",
    "5.",
    ".5",
    "17179869184",
];

const TIMEOUTS: [&str; 11] =
    ["0", "1", "0.001", "-1", "-0.0001", "a", "", "inf", "1e18", "9223372036854775807", "nan"];

const PATTERNS: [&str; 16] = [
    "*", "**", "?*", "t*", "*1", "text?", "[a-l]*", "[^a-l]*", "*t[0-2]", "list\\1", "", "[",
    "a\\", "*[e", "m*", "[z-a]*",
];

pub(crate) struct Generator {
    chance: Chance,
}

impl Generator {
    pub(crate) fn new(seed: u64) -> Self {
        Self { chance: Chance::new(seed) }
    }

    pub(crate) fn step(&mut self) -> Step {
        let (name, order, parts) = *self.chance.pick(GRAMMAR);
        let mut arguments = vec![self.in_some_case(name)];
        for part in parts {
            self.write(*part, &mut arguments);
        }
        if self.chance.percent(3) {
            let at = 1 + self.chance.below(arguments.len());
            if at < arguments.len() && self.chance.percent(60) {
                arguments.remove(at);
            } else {
                arguments.push(self.value());
            }
        }
        Step { arguments, order }
    }

    fn in_some_case(&mut self, name: &'static str) -> Bytes {
        if self.chance.percent(10) {
            return name.to_ascii_uppercase().into();
        }
        Bytes::from_static(name.as_bytes())
    }

    /// Every key that can appear.
    pub(crate) fn keys() -> Vec<Bytes> {
        let named = KINDS.iter().flat_map(|(_, name)| (0..KEYS_PER_KIND).map(move |n| (name, n)));
        let named = named.map(|(name, n)| Bytes::from(format!("{name}{n}")));
        named.chain([Bytes::new(), Bytes::from_static(b"\xff\x00key")]).collect()
    }

    fn key(&mut self, kind: Kind) -> Bytes {
        if self.chance.percent(4) {
            return self.any_key();
        }
        let (_, name) =
            KINDS.iter().find(|(known, _)| *known == kind).expect("every kind is there");
        format!("{name}{}", self.chance.below(KEYS_PER_KIND)).into()
    }

    fn any_key(&mut self) -> Bytes {
        let keys = Self::keys();
        self.chance.pick(&keys).clone()
    }

    fn value(&mut self) -> Bytes {
        if self.chance.percent(20) {
            return self.member();
        }
        Bytes::from_static(self.chance.pick::<&[u8]>(&VALUES))
    }

    fn member(&mut self) -> Bytes {
        match self.chance.below(20) {
            0 => Bytes::from_static(self.chance.pick::<&[u8]>(&VALUES)),
            1 => format!("m{}", self.chance.below(700)).into(),
            2 => self.chance.below(1_000).to_string().into(),
            _ => format!("m{}", self.chance.below(8)).into(),
        }
    }

    fn text(&mut self, choices: &[&'static str]) -> Bytes {
        Bytes::from_static(self.chance.pick(choices).as_bytes())
    }

    fn index(&mut self) -> Bytes {
        if self.chance.percent(8) {
            return self.text(&INTEGERS);
        }
        let index = i64::try_from(self.chance.below(14)).expect("small") - 6;
        index.to_string().into()
    }

    fn float(&mut self) -> Bytes {
        match self.chance.below(4) {
            0 => self.text(&FLOATS),
            1 => {
                let digits = self.chance.below(1_000_000_000);
                let shift = self.chance.below(12);
                format!("{digits}e-{shift}").into()
            }
            _ => (i64::try_from(self.chance.below(9)).expect("small") - 4).to_string().into(),
        }
    }

    fn score_end(&mut self) -> Bytes {
        let end = match self.chance.below(6) {
            0 => self.text(&["-inf", "+inf", "inf", "(-inf", "(inf", "((1", "(", ""]),
            1 | 2 => self.float(),
            _ => self.index(),
        };
        if self.chance.percent(30) { [b"(", &end[..]].concat().into() } else { end }
    }

    /// Far in the future, long past, or wrong; never soon, because two clocks are involved. Nothing
    /// comes after the year 9999, where our time ends.
    fn expiry(&mut self, is_millis: bool, is_absolute: bool) -> Bytes {
        if self.chance.percent(15) {
            let beyond = if is_absolute && is_millis { "-1" } else { "9223372036854775807" };
            return self.text(&["0", "-1", "a", "", "1.5", "-9223372036854775808", beyond]);
        }
        if is_absolute && self.chance.percent(10) {
            return self.text(&["1", "1000"]);
        }
        let seconds = 10_000 + self.chance.below(1_000_000_000);
        let seconds = if is_absolute { 4_000_000_000 + seconds } else { seconds };
        let amount = if is_millis { seconds * 1_000 + self.chance.below(1_000) } else { seconds };
        amount.to_string().into()
    }

    fn write(&mut self, part: Part, out: &mut Vec<Bytes>) {
        match part {
            Part::Key(kind) => out.push(self.key(kind)),
            Part::AnyKey => out.push(self.any_key()),
            Part::Value => out.push(self.value()),
            Part::Member => out.push(self.member()),
            Part::Integer => out.push(self.text(&INTEGERS)),
            Part::Index => out.push(self.index()),
            Part::Float => out.push(self.float()),
            Part::ScoreEnd => out.push(self.score_end()),
            Part::Timeout => out.push(self.text(&TIMEOUTS)),
            Part::Pattern => out.push(self.text(&PATTERNS)),
            Part::Count => out.push(Bytes::from_static(b"100000")),
            Part::Expiry { is_millis, is_absolute } => {
                out.push(self.expiry(is_millis, is_absolute));
            }
            Part::Word(word) => out.push(Bytes::from_static(word.as_bytes())),
            Part::OneOf(words) => out.push(self.text(words)),
            Part::Many(parts) => {
                for _ in 0..=self.chance.below(4) {
                    self.write_all(parts, out);
                }
            }
            Part::Maybe(parts) => {
                if self.chance.percent(50) {
                    self.write_all(parts, out);
                }
            }
            Part::Options(options) => {
                while self.chance.percent(55) {
                    let option = *self.chance.pick(options);
                    self.write_all(option, out);
                }
            }
        }
    }

    fn write_all(&mut self, parts: &[Part], out: &mut Vec<Bytes>) {
        for part in parts {
            self.write(*part, out);
        }
    }
}
