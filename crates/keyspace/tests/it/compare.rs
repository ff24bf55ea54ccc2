//! Whether an answer of ours and a reply of Redis say the same.

use bytes::Bytes;
use keyspace::Answer;
use resp_rs::resp3::Frame;

use crate::grammar::Order;

/// How far apart times may be, in their unit.
const TIME_TOLERANCE: i64 = 5_000;

/// Which version of the protocol the reply is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Version {
    Two,
    Three,
}

pub(crate) fn agree(answer: &Answer, frame: &Frame, order: Order, version: Version) -> bool {
    if let (Answer::Error(ours), Frame::Error(theirs)) = (answer, frame) {
        // A reply of one line has no line breaks, and only we insist on UTF-8.
        return ours.replace(['\r', '\n'], " ") == String::from_utf8_lossy(theirs);
    }
    match (order, answer, frame) {
        (Order::Near, Answer::Integer(ours), Frame::Integer(theirs)) => {
            ours == theirs || *ours > 0 && ours.abs_diff(*theirs) < TIME_TOLERANCE.unsigned_abs()
        }
        (Order::Form, _, _) => has_same_form(answer, frame, version),
        (Order::Free, Answer::Array(ours), Frame::Array(Some(theirs))) => {
            sorted(answers(ours)) == sorted(frames(theirs))
        }
        (Order::Scan, _, _) => is_same_scan(answer, frame),
        (Order::Blocking, Answer::Block { .. }, _) => is_null(frame),
        _ => is_same(answer, frame, version),
    }
}

fn is_null(frame: &Frame) -> bool {
    matches!(frame, Frame::Null | Frame::BulkString(None) | Frame::Array(None))
}

fn is_same(answer: &Answer, frame: &Frame, version: Version) -> bool {
    let is_two = version == Version::Two;
    match (answer, frame) {
        (Answer::Ok, Frame::SimpleString(word)) => &word[..] == b"OK",
        (Answer::Word(ours), Frame::SimpleString(theirs)) => ours.as_bytes() == theirs,
        (Answer::Null, Frame::BulkString(None)) | (Answer::NullArray, Frame::Array(None)) => is_two,
        (Answer::Null | Answer::NullArray, Frame::Null) => !is_two,
        (Answer::Integer(ours), Frame::Integer(theirs)) => ours == theirs,
        (Answer::Bulk(ours), Frame::BulkString(Some(theirs))) => ours == theirs,
        (Answer::Double(ours), _) => double(frame, version).is_some_and(|it| same(*ours, it)),
        (Answer::Array(ours), Frame::Array(Some(theirs))) => {
            let same = |(one, two): (&Answer, &Frame)| is_same(one, two, version);
            ours.len() == theirs.len() && ours.iter().zip(theirs).all(same)
        }
        (Answer::Popped(popped), Frame::Array(Some(theirs))) => {
            [popped.key.clone(), popped.element.clone()] == frames(theirs)[..]
        }
        (Answer::Map(ours), Frame::Array(Some(theirs))) => {
            is_two && sorted(ours.clone()) == sorted(pairs(&frames(theirs)))
        }
        (Answer::Map(ours), Frame::Map(theirs)) => {
            let theirs = theirs.iter().map(|(field, value)| (bytes(field), bytes(value)));
            sorted(ours.clone()) == sorted(theirs.collect())
        }
        (Answer::Scored(ours), Frame::Array(Some(theirs))) => {
            let theirs = unpacked(theirs, version);
            let theirs = theirs.as_chunks::<2>().0;
            let is_same = |((member, score), [field, value]): (&(Bytes, f64), &[Frame; 2])| {
                *member == bytes(field) && double(value, version).is_some_and(|it| same(*score, it))
            };
            ours.len() == theirs.len() && ours.iter().zip(theirs).all(is_same)
        }
        _ => false,
    }
}

/// Pairs are flat in version 2, and arrays in version 3.
fn unpacked(theirs: &[Frame], version: Version) -> Vec<Frame> {
    let flat = |frame: &Frame| match frame {
        Frame::Array(Some(pair)) if version == Version::Three && pair.len() == 2 => pair.clone(),
        other => vec![other.clone()],
    };
    theirs.iter().flat_map(flat).collect()
}

/// To the last bit, but for the sign of zero: Redis forgets it in small sets, and not in large ones.
fn same(one: f64, two: f64) -> bool {
    (one + 0.0).to_bits() == (two + 0.0).to_bits()
}

fn double(frame: &Frame, version: Version) -> Option<f64> {
    match frame {
        Frame::BulkString(Some(text)) if version == Version::Two => {
            std::str::from_utf8(text).ok()?.parse().ok()
        }
        Frame::Double(number) if version == Version::Three => Some(*number),
        Frame::SpecialFloat(text) if version == Version::Three => {
            std::str::from_utf8(text).ok()?.parse().ok()
        }
        _ => None,
    }
}

/// A portion of another walk: a cursor and some elements.
fn has_same_form(answer: &Answer, frame: &Frame, version: Version) -> bool {
    match (answer, frame) {
        (Answer::Array(ours), Frame::Array(Some(theirs))) => ours.len() == theirs.len(),
        _ => is_same(answer, frame, version),
    }
}

fn is_same_scan(answer: &Answer, frame: &Frame) -> bool {
    let (Answer::Array(ours), Frame::Array(Some(theirs))) = (answer, frame) else {
        return is_same(answer, frame, Version::Two);
    };
    let ([Answer::Bulk(our_cursor), Answer::Array(ours)], [their_cursor, theirs]) =
        (&ours[..], &theirs[..])
    else {
        return false;
    };
    let theirs = frames(theirs.as_array().unwrap_or_default());
    *our_cursor == bytes(their_cursor) && sorted(answers(ours)) == sorted(theirs)
}

fn bytes(frame: &Frame) -> Bytes {
    frame.as_bytes().cloned().unwrap_or_default()
}

fn frames(frames: &[Frame]) -> Vec<Bytes> {
    frames.iter().map(bytes).collect()
}

pub(crate) fn answers(answers: &[Answer]) -> Vec<Bytes> {
    let bytes = |answer: &Answer| match answer {
        Answer::Bulk(bytes) => bytes.clone(),
        _ => Bytes::new(),
    };
    answers.iter().map(bytes).collect()
}

fn pairs(flat: &[Bytes]) -> Vec<(Bytes, Bytes)> {
    flat.as_chunks::<2>().0.iter().map(|[one, two]| (one.clone(), two.clone())).collect()
}

fn sorted<T: Ord>(mut elements: Vec<T>) -> Vec<T> {
    elements.sort();
    elements
}
