//! Schedules and webhooks: what starts workflows, at times or by a call from outside.

pub use model::Overlap;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_with::skip_serializing_none;
use utoipa::ToSchema;

use super::runs::{RunRef, given};

/// `POST /schedules`.
#[skip_serializing_none]
#[derive(Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NewSchedule {
    /// The kept workflow that is started.
    pub workflow_id: String,
    /// Always this version. Default: the newest one at each start.
    pub version: Option<u64>,
    /// When: minute, hour, day of the month, month, day of the week; a field for seconds may
    /// stand in front.
    #[schema(example = "0 3 * * MON-FRI")]
    pub cron: String,
    /// The time zone that `cron` is read in. Default `UTC`.
    #[schema(example = "Europe/Berlin")]
    pub timezone: Option<String>,
    /// What each run is given: a JSON object. Default `{}`.
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = Option<serde_json::Value>)]
    pub inputs: Option<Box<RawValue>>,
    /// What happens when a run is due and the one before still goes on. Default `skip`.
    #[serde(default)]
    pub overlap: Overlap,
    /// Whether it starts nothing until it is resumed. Default `false`.
    #[serde(default)]
    pub paused: bool,
    /// A name for people.
    pub name: Option<String>,
}

/// `PATCH /schedules/{id}`: what is given is changed.
#[skip_serializing_none]
#[derive(Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PatchSchedule {
    /// Another workflow.
    pub workflow_id: Option<String>,
    /// Always this version; 0 is the newest one at each start.
    pub version: Option<u64>,
    /// Other times.
    pub cron: Option<String>,
    /// Another time zone.
    pub timezone: Option<String>,
    /// Other inputs.
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = Option<serde_json::Value>)]
    pub inputs: Option<Box<RawValue>>,
    /// Another rule for overlaps.
    pub overlap: Option<Overlap>,
    /// Paused or not.
    pub paused: Option<bool>,
    /// Another name.
    pub name: Option<String>,
}

/// A schedule.
#[skip_serializing_none]
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Schedule {
    /// Its id.
    pub schedule_id: String,
    /// A name for people.
    pub name: Option<String>,
    /// The workflow that is started.
    pub workflow_id: String,
    /// Always this version; absent when it is the newest one at each start.
    pub version: Option<u64>,
    /// When.
    pub cron: String,
    /// The time zone that `cron` is read in.
    pub timezone: String,
    /// What each run is given.
    #[schema(value_type = serde_json::Value)]
    pub inputs: Box<RawValue>,
    /// What happens when a run is due and the one before still goes on.
    pub overlap: Overlap,
    /// Whether it starts nothing until it is resumed.
    pub paused: bool,
    /// When it was made.
    #[schema(format = "date-time")]
    pub created_at: String,
    /// Who made it.
    pub created_by: String,
    /// The next times; empty while it is paused.
    #[serde(default)]
    pub next_runs: Vec<String>,
    /// What came of the last time.
    pub last_run: Option<ScheduledRun>,
    /// Times that wait for the run before to end, those of backfills included.
    #[serde(default)]
    pub waiting: usize,
}

/// What came of a time.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ScheduledRun {
    /// When it was due.
    #[schema(format = "date-time")]
    pub due_at: String,
    /// The run, if one was started.
    pub run_id: Option<String>,
    /// Its number.
    pub number: Option<u64>,
    /// Why none was started: the run before still went on, or the workflow cannot run.
    pub problem: Option<String>,
}

/// `GET /schedules`.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SchedulePage {
    /// Oldest first.
    pub items: Vec<Schedule>,
    /// Always `null`: a tenant's schedules fit one page.
    pub next_cursor: Option<String>,
}

/// `POST /schedules/{id}/backfill`: runs for times that have passed.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Backfill {
    /// From this moment on (RFC 3339), itself included.
    #[schema(format = "date-time")]
    pub from: String,
    /// Up to this moment (RFC 3339), itself included; at most now.
    #[schema(format = "date-time")]
    pub to: String,
}

/// The answer to `POST /schedules/{id}/backfill`. The same call again makes no second runs.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Backfilled {
    /// The runs that there are, oldest time first.
    pub runs: Vec<RunRef>,
    /// Times whose runs start one after another, each when the one before has ended, oldest first.
    #[serde(default)]
    pub waiting: Vec<String>,
}

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
    pub next_cursor: Option<String>,
}
