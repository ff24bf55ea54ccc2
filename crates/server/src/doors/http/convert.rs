//! From words on the wire to what the coordinator is asked: numbers, texts, reports, offers.
//!
//! Text is checked here or in the `FromStr` of its type, and nowhere deeper. `convert::tasks`
//! makes tasks, `convert::reports` makes reports.

pub(crate) mod tasks;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use coordinator::{LeaseRequest, StateWord};
use model::{InvalidText, Offer, PackageRef, TagKey, TagValue, Timestamp};
use protocol::rest::leases::RequestLeases;
use protocol::rest::tasks::Package;

use crate::bulk::TASKS_PER_CALL_MAX;
use crate::wire_words::problem::ApiError;

/// Limit: leases that one request may ask for.
const LEASES_PER_REQUEST_MAX: i64 = 1_000;
/// Limit: how long a request may wait, in milliseconds.
const WAIT_MS_MAX: i64 = 60_000;
/// Limit: how long a worker may take to confirm a lease, in milliseconds.
const CONFIRM_MS_MAX: i64 = 600_000;
/// Limit: tasks on a page.
pub(crate) const PAGE_TASKS_MAX: i64 = 500;
/// Limit: runs, and workflows, on a page.
const PAGE_RUNS_MAX: i64 = 200;
/// Limit: types, queues, tools, tags or packages that a worker may offer, of each.
const OFFER_ENTRIES_MAX: usize = 1_000;

/// A number's name and its range, both ends included.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NumberRange {
    name: &'static str,
    min: i64,
    max: i64,
}

const fn range(name: &'static str, min: i64, max: i64) -> NumberRange {
    NumberRange { name, min, max }
}

pub(crate) const PRIORITY: NumberRange =
    range("priority", -(model::PRIORITY_LIMIT as i64), model::PRIORITY_LIMIT as i64);
pub(crate) const TIMEOUT_MS: NumberRange = range("timeout_ms", 1, millis(model::TIMEOUT_MAX));
pub(crate) const LEASE_TTL_MS: NumberRange =
    range("lease_ttl_ms", millis(model::LEASE_TTL_MIN), millis(model::LEASE_TTL_MAX));
pub(crate) const MAX_ATTEMPTS: NumberRange = range("max_attempts", 1, model::ATTEMPTS_MAX as i64);
pub(crate) const BACKOFF_MS: NumberRange = range("backoff_ms", 0, millis(model::BACKOFF_MAX));
pub(crate) const BACKOFF_MAX_MS: NumberRange =
    range("backoff_max_ms", 0, millis(model::BACKOFF_MAX));
const MAX_LEASES: NumberRange = range("max", 1, LEASES_PER_REQUEST_MAX);
pub(crate) const WAIT_MS: NumberRange = range("wait_ms", 0, WAIT_MS_MAX);
const CONFIRM_MS: NumberRange = range("confirm_ms", 1, CONFIRM_MS_MAX);
pub(crate) const PAGE_LIMIT: NumberRange = range("limit", 1, PAGE_TASKS_MAX);
pub(crate) const PAGE_OFFSET: NumberRange = range("offset", 0, i64::MAX);
pub(crate) const LOG_OFFSET: NumberRange = range("offset", 0, i64::MAX);
pub(crate) const RUNS_LIMIT: NumberRange = range("limit", 1, PAGE_RUNS_MAX);
pub(crate) const RUN_WAIT: NumberRange = range("wait", 0, WAIT_MS_MAX / 1_000);
pub(crate) const WORKFLOW_VERSION: NumberRange = range("version", 1, i64::MAX);
pub(crate) const FRAME: NumberRange = range("frame", 0, u32::MAX as i64);
pub(crate) const QUEUE_MAX: NumberRange = range("max", 1, TASKS_PER_CALL_MAX);

const RANGES: [NumberRange; 10] = [
    PRIORITY,
    TIMEOUT_MS,
    LEASE_TTL_MS,
    MAX_ATTEMPTS,
    BACKOFF_MS,
    BACKOFF_MAX_MS,
    MAX_LEASES,
    WAIT_MS,
    CONFIRM_MS,
    PAGE_LIMIT,
];

/// Milliseconds of a limit of the model; all of them fit.
#[expect(clippy::cast_possible_truncation, reason = "limits are days, i64 holds millennia")]
const fn millis(duration: Duration) -> i64 {
    duration.as_millis() as i64
}

impl NumberRange {
    /// The number, if it lies in the range. `prefix` is the path before the name.
    pub(crate) fn check(self, prefix: &dyn Display, value: i64) -> Result<i64, ApiError> {
        if (self.min..=self.max).contains(&value) {
            return Ok(value);
        }
        let Self { name, .. } = self;
        Err(ApiError::invalid(format_args!("{prefix}{name} is {value};"), self.words()))
    }

    /// The same, as a time.
    pub(crate) fn check_millis(
        self,
        prefix: &dyn Display,
        value: i64,
    ) -> Result<Duration, ApiError> {
        self.check(prefix, value).map(|value| Duration::from_millis(value.unsigned_abs()))
    }

