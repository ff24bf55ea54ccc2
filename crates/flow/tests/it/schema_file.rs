//! `schemas/workflow.json` says to editors what the compiler says to everybody.

use std::sync::LazyLock;

use bytes::Bytes;
use flow::Severity;
use jsonschema::Validator;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::telling::{id, told, written};

static SCHEMA: LazyLock<Value> = LazyLock::new(|| {
    let text = include_str!("../../../../schemas/workflow.json");
    serde_json::from_str(text).expect("the schema is JSON")
});
static VALIDATOR: LazyLock<Validator> =
    LazyLock::new(|| jsonschema::validator_for(&SCHEMA).expect("the schema is a JSON Schema"));

fn check_valid(definition: &Value) {
    let errors: Vec<_> = VALIDATOR.iter_errors(definition).map(|error| error.to_string()).collect();
    assert_eq!(errors, [""; 0]);
    if let Err(problems) = flow::compile(Bytes::from(definition.to_string())) {
        panic!("{}", told(&problems));
    }
}

#[test]
fn the_workflow_of_seed_003_is_valid() {
    let request: Value =
        serde_json::from_str(include_str!("../../../../docs/examples/run-request.json")).unwrap();
    check_valid(&request["workflow"]);
}

#[test]
fn the_examples_of_the_schema_are_valid() {
    let examples = SCHEMA["examples"].as_array().expect("there are some");
    assert!(!examples.is_empty());
    examples.iter().for_each(check_valid);
}

#[test]
fn each_field_has_a_title() {
    fn check(at: &str, schema: &Value) {
        for (name, field) in schema["properties"].as_object().into_iter().flatten() {
            let at = format!("{at}/{name}");
            assert!(field.get("title").is_some() || field.get("$ref").is_some(), "{at}");
            check(&at, field);
            check(&at, &field["items"]);
        }
    }
    check("", &SCHEMA);
    for (name, schema) in SCHEMA["$defs"].as_object().expect("there are some") {
        assert!(schema.get("title").is_some(), "{name}");
        check(name, schema);
    }
}

/// A definition that uses every field that is looked at.
fn everything() -> Value {
    let text = written(
        r#"{
        "id": "$w", "metadata": {"name": "All"}, "tags": ["a"],
        "runtimes": {"python": {"workerHints": {"package": "p", "queue": "q", "labels": {"a": "b"}}}},
        "outputs": {"x": "{{ nodes.one.results.y }}"},
        "nodes": [
            {"id": "$a", "type": "p.one", "package": {"name": "p", "version": "1"}, "label": "One",
             "alias": "one", "role": "node", "parameters": {"n": 1}, "results": {},
             "schema": {"parameters": {"type": "object"}, "results": {"type": "object"}},
             "ui": {"inputPorts": [{"key": "in", "binding": {"path": "parameters.n"}}],
                    "outputPorts": [{"key": "out", "binding": {"path": "results.y", "prefix": ""}}]},
             "onError": "continue", "onSkip": "skip", "when": "{{ inputs.go }}",
             "retry": {"maxAttempts": 2, "backoffMs": 1, "backoffMaxMs": 5},
             "timeoutMs": 1000, "priority": -3, "queue": "fast", "tools": ["ffmpeg"],
             "labels": {"gpu": "true"}, "concurrencyKey": "k-{{ inputs.k }}", "leaseTtlMs": 1000,
             "affinity": {"mode": "preferred", "key": "s", "ttlMs": 5},
             "map": {"over": [1, 2], "maxParallel": 2},
             "middlewares": [{"id": "$m", "type": "core.retry", "parameters": {"attempts": 2}}]},
            {"id": "$b", "type": "p.two", "on_error": "skip", "on_skip": "run", "when": true,
             "retry": {"max_attempts": 2, "backoff_ms": 1, "backoff_max_ms": 5},
             "timeout_ms": 1000, "concurrency_key": "k", "lease_ttl_ms": 1000,
             "affinity": {"key": "s", "ttl_ms": 5}, "map": {"over": "{{ inputs.l }}", "max_parallel": 2}},
            {"id": "$c", "type": "workflow.container",
             "parameters": {"__container": {"subgraphId": "$s"}}}
        ],
        "edges": [
            {"id": "e", "source": {"node": "$a", "port": "out"}, "target": {"node": "$b", "port": ""}}
        ],
        "subgraphs": [
            {"id": "$s", "metadata": {"label": "Inner"},
             "definition": {"id": "$t", "nodes": [{"id": "$d", "type": "core.noop"}]}}
        ]
    }"#,
    );
    serde_json::from_str(&text).expect("it is JSON")
}

