//! Wire words to nouns: updates of jobs, names of queues and workers.

use std::borrow::Cow;
use std::collections::BTreeSet;

use model::{QueueName, WorkerId};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::plans::job::{DEFAULT_QUEUE, READY_QUEUE};
use crate::resp_workers::registration::ABILITIES_MAX;

/// What keys of queues begin with.
pub(super) const QUEUE_PREFIX: &[u8] = b"queue:";
/// Jobs that are held by workers, as a list.
pub(super) const PROCESSING: &str = "processing";
/// Jobs that wait for their moment, as a list.
pub(super) const SCHEDULED: &str = "scheduled";
/// A worker's name.
const WORKER_ID_CHARS_MAX: usize = 64;

/// A worker's name, or what is wrong with it in the words of seed 004 section 7.2.
pub(super) fn worker_id_in(text: &str) -> Result<WorkerId, String> {
    let is_odd = |letter: char| !letter.is_ascii_alphanumeric() && letter != '-' && letter != '_';
    if text.contains(is_odd) {
        return Err("Invalid worker ID characters: worker_id takes A-Z a-z 0-9 - _".to_owned());
    }
    if text.len() > WORKER_ID_CHARS_MAX {
        return Err(format!(
            "Worker ID too long: worker_id takes {WORKER_ID_CHARS_MAX} characters"
        ));
    }
    text.parse().map_err(|error| format!("{error}"))
}

/// The name in `queue:<name>`.
pub(super) fn queue_in(key: &[u8]) -> Option<&str> {
    std::str::from_utf8(key.strip_prefix(QUEUE_PREFIX)?).ok()
}

/// The queues behind a list's name. `queue:ready` shows whole plans and single commands: a worker
/// of the one list takes both.
pub(super) fn queues_of(name: &str) -> Result<BTreeSet<QueueName>, String> {
    let names: &[&str] = if name == READY_QUEUE { &[READY_QUEUE, DEFAULT_QUEUE] } else { &[name] };
    names.iter().map(|name| name.parse().map_err(|error| format!("{error}"))).collect()
}

/// `a,b,c` as `SET worker:<id>:tools` has it.
pub(super) fn comma_list(text: &[u8]) -> Result<Vec<&str>, String> {
    let text = std::str::from_utf8(text).map_err(|_| "the list is not text".to_owned())?;
    let names: Vec<&str> = text.split(',').map(str::trim).filter(|one| !one.is_empty()).collect();
    if names.len() > ABILITIES_MAX {
        return Err(format!("the list has {} names; at most {ABILITIES_MAX}", names.len()));
    }
    Ok(names)
}

/// What `JOB.UPDATE` takes (seed 004 section 4.2); all else stays in the result.
#[derive(Deserialize)]
pub(super) struct Update<'a> {
    #[serde(borrow, default)]
    pub(super) status: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    pub(super) worker_id: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    pub(super) lease_id: Option<Cow<'a, str>>,
    #[serde(default)]
    pub(super) current_task: Option<u64>,
    #[serde(default)]
    pub(super) progress_percent: Option<f64>,
    #[serde(borrow, default)]
    pub(super) message: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    pub(super) error: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) error_code: Option<Cow<'a, str>>,
    #[serde(default)]
    pub(super) retryable: Option<bool>,
}

/// What an update says of the job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// It runs, or says how far it is.
    Progress,
    Completed,
    Failed,
}

impl Update<'_> {
    pub(super) fn step(&self) -> Result<Step, String> {
        match self.status.as_deref() {
            None | Some("running" | "in_progress") => Ok(Step::Progress),
            Some("completed" | "success" | "succeeded") => Ok(Step::Completed),
            Some("failed" | "error") => Ok(Step::Failed),
            Some(other) => {
                let known = "running, completed or failed";
                Err(format!("status is '{other}'; a worker reports {known}"))
            }
        }
    }

    /// Why the job failed, in the worker's words.
    pub(super) fn reason(&self) -> String {
        match self.error {
            None => "the worker reported a failure without a reason".to_owned(),
            Some(raw) => match serde_json::from_str::<String>(raw.get()) {
                Ok(text) => text,
                Err(_) => raw.get().to_owned(),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_workers_are_refused_in_the_words_of_the_seed() {
        check_name("worker-001_b", None);
        check_name("a b", Some("Invalid worker ID characters"));
        check_name("w\u{fc}", Some("Invalid worker ID characters"));
        check_name(&"x".repeat(64), None);
        check_name(&"x".repeat(65), Some("Worker ID too long"));
        check_name("", Some("worker_id must be"));
    }

    fn check_name(name: &str, refused: Option<&str>) {
        let said = worker_id_in(name).err();
        match (&said, refused) {
            (None, None) => {}
            (Some(said), Some(words)) => assert!(said.contains(words), "{name}: {said}"),
            _ => panic!("{name}: {said:?}"),
        }
    }
}
