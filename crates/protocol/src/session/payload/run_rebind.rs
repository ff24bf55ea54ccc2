//! A person gave the work of a run to another worker.

use serde::{Deserialize, Serialize};

use super::super::decode::DecodeError;
use super::super::read::Value;

/// How the work of a run is bound, as far as it concerns the worker that is told.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Rebind {
    /// Which run.
    pub run_id: String,
    /// What it means for the worker that is told.
    pub mode: RebindMode,
    /// The work that was this worker's, or is from here on.
    pub bindings: Vec<ReboundWork>,
}

impl Rebind {
    pub(super) fn read(value: &Value<'_>) -> Result<Self, DecodeError> {
        let fields = value.object()?;
        let bindings = |value: &Value<'_>| value.list(ReboundWork::read);
        Ok(Self {
            run_id: fields.required("run_id", Value::name)?,
            mode: fields.required("mode", |mode| mode.word("switch or drain"))?,
            bindings: fields.required("bindings", bindings)?,
        })
    }
}

/// What a rebind means for the worker that is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RebindMode {
    /// The work goes to whom `bindings` names first.
    Switch,
    /// It gets nothing more of the run.
    Drain,
}

/// Who has some work of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ReboundWork {
    /// Its package, or its type where it needs none.
    pub package: String,
    /// Who has it; the next that asks, where nobody is named.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub worker_name: Option<String>,
}

impl ReboundWork {
    fn read(value: &Value<'_>) -> Result<Self, DecodeError> {
        let fields = value.object()?;
        Ok(Self {
            package: fields.required("package", Value::name)?,
            worker_name: fields.optional("worker_name", Value::name)?,
        })
    }
}
