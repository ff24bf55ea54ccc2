//! What is refused, and in which words.

use serde_json::{Value, json};

use super::super::codec::{DEPTH_MAX, DecodeError, EncodeError, FRAME_BYTES_MAX};
use super::super::envelope::Envelope;
use super::super::kind::Kind;
use crate::error_code::ErrorCode;

#[test]
fn a_refusal_names_the_place_and_the_rule() {
    let dispatch = || super::schema_of(Some(Kind::ExecDispatch))["examples"][1].clone();
    let check = |pointer: &str, value: Value, expected: &str| {
        let mut document = dispatch();
        *document.pointer_mut(pointer).expect("a place") = value;
        let error = super::decode(Kind::ExecDispatch, &document).expect_err(expected);
        assert_eq!(error.to_string(), expected);
        assert_eq!(error.code(), ErrorCode::RequestInvalid);
    };
    check("/run_id", json!(7), "payload.run_id must be a string that is not empty");
    check("/parameters", json!([]), "payload.parameters must be an object");
    check("/chain_index", json!(-1), "payload.chain_index must be an integer from 0 to 2^53-1");
    check(
        "/constraints/timeout_ms",
        json!(0),
        "payload.constraints.timeout_ms must be an integer from 1 to 2^53-1",
    );
    check("/resource_refs/0", json!({}), "payload.resource_refs[0].resource_id must be present");
    check("/middleware_chain/1", json!(1), "payload.middleware_chain[1] must be a string");
    check("/affinity/mode", json!("no"), "payload.affinity.mode must be sticky or preferred");
}

#[test]
fn a_refusal_names_the_key_that_the_peer_chose() {
    let mut document = super::schema_of(Some(Kind::Register))["examples"][1].clone();
    document["capabilities"]["concurrency"]["per_node_limits"]["core.sleep"] = json!(0);
    let error = super::decode(Kind::Register, &document).expect_err("zero");
    assert_eq!(
        error.to_string(),
        "payload.capabilities.concurrency.per_node_limits.core.sleep must be an integer from 1 to \
         2^53-1"
    );
}

#[test]
fn an_envelope_out_of_bounds_is_refused() {
    check_envelope("id", json!(""), "frame.id must be a string of 1 to 256 characters");
    check_envelope(
        "type",
        json!("x".repeat(257)),
        "frame.type must be a string of 1 to 256 characters",
    );
    check_envelope("tenant", json!(null), "frame.tenant must be a string of 1 to 256 characters");
    check_envelope(
        "sender",
        json!({"role": "worker", "id": ""}),
        "frame.sender.id must be a string of 1 to 256 characters",
    );
    check_envelope(
        "session_seq",
        json!(1_u64 << 53),
        "frame.session_seq must be an integer from 0 to 2^53-1",
    );
    check_envelope("payload", json!("{}"), "frame.payload must be an object");
    check_envelope("flags", json!(vec!["x"; 65]), "frame.flags must be at most 64 hints");
}

#[test]
fn a_moment_without_an_offset_is_refused() {
    let naive = json!("2026-01-31T12:00:00");
    check_envelope("ts", naive, "frame.ts must be a moment in RFC 3339 with an offset or Z");
}

