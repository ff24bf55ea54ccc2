//! What clients send, and what is refused.

use bytes::{BufMut, BytesMut};

use super::{ROOMY, read_in_every_way, read_pieces};
use protocol::resp::request::{Limits, ProtocolError, Request, RequestReader};

#[test]
fn arrays_of_bulks_are_requests() {
    check("*1\r\n$4\r\nPING\r\n", &[&["PING"]]);
    check("*2\r\n$3\r\nGET\r\n$1\r\nk\r\n", &[&["GET", "k"]]);
    check("*2\r\n$4\r\nECHO\r\n$0\r\n\r\n", &[&["ECHO", ""]]);
    check("*2\r\n$4\r\nECHO\r\n$4\r\n\r\n\0\n\r\n", &[&["ECHO", "\r\n\0\n"]]);
    check(
        "*1\r\n$4\r\nPING\r\n*2\r\n$3\r\nGET\r\n$1\r\nk\r\nQUIT\r\n",
        &[&["PING"], &["GET", "k"], &["QUIT"]],
    );
}

#[test]
fn bytes_that_are_no_text_are_kept() {
    let mut stream = b"*2\r\n$4\r\nECHO\r\n$256\r\n".to_vec();
    let all: Vec<u8> = (0..=255).collect();
    stream.extend_from_slice(&all);
    stream.extend_from_slice(b"\r\n");
    let reading = read_in_every_way(ROOMY, &stream);
    assert_eq!(reading.requests, [vec![b"ECHO".to_vec(), all]]);
}

