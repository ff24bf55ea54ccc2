//! Resources: things that workers keep, and how they are fetched.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_with::skip_serializing_none;
use utoipa::ToSchema;

/// Something that a worker keeps.
#[skip_serializing_none]
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Resource {
    /// Its name.
    pub resource_id: String,
    /// Who keeps it: always `worker`.
    pub provider: String,
    /// What kind of thing it is.
    #[serde(rename = "type")]
    pub resource_type: String,
    /// The worker that keeps it.
    pub worker_name: String,
    /// What it belongs to.
    pub scope: Option<String>,
    /// The name of its file, where its maker said one.
    pub filename: Option<String>,
    /// Its size, where it is known.
    pub size_bytes: Option<u64>,
    /// The SHA-256 of its bytes, where its maker said so.
    pub sha256: Option<String>,
    /// Since when it is kept.
    pub created_at: Option<String>,
    /// How long it is kept, if nobody uses it.
    pub expires_at: Option<String>,
    /// Whatever else its maker said.
    #[schema(value_type = Option<serde_json::Value>)]
    pub metadata: Option<Box<RawValue>>,
    /// Whether its worker is connected, so that it can be fetched.
    pub is_available: bool,
    /// Where it can be fetched.
    pub download_url: String,
}

/// Resources, by name.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResourcePage {
    /// One page of them.
    pub items: Vec<Resource>,
    /// Give it as `cursor` for the next page; absent on the last one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}
