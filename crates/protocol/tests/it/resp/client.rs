//! Replies as our clients read them.

use bytes::{BufMut, BytesMut};

use protocol::resp::client::{ReplyError, ReplyReader};
use protocol::resp::reply::{Reply, Version};

/// What one reply may take here.
const BYTES_MAX: usize = 1 << 20;

#[test]
fn replies_of_both_versions_are_read() {
    check("+OK\r\n", Reply::ok());
    check("-ERR no\r\n", Reply::error("ERR no"));
    check(":-12\r\n", Reply::Integer(-12));
    check("$5\r\na\r\n\0b\r\n", Reply::from("a\r\n\0b"));
    check("$0\r\n\r\n", Reply::from(""));
    check("$-1\r\n", Reply::Null);
    check("*-1\r\n", Reply::NullArray);
    check("_\r\n", Reply::Null);
    check("#t\r\n", Reply::Integer(1));
    check(",1.5\r\n", Reply::Double(1.5));
    check(",-inf\r\n", Reply::Double(f64::NEG_INFINITY));
    check("(123456789012345678901234567890\r\n", Reply::from("123456789012345678901234567890"));
    check("=7\r\ntxt:a\nb\r\n", Reply::Text("a\nb".to_owned()));
    check("!6\r\nERR no\r\n", Reply::error("ERR no"));
    check(
        "*3\r\n:1\r\n*2\r\n$1\r\na\r\n*0\r\n%1\r\n+k\r\n~1\r\n_\r\n",
        Reply::Array(vec![
            Reply::Integer(1),
            Reply::Array(vec![Reply::from("a"), Reply::Array(Vec::new())]),
            Reply::Map(vec![(Reply::simple("k"), Reply::Set(vec![Reply::Null]))]),
        ]),
    );
    check(">2\r\n+message\r\n:1\r\n", Reply::Push(vec![Reply::simple("message"), 1_i64.into()]));
}

#[test]
fn replies_in_a_row_are_told_apart() {
    let mut reader = ReplyReader::new(BYTES_MAX);
    let mut buffer = BytesMut::from("+OK\r\n*1\r\n:1\r\n$-1\r\n+half");
    assert_eq!(reader.next(&mut buffer), Ok(Some(Reply::ok())));
    assert_eq!(reader.next(&mut buffer), Ok(Some(Reply::array([1_i64]))));
    assert_eq!(reader.next(&mut buffer), Ok(Some(Reply::Null)));
    assert_eq!(reader.next(&mut buffer), Ok(None));
    assert_eq!(buffer, "+half");
}

#[test]
fn what_is_no_reply_is_refused_for_good() {
    refuse("PING\r\n", &ReplyError::UnsupportedKind(b'P'));
    refuse("|1\r\n+a\r\n+b\r\n:1\r\n", &ReplyError::UnsupportedKind(b'|'));
    refuse("$x\r\n", &ReplyError::InvalidLength);
    refuse("$-2\r\n", &ReplyError::InvalidLength);
    refuse("*-2\r\n", &ReplyError::InvalidLength);
    refuse("$?\r\n", &ReplyError::InvalidLength);
    refuse("$3\nabc\n", &ReplyError::InvalidLength);
    for stream in ["$1\r\nabc", "+a\n", ":x\r\n", "#x\r\n", "_x\r\n", "=1\r\na\r\n", "~-1\r\n"] {
        let error = read_to_error(stream).unwrap_or_else(|| panic!("{stream:?} was taken"));
        assert!(matches!(error, ReplyError::Malformed(_)), "{stream:?}: {error:?}");
    }
    let deep = "*1\r\n".repeat(200) + ":1\r\n";
    assert!(matches!(read_to_error(&deep), Some(ReplyError::Malformed(_))));
}

#[test]
fn a_reply_beyond_the_limit_is_refused_before_it_comes() {
    let too_big = ReplyError::TooBig { bytes_max: BYTES_MAX };
    refuse("$1048577\r\n", &too_big);
    refuse("$9223372036854775807\r\n", &too_big);
    refuse("*400000\r\n", &too_big);
    refuse("*2147483648\r\n", &too_big);
    refuse("%9223372036854775807\r\n", &too_big);
    refuse("*2\r\n*9223372036854775807\r\n", &too_big);
    refuse(&("+".to_owned() + &"a".repeat(BYTES_MAX)), &too_big);
    // The end of the line, beyond the limit, tells no more.
    refuse(&("x".repeat(BYTES_MAX) + "\r\n"), &too_big);
    refuse(&("$".to_owned() + &"1".repeat(BYTES_MAX) + "\r\n"), &too_big);
    let fits = BYTES_MAX - "$1048565\r\n\r\n".len();
    let reply = format!("${fits}\r\n{}\r\n", "a".repeat(fits));
    let mut buffer = BytesMut::from(reply.as_str());
    assert!(matches!(ReplyReader::new(BYTES_MAX).next(&mut buffer), Ok(Some(Reply::Bulk(_)))));
}

/// 200,000 items in pieces of 7 bytes: parsing from the start at each piece would take hours.
#[test]
fn a_large_reply_in_small_pieces_is_read_once() {
    let items: Vec<Reply> = (0..200_000_i64).map(Reply::Integer).collect();
    let mut stream = BytesMut::new();
    let expected = Reply::Array(items);
    expected.encode(Version::Two, &mut stream);
    let mut reader = ReplyReader::new(1 << 24);
    let mut buffer = BytesMut::new();
    let mut replies = Vec::new();
    for piece in stream.chunks(7) {
        buffer.put_slice(piece);
        replies.extend(reader.next(&mut buffer).expect("it is well formed"));
    }
    assert_eq!(replies, [expected]);
}

fn check(stream: &str, expected: Reply) {
    let mut reader = ReplyReader::new(BYTES_MAX);
    let mut buffer = BytesMut::new();
    let (last, start) = stream.as_bytes().split_last().expect("a reply has bytes");
    for byte in start {
        buffer.put_u8(*byte);
        assert_eq!(reader.next(&mut buffer), Ok(None), "{stream:?}");
    }
    buffer.put_u8(*last);
    assert_eq!(reader.next(&mut buffer), Ok(Some(expected)), "{stream:?}");
    assert!(buffer.is_empty());
}

fn refuse(stream: &str, expected: &ReplyError) {
    assert_eq!(read_to_error(stream).as_ref(), Some(expected), "{stream:.40}");
}

/// The error of a stream, which is the same at once and in pieces.
fn read_to_error(stream: &str) -> Option<ReplyError> {
    let mut reader = ReplyReader::new(BYTES_MAX);
    let mut buffer = BytesMut::from(stream);
    let at_once = reader.next(&mut buffer).err();
    assert_eq!(reader.next(&mut buffer).err(), at_once, "an error is final");
    let mut reader = ReplyReader::new(BYTES_MAX);
    let mut buffer = BytesMut::new();
    let in_pieces = stream.bytes().find_map(|byte| {
        buffer.put_u8(byte);
        reader.next(&mut buffer).err()
    });
    assert_eq!(in_pieces, at_once, "{stream:.40}");
    at_once
}
