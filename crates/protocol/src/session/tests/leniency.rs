//! What is understood although no schema has it.

use serde_json::{Value, json};

use super::super::codec::DecodeError;
use super::super::envelope::Envelope;
use super::super::kind::Kind;
use super::{decode, decode_text, encoded, examples_of, schema_of};

#[test]
fn unknown_keys_are_passed_over_and_never_sent() {
    for kind in Kind::all() {
        let schema = schema_of(Some(kind));
        let validator = jsonschema::validator_for(&schema).expect("a schema");
        for example in examples_of(&schema) {
            let mut more = example.clone();
            add_unknown_keys(&mut more);
            let payload = decode(kind, &more).unwrap_or_else(|error| panic!("{error}: {more}"));
            let said = encoded(&payload);
            assert!(validator.is_valid(&said), "{said}");
            assert!(said.get("unheard_of").is_none(), "{said}");
        }
    }
}

#[test]
fn unknown_keys_of_the_envelope_are_passed_over_and_never_sent() {
    for example in examples_of(&schema_of(None)) {
        let mut more = example.clone();
        more["unheard_of"] = json!(1);
        more["sender"]["unheard_of"] = json!({});
        let frame = Envelope::from_text(&more.to_string()).expect("lenient");
        let said: Value = serde_json::from_str(&frame.to_text().expect("small")).expect("JSON");
        assert_eq!(&said, example);
    }
}

#[test]
fn null_is_as_good_as_missing() {
    let ack = json!({"ok": null, "for": null, "info": null, "ack_seq": 3, "ack_bitmap": null});
    check(Kind::Ack, &ack, &json!({"ack_seq": 3}));
}

#[test]
fn the_older_names_of_a_worker_are_understood() {
    for key in ["worker_name", "workerName", "worker_id", "workerId", "id"] {
        let worker = json!({key: "w", "version": "1", "hostname": "h"});
        let expected = json!({"worker_name": "w", "version": "1", "hostname": "h"});
        let auth = json!({"mode": "token", "token": "t"});
        check(
            Kind::Handshake,
            &json!({"protocol": 1, "auth": auth, "worker": worker}),
            &json!({"protocol": 1, "auth": auth, "worker": expected}),
        );
    }
}

#[test]
fn the_right_key_wins_over_an_older_one() {
    let worker = json!({
        "id": "a", "worker_id": "b", "worker_name": "c", "instance_id": "d", "version": "1",
        "hostname": "h",
    });
    let payload = json!({"protocol": 1, "auth": {"mode": "mtls"}, "worker": worker});
    let said = encoded(&decode(Kind::Handshake, &payload).expect("lenient"));
    assert_eq!(said["worker"]["worker_name"], "c");
    assert_eq!(said["worker"]["worker_instance_id"], "d");
}

#[test]
fn keys_and_texts_with_escapes_are_understood() {
    let text = r#"{"lease_\u0069d": "L\u00e4\n", "verdict": "COMM\u0049TTED"}"#;
    let said = decode_text(Kind::ExecVerdict, text).map(|verdict| encoded(&verdict));
    assert_eq!(said, Ok(json!({"lease_id": "L\u{e4}\n", "verdict": "COMMITTED"})));
}

