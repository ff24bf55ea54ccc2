//! The end of a run, for those who keep something for it.

use serde::Serialize;

use super::super::decode::DecodeError;
use super::super::read::Value;

/// A run has ended: what workers keep for it can go.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Release {
    /// Which run; resources of the scope with this name go.
    pub run_id: String,
}

impl Release {
    pub(super) fn read(value: &Value<'_>) -> Result<Self, DecodeError> {
        let fields = value.object()?;
        Ok(Self { run_id: fields.required("run_id", Value::name)? })
    }
}
