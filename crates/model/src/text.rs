//! Short texts that people choose, each with its own rule.

use std::fmt;
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

macro_rules! text_type {
    ($(#[$doc:meta])* $name:ident, $what:literal, $rule:literal, $lengths:expr, $fits:expr) => {
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
                let fits: fn(&str) -> bool = $fits;
                if !($lengths).contains(&text.len()) || !fits(text) {
                    return Err(InvalidText { what: $what, rule: $rule });
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
    };
}

text_type! {
    /// Names one worker. Seeds 004 section 2.2 and 7.2.
    WorkerId, "worker_id", "1 to 64 characters of A-Z a-z 0-9 - _", 1..=64,
    |text| text.bytes().all(is_id_byte)
}
text_type! {
    /// Names one tenant.
    TenantId, "tenant", "1 to 64 characters of A-Z a-z 0-9 - _", 1..=64,
    |text| text.bytes().all(is_id_byte)
}
text_type! {
    /// What kind of work a task is; a worker offers the types that it can execute.
    TypeName, "type", "1 to 128 characters of A-Z a-z 0-9 _ - . : / @ +", 1..=128,
    |text| text.bytes().all(is_name_byte)
}
text_type! {
    /// The queue that a task stands in.
    QueueName, "queue", "1 to 128 characters of A-Z a-z 0-9 _ - . : / @ +", 1..=128,
    |text| text.bytes().all(is_name_byte)
}
text_type! {
    /// A program that a worker has at hand.
    ToolName, "tool", "1 to 128 characters of A-Z a-z 0-9 _ - . : / @ +", 1..=128,
    |text| text.bytes().all(is_name_byte)
}
text_type! {
    /// A node package.
    PackageName, "package.name", "1 to 128 characters of A-Z a-z 0-9 _ - . : / @ +", 1..=128,
    |text| text.bytes().all(is_name_byte)
}
text_type! {
    /// The exact version of a node package.
    PackageVersion, "package.version", "1 to 128 characters of A-Z a-z 0-9 _ - . : / @ +", 1..=128,
    |text| text.bytes().all(is_name_byte)
}
text_type! {
    /// The name of a worker's label.
    TagKey, "tag", "1 to 128 characters of A-Z a-z 0-9 _ - . : / @ +", 1..=128,
    |text| text.bytes().all(is_name_byte)
}
text_type! {
    /// The value of a worker's label.
    TagValue, "tag value", "at most 256 bytes without control characters", 0..=256, is_printable
}
text_type! {
    /// At most one task with this key runs at a time.
    ConcurrencyKey, "concurrency_key", "1 to 256 bytes without control characters", 1..=256,
    is_printable
}
text_type! {
    /// Tasks with this key belong to one worker.
    AffinityKey, "affinity.key", "1 to 256 bytes without control characters", 1..=256, is_printable
}
text_type! {
    /// Names a run: the tasks that were asked for together.
    RunName, "run", "1 to 64 characters of A-Z a-z 0-9 - _", 1..=64,
    |text| text.bytes().all(is_id_byte)
}
text_type! {
    /// The submitter's own name for a task, so that a repeated submit makes one task.
    IdempotencyKey, "idempotency_key", "1 to 256 bytes without control characters", 1..=256,
    is_printable
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
