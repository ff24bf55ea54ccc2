//! Wire words to the nouns of the coordinator.

use std::collections::{BTreeMap, BTreeSet};
use std::str::FromStr;

use bytes::Bytes;
use model::{
    Failure, LeaseId, Offer, PackageRef, Report, ReportedOutcome, ShardId, TagKey, TagValue,
    TaskId, ToolName, TypeName, WorkerId,
};
use protocol::session::codec::OpenObject;
use protocol::session::control::COUNTED_ACKS_FEATURE;
use protocol::session::frame::BusinessFrame;
use protocol::session::kind::{Kind, Payload};
use protocol::session::payload::control::{Metrics, PackageStatus, Register};
use protocol::session::payload::exec::{ExecError, ExecResult, ResultStatus};
use protocol::session::payload::resource::Artifact;
use serde::Deserialize;
use serde_json::value::{RawValue, to_raw_value};

use crate::artifacts;
use crate::report_key::{CODE_CHARS_MAX, REASON_CHARS_MAX, content_key, extra};

/// Limit: tasks that one worker may work on at the same time.
pub const SLOTS_MAX: u32 = 4_096;
/// Limit: features, packages, limits and channels that one register may list, of each.
const REGISTER_ENTRIES_MAX: usize = 10_000;
/// Limit: leases that one heartbeat may list.
const LISTED_LEASES_MAX: usize = 10_000;

/// The package of nodes that every worker of ours has.
pub(super) const CORE_PACKAGE: &str = "core";
const DEFAULT_CODE: &str = "E.RUNNER.FAILURE";
/// A result that holds more than it may.
const RESULT_TOO_LARGE: &str = "E.RESULT.TOO_LARGE";

/// Features in which workers say more than the protocol has fields for.
const TOOL_FEATURE: &str = "tool:";
const TAG_FEATURE: &str = "tag:";
const TYPE_FEATURE: &str = "type:";

/// What a register says, in the words of the coordinator.
#[derive(Clone, Debug)]
pub(super) struct Registered {
    pub(super) offer: Offer,
    pub(super) slots: u32,
    /// What it understands that not every worker does.
    pub(super) understands: Understands,
    /// Whether the worker names each dispatch in an ack, besides counting it.
    pub(super) wants_named_acks: bool,
}

/// Frames that a worker is sent only if it lists them.
const ONLY_IF_LISTED: [Kind; 4] =
    [Kind::ExecVerdict, Kind::ExecCancel, Kind::ResourceRelease, Kind::RunRebind];

/// Which of the frames that not every worker understands this one does.
#[derive(Clone, Debug, Default)]
pub(super) struct Understands(Vec<Kind>);

impl Understands {
    /// Names count in any vocabulary, and without what stands before them in ours.
    fn listed(payload_types: &[String]) -> Self {
        let is_listed = |kind: &Kind| {
            let bare = kind.name().trim_start_matches("biz.");
            payload_types
                .iter()
                .any(|listed| Kind::from_name(listed) == Some(*kind) || listed.ends_with(bare))
        };
        Self(ONLY_IF_LISTED.into_iter().filter(is_listed).collect())
    }

    pub(super) fn has(&self, kind: Kind) -> bool {
        self.0.contains(&kind)
    }
}

/// Reads a register. Entries that no task could ever name are passed over: they may mean
/// something to others.
pub(super) fn registered(register: &Register) -> Result<Registered, &'static str> {
    let capabilities = &register.capabilities;
    let lengths = [
        capabilities.features.len(),
        register.packages.as_ref().map_or(0, Vec::len),
        register.channels.as_ref().map_or(0, Vec::len),
        capabilities.concurrency.per_node_limits.as_ref().map_or(0, BTreeMap::len),
    ];
    if lengths.iter().any(|length| *length > REGISTER_ENTRIES_MAX) {
        return Err("register lists more than 10000 features, packages, channels or limits");
    }
    Ok(Registered {
        offer: offer(register),
        slots: u32::try_from(capabilities.concurrency.max_parallel)
            .unwrap_or(SLOTS_MAX)
            .min(SLOTS_MAX),
        understands: Understands::listed(register.payload_types.as_deref().unwrap_or_default()),
        wants_named_acks: !capabilities.features.iter().any(|one| one == COUNTED_ACKS_FEATURE),
    })
}