#[test]
fn a_key_that_is_given_twice_is_refused() {
    let text = frame().to_string().replacen('{', r#"{"tenant":"other","#, 1);
    let error = Envelope::from_text(&text).expect_err("twice");
    assert_eq!(error.to_string(), "frame.tenant must be given once");
}

#[test]
fn a_payload_has_each_key_once_in_its_best_spelling() {
    check_text(Kind::ResourceRelease, r#"{"run_id": "a", "runId": 7}"#, Ok(()));
    for twice in [
        r#"{"run_id": "a", "run_id": "a"}"#,
        r#"{"runId": "a", "runId": "a"}"#,
        r#"{"run_id": null, "run_id": "a"}"#,
        r#"{"run_id": "a", "run_\u0069d": "a"}"#,
    ] {
        check_text(Kind::ResourceRelease, twice, Err("payload.run_id must be given once"));
    }
    // An older name is looked at only where the right one is missing.
    let older = r#"{"name": "a", "package": 7, "package": 8}"#;
    check_text(Kind::PackageUninstall, older, Ok(()));
    let older = r#"{"package": "a", "package": "a"}"#;
    check_text(Kind::PackageUninstall, older, Err("payload.name must be given once"));
}

#[test]
fn null_where_a_value_must_be_breaks_the_rule_of_the_value() {
    for (kind, text, expected) in [
        (
            Kind::ResourceRelease,
            r#"{"run_id": null}"#,
            "payload.run_id must be a string that is not empty",
        ),
        (Kind::ResourceRelease, "{}", "payload.run_id must be present"),
        (Kind::ResourceRelease, "null", "payload must be an object"),
        (Kind::ResourceRelease, r#"["r"]"#, "payload must be an object"),
        (Kind::PackageCatalog, r#"{"packages": null}"#, "payload.packages must be a list"),
        (Kind::PackageCatalog, r#"{"packages": [null]}"#, "payload.packages[0] must be an object"),
        (
            Kind::Heartbeat,
            r#"{"healthy": true, "metrics": null}"#,
            "payload.metrics must be an object",
        ),
        (
            Kind::Heartbeat,
            r#"{"healthy": true, "metrics": {"inflight": null}}"#,
            "payload.metrics.inflight must be an integer from 0 to 2^53-1",
        ),
    ] {
        check_text(kind, text, Err(expected));
    }
    let nulls = r#"{"healthy": true, "metrics": {"inflight": 0, "cpuPct": null}, "packages": {"drift": null}}"#;
    check_text(Kind::Heartbeat, nulls, Ok(()));
}

#[test]
fn numbers_out_of_bounds_are_refused() {
    for number in
        ["9007199254740992", "18446744073709551616", "1e300", "1e400", "-1", "1.5", "1e-1"]
    {
        let ack = format!(r#"{{"ack_seq": {number}}}"#);
        let expected = "payload.ack_seq must be an integer from 0 to 2^53-1";
        check_text(Kind::Ack, &ack, Err(expected));
    }
    check_text(Kind::Ack, r#"{"ack_bitmap": 18446744073709551615}"#, Ok(()));
    let expected = "payload.ack_bitmap must be an integer from 0 to 2^64-1";
    check_text(Kind::Ack, r#"{"ack_bitmap": 18446744073709551616}"#, Err(expected));
    let feedback = |more: &str| format!(r#"{{"run_id": "r", "task_id": "t", {more}}}"#);
    check_text(Kind::ExecFeedback, &feedback(r#""progress": -0.0"#), Ok(()));
    let expected = "payload.progress must be a number from 0 to 1";
    check_text(Kind::ExecFeedback, &feedback(r#""progress": 1.01"#), Err(expected));
    let expected = "payload.metrics.a.b[ must be a number";
    check_text(Kind::ExecFeedback, &feedback(r#""metrics": {"a.b[": "1"}"#), Err(expected));
}

fn check_text(kind: Kind, payload: &str, expected: Result<(), &str>) {
    let read = super::decode_text(kind, payload).map(|_| ()).map_err(|error| error.to_string());
    assert_eq!(read, expected.map_err(str::to_owned), "{payload}");
}

#[test]
fn a_frame_that_is_no_object_or_no_json_is_refused() {
    for (bytes, code) in [
        (&b""[..], ErrorCode::RequestMalformed),
        (b"{", ErrorCode::RequestMalformed),
        (b"\xff", ErrorCode::RequestMalformed),
        (b"{} {}", ErrorCode::RequestMalformed),
        (b"[]", ErrorCode::RequestInvalid),
        (b"7", ErrorCode::RequestInvalid),
    ] {
        assert_eq!(Envelope::from_bytes(bytes).expect_err("no frame").code(), code, "{bytes:?}");
    }
}

#[test]
fn a_frame_is_at_most_a_mebibyte() {
    let sized = |bytes: usize| {
        let mut frame = frame();
        let n_filler = bytes - frame.to_string().len() - r#""x":"""#.len();
        frame["payload"] = json!({"x": "y".repeat(n_filler)});
        frame.to_string()
    };
    let largest = Envelope::from_text(&sized(FRAME_BYTES_MAX)).expect("the largest");
    assert_eq!(largest.to_text().map(|text| text.len()), Ok(FRAME_BYTES_MAX));
    let error = Envelope::from_text(&sized(FRAME_BYTES_MAX + 1)).expect_err("larger");
    assert_eq!(error, DecodeError::TooLarge { bytes: FRAME_BYTES_MAX + 1 });
    assert_eq!(error.code(), ErrorCode::RequestTooLarge);
    let larger = Envelope { id: "longer than it was".to_owned(), ..largest };
    assert!(matches!(larger.to_text(), Err(EncodeError { .. })));
}

#[test]
fn a_frame_is_at_most_64_deep() {
    let nested = |depth: usize| {
        let inner = format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        let text = frame().to_string();
        text.replacen("\"payload\":{}", &format!("\"payload\":{{\"x\":{inner}}}"), 1)
    };
    assert!(Envelope::from_text(&nested(DEPTH_MAX - 2)).is_ok());
    let error = Envelope::from_text(&nested(DEPTH_MAX - 1)).expect_err("deeper");
    assert_eq!(error, DecodeError::TooDeep);
    assert_eq!(Envelope::from_text(&nested(100_000)).expect_err("deep"), DecodeError::TooDeep);
}

#[test]
fn brackets_in_text_are_not_depth() {
    let mut frame = frame();
    frame["payload"] = json!({"x": "[\"{\\".repeat(1_000), "y": vec![json!([]); 100]});
    assert!(Envelope::from_text(&frame.to_string()).is_ok());
}

fn check_envelope(key: &str, value: Value, expected: &str) {
    let mut frame = frame();
    frame[key] = value;
    let error = Envelope::from_text(&frame.to_string()).expect_err(expected);
    assert_eq!(error.to_string(), expected);
    assert_eq!(error.code(), ErrorCode::RequestInvalid);
}

fn frame() -> Value {
    json!({
        "type": "biz.exec.result", "id": "i", "ts": "2026-01-31T12:00:00Z", "tenant": "t",
        "sender": {"role": "worker", "id": "w"}, "payload": {},
    })
}
