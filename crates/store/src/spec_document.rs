//! The rarely used parts of a task's spec, as one JSON text in its row.
//!
//! Type, queue and priority have columns of their own. The rest is written only where it differs
//! from the default, so most rows have no document at all.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::BuildHasher;
use std::sync::Arc;
use std::time::Duration;

use model::{Demand, InvalidText, LEASE_TTL_DEFAULT, PackageRef, RetryPolicy, TaskSpec};
use serde::{Deserialize, Serialize};

/// An unknown field may be a demand on the worker; to skip it could give the task to a worker that
/// cannot execute it. So it is refused.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct SpecDocument {
    #[serde(skip_serializing_if = "Option::is_none")]
    lease_ttl_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    timeout_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    retry: Option<RetryDocument>,
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    tools: BTreeSet<String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    tags: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    package: Option<PackageDocument>,
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct RetryDocument {
    #[serde(skip_serializing_if = "Option::is_none")]
    max_attempts: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    backoff_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    backoff_max_ms: Option<u64>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct PackageDocument {
    name: String,
    version: String,
}

/// Why a stored spec cannot be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SpecError {
    #[error("its spec is not what was once written: {0}")]
    Document(#[from] serde_json::Error),
    #[error("its spec holds an invalid text: {0}")]
    Text(#[from] InvalidText),
    #[error("its priority {0} is out of range")]
    Priority(i64),
}

/// The document of a spec; `None` when everything in it is the default.
pub(crate) fn write(spec: &TaskSpec) -> Option<String> {
    let Demand { tools, tags, package, .. } = &spec.demand;
    let is_plain = spec.lease_ttl == LEASE_TTL_DEFAULT
        && spec.timeout.is_none()
        && spec.retry == RetryPolicy::default()
        && tools.is_empty()
        && tags.is_empty()
        && package.is_none();
    if is_plain {
        return None;
    }
    let document = SpecDocument {
        lease_ttl_ms: (spec.lease_ttl != LEASE_TTL_DEFAULT).then(|| millis(spec.lease_ttl)),
        timeout_ms: spec.timeout.map(millis),
        retry: RetryDocument::of(spec.retry),
        tools: tools.iter().map(ToString::to_string).collect(),
        tags: tags.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect(),
        package: package.as_ref().map(|package| PackageDocument {
            name: package.name.to_string(),
            version: package.version.to_string(),
        }),
    };
    Some(serde_json::to_string(&document).expect("texts and numbers always become JSON"))
}

/// The spec of a row.
pub(crate) fn read(columns: &SpecColumns<'_>) -> Result<TaskSpec, SpecError> {
    let document: SpecDocument = match columns.document {
        Some(text) => serde_json::from_str(text)?,
        None => SpecDocument::default(),
    };
    let tools = document.tools.iter().map(|tool| tool.parse()).collect::<Result<_, _>>()?;
    let mut tags = BTreeMap::new();
    for (key, value) in &document.tags {
        tags.insert(key.parse()?, value.parse()?);
    }
    let package = match document.package {
        Some(package) => {
            Some(PackageRef { name: package.name.parse()?, version: package.version.parse()? })
        }
        None => None,
    };
    Ok(TaskSpec {
        demand: Demand {
            queue: columns.queue.parse()?,
            task_type: columns.task_type.parse()?,
            tools,
            tags,
            package,
        },
        priority: i16::try_from(columns.priority)
            .map_err(|_| SpecError::Priority(columns.priority))?,
        lease_ttl: document.lease_ttl_ms.map_or(LEASE_TTL_DEFAULT, Duration::from_millis),
        timeout: document.timeout_ms.map(Duration::from_millis),
        retry: document.retry.unwrap_or_default().policy(),
    })
}

impl RetryDocument {
    fn of(policy: RetryPolicy) -> Option<Self> {
        let usual = RetryPolicy::default();
        (policy != usual).then(|| Self {
            max_attempts: (policy.max_attempts != usual.max_attempts)
                .then_some(policy.max_attempts),
            backoff_ms: (policy.backoff != usual.backoff).then(|| millis(policy.backoff)),
            backoff_max_ms: (policy.backoff_max != usual.backoff_max)
                .then(|| millis(policy.backoff_max)),
        })
    }

    fn policy(&self) -> RetryPolicy {
        let usual = RetryPolicy::default();
        RetryPolicy {
            max_attempts: self.max_attempts.unwrap_or(usual.max_attempts),
            backoff: self.backoff_ms.map_or(usual.backoff, Duration::from_millis),
            backoff_max: self.backoff_max_ms.map_or(usual.backoff_max, Duration::from_millis),
        }
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// The columns that a spec is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct SpecColumns<'a> {
    pub task_type: &'a str,
    pub queue: &'a str,
    pub priority: i64,
    pub document: Option<&'a str>,
}

/// Specs that were read before; a million tasks of one kind share one.
#[derive(Debug, Default)]
pub(crate) struct SpecCache {
    /// By the hash of their columns, so that a look-up needs no text of its own.
    known: HashMap<u64, Vec<KnownSpec>>,
    hasher: foldhash::fast::RandomState,
}

#[derive(Debug)]
struct KnownSpec {
    document: Option<Box<str>>,
    spec: Arc<TaskSpec>,
}

impl SpecCache {
    /// The spec of a row, shared with rows read before.
    pub(crate) fn get(&mut self, columns: &SpecColumns<'_>) -> Result<Arc<TaskSpec>, SpecError> {
        let same_hash = self.known.entry(self.hasher.hash_one(columns)).or_default();
        if let Some(known) = same_hash.iter().find(|known| known.is(columns)) {
            return Ok(Arc::clone(&known.spec));
        }
        let spec = Arc::new(read(columns)?);
        let document = columns.document.map(Into::into);
        same_hash.push(KnownSpec { document, spec: Arc::clone(&spec) });
        Ok(spec)
    }
}

impl KnownSpec {
    fn is(&self, columns: &SpecColumns<'_>) -> bool {
        i64::from(self.spec.priority) == columns.priority
            && self.document.as_deref() == columns.document
            && self.spec.demand.task_type.as_str() == columns.task_type
            && self.spec.demand.queue.as_str() == columns.queue
    }
}

/// The document that was written last; most turns submit tasks of one kind.
#[derive(Debug, Default)]
pub(crate) struct LastDocument {
    last: Option<(Arc<TaskSpec>, Option<String>)>,
}

impl LastDocument {
    pub(crate) fn of(&mut self, spec: &Arc<TaskSpec>) -> Option<&str> {
        let is_same = matches!(&self.last, Some((last, _)) if Arc::ptr_eq(last, spec));
        if !is_same {
            self.last = Some((Arc::clone(spec), write(spec)));
        }
        self.last.as_ref().and_then(|(_, document)| document.as_deref())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain() -> TaskSpec {
        let columns =
            SpecColumns { task_type: "echo", queue: "default", priority: 0, document: None };
        read(&columns).expect("valid")
    }

    fn comes_back(spec: &TaskSpec) {
        let document = write(spec);
        let columns = SpecColumns {
            task_type: spec.demand.task_type.as_str(),
            queue: spec.demand.queue.as_str(),
            priority: spec.priority.into(),
            document: document.as_deref(),
        };
        assert_eq!(&read(&columns).expect("valid"), spec, "{document:?}");
    }

    #[test]
    fn a_plain_spec_has_no_document() {
        assert_eq!(write(&plain()), None);
        comes_back(&plain());
    }

    #[test]
    fn only_what_differs_is_written() {
        let mut spec = plain();
        spec.retry.max_attempts = 7;
        assert_eq!(write(&spec).as_deref(), Some(r#"{"retry":{"max_attempts":7}}"#));
        comes_back(&spec);
    }

    #[test]
    fn every_part_comes_back() {
        let mut spec = plain();
        spec.priority = -5;
        spec.lease_ttl = Duration::from_millis(1_500);
        spec.timeout = Some(Duration::from_secs(90));
        spec.retry.backoff = Duration::ZERO;
        spec.retry.backoff_max = Duration::from_secs(7);
        spec.demand.tools.insert("jq".parse().expect("valid"));
        spec.demand.tags.insert("zone".parse().expect("valid"), "ü \"1\"".parse().expect("valid"));
        spec.demand.package = Some(PackageRef {
            name: "maths".parse().expect("valid"),
            version: "1.2.3".parse().expect("valid"),
        });
        comes_back(&spec);
    }

    #[test]
    fn an_unknown_field_is_refused() {
        let columns = SpecColumns {
            task_type: "echo",
            queue: "default",
            priority: 0,
            document: Some(r#"{"gpu":1}"#),
        };
        assert!(matches!(read(&columns), Err(SpecError::Document(_))));
    }

    #[test]
    fn the_cache_tells_kinds_apart() {
        let mut cache = SpecCache::default();
        let mut get = |task_type, priority| {
            let columns = SpecColumns { task_type, queue: "q", priority, document: None };
            cache.get(&columns).expect("valid")
        };
        let first = get("a", 0);
        assert!(Arc::ptr_eq(&first, &get("a", 0)));
        assert_eq!(get("a", 1).priority, 1);
        assert_eq!(get("b", 0).demand.task_type.as_str(), "b");
        assert!(Arc::ptr_eq(&first, &get("a", 0)));
    }
}
