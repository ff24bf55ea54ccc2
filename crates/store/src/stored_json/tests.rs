//! The exact texts: what a released version wrote, every later one must read.

use std::fmt::Debug;
use std::time::Duration;

use coordinator::{BoundPackage, FactNumber, RunBindings};
use model::{
    CallLink, Demand, LEASE_TTL_DEFAULT, LeaseId, PackageRef, Pin, RetryPolicy, ShardId, TaskSpec,
    Timestamp,
};
use serde_json::Value;

use super::*;

#[test]
fn a_spec_of_defaults_states_every_value() {
    check(
        &plain_spec(),
        r#"{"demand":{"queue":"default","task_type":"echo","tools":[],"tags":{},"package":null},"priority":0,"lease_ttl_ms":30000,"timeout_ms":null,"retry":{"max_attempts":3,"backoff_ms":1000,"backoff_max_ms":60000}}"#,
    );
}

#[test]
fn a_spec_keeps_what_is_not_the_default() {
    let mut spec = plain_spec();
    spec.priority = -5;
    spec.lease_ttl = Duration::from_millis(1_500);
    spec.timeout = Some(Duration::from_secs(90));
    spec.retry =
        RetryPolicy { max_attempts: 7, backoff: Duration::ZERO, backoff_max: Duration::ZERO };
    spec.demand.tools.insert("jq".parse().expect("valid"));
    spec.demand.tags.insert("zone".parse().expect("valid"), "ü \"1\"".parse().expect("valid"));
    spec.demand.package = Some(PackageRef {
        name: "maths".parse().expect("valid"),
        version: "1.2.3".parse().expect("valid"),
    });
    check(
        &spec,
        r#"{"demand":{"queue":"default","task_type":"echo","tools":["jq"],"tags":{"zone":"ü \"1\""},"package":{"name":"maths","version":"1.2.3"}},"priority":-5,"lease_ttl_ms":1500,"timeout_ms":90000,"retry":{"max_attempts":7,"backoff_ms":0,"backoff_max_ms":0}}"#,
    );
}

#[test]
fn a_call_states_every_value() {
    let caller = LeaseId { task: ShardId::new(1).expect("fits").first_task(), epoch: 3 };
    check(
        &CallLink { caller, request: "r \"1\" ü".into() },
        r#"{"caller":{"task":1099511627776,"epoch":3},"request":"r \"1\" ü"}"#,
    );
    let negative = r#"{"caller":{"task":-1,"epoch":3},"request":"r"}"#;
    assert!(read::<CallLink>("call", negative).is_err(), "no task has this number");
}

#[test]
fn a_pin_states_every_value() {
    let worker = "w1".parse().expect("valid");
    check(
        &Pin::Worker { worker, is_hard: true, wait_max: None, because: "its \"disk\"".into() },
        r#"{"worker":{"worker":"w1","is_hard":true,"wait_max_ms":null,"because":"its \"disk\""}}"#,
    );
    let key = "browser".parse().expect("valid");
    check(
        &Pin::Key { key, is_hard: false, ttl: Duration::from_secs(90) },
        r#"{"key":{"key":"browser","is_hard":false,"ttl_ms":90000}}"#,
    );
}

#[test]
fn bindings_state_every_value() {
    check(&RunBindings::default(), r#"{"bound":[],"kept_from":[],"fact":null}"#);
    let bound = BoundPackage {
        package: "\"p\" ü".into(),
        worker: None,
        since: Timestamp::from_integer(7),
        moved_from: Some("w2".parse().expect("valid")),
    };
    let kept_from = vec!["w2".parse().expect("valid")];
    check(
        &RunBindings { bound: vec![bound], kept_from, fact: FactNumber::new(9) },
        r#"{"bound":[{"package":"\"p\" ü","worker":null,"since":7,"moved_from":"w2"}],"kept_from":["w2"],"fact":9}"#,
    );
    let invalid = r#"{"bound":[],"kept_from":["w 1"],"fact":null}"#;
    assert!(read::<RunBindings>("bindings", invalid).is_err(), "no worker has this name");
}

/// The value is written as this text and comes back from it; a text in which a value is missing,
/// or in which there is one more, is refused.
#[track_caller]
fn check<T: Serialize + DeserializeOwned + PartialEq + Debug>(value: &T, text: &str) {
    assert_eq!(write(value), text);
    assert_eq!(&read::<T>("value", text).expect("valid"), value);
    let whole: Value = serde_json::from_str(text).expect("JSON");
    for pointer in objects(&whole, String::new()) {
        let keys = |value: &Value| -> Vec<String> {
            let object = value.pointer(&pointer).and_then(Value::as_object).expect("an object");
            object.keys().cloned().collect()
        };
        for key in keys(&whole) {
            let mut without = whole.clone();
            object_at(&mut without, &pointer).remove(&key);
            assert!(read::<T>("value", &without.to_string()).is_err(), "{pointer}/{key} is gone");
        }
        let mut with = whole.clone();
        object_at(&mut with, &pointer).insert("gpu".into(), 1.into());
        assert!(read::<T>("value", &with.to_string()).is_err(), "{pointer}/gpu is unknown");
    }
}

/// Where objects with fixed keys stand; tags are the only map.
fn objects(value: &Value, at: String) -> Vec<String> {
    let parts: Vec<(String, &Value)> = match value {
        Value::Object(object) => object.iter().map(|(key, part)| (key.clone(), part)).collect(),
        Value::Array(list) => {
            list.iter().enumerate().map(|(n, part)| (n.to_string(), part)).collect()
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => return Vec::new(),
    };
    let parts = parts.into_iter().filter(|(key, _)| key != "tags");
    let mut found: Vec<String> =
        parts.flat_map(|(key, part)| objects(part, format!("{at}/{key}"))).collect();
    if value.is_object() {
        found.push(at);
    }
    found
}

fn object_at<'v>(value: &'v mut Value, pointer: &str) -> &'v mut serde_json::Map<String, Value> {
    value.pointer_mut(pointer).and_then(Value::as_object_mut).expect("an object")
}

fn plain_spec() -> TaskSpec {
    TaskSpec {
        demand: Demand {
            queue: "default".parse().expect("valid"),
            task_type: "echo".parse().expect("valid"),
            tools: [].into(),
            tags: [].into(),
            package: None,
        },
        priority: 0,
        lease_ttl: LEASE_TTL_DEFAULT,
        timeout: None,
        retry: RetryPolicy::default(),
    }
}