#[test]
fn lines_typed_by_hand_are_requests() {
    check("PING\r\n", &[&["PING"]]);
    check("PING\n", &[&["PING"]]);
    check("  set \t k  v \r\n", &[&["set", "k", "v"]]);
    check(r#"set k "two words""#.to_owned() + "\r\n", &[&["set", "k", "two words"]]);
    check(r#"echo "\n\r\t\b\a\\\"\q""#.to_owned() + "\r\n", &[&["echo", "\n\r\t\u{8}\u{7}\\\"q"]]);
    check(r#"echo "\x41\x4a\x4A\xzz\x4""#.to_owned() + "\r\n", &[&["echo", "AJJxzzx4"]]);
    check(r"echo 'a\'b\n\x41'".to_owned() + "\r\n", &[&["echo", r"a'b\n\x41"]]);
}

#[test]
fn a_quote_may_begin_inside_a_word() {
    check("echo a\"b c\" d'e f'\r\n", &[&["echo", "ab c", "de f"]]);
    check("echo \"\" ''\r\n", &[&["echo", "", ""]]);
}

#[test]
fn an_inline_byte_may_be_any() {
    let reading = read_in_every_way(ROOMY, b"echo \"\\xff\\x00\" \xfe\0\r\n");
    assert_eq!(reading.requests, [vec![b"echo".to_vec(), b"\xff\0".to_vec(), b"\xfe\0".to_vec()]]);
}

#[test]
fn requests_without_arguments_are_skipped() {
    check("*0\r\n*-1\r\n*-7\r\n\r\n\n  \r\nPING\r\n", &[&["PING"]]);
}

#[test]
fn lengths_that_are_none_are_refused() {
    for (stream, words) in [
        ("*x\r\n", "invalid multibulk length"),
        ("*\r\n", "invalid multibulk length"),
        ("*01\r\n", "invalid multibulk length"),
        ("*+1\r\n", "invalid multibulk length"),
        ("*1 \r\n", "invalid multibulk length"),
        ("*1\n$4\nPING\n", "invalid multibulk length"),
        ("*1\rx\n", "invalid multibulk length"),
        ("*1025\r\n", "invalid multibulk length"),
        ("*1000000\r\n", "invalid multibulk length"),
        ("*9223372036854775807\r\n", "invalid multibulk length"),
        ("*99999999999999999999\r\n", "invalid multibulk length"),
        ("*1\r\n$4\nPING\n", "invalid bulk length"),
        ("*1\r\n$-1\r\n", "invalid bulk length"),
        ("*1\r\n$-0\r\n", "invalid bulk length"),
        ("*1\r\n$\r\n", "invalid bulk length"),
        ("*1\r\n$1048577\r\n", "invalid bulk length"),
        ("*1\r\n$2147483648\r\n", "invalid bulk length"),
        ("*1\r\n$18446744073709551616\r\n", "invalid bulk length"),
        ("*1\r\nx", "expected '$', got 'x'"),
        ("*1\r\n\0", "expected '$', got '\\x00'"),
        ("*1\r\n\r\n", "expected '$', got '\\r'"),
        ("*1\r\n*1\r\n$4\r\nPING\r\n", "expected '$', got '*'"),
        ("*2\r\n$4\r\nPING\r\n:1\r\n", "expected '$', got ':'"),
        ("*1\r\n$4\r\nPINGS\r\n", "expected CRLF after an argument"),
        ("*1\r\n$4\r\nPING\rx", "expected CRLF after an argument"),
        ("*1\r\n$4\r\nPING\n", "expected CRLF after an argument"),
        ("echo \"open\r\n", "unbalanced quotes in request"),
        ("echo 'open\r\n", "unbalanced quotes in request"),
        ("echo \"open\\\r\n", "unbalanced quotes in request"),
        ("echo \"a\"b\r\n", "unbalanced quotes in request"),
        ("echo 'a'b\r\n", "unbalanced quotes in request"),
    ] {
        refuse(ROOMY, stream, words);
    }
}

#[test]
fn what_came_before_an_error_is_served() {
    let reading = read_in_every_way(ROOMY, b"PING\r\n*1\r\n$4\r\nECHO\r\n*1\r\n$-1\r\n");
    assert_eq!(reading.requests.len(), 2);
    assert_eq!(reading.error, Some(ProtocolError::InvalidBulkLength));
}

#[test]
fn an_error_is_final() {
    let mut reader = RequestReader::new(ROOMY);
    let mut buffer = BytesMut::from(&b"*x\r\n"[..]);
    assert_eq!(reader.next(&mut buffer), Err(ProtocolError::InvalidMultibulkLength));
    buffer.clear();
    buffer.put_slice(b"PING\r\n");
    assert_eq!(reader.next(&mut buffer), Err(ProtocolError::InvalidMultibulkLength));
}

#[test]
fn strangers_may_say_less_and_hear_why() {
    refuse(Limits::STRANGER, "*11\r\n", "unauthenticated multibulk length");
    refuse(Limits::STRANGER, "*1\r\n$16385\r\n", "unauthenticated bulk length");
    refuse(Limits::STRANGER, "*x\r\n", "invalid multibulk length");
    refuse(Limits::STRANGER, "*1\r\n$-1\r\n", "invalid bulk length");
}

#[test]
fn limits_that_rise_hold_from_the_next_request_on() {
    let mut reader = RequestReader::new(Limits::STRANGER);
    let mut buffer = BytesMut::from(&b"AUTH key\r\n*11\r\n"[..]);
    for _ in 0..11 {
        buffer.put_slice(b"$1\r\na\r\n");
    }
    assert!(reader.next(&mut buffer).unwrap().unwrap().name_is("auth"));
    reader.set_limits(ROOMY);
    assert_eq!(reader.next(&mut buffer).unwrap().unwrap().arguments.len(), 11);
}

#[test]
fn a_request_has_a_limit_as_a_whole() {
    let limits = Limits { arguments_max: 9, argument_bytes_max: 30, request_bytes_max: 40 };
    // `*2` takes 4 bytes, `$4` with its argument 10.
    let fits = format!("*2\r\n$4\r\nECHO\r\n$19\r\n{}\r\n", "a".repeat(19));
    assert_eq!(fits.len(), 40);
    assert_eq!(read_in_every_way(limits, fits.as_bytes()).requests.len(), 1);
    refuse(limits, "*2\r\n$4\r\nECHO\r\n$20\r\n", "too big request");
    refuse(limits, "*2\r\n$4\r\nECHO\r\n$00000000000000000000000000", "too big request");
    refuse(limits, &"a".repeat(40), "too big inline request");
    refuse(limits, "a b c d e f g h i j\r\n", "too big inline request");
    refuse(limits, &format!("{}\n", "a".repeat(31)), "too big inline request");
}

#[test]
fn lines_that_do_not_end_are_refused() {
    let digits = "1".repeat(64 * 1024);
    refuse(ROOMY, &format!("*{digits}"), "too big mbulk count string");
    refuse(ROOMY, &format!("*1\r\n${digits}"), "too big bulk count string");
    refuse(ROOMY, &digits, "too big inline request");
    // The same when the end is there, beyond the limit.
    refuse(ROOMY, &format!("{digits}\r\n"), "too big inline request");
}

#[test]
fn browsers_are_sent_away_without_a_word() {
    for stream in [
        "POST / HTTP/1.1\r\n",
        "post /\r\n",
        "Host: localhost\r\n",
        "hOST:localhost\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\n",
        "*2\r\n$4\r\nPOST\r\n$1\r\n/\r\n",
        "*1\r\n$5\r\nhost:\r\n",
    ] {
        let reading = read_in_every_way(ROOMY, stream.as_bytes());
        assert_eq!(reading.error, Some(ProtocolError::CrossProtocol), "{stream:?}");
    }
    check("POSTS\r\nHOST a\r\n", &[&["POSTS"], &["HOST", "a"]]);
}

#[test]
fn half_a_request_is_waited_for() {
    for stream in ["*", "*1", "*1\r", "*1\r\n", "*1\r\n$4\r\nPIN", "*1\r\n$4\r\nPING\r", "PING\r"] {
        let reading = read_pieces(ROOMY, [stream.as_bytes()]);
        assert_eq!((reading.requests.len(), reading.error), (0, None), "{stream:?}");
    }
}

#[test]
fn names_are_compared_without_case() {
    let request = Request { arguments: vec!["jOb.gEt".into(), "a".into()] };
    assert!(request.name_is("JOB.GET") && request.name_is("job.get"));
    assert!(!request.name_is("JOB.GE") && !request.name_is("JOB.GETS"));
}

fn check(stream: impl AsRef<str>, requests: &[&[&str]]) {
    let reading = read_in_every_way(ROOMY, stream.as_ref().as_bytes());
    let expected: Vec<Vec<Vec<u8>>> = requests
        .iter()
        .map(|words| words.iter().map(|word| word.as_bytes().to_vec()).collect())
        .collect();
    assert_eq!((reading.requests, reading.error), (expected, None), "{:?}", stream.as_ref());
}

fn refuse(limits: Limits, stream: &str, words: &str) {
    let reading = read_in_every_way(limits, stream.as_bytes());
    let error = reading.error.map(|error| error.to_string());
    assert_eq!(error, Some(format!("Protocol error: {words}")), "{stream:.60}");
}
