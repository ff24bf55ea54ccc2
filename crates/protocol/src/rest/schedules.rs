//! Schedules: workflows that are started by the clock.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::runs::{RunRef, given};

/// `POST /schedules`.
#[derive(Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NewSchedule {
    /// The kept workflow that is started.
    pub workflow_id: String,
    /// Always this version. Default: the newest one at each start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<u64>,
    /// When: minute, hour, day of the month, month, day of the week; a field for seconds may
    /// stand in front.
    #[schema(example = "0 3 * * MON-FRI")]
    pub cron: String,
    /// The time zone that `cron` is read in. Default `UTC`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(example = "Europe/Berlin")]
    pub timezone: Option<String>,
    /// What each run is given: a JSON object. Default `{}`.
    #[serde(default, deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<serde_json::Value>)]
    pub inputs: Option<Box<RawValue>>,
    /// What happens when a run is due and the one before still goes on. Default `skip`.
    #[serde(default)]
    pub overlap: Overlap,
    /// Whether it starts nothing until it is resumed. Default `false`.
    #[serde(default)]
    pub paused: bool,
    /// A name for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

/// What happens when a run is due and the one before still goes on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Overlap {
    /// The time passes without a run.
    #[default]
    Skip,
    /// It starts as soon as the one before has ended.
    Queue,
    /// It starts beside the one before.
    Allow,
    /// The one before is stopped.
    Cancel,
}

/// `PATCH /schedules/{id}`: what is given is changed.
#[derive(Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PatchSchedule {
    /// Another workflow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workflow_id: Option<String>,
    /// Always this version; 0 is the newest one at each start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<u64>,
    /// Other times.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cron: Option<String>,
    /// Another time zone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timezone: Option<String>,
    /// Other inputs.
    #[serde(default, deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<serde_json::Value>)]
    pub inputs: Option<Box<RawValue>>,
    /// Another rule for overlaps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overlap: Option<Overlap>,
    /// Paused or not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused: Option<bool>,
    /// Another name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

/// A schedule.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Schedule {
    /// Its id.
    pub schedule_id: String,
    /// A name for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The workflow that is started.
    pub workflow_id: String,
    /// Always this version; absent when it is the newest one at each start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
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
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_run: Option<ScheduledRun>,
    /// Times that wait for the run before to end, those of backfills included.
    #[serde(default)]
    pub waiting: usize,
}

/// What came of a time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ScheduledRun {
    /// When it was due.
    #[schema(format = "date-time")]
    pub due_at: String,
    /// The run, if one was started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_id: Option<String>,
    /// Its number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub number: Option<u64>,
    /// Why none was started: the run before still went on, or the workflow cannot run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

/// `GET /schedules`.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SchedulePage {
    /// Oldest first.
    pub items: Vec<Schedule>,
    /// Always `null`: a tenant's schedules fit one page.
    #[serde(default)]
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
