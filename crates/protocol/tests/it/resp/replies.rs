//! What clients get, byte for byte in both versions.

use bytes::{Bytes, BytesMut};

use protocol::resp::client::encode_request;
use protocol::resp::reply::{
    Reply, Version, write_bulk, write_error, write_integer, write_null, write_ok,
};

#[test]
fn replies_stand_on_the_wire_as_each_version_writes_them() {
    for (reply, two, three) in [
        (Reply::ok(), "+OK\r\n", "+OK\r\n"),
        (Reply::simple("a\r\nb"), "+a  b\r\n", "+a  b\r\n"),
        (Reply::error("ERR no"), "-ERR no\r\n", "-ERR no\r\n"),
        (Reply::error("ERR a\r\n+OK\n"), "-ERR a  +OK \r\n", "-ERR a  +OK \r\n"),
        (Reply::Integer(-7), ":-7\r\n", ":-7\r\n"),
        (Reply::from(true), ":1\r\n", ":1\r\n"),
        (Reply::Integer(i64::MIN), ":-9223372036854775808\r\n", ":-9223372036854775808\r\n"),
        (Reply::from("a\r\nb"), "$4\r\na\r\nb\r\n", "$4\r\na\r\nb\r\n"),
        (Reply::bulk(Bytes::new()), "$0\r\n\r\n", "$0\r\n\r\n"),
        (Reply::Null, "$-1\r\n", "_\r\n"),
        (Reply::from(None::<i64>), "$-1\r\n", "_\r\n"),
        (Reply::NullArray, "*-1\r\n", "_\r\n"),
        (Reply::Double(1.5), "$3\r\n1.5\r\n", ",1.5\r\n"),
        (Reply::Double(3.0), "$1\r\n3\r\n", ",3\r\n"),
        (Reply::Double(1e20), "$5\r\n1e+20\r\n", ",1e+20\r\n"),
        (Reply::Double(f64::INFINITY), "$3\r\ninf\r\n", ",inf\r\n"),
        (Reply::Double(f64::NEG_INFINITY), "$4\r\n-inf\r\n", ",-inf\r\n"),
        (Reply::Double(f64::NAN), "$3\r\nnan\r\n", ",nan\r\n"),
        (Reply::Text("a\nb".to_owned()), "$3\r\na\nb\r\n", "=7\r\ntxt:a\nb\r\n"),
        (Reply::Array(Vec::new()), "*0\r\n", "*0\r\n"),
        (Reply::array(["a", "b"]), "*2\r\n$1\r\na\r\n$1\r\nb\r\n", "*2\r\n$1\r\na\r\n$1\r\nb\r\n"),
        (Reply::Set(vec![Reply::Null]), "*1\r\n$-1\r\n", "~1\r\n_\r\n"),
        (Reply::Push(vec![1_i64.into()]), "*1\r\n:1\r\n", ">1\r\n:1\r\n"),
        (
            Reply::Map(vec![("a".into(), 1_i64.into()), ("b".into(), Reply::Array(Vec::new()))]),
            "*4\r\n$1\r\na\r\n:1\r\n$1\r\nb\r\n*0\r\n",
            "%2\r\n$1\r\na\r\n:1\r\n$1\r\nb\r\n*0\r\n",
        ),
    ] {
        assert_eq!(encode(&reply, Version::Two), two);
        assert_eq!(encode(&reply, Version::Three), three);
    }
}

#[test]
fn the_quick_writers_write_the_same() {
    let mut out = BytesMut::new();
    write_ok(&mut out);
    write_integer(&mut out, 42);
    write_bulk(&mut out, b"\0\xff");
    write_error(&mut out, "ERR no");
    write_null(&mut out, Version::Three);
    let slow = [
        Reply::ok(),
        42_i64.into(),
        Reply::bulk(&b"\0\xff"[..]),
        Reply::error("ERR no"),
        Reply::Null,
    ];
    let mut expected = BytesMut::new();
    for reply in &slow {
        reply.encode(Version::Three, &mut expected);
    }
    assert_eq!(out, expected);
    assert_eq!(&out[..], b"+OK\r\n:42\r\n$2\r\n\0\xff\r\n-ERR no\r\n_\r\n");
}

#[test]
fn requests_are_arrays_of_bulks() {
    let mut out = BytesMut::new();
    encode_request(&mut out, &["SET", "k", ""]);
    assert_eq!(out, "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$0\r\n\r\n");
}

fn encode(reply: &Reply, version: Version) -> String {
    let mut out = BytesMut::new();
    reply.encode(version, &mut out);
    String::from_utf8(out.to_vec()).expect("these replies are text")
}