#[test]
fn whole_numbers_are_understood_however_they_are_written() {
    for (text, expected) in [
        ("1e0", 1),
        ("-0", 0),
        ("-0.0", 0),
        ("5.0", 5),
        ("12E1", 120),
        ("9007199254740991.0", (1_u64 << 53) - 1),
    ] {
        let ack = format!(r#"{{"ack_seq": {text}}}"#);
        let said = decode_text(Kind::Ack, &ack).map(|ack| encoded(&ack));
        assert_eq!(said, Ok(json!({"ack_seq": expected})), "{text}");
    }
}

#[test]
fn a_package_that_is_named_within_is_only_a_stopgap() {
    let dispatch = |more: Value| {
        let mut dispatch = json!({
            "run_id": "r", "task_id": "t", "node_id": "n", "node_type": "core.echo",
            "package_version": "1", "parameters": {}, "constraints": {},
        });
        dispatch
            .as_object_mut()
            .expect("an object")
            .extend(more.as_object().cloned().expect("one"));
        decode(Kind::ExecDispatch, &dispatch).map(|it| encoded(&it)["package_name"].clone())
    };
    let refused = |path: &str, rule: &str| {
        Err(DecodeError::Invalid { path: path.to_owned(), rule: rule.to_owned() })
    };
    let within = json!({"name": "b"});
    assert_eq!(dispatch(json!({"package_name": "a", "package": within})), Ok(json!("a")));
    assert_eq!(dispatch(json!({"packageName": "a", "package": 7})), Ok(json!("a")));
    assert_eq!(dispatch(json!({"package_name": null, "package": within})), Ok(json!("b")));
    let name = "a string that is not empty";
    for (more, expected) in [
        (json!({}), refused("payload.package_name", "present")),
        (json!({"package": null}), refused("payload.package_name", "present")),
        (json!({"package_name": null}), refused("payload.package_name", name)),
        (json!({"package": 7}), refused("payload.package", "an object")),
        (json!({"package": {}}), refused("payload.package.name", "present")),
        (json!({"package": {"name": ""}}), refused("payload.package.name", name)),
        (json!({"package_name": "", "package": within}), refused("payload.package_name", name)),
    ] {
        assert_eq!(dispatch(more.clone()), expected, "{more}");
    }
}

#[test]
fn a_dispatch_of_seed_003_is_understood() {
    check(
        Kind::ExecDispatch,
        &json!({
            "runId": "r", "taskId": "t", "nodeId": "n", "nodeType": "core.echo",
            "package": {"name": "core", "version": "1.0.0"}, "parameters": {"runId": 1},
            "constraints": {"timeoutMs": 5},
            "resourceRefs": [{"resourceId": "p", "workerId": "w", "type": "page"}],
        }),
        &json!({
            "run_id": "r", "task_id": "t", "node_id": "n", "node_type": "core.echo",
            "package_name": "core", "package_version": "1.0.0", "parameters": {"runId": 1},
            "constraints": {"timeout_ms": 5},
            "resource_refs": [{"resource_id": "p", "worker_name": "w", "type": "page"}],
        }),
    );
}

#[test]
fn a_result_of_seed_003_is_understood() {
    check(
        Kind::ExecResult,
        &json!({
            "runId": "r", "taskId": "t", "nodeId": "n", "status": "succeeded", "result": {},
            "artifacts": [{"resourceId": "p", "workerId": "w", "type": "page", "sizeBytes": 3.0}],
        }),
        &json!({
            "run_id": "r", "task_id": "t", "status": "SUCCEEDED", "result": {},
            "artifacts": [{"resource_id": "p", "worker_name": "w", "type": "page", "size_bytes": 3}],
        }),
    );
}

#[test]
fn the_package_frames_of_seed_003_are_understood() {
    let old = json!({"package": "shot", "version": "2.1.0"});
    let new = json!({"name": "shot", "version": "2.1.0"});
    check(Kind::PackageInstall, &old, &new);
    check(Kind::PackageUninstall, &old, &new);
}

#[test]
fn next_frames_are_understood_in_snake_case_too() {
    check(
        Kind::NextRequest,
        &json!({
            "request_id": "q", "run_id": "r", "node_id": "n", "middleware_id": "m",
            "host_ctx": {"a_b": 1}, "timeout_ms": 5,
        }),
        &json!({
            "requestId": "q", "runId": "r", "nodeId": "n", "middlewareId": "m",
            "hostCtx": {"a_b": 1}, "timeoutMs": 5,
        }),
    );
}

#[test]
fn what_a_worker_tells_beyond_the_known_measures_is_kept() {
    let heartbeat = json!({
        "healthy": true,
        "metrics": {"inflight": 1, "cpu_pct": 1.5, "conn_state": "open", "pending_acks": 3},
    });
    check(Kind::Heartbeat, &heartbeat, &heartbeat);
}

#[test]
fn no_token_is_in_a_debug_text() {
    for (kind, payload) in [
        (
            Kind::Handshake,
            json!({
                "protocol": 1, "auth": {"mode": "token", "token": "s3cret"},
                "worker": {"worker_name": "w", "version": "1", "hostname": "h"},
            }),
        ),
        (Kind::Resume, json!({"session_id": "s", "session_token": "s3cret"})),
        (
            Kind::Accept,
            json!({"session_id": "s", "session_token": "s3cret", "worker_instance_id": "w"}),
        ),
    ] {
        let text = format!("{:?}", decode(kind, &payload).expect("good"));
        assert!(!text.contains("s3cret"), "{text}");
    }
}

fn check(kind: Kind, incoming: &Value, expected: &Value) {
    let payload = decode(kind, incoming).unwrap_or_else(|error| panic!("{error}: {incoming}"));
    assert_eq!(&encoded(&payload), expected);
}

/// Adds a key to every object; its value fits where keys are the peer's choice.
fn add_unknown_keys(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.values_mut().for_each(add_unknown_keys);
            map.insert("unheard_of".to_owned(), json!(1));
        }
        Value::Array(list) => list.iter_mut().for_each(add_unknown_keys),
        _ => {}
    }
}