fn offer(register: &Register) -> Offer {
    let features = &register.capabilities.features;
    let after =
        |prefix: &'static str| features.iter().filter_map(move |one| one.strip_prefix(prefix));
    let types: BTreeSet<TypeName> = parsed(after(TYPE_FEATURE));
    let tags = after(TAG_FEATURE).filter_map(|tag| {
        let (key, value) = tag.split_once('=')?;
        Some((key.parse::<TagKey>().ok()?, value.parse::<TagValue>().ok()?))
    });
    let installed = register.packages.iter().flatten();
    let installed = installed.filter(|package| package.status == PackageStatus::Installed);
    let packages = installed.filter_map(|package| {
        Some(PackageRef {
            name: package.name.parse().ok()?,
            version: package.version.parse().ok()?,
        })
    });
    let limits = register.capabilities.concurrency.per_node_limits.iter().flatten();
    let limits = limits.filter_map(|(node_type, limit)| {
        Some((node_type.parse().ok()?, u32::try_from(*limit).unwrap_or(u32::MAX)))
    });
    let queues = register.channels.as_ref().filter(|channels| !channels.is_empty());
    Offer {
        // Workers that do not list their types are offered every type, as their peers do it.
        types: (!types.is_empty()).then_some(types),
        queues: queues.map(|queues| parsed(queues.iter().map(String::as_str))),
        tools: parsed::<ToolName>(after(TOOL_FEATURE)),
        all_tools: false,
        tags: tags.collect(),
        packages: packages.collect(),
        limits: limits.collect(),
    }
}

fn parsed<'a, T: FromStr + Ord>(words: impl Iterator<Item = &'a str>) -> BTreeSet<T> {
    words.filter_map(|word| word.parse().ok()).collect()
}

/// Which lease a frame is about: by the dispatch that it answers, or by the task.
pub(super) fn lease_of(
    corr: Option<&str>,
    task_id: Option<&str>,
    shard: ShardId,
    held: impl Fn(TaskId) -> Option<LeaseId>,
) -> Result<LeaseId, &'static str> {
    if let Some(lease) = corr.and_then(|corr| corr.parse::<LeaseId>().ok()) {
        return if lease.task.shard() == shard { Ok(lease) } else { Err("unknown_task") };
    }
    let task = [corr, task_id].into_iter().flatten().find_map(|text| text.parse::<TaskId>().ok());
    match task {
        Some(task) => held(task).ok_or("unknown_lease"),
        None => Err("malformed"),
    }
}

/// A result as a report.
pub(super) fn result_report(lease: LeaseId, worker: &WorkerId, result: ExecResult) -> Report {
    let outcome = match result.status {
        ResultStatus::Succeeded | ResultStatus::Skipped => completed(result),
        ResultStatus::Failed => failed_result(result),
        ResultStatus::Cancelled => ReportedOutcome::Failed {
            failure: failure(
                "E.RUNNER.CANCELLED",
                result.error.as_ref().map_or("the worker gave the work up", |e| e.message.as_str()),
            ),
            retryable: false,
        },
    };
    report(lease, worker, outcome)
}

/// A worker that skips its work is done with it, and says so.
fn completed(result: ExecResult) -> ReportedOutcome {
    let is_skipped = result.status == ResultStatus::Skipped;
    match artifacts::kept(result.artifacts.as_deref().unwrap_or_default()) {
        Ok(artifacts) => ReportedOutcome::Completed {
            result: bytes(result.result),
            extra: extra(is_skipped, artifacts),
        },
        Err(error) => ReportedOutcome::Failed {
            failure: failure(RESULT_TOO_LARGE, &format!("{error}; {}", artifacts::HINT)),
            retryable: false,
        },
    }
}

