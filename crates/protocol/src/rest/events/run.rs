//! What events tell about runs.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::super::runs::RunStatus;
use super::node::EventError;

/// `run.status`: a run began or came to its end.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunStatusData<'a> {
    /// `run.status`.
    pub kind: Cow<'a, str>,
    /// Which run.
    pub run_id: Cow<'a, str>,
    /// The number that people call it by.
    pub number: u64,
    /// Where it stands.
    pub status: RunStatus,
    /// When it began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Cow<'a, str>>,
    /// When it came to its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finished_at: Option<Cow<'a, str>>,
    /// Why it did not succeed, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Cow<'a, str>>,
    /// The node that made it fail.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_id: Option<Cow<'a, str>>,
    /// Why it did not succeed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<EventError<'a>>,
}

/// `run.snapshot`: a run as a whole, as `GET /runs/{id}` shows it.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunSnapshotData<'a> {
    /// `run.snapshot`.
    pub kind: Cow<'a, str>,
    /// The run, without its nodes.
    pub run: Cow<'a, RawValue>,
    /// Its nodes.
    pub nodes: Cow<'a, RawValue>,
}

/// A ticket opens `GET /events?ticket=` once, where no header can be sent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct EventTicket {
    /// The ticket. It is shown once and works once.
    pub ticket: String,
    /// How long it may wait to be used, in seconds.
    pub expires_in: u64,
}
