//! The worker that a task belongs to, as one JSON text in its row.

use model::{InvalidText, Pin, Timestamp};
use serde::{Deserialize, Serialize};

/// An unknown field may be a condition; to skip it could give the task to another worker than the
/// one that it belongs to. So it is refused.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct PinDocument {
    worker: String,
    hard: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    give_up_at: Option<i64>,
    because: String,
}

/// Why a stored pin cannot be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PinError {
    #[error("its pin is not what was once written: {0}")]
    Document(#[from] serde_json::Error),
    #[error("its pin holds an invalid text: {0}")]
    Text(#[from] InvalidText),
}

/// The document of a pin.
pub(crate) fn write(pin: &Pin) -> String {
    let document = PinDocument {
        worker: pin.worker.to_string(),
        hard: pin.is_hard,
        give_up_at: pin.give_up_at.map(Timestamp::to_integer),
        because: pin.because.clone(),
    };
    serde_json::to_string(&document).expect("texts and numbers always become JSON")
}

/// The pin of a row.
pub(crate) fn read(document: &str) -> Result<Pin, PinError> {
    let document: PinDocument = serde_json::from_str(document)?;
    Ok(Pin {
        worker: document.worker.parse()?,
        is_hard: document.hard,
        give_up_at: document.give_up_at.map(Timestamp::from_integer),
        because: document.because,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_comes_back() {
        let pin = Pin {
            worker: "w1".parse().expect("valid"),
            is_hard: true,
            give_up_at: Some(Timestamp::from_millis(1_790_000_000_000)),
            because: "only \"w1\" has it".into(),
        };
        let soft = Pin { is_hard: false, give_up_at: None, ..pin.clone() };
        for pin in [pin, soft] {
            assert_eq!(read(&write(&pin)).expect("valid"), pin);
        }
        assert!(read(r#"{"worker":"w1","hard":true,"because":"","zone":"a"}"#).is_err());
    }
}
