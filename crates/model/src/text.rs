//! Short texts that people choose, each with its own rule.

use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;
use std::sync::Arc;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A text that broke the rule of its type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what} must be {rule}")]
pub struct InvalidText {
    /// What the text was meant to be, in words.
    pub what: &'static str,
    /// The rule, in words.
    pub rule: &'static str,
}

/// Letters, digits and the marks that names of programs, queues and packages use.
fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"_-.:/@+".contains(&byte)
}

fn is_id_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_'
}

fn is_printable(text: &str) -> bool {
    !text.chars().any(char::is_control)
}

/// What a text must be.
struct Rule {
    words: &'static str,
    lengths: RangeInclusive<usize>,
    fits: fn(&str) -> bool,
}

const ID: Rule = Rule {
    words: "1 to 64 characters of A-Z a-z 0-9 - _",
    lengths: 1..=64,
    fits: |text| text.bytes().all(is_id_byte),
};
const NAME: Rule = Rule {
    words: "1 to 128 characters of A-Z a-z 0-9 _ - . : / @ +",
    lengths: 1..=128,
    fits: |text| text.bytes().all(is_name_byte),
};
const KEY: Rule = Rule {
    words: "1 to 256 bytes without control characters",
    lengths: 1..=256,
    fits: is_printable,
};
const TAG_VALUE: Rule = Rule {
    words: "at most 256 bytes without control characters",
    lengths: 0..=256,
    fits: is_printable,
};

macro_rules! text_types {
    ($($(#[$doc:meta])* $name:ident, $what:literal, $rule:expr;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Arc<str>);

        impl $name {
            /// The text itself.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl FromStr for $name {
            type Err = InvalidText;

            fn from_str(text: &str) -> Result<Self, InvalidText> {
                const RULE: Rule = $rule;
                if !RULE.lengths.contains(&text.len()) || !(RULE.fits)(text) {
                    return Err(InvalidText { what: $what, rule: RULE.words });
                }
                Ok(Self(text.into()))
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(&self.0)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
            }
        }
    )*};
}

text_types! {
    /// Names one worker. Seeds 004 section 2.2 and 7.2.
    WorkerId, "worker_id", ID;
    /// Names one tenant.
    TenantId, "tenant", ID;
    /// What kind of work a task is; a worker offers the types that it can execute.
    TypeName, "type", NAME;
    /// The queue that a task stands in.
    QueueName, "queue", NAME;
    /// A program that a worker has at hand.
    ToolName, "tool", NAME;
    /// A node package.
    PackageName, "package.name", NAME;
    /// The exact version of a node package.
    PackageVersion, "package.version", NAME;
    /// The name of a worker's label.
    TagKey, "tag", NAME;
    /// The value of a worker's label.
    TagValue, "tag value", TAG_VALUE;
    /// At most one task with this key runs at a time.
    ConcurrencyKey, "concurrency_key", KEY;
    /// Tasks with this key belong to one worker.
    AffinityKey, "affinity.key", KEY;
    /// Names a run: the tasks that were asked for together.
    RunName, "run", ID;
    /// The submitter's own name for a task, so that a repeated submit makes one task.
    IdempotencyKey, "idempotency_key", KEY;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn worker_ids_follow_the_rule() {
        for good in ["w", "worker-mac_01", &"x".repeat(64)] {
            assert!(good.parse::<WorkerId>().is_ok(), "{good}");
        }
        for bad in ["", "a b", "ä", "a:b", &"x".repeat(65)] {
            let error = bad.parse::<WorkerId>().expect_err(bad);
            assert_eq!(
                error.to_string(),
                "worker_id must be 1 to 64 characters of A-Z a-z 0-9 - _"
            );
        }
    }

    #[test]
    fn keys_refuse_control_characters() {
        assert!("order 66 / ü".parse::<IdempotencyKey>().is_ok());
        assert!("a\nb".parse::<IdempotencyKey>().is_err());
        assert!("".parse::<ConcurrencyKey>().is_err());
    }
}
