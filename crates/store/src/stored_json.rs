//! Values that are one JSON text in a row: specs, calls, pins and bindings.
//!
//! Their types say how they are written: every value stands in the text, so that it means the same
//! when a default of a later version is another one.

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::contract::StoreError;

/// The text of a value.
pub(crate) fn write(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("texts and numbers always become JSON")
}

/// The value of a text; `what` it is, in a word for people.
pub(crate) fn read<T: DeserializeOwned>(what: &str, text: &str) -> Result<T, StoreError> {
    let damaged = |error| format!("its {what} is not what was once written: {error}");
    serde_json::from_str(text).map_err(|error| StoreError::Damaged(damaged(error)))
}

#[cfg(test)]
mod tests;
