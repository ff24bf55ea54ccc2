//! How values stand in stored JSON, for `serde(with)`.
//!
//! Durations, moments and ids are plain numbers there. On the wire they look different, so these
//! types are not `Serialize` themselves: nothing can send a stored form by mistake.

use serde::{Deserialize, Serialize};

use crate::id::{LeaseId, TaskId};

macro_rules! stored_as {
    ($(#[$doc:meta])* $name:ident, $type:ty, $plain:ty, $write:expr, $read:expr) => {
        $(#[$doc])*
        pub mod $name {
            use serde::de::Error;
            use serde::{Deserialize, Deserializer, Serialize, Serializer};

            /// Writes the plain form.
            pub fn serialize<S: Serializer>(value: &$type, to: S) -> Result<S::Ok, S::Error> {
                let write: fn(&$type) -> $plain = $write;
                write(value).serialize(to)
            }

            /// Reads the plain form.
            pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<$type, D::Error> {
                let read: fn($plain) -> Option<$type> = $read;
                let invalid = || D::Error::custom(concat!("invalid ", stringify!($name)));
                read(<$plain>::deserialize(from)?).ok_or_else(invalid)
            }
        }
    };
}

stored_as! {
    /// A duration in milliseconds.
    millis, std::time::Duration, u64,
    |duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX),
    |millis| Some(std::time::Duration::from_millis(millis))
}
stored_as! {
    /// A duration in milliseconds, or `null`. The field itself must be there.
    millis_or_null, Option<std::time::Duration>, Option<u64>,
    |duration| duration.map(|duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)),
    |millis| Some(millis.map(std::time::Duration::from_millis))
}
stored_as! {
    /// Milliseconds since 1970.
    moment, crate::time::Timestamp, i64,
    |moment| moment.to_integer(),
    |integer| Some(crate::time::Timestamp::from_integer(integer))
}
stored_as! {
    /// The integer in `tasks.id`.
    task_id, crate::id::TaskId, i64, |task| task.to_integer(), crate::id::TaskId::from_integer
}
stored_as! {
    /// A shared text.
    text, std::sync::Arc<str>, String, |text| text.to_string(), |text| Some(text.into())
}

/// A lease as the task's integer and the epoch.
#[derive(Serialize, Deserialize)]
#[serde(remote = "LeaseId", deny_unknown_fields)]
pub(crate) struct StoredLeaseId {
    #[serde(with = "task_id")]
    task: TaskId,
    epoch: u32,
}
