//! Webhooks: workflows that are started by a call from outside.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// `POST /hooks`.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NewHook {
    /// The kept workflow that is started, in its newest version.
    pub workflow_id: String,
    /// A name for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

/// The answer to `POST /hooks`. The secret is shown this once.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct CreatedHook {
    /// Names it, for lists and for its removal.
    pub hook_id: String,
    /// The secret; whoever has it may start the workflow.
    pub token: String,
    /// The path that starts it: `/hooks/<token>`.
    pub url: String,
}

/// A webhook.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Hook {
    /// Names it.
    pub hook_id: String,
    /// A name for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The workflow that is started.
    pub workflow_id: String,
    /// When it was made.
    #[schema(format = "date-time")]
    pub created_at: String,
    /// Who made it.
    pub created_by: String,
}

/// `GET /hooks`.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct HookPage {
    /// Oldest first.
    pub items: Vec<Hook>,
    /// Always `null`: a tenant's webhooks fit one page.
    #[serde(default)]
    pub next_cursor: Option<String>,
}
