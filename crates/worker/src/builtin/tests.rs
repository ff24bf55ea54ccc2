use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::time::Instant;

use super::*;
use crate::core::feedback::FeedbackSink;

#[tokio::test]
async fn echo_gives_back_its_parameters() {
    check("core.echo", r#"{"a": [1, 2]}"#, r#"completed {"a": [1, 2]}"#).await;
    check("core.noop", "{}", "completed null").await;
}

#[tokio::test]
async fn sleep_takes_seconds_or_milliseconds() {
    check("core.sleep", r#"{"ms": 1}"#, r#"completed {"slept_ms":1}"#).await;
    check("core.sleep", r#"{"seconds": 0.002}"#, r#"completed {"slept_ms":2}"#).await;
    for wrong in ["{}", r#"{"ms":1,"seconds":1}"#, r#"{"ms":-1}"#, "7", r#"{"seconds":1e99}"#] {
        check("core.sleep", wrong, "failed E.PARAMETERS.INVALID final").await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_sleeper_says_how_much_is_done_and_stops_when_told_to() {
    let context = Context { feedback: FeedbackSink::new(|| {}), ..Context::detached() };
    let (sink, stop) = (context.feedback.clone(), context.stop.clone());
    let work = Builtin.execute(assignment("core.sleep", r#"{"seconds":10}"#), context);
    let working = tokio::spawn(work);
    tokio::time::sleep(Duration::from_millis(2500)).await;
    let progress = sink.take(Instant::now()).expect("said").status.progress;
    assert!(progress.is_some_and(|share| (0.19..0.25).contains(&share)), "{progress:?}");
    stop.cancel();
    assert!(show(working.await.expect("no panic")).contains("E.RUNNER.CANCELLED"));
}

#[tokio::test]
async fn fail_fails_as_asked() {
    check("core.fail", "{}", "failed E.RUNNER.FAILURE retryable").await;
    check("core.fail", r#"{"code":"E.X","retryable":false}"#, "failed E.X final").await;
    check("core.fail", r#"{"typo":1}"#, "failed E.PARAMETERS.INVALID final").await;
}

#[tokio::test]
async fn a_gate_is_open_or_closed() {
    check("core.gate", r#"{"open":true}"#, r#"completed {"open":true,"reason":null}"#).await;
    check("core.gate", r#"{"open":false,"reason":"later"}"#, "failed E.GATE.CLOSED final").await;
    check("core.gate", "{}", "failed E.PARAMETERS.INVALID final").await;
}

#[tokio::test]
async fn a_type_that_is_not_offered_is_refused() {
    check("core.other", "{}", "failed E.TYPE.UNKNOWN final").await;
}

#[tokio::test]
async fn log_speaks_on_its_channel() {
    let context = Context { feedback: FeedbackSink::new(|| {}), ..Context::detached() };
    let sink = context.feedback.clone();
    let parameters = r#"{"message":"hello","level":"warn","channel":"stderr"}"#;
    let outcome = Builtin.execute(assignment("core.log", parameters), context).await;
    assert_eq!(show(outcome), "completed {}");
    let batch = sink.take(Instant::now()).expect("said");
    assert_eq!(batch.status.message.as_deref(), Some("hello"));
    assert_eq!(batch.chunks[0].text.as_deref(), Some("WARN hello\n"));
    check("core.log", r#"{"message":1}"#, "failed E.PARAMETERS.INVALID final").await;
}

#[tokio::test]
async fn transform_selects_merges_and_computes() {
    let input = r#""input":{"a":{"b":[1,2]},"c":"x"}"#;
    for (steps, output) in [
        ("", r#"{"a":{"b":[1,2]},"c":"x"}"#),
        (r#","select":"/a/b/1""#, "2"),
        (r#","select":{"n":"/a/b/0","t":"/c"}"#, r#"{"n":1,"t":"x"}"#),
        (r#","select":"/a","merge":{"b":null,"d":{"e":1}}"#, r#"{"d":{"e":1}}"#),
        (r#","expression":"input.a.b|sum + 39""#, "42"),
        (r#","expression":"{'n': input.a.b|length}""#, r#"{"n":2}"#),
        (
            r#","select":"/a","template":"<{{ input.b | join('><') }}> {{ input.b[0] }}""#,
            r#""<1><2> 1""#,
        ),
    ] {
        let expected = format!(r#"completed {{"output":{output}}}"#);
        check("core.transform", &format!("{{{input}{steps}}}"), &expected).await;
    }
}

#[tokio::test]
async fn a_transform_that_cannot_be_done_fails_and_ends() {
    for steps in [
        r#""select":"/nowhere""#,
        r#""select":7"#,
        r#""expression":"input.nothing.more""#,
        r#""expression":"1 +""#,
        r#""template":"{{ nothing }}""#,
        r#""template":"{% for a in range(9999) %}{% for b in range(9999) %}{% endfor %}{% endfor %}""#,
        r#""expression":"1","template":"1""#,
        r#""typo":1"#,
        // What would grow beyond any memory, step by step or at once.
        r#""template":"{% for a in range(9) %}{% set a = a ~ a %}{% endfor %}""#,
        r#""expression":"('x' * 999999) * 999999""#,
        r#""expression":"range(99999) | map('string') | join | list | join | list""#,
        r#""expression":"nodes.a.results""#,
        // The engine panics at these.
        r#""expression":"''[::-1]""#,
        r#""template":"{{ ''[::-1] }}""#,
        r#""template":"{% if 7 is divisibleby(0) %}{% endif %}""#,
    ] {
        let parameters = format!(r#"{{"input":{{}},{steps}}}"#);
        check("core.transform", &parameters, "failed E.PARAMETERS.INVALID final").await;
    }
}

#[tokio::test]
async fn an_http_request_gives_status_headers_and_body() {
    let (url, asked) =
        web_server("HTTP/1.1 302 Found\r\nlocation: /x\r\ncontent-length: 2\r\n\r\nhi");
    let parameters = json!({ "url": format!("{url}/p?q=1"), "method": "post", "headers": {"x-a": "1"}, "body": {"n": 1} });
    let shown = run("core.http_request", &parameters.to_string()).await;
    assert!(shown.contains(r#""status":302"#) && shown.contains(r#""body":"hi""#), "{shown}");
    assert!(shown.contains(r#""location":"/x""#), "redirects are not followed: {shown}");
    let asked = asked.await.expect("asked");
    assert!(asked.starts_with("POST /p?q=1 HTTP/1.1\r\n"), "{asked}");
    assert!(asked.contains("x-a: 1\r\n") && asked.ends_with("\r\n\r\n{\"n\":1}"), "{asked}");
    assert!(asked.contains("content-type: application/json"), "{asked}");
}

#[tokio::test]
async fn an_http_request_is_bounded_and_says_what_went_wrong() {
    let (url, _) = web_server("HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello");
    let parameters = json!({ "url": url, "max_bytes": 4 }).to_string();
    check("core.http_request", &parameters, "failed E.RESPONSE.TOO_LARGE final").await;
    let (url, _) = web_server("HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhell");
    let parameters = json!({ "url": url, "timeout_ms": 200 }).to_string();
    check("core.http_request", &parameters, "failed E.TIMEOUT retryable").await;
    let nobody = r#"{"url":"http://127.0.0.1:1/"}"#;
    check("core.http_request", nobody, "failed E.HTTP.UNREACHABLE retryable").await;
    for wrong in [r#"{"url":"https://example.org"}"#, r#"{"url":"/path"}"#, "{}"] {
        check("core.http_request", wrong, "failed E.PARAMETERS.INVALID final").await;
    }
}

/// A web server that gives one answer, keeps the connection, and tells what it was asked.
fn web_server(answer: &'static str) -> (String, tokio::task::JoinHandle<String>) {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("bound");
    listener.set_nonblocking(true).expect("set");
    let address = listener.local_addr().expect("bound");
    let listener = TcpListener::from_std(listener).expect("in a runtime");
    let serving = tokio::spawn(async move {
        let (mut socket, _) = listener.accept().await.expect("asked");
        let mut asked = vec![0; 4096];
        let mut n_read = 0;
        // The body follows the head in the same or the next packet.
        while !String::from_utf8_lossy(&asked[..n_read]).contains("\r\n\r\n") {
            n_read += socket.read(&mut asked[n_read..]).await.expect("read");
        }
        let more =
            tokio::time::timeout(Duration::from_millis(50), socket.read(&mut asked[n_read..]));
        n_read += more.await.map_or(0, |read| read.expect("read"));
        socket.write_all(answer.as_bytes()).await.expect("answered");
        // It is the client that ends it.
        tokio::spawn(async move { socket.read(&mut [0]).await });
        String::from_utf8_lossy(&asked[..n_read]).into_owned()
    });
    (format!("http://{address}"), serving)
}

async fn check(task_type: &str, parameters: &str, expected: &str) {
    assert_eq!(run(task_type, parameters).await, expected, "{task_type} {parameters}");
}

async fn run(task_type: &str, parameters: &str) -> String {
    let assignment = assignment(task_type, parameters);
    show(Builtin.execute(assignment, Context::detached()).await)
}

fn show(outcome: Outcome) -> String {
    match outcome {
        Outcome::Completed { result, .. } => format!("completed {}", result.get()),
        Outcome::Failed { code, retryable, .. } => {
            format!("failed {code} {}", if retryable { "retryable" } else { "final" })
        }
    }
}

fn assignment(task_type: &str, parameters: &str) -> Assignment {
    Assignment {
        lease_id: "l-1".into(),
        task_id: "l".into(),
        attempt: 1,
        task_type: task_type.into(),
        parameters: RawValue::from_string(parameters.into()).expect("JSON"),
    }
}