#[test]
fn a_definition_with_every_field_is_valid() {
    check_valid(&everything());
}

/// All places of a value.
fn pointers(value: &Value, at: &str, found: &mut Vec<String>) {
    found.push(at.to_owned());
    let mut below = |key: &str, value: &Value| {
        let key = key.replace('~', "~0").replace('/', "~1");
        pointers(value, &format!("{at}/{key}"), found);
    };
    match value {
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(index, item)| below(&index.to_string(), item));
        }
        Value::Object(fields) => fields.iter().for_each(|(key, field)| below(key, field)),
        _ => {}
    }
}

/// Values to put where they may not belong.
fn strange_values() -> Vec<Value> {
    let texts = ["", "x", "a b", "2x", "fail", "skip", "preferred", "{{ inputs.x }}", "a\u{7}"];
    let mut values: Vec<Value> = texts.into_iter().map(Value::from).collect();
    values.extend([
        json!(null),
        json!(true),
        json!(0),
        json!(1),
        json!(-1),
        json!(1.5),
        json!(2.0),
        json!(1e300),
        json!(5_000),
        json!(90_000_000_000_u64),
        json!([]),
        json!([null]),
        json!(["x"]),
        json!([{}]),
        json!({}),
        json!({"a": 1}),
        json!({"a": "b"}),
        json!(id('z')),
        json!(id('z').to_uppercase()),
        json!("x".repeat(300)),
    ]);
    values
}

/// One thing that is done to a definition.
#[derive(Clone, Debug)]
enum Breakage {
    Replace(prop::sample::Index, prop::sample::Index),
    Remove(prop::sample::Index),
}

fn breakage() -> impl Strategy<Value = Breakage> {
    let place = any::<prop::sample::Index>;
    prop_oneof![
        3 => (place(), place()).prop_map(|(at, value)| Breakage::Replace(at, value)),
        1 => place().prop_map(Breakage::Remove),
    ]
}

fn broken(breakages: &[Breakage]) -> Value {
    let mut definition = everything();
    for breakage in breakages {
        let mut places = Vec::new();
        pointers(&definition, "", &mut places);
        match breakage {
            Breakage::Replace(at, value) => {
                let values = strange_values();
                let at = at.get(&places);
                let place = definition.pointer_mut(at).expect("it was found");
                *place = value.get(&values).clone();
            }
            Breakage::Remove(at) => {
                let Some((above, key)) = at.get(&places).rsplit_once('/') else { continue };
                let key = key.replace("~1", "/").replace("~0", "~");
                match definition.pointer_mut(above).expect("it was found") {
                    Value::Object(fields) => {
                        fields.remove(&key);
                    }
                    Value::Array(items) => {
                        items.remove(key.parse::<usize>().expect("the place of an element"));
                    }
                    _ => {}
                }
            }
        }
    }
    definition
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_schema_and_the_compiler_refuse_the_same(
        breakages in prop::collection::vec(breakage(), 1..4)
    ) {
        let definition = broken(&breakages);
        let problems = match flow::compile(Bytes::from(definition.to_string())) {
            Ok(compiled) => compiled.warnings,
            Err(problems) => problems,
        };
        let is_refused = problems
            .iter()
            .any(|one| one.code == "E.FLOW.INVALID" && one.severity == Severity::Error);
        let errors: Vec<_> = VALIDATOR
            .iter_errors(&definition)
            .map(|error| format!("{}: {error}", error.instance_path()))
            .collect();
        prop_assert_eq!(
            is_refused,
            !errors.is_empty(),
            "the schema says {:#?}\nthe compiler says {}",
            errors,
            told(&problems)
        );
    }
}
