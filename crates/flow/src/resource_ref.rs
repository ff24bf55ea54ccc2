//! Resources that only one worker has: parameters that name one pin their task to that worker.
//!
//! Seed 003 section 10 and seed 001 section 3.1. Anywhere in the parameters,
//! `{"resourceRef": {"resourceId", "workerName", "type"}}` names one, and so does each entry of a
//! list `resource_refs`. Both spellings of each name are understood, and `workerId` for the worker.

use std::time::Duration;

use model::{Pin, WorkerId};
use serde_json::{Map, Value};

/// Limit: how long a task waits for the worker that has its resource.
pub const RESOURCE_WAIT_MAX: Duration = Duration::from_mins(5);

const REF_KEYS: [&str; 2] = ["resourceRef", "resource_ref"];
const LIST_KEYS: [&str; 2] = ["resourceRefs", "resource_refs"];
const WORKER_KEYS: [&str; 4] = ["workerName", "worker_name", "workerId", "worker_id"];
const RESOURCE_KEYS: [&str; 2] = ["resourceId", "resource_id"];

/// Parameters that no single worker can serve.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ResourceConflict {
    /// Two workers have one resource each.
    #[error("resource {} is on worker {}, but resource {} is on worker {}", first.0, first.1, second.0, second.1)]
    TwoWorkers {
        /// A resource, and who has it.
        first: (String, WorkerId),
        /// Another one, and who has that.
        second: (String, WorkerId),
    },
    /// A reference does not say which worker has the resource.
    #[error("{place} must be {rule}")]
    Malformed {
        /// Which field.
        place: &'static str,
        /// What it must be.
        rule: &'static str,
    },
}

impl ResourceConflict {
    /// The code that a task with such parameters fails with.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::TwoWorkers { .. } => "E.RESOURCE.CONFLICT",
            Self::Malformed { .. } => "E.REQUEST.INVALID",
        }
    }
}

/// The worker that alone can execute a task with these parameters; `None` where any can.
///
/// # Errors
/// When the resources are on two workers, or a reference does not say where.
pub fn resource_pin(parameters: &[u8]) -> Result<Option<Box<Pin>>, ResourceConflict> {
    // Almost no parameters name a resource: those are looked through, not parsed.
    let text = std::str::from_utf8(parameters).unwrap_or_default();
    if !text.contains("\"resourceRef") && !text.contains("\"resource_ref") {
        return Ok(None);
    }
    let Ok(parameters) = serde_json::from_str::<Value>(text) else { return Ok(None) };
    let mut found = None;
    look(&parameters, &mut found)?;
    Ok(found.map(|(resource, worker)| {
        Box::new(Pin::Worker {
            worker,
            is_hard: true,
            wait_max: Some(RESOURCE_WAIT_MAX),
            because: format!("resource {resource}"),
        })
    }))
}

type Found = Option<(String, WorkerId)>;

/// Looks into a value and all below it. The parser bounds how deep that is.
fn look(value: &Value, found: &mut Found) -> Result<(), ResourceConflict> {
    match value {
        Value::Object(fields) => fields.iter().try_for_each(|(key, below)| {
            match below {
                Value::Object(reference) if REF_KEYS.contains(&key.as_str()) => {
                    take(reference, found)?;
                }
                Value::Array(references) if LIST_KEYS.contains(&key.as_str()) => {
                    let objects = references.iter().filter_map(Value::as_object);
                    objects.into_iter().try_for_each(|reference| take(reference, found))?;
                }
                _ => {} // Whatever else has that name refers to nothing.
            }
            look(below, found)
        }),
        Value::Array(values) => values.iter().try_for_each(|value| look(value, found)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Ok(()),
    }
}

fn take(reference: &Map<String, Value>, found: &mut Found) -> Result<(), ResourceConflict> {
    let text = |keys: &[&str]| keys.iter().find_map(|key| reference.get(*key)?.as_str());
    let malformed = |place, rule| ResourceConflict::Malformed { place, rule };
    let worker = text(&WORKER_KEYS)
        .ok_or(malformed("resourceRef.workerName", "the name of a worker"))?
        .parse::<WorkerId>()
        .map_err(|invalid| malformed("resourceRef.workerName", invalid.rule))?;
    let resource = text(&RESOURCE_KEYS)
        .filter(|resource| !resource.is_empty())
        .ok_or(malformed("resourceRef.resourceId", "the id of a resource"))?;
    match found {
        None => *found = Some((resource.to_owned(), worker)),
        Some((_, other)) if *other == worker => {}
        Some(first) => {
            let (first, second) = (first.clone(), (resource.to_owned(), worker));
            return Err(ResourceConflict::TwoWorkers { first, second });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn worker_of(parameters: &str) -> Option<String> {
        match resource_pin(parameters.as_bytes()).expect("no conflict").map(|pin| *pin) {
            Some(Pin::Worker { worker, is_hard: true, wait_max, because }) => {
                assert_eq!(wait_max, Some(RESOURCE_WAIT_MAX));
                Some(format!("{worker} for {because}"))
            }
            Some(other) => panic!("{other:?}"),
            None => None,
        }
    }

    #[test]
    fn a_reference_pins_to_the_worker_that_has_the_resource() {
        let deep = r#"{"page": [{"resourceRef": {"resourceId": "p1", "workerName": "w1", "type": "page"}}]}"#;
        assert_eq!(worker_of(deep).as_deref(), Some("w1 for resource p1"));
        let list = r#"{"resource_refs": [{"resource_id": "p2", "worker_id": "w2", "type": "x"}]}"#;
        assert_eq!(worker_of(list).as_deref(), Some("w2 for resource p2"));
        let same = r#"{"a": {"resourceRef": {"resourceId": "p", "workerName": "w"}},
                       "b": {"resourceRef": {"resourceId": "q", "workerName": "w"}}}"#;
        assert_eq!(worker_of(same).as_deref(), Some("w for resource p"));
    }

    #[test]
    fn parameters_without_a_reference_pin_nothing() {
        for plain in ["", "{}", "not json", r#"{"a": "resourceRef"}"#, r#"{"resourceRef": "p1"}"#] {
            assert_eq!(worker_of(plain), None, "{plain}");
        }
    }

    #[test]
    fn two_workers_are_a_conflict() {
        let two = r#"{"a": {"resourceRef": {"resourceId": "p", "workerName": "w1"}},
                      "resource_refs": [{"resource_id": "q", "worker_name": "w2"}]}"#;
        let conflict = resource_pin(two.as_bytes()).expect_err("two workers");
        let text = "resource p is on worker w1, but resource q is on worker w2";
        assert_eq!(conflict.to_string(), text);
    }

    #[test]
    fn a_reference_must_say_where() {
        let check = |parameters: &str, text: &str| {
            let error = resource_pin(parameters.as_bytes()).expect_err(parameters);
            assert_eq!(error.to_string(), text);
        };
        check(
            r#"{"resourceRef": {"resourceId": "p"}}"#,
            "resourceRef.workerName must be the name of a worker",
        );
        check(
            r#"{"resourceRef": {"resourceId": "p", "workerName": "a b"}}"#,
            "resourceRef.workerName must be 1 to 64 characters of A-Z a-z 0-9 - _",
        );
        check(
            r#"{"resourceRef": {"workerName": "w"}}"#,
            "resourceRef.resourceId must be the id of a resource",
        );
    }
}
