//! What all events have in common.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// The version of the envelope.
pub const ENVELOPE_VERSION: &str = "v1";

/// One event. A reader takes `data` as raw JSON first, looks at `type`, and then reads the data as
/// what that type tells.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Envelope<'a, D> {
    /// [`ENVELOPE_VERSION`].
    pub version: Cow<'a, str>,
    /// Decimal; rises with each event of the tenant, across restarts too.
    pub id: Cow<'a, str>,
    /// What it tells.
    pub r#type: Cow<'a, str>,
    /// When it became true.
    pub occurred_at: Cow<'a, str>,
    /// Whom it is about.
    pub scope: EventScope<'a>,
    /// Whether it was sent before, or happened before this connection was made.
    #[serde(default, skip_serializing_if = "is_false")]
    pub replayed: bool,
    /// The request that it answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub correlation_id: Option<Cow<'a, str>>,
    /// Whatever else is to be said of the event itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub meta: Option<Cow<'a, RawValue>>,
    /// What it tells; its `kind` is the event's type.
    pub data: D,
}

/// Whom an event is about.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EventScope<'a> {
    /// Whose.
    pub tenant: Cow<'a, str>,
    /// Which run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_id: Option<Cow<'a, str>>,
    /// Which worker.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker_name: Option<Cow<'a, str>>,
    /// The browser or program that started the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_session_id: Option<Cow<'a, str>>,
    /// Which window of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_instance_id: Option<Cow<'a, str>>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
fn is_false(flag: &bool) -> bool {
    !flag
}