    pub(crate) fn name(self) -> &'static str {
        self.name
    }

    /// The same range under another name.
    pub(crate) const fn named(self, name: &'static str) -> Self {
        Self { name, ..self }
    }

    /// The same range with another beginning.
    pub(crate) const fn from(self, min: i64) -> Self {
        Self { min, ..self }
    }

    /// The number that a text stands for.
    pub(crate) fn parse(self, text: &str) -> Result<i64, ApiError> {
        let number: Option<i64> = text.parse().ok();
        let in_range = number.filter(|number| (self.min..=self.max).contains(number));
        in_range.ok_or_else(|| {
            ApiError::invalid(format_args!("{} is `{text}`;", self.name), self.words())
        })
    }

    fn words(self) -> String {
        format!("it must be a whole number from {} to {}", self.min, self.max)
    }
}

/// The rule of the number at the end of a path, in words.
pub(super) fn range_words(path: &str) -> Option<String> {
    let name = path.rsplit('.').next()?;
    RANGES.into_iter().find(|range| range.name == name).map(NumberRange::words)
}

/// The state with this word.
pub(crate) fn state(word: &str) -> Result<StateWord, ApiError> {
    StateWord::from_word(word).ok_or_else(|| {
        let known = StateWord::ALL.map(StateWord::word).join(", ");
        let rule = format!("is not a state; the states are {known}");
        ApiError::invalid(format_args!("state `{word}`"), rule)
    })
}

/// A text that follows the rule of its type.
pub(crate) fn text<T>(prefix: &dyn Display, value: &str) -> Result<T, ApiError>
where
    T: FromStr<Err = InvalidText>,
{
    value.parse().map_err(|error: InvalidText| {
        let InvalidText { what, rule } = error;
        ApiError::invalid(format_args!("{prefix}{what}"), format_args!("must be {rule}"))
    })
}

/// A moment in RFC 3339.
pub(crate) fn moment(field: &dyn Display, value: &str) -> Result<Timestamp, ApiError> {
    value.parse().map_err(|error| ApiError::invalid(field, format_args!("is {error}")))
}

/// A text for people, of a bounded number of characters.
pub(crate) fn prose(field: &dyn Display, value: &str, chars_max: usize) -> Result<(), ApiError> {
    // A text has at most as many characters as bytes, so short ones need no counting.
    if value.len() <= chars_max || value.chars().count() <= chars_max {
        return Ok(());
    }
    Err(ApiError::invalid(field, format_args!("is longer than {chars_max} characters")))
}

pub(crate) fn package(prefix: &dyn Display, package: &Package) -> Result<PackageRef, ApiError> {
    let name = text(prefix, &package.name)?;
    let version = text(prefix, &package.version)?;
    Ok(PackageRef { name, version })
}

pub(crate) fn tags(
    prefix: &dyn Display,
    tags: &BTreeMap<String, String>,
) -> Result<BTreeMap<TagKey, TagValue>, ApiError> {
    tags.iter().map(|(key, value)| Ok((text(prefix, key)?, text(prefix, value)?))).collect()
}

pub(crate) fn set<T>(prefix: &dyn Display, words: &[String]) -> Result<BTreeSet<T>, ApiError>
where
    T: FromStr<Err = InvalidText> + Ord,
{
    words.iter().map(|word| text(prefix, word)).collect()
}

/// A worker's request for work.
pub(crate) fn lease_request(
    request: &RequestLeases,
    now: Timestamp,
) -> Result<LeaseRequest, ApiError> {
    let max = MAX_LEASES.check(&"", request.max.unwrap_or(1))?;
    let wait = WAIT_MS.check_millis(&"", request.wait_ms.unwrap_or(0))?;
    let confirm = request.confirm_ms.map(|value| CONFIRM_MS.check_millis(&"", value));
    Ok(LeaseRequest {
        worker: text(&"", &request.worker_id)?,
        offer: Arc::new(offer(request)?),
        max: u32::try_from(max).expect("at most LEASES_PER_REQUEST_MAX"),
        wait_until: now.after(wait),
        slots: None,
        timeout_grace: Duration::ZERO,
        is_loss_noticed: false,
        confirm_within: confirm.transpose()?,
    })
}

fn offer(request: &RequestLeases) -> Result<Offer, ApiError> {
    let lengths = [
        ("types", request.types.as_ref().map_or(0, Vec::len)),
        ("queues", request.queues.as_ref().map_or(0, Vec::len)),
        ("tools", request.tools.len()),
        ("tags", request.tags.len()),
        ("packages", request.packages.len()),
    ];
    for (field, length) in lengths {
        if length > OFFER_ENTRIES_MAX {
            return Err(ApiError::batch(field, length, OFFER_ENTRIES_MAX));
        }
    }
    Ok(Offer {
        types: request.types.as_ref().map(|types| set(&"types: ", types)).transpose()?,
        queues: request.queues.as_ref().map(|queues| set(&"queues: ", queues)).transpose()?,
        tools: set(&"tools: ", &request.tools)?,
        all_tools: false,
        tags: tags(&"tags: ", &request.tags)?,
        packages: request
            .packages
            .iter()
            .map(|one| package(&"packages: ", one))
            .collect::<Result<_, _>>()?,
        limits: BTreeMap::new(),
    })
}
