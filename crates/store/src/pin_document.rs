//! The worker that a task belongs to, as one JSON text in its row.

use std::time::Duration;

use model::{InvalidText, Pin};
use serde::{Deserialize, Serialize};

/// An unknown field may be a condition; to skip it could give the task to another worker than the
/// one that it belongs to. So it is refused.
#[derive(Debug, Serialize, Deserialize)]
#[serde(untagged)]
enum PinDocument {
    Worker(WorkerDocument),
    Key(KeyDocument),
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct WorkerDocument {
    worker: String,
    hard: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    wait_max_ms: Option<u64>,
    because: String,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct KeyDocument {
    key: String,
    hard: bool,
    ttl_ms: u64,
}

/// Why a stored pin cannot be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PinError {
    #[error("its pin is not what was once written: {0}")]
    Document(#[from] serde_json::Error),
    #[error("its pin holds an invalid text: {0}")]
    Text(#[from] InvalidText),
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// The document of a pin.
pub(crate) fn write(pin: &Pin) -> String {
    let document = match pin {
        Pin::Worker { worker, is_hard, wait_max, because } => PinDocument::Worker(WorkerDocument {
            worker: worker.to_string(),
            hard: *is_hard,
            wait_max_ms: wait_max.map(millis),
            because: because.clone(),
        }),
        Pin::Key { key, is_hard, ttl } => PinDocument::Key(KeyDocument {
            key: key.to_string(),
            hard: *is_hard,
            ttl_ms: millis(*ttl),
        }),
    };
    serde_json::to_string(&document).expect("texts and numbers always become JSON")
}

/// The pin of a row.
pub(crate) fn read(document: &str) -> Result<Pin, PinError> {
    Ok(match serde_json::from_str(document)? {
        PinDocument::Worker(document) => Pin::Worker {
            worker: document.worker.parse()?,
            is_hard: document.hard,
            wait_max: document.wait_max_ms.map(Duration::from_millis),
            because: document.because,
        },
        PinDocument::Key(document) => Pin::Key {
            key: document.key.parse()?,
            is_hard: document.hard,
            ttl: Duration::from_millis(document.ttl_ms),
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_comes_back() {
        let worker = |is_hard, wait_max| Pin::Worker {
            worker: "w1".parse().expect("valid"),
            is_hard,
            wait_max,
            because: "only \"w1\" has it".into(),
        };
        let (key, ttl) = ("browser".parse().expect("valid"), Duration::from_secs(90));
        for pin in [
            worker(true, Some(Duration::from_millis(7))),
            worker(false, None),
            Pin::Key { key, is_hard: true, ttl },
        ] {
            assert_eq!(read(&write(&pin)).expect("valid"), pin);
        }
        assert!(read(r#"{"worker":"w1","hard":true,"because":"","zone":"a"}"#).is_err());
    }
}
