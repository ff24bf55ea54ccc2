//! What holds for any request and any reply.

use bytes::{Bytes, BytesMut};
use proptest::collection::vec;
use proptest::prelude::{Just, ProptestConfig, Strategy, any, prop_oneof, proptest};

use protocol::resp::client::{ReplyReader, encode_request};
use protocol::resp::reply::{Reply, Version};
use protocol::resp::request::RequestReader;

use super::{ROOMY, read_pieces};

/// How many cases of each are tried.
const CASES: u32 = 300;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(CASES))]

    #[test]
    fn any_requests_in_any_pieces_come_out_as_they_went_in(
        requests in vec(vec(vec(any::<u8>(), 0..40), 1..6), 0..8),
        cuts in vec(1_usize..50, 1..20),
    ) {
        let mut wire = BytesMut::new();
        for request in &requests {
            encode_request(&mut wire, request);
        }
        assert_eq!(read_pieces(ROOMY, cut_up(&wire, &cuts)).requests, requests);
    }

    #[test]
    fn any_bytes_in_any_pieces_are_read_alike(
        stream in vec(any::<u8>(), 0..200),
        cuts in vec(1_usize..50, 1..20),
    ) {
        assert_eq!(read_pieces(ROOMY, cut_up(&stream, &cuts)), read_pieces(ROOMY, [&stream[..]]));
    }

    #[test]
    fn any_reply_of_version_3_comes_back_as_it_was(
        reply in reply(),
        cuts in vec(1_usize..50, 1..20),
    ) {
        let mut wire = BytesMut::new();
        reply.encode(Version::Three, &mut wire);
        assert_eq!(read_replies(cut_up(&wire, &cuts)), [reply]);
    }

    #[test]
    fn any_reply_of_version_2_comes_back_flat(reply in reply()) {
        let mut wire = BytesMut::new();
        reply.encode(Version::Two, &mut wire);
        assert_eq!(read_replies([&wire[..]]), [flat(reply)]);
    }

    #[test]
    fn any_double_is_read_back_as_the_same_number(number in any::<f64>()) {
        let mut wire = BytesMut::new();
        Reply::Double(number).encode(Version::Three, &mut wire);
        let replies = read_replies([&wire[..]]);
        let [Reply::Double(read)] = replies[..] else {
            panic!("{number} became {replies:?}");
        };
        assert!(read.to_bits() == number.to_bits() || read.is_nan() && number.is_nan());
    }
}

/// Nothing is copied: arguments lie where the socket put them.
#[test]
fn arguments_are_views_of_the_buffer() {
    let mut buffer = BytesMut::new();
    for _ in 0..16 {
        encode_request(&mut buffer, &["GET", "some:key"]);
    }
    buffer.extend_from_slice(b"set k plain\r\n");
    let memory = buffer.as_ptr_range();
    let mut reader = RequestReader::new(ROOMY);
    let mut n = 0;
    while let Ok(Some(request)) = reader.next(&mut buffer) {
        n += 1;
        assert!(request.arguments.iter().all(|argument| memory.contains(&argument.as_ptr())));
    }
    assert_eq!(n, 17);
}

/// A head that announces much makes room for little.
#[test]
fn room_is_made_for_what_came_not_for_what_was_announced() {
    let mut reader = RequestReader::new(ROOMY);
    let mut buffer = BytesMut::from(&b"*1024\r\n$1048576\r\n"[..]);
    let before = buffer.capacity();
    assert_eq!(reader.next(&mut buffer), Ok(None));
    assert!(buffer.capacity() <= before);
    let mut buffer = BytesMut::from(&b"*1024\r\n"[..]);
    for _ in 0..1024 {
        buffer.extend_from_slice(b"$1\r\na\r\n");
    }
    let request = RequestReader::new(ROOMY).next(&mut buffer).unwrap().unwrap();
    assert_eq!(request.arguments.len(), 1024);
}

fn cut_up<'a>(stream: &'a [u8], cuts: &'a [usize]) -> impl Iterator<Item = &'a [u8]> {
    let mut rest = stream;
    let mut cuts = cuts.iter().cycle();
    std::iter::from_fn(move || {
        let cut = (*cuts.next()?).min(rest.len());
        let (piece, after) = rest.split_at(cut);
        rest = after;
        (!piece.is_empty()).then_some(piece)
    })
}

fn read_replies<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Vec<Reply> {
    let mut reader = ReplyReader::new(1 << 24);
    let mut buffer = BytesMut::new();
    let mut replies = Vec::new();
    for piece in pieces {
        buffer.extend_from_slice(piece);
        while let Some(reply) = reader.next(&mut buffer).expect("we write well-formed replies") {
            replies.push(reply);
        }
    }
    assert!(buffer.is_empty());
    replies
}

/// Replies that are the same after version 3; the null array is a null there.
fn reply() -> impl Strategy<Value = Reply> {
    let leaf = prop_oneof![
        "[A-Za-z ]{0,9}".prop_map(Reply::simple),
        "[A-Z]{1,6} [a-z ]{0,9}".prop_map(Reply::error),
        any::<i64>().prop_map(Reply::Integer),
        vec(any::<u8>(), 0..30).prop_map(Reply::bulk),
        Just(Reply::Null),
        (-1e300..1e300).prop_map(Reply::Double),
        ".{0,9}".prop_map(Reply::Text),
    ];
    leaf.prop_recursive(4, 40, 6, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..6).prop_map(Reply::Array),
            vec(inner.clone(), 0..6).prop_map(Reply::Set),
            vec(inner.clone(), 0..6).prop_map(Reply::Push),
            vec((inner.clone(), inner), 0..4).prop_map(Reply::Map),
        ]
    })
}

/// What version 2 leaves of a reply.
fn flat(reply: Reply) -> Reply {
    let all = |items: Vec<Reply>| Reply::Array(items.into_iter().map(flat).collect());
    match reply {
        Reply::Text(text) => Reply::from(text),
        Reply::Array(items) | Reply::Set(items) | Reply::Push(items) => all(items),
        Reply::Map(pairs) => all(pairs.into_iter().flat_map(|(key, value)| [key, value]).collect()),
        Reply::Double(number) => {
            let mut wire = BytesMut::new();
            Reply::Double(number).encode(Version::Three, &mut wire);
            Reply::Bulk(Bytes::copy_from_slice(&wire[1..wire.len() - 2]))
        }
        other => other,
    }
}