fn failed_result(result: ExecResult) -> ReportedOutcome {
    #[derive(Deserialize)]
    struct ErrorText {
        error: String,
    }
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct NothingButError {
        #[serde(rename = "error")]
        _error: String,
    }
    #[derive(Deserialize)]
    struct Marks {
        retryable: Option<bool>,
    }
    let marks = result.metadata.as_ref();
    let marks = marks.and_then(|metadata| serde_json::from_str::<Marks>(metadata.get()).ok());
    let retryable = marks.and_then(|marks| marks.retryable).unwrap_or(true);
    let mut failure = match &result.error {
        Some(error) => failure(&error.code, &error.message),
        // Older workers put the text of a failure into the result.
        None => match serde_json::from_str::<ErrorText>(result.result.get()) {
            Ok(text) => failure(DEFAULT_CODE, &text.error),
            Err(_) => failure(DEFAULT_CODE, "the worker reported a failure without a reason"),
        },
    };
    let says_more = result.result != OpenObject::empty()
        && serde_json::from_str::<NothingButError>(result.result.get()).is_err();
    failure.details = says_more.then(|| bytes(result.result));
    ReportedOutcome::Failed { failure, retryable }
}

fn bytes(object: OpenObject) -> Bytes {
    let text: Box<str> = object.into_raw().into();
    Bytes::from(text.into_boxed_bytes())
}

/// A worker could not do it.
pub(super) fn error_report(lease: LeaseId, worker: &WorkerId, error: &ExecError) -> Report {
    let outcome =
        ReportedOutcome::Failed { failure: failure(&error.code, &error.message), retryable: true };
    report(lease, worker, outcome)
}

/// A task that cannot be brought to this kind of worker at all.
pub(super) fn undeliverable(lease: LeaseId, worker: &WorkerId, bytes: usize) -> Report {
    let reason = format!("its dispatch would take {bytes} bytes, more than a frame may have");
    let failure = failure("E.DISPATCH.TOO_LARGE", &reason);
    report(lease, worker, ReportedOutcome::Failed { failure, retryable: false })
}

fn failure(code: &str, reason: &str) -> Failure {
    let cut = |text: &str, chars_max| text.chars().take(chars_max).collect::<String>();
    let code = if code.is_empty() { DEFAULT_CODE } else { code };
    Failure::new(cut(code, CODE_CHARS_MAX), cut(reason, REASON_CHARS_MAX))
}

/// The report is recognised by its content: a frame has no name that survives its session.
fn report(lease: LeaseId, worker: &WorkerId, outcome: ReportedOutcome) -> Report {
    Report { lease, worker: worker.clone(), key: content_key(&outcome), outcome }
}

/// The leases that a worker says it works on; `None` if it does not say.
pub(super) fn listed_leases(metrics: &Metrics, shard: ShardId) -> Option<Vec<LeaseId>> {
    let listed: Vec<String> = serde_json::from_str(metrics.others.get("leases")?.get()).ok()?;
    let leases = listed.iter().take(LISTED_LEASES_MAX).filter_map(|text| text.parse().ok());
    Some(leases.filter(|lease: &LeaseId| lease.task.shard() == shard).collect())
}

/// A result without the artifacts that nobody could follow: it is worth more than they are.
pub(super) fn repair(kind: Kind, frame: &BusinessFrame) -> Option<Payload> {
    if kind != Kind::ExecResult {
        return None;
    }
    let mut keys: BTreeMap<String, Box<RawValue>> =
        serde_json::from_str(frame.payload.get()).ok()?;
    let artifacts: Vec<Box<RawValue>> = serde_json::from_str(keys.get("artifacts")?.get()).ok()?;
    let good: Vec<_> = artifacts.into_iter().filter(|one| Artifact::decode(one).is_ok()).collect();
    keys.insert("artifacts".to_owned(), to_raw_value(&good).ok()?);
    Payload::decode(kind, &to_raw_value(&keys).ok()?).ok()
}

/// Whether a worker says that it is about to leave.
pub(super) fn is_leaving(metrics: &Metrics) -> bool {
    metrics.others.get("draining").is_some_and(|draining| draining.get() == "true")
}

#[cfg(test)]
mod tests;
