use std::sync::Arc;

use model::{LeaseId, ShardId, TaskId};

use super::*;

#[test]
fn contexts_and_payload_become_one_object_and_the_payload_wins() {
    let request = NextRequest {
        host_ctx: open(r#"{"a":"host","h":1}"#),
        middleware_ctx: open(r#"{"a":"middleware","m":[2.50]}"#),
        payload: open(r#"{"p":null,"a":"payload"}"#),
        ..request()
    };
    check(&request, true, r#"{"a":"payload","h":1,"m":[2.50],"p":null}"#);
    check(&request, false, r#"{"a":"payload","m":[2.50],"p":null}"#);
    check(&NextRequest { host_ctx: open("{\"h\": 1}"), ..self::request() }, true, "{\"h\": 1}");
    check(&NextRequest { host_ctx: open("{\"h\": 1}"), ..self::request() }, false, "");
    check(&NextRequest { payload: open("{}"), ..self::request() }, true, "");
}

#[test]
fn a_good_end_is_told_as_an_object() {
    for (result, told) in
        [("null", "{}"), ("", "{}"), ("7", r#"{"value":7}"#), (r#"{"a":1}"#, r#"{"a":1}"#)]
    {
        let response = answer(&call(), &NextEnd::Succeeded(Bytes::from_static(result.as_bytes())));
        assert_eq!(response.result.expect("told").get(), told);
        assert_eq!((response.error, response.request_id.as_str()), (None, "next-1"));
    }
}

#[test]
fn a_bad_end_is_told_with_its_word_and_the_code_of_the_failure() {
    let failure = Some(Failure::new("E.X", "it broke"));
    for (word, failure, code, message, trace) in [
        (
            NodeWord::Failed,
            failure.clone(),
            "next_failed",
            "it broke",
            r#"{"status":"failed","code":"E.X"}"#,
        ),
        (
            NodeWord::Failed,
            None,
            "next_failed",
            "the next in line failed",
            r#"{"status":"failed"}"#,
        ),
        (
            NodeWord::Skipped,
            None,
            "next_skipped",
            "the next in line was skipped",
            r#"{"status":"skipped"}"#,
        ),
        (
            NodeWord::Cancelled,
            None,
            "next_cancelled",
            "the next in line was cancelled",
            r#"{"status":"cancelled"}"#,
        ),
    ] {
        let end = NextEnd::Ended { word, failure, result: Some(Bytes::from_static(b"{\"r\":1}")) };
        let response = answer(&call(), &end);
        let error = response.error.expect("a bad end");
        assert_eq!((error.code.as_str(), error.message.as_str()), (code, message));
        assert_eq!(response.trace.expect("told").get(), trace);
        assert_eq!(response.result.expect("what it gave all the same").get(), "{\"r\":1}");
    }
    assert_eq!(answer(&call(), &NextEnd::TimedOut).error.expect("bad").code, "next_timeout");
}

#[test]
fn an_answer_is_a_frame_that_names_its_request() {
    let response = answer(&call(), &NextEnd::TimedOut);
    let frame = frame(&response, Vocabulary::Prefixed);
    assert_eq!((&*frame.kind, frame.corr.as_deref()), ("biz.exec.next.response", Some("next-1")));
    let long = NextRequest { request_id: "é".repeat(300), ..request() };
    let frame = super::frame(&refusal(&long, LONG_NAME), Vocabulary::Prefixed);
    assert!(
        frame.id.chars().count() <= 256 && frame.corr.is_some_and(|c| c.chars().count() == 256)
    );
}

fn check(request: &NextRequest, is_for_host: bool, expected: &str) {
    let merged = merged(request, is_for_host).expect("objects");
    assert_eq!(std::str::from_utf8(&merged).expect("text"), expected);
}

fn open(text: &str) -> Option<OpenObject> {
    OpenObject::new(RawValue::from_string(text.to_owned()).expect("JSON"))
}

fn request() -> NextRequest {
    NextRequest {
        request_id: "next-1".into(),
        run_id: "r".into(),
        node_id: "n".into(),
        middleware_id: "m".into(),
        chain_index: Some(0),
        host_ctx: None,
        middleware_ctx: None,
        payload: None,
        timeout_ms: None,
    }
}

fn call() -> Call {
    let task = TaskId::of(ShardId::new(1).expect("fits"), 1);
    Call {
        lease: LeaseId { task, epoch: 1 },
        request: Arc::from("next-1"),
        run_id: "r".into(),
        node_id: "n".into(),
        middleware_id: "m".into(),
        payload: Bytes::new(),
        until: None,
    }
}
