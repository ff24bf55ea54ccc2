//! The fast path reads a frame as the lenient reader does, or leaves it to that.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use serde_json::{Value, json};

use super::super::envelope::{Envelope, EnvelopeText, Reader};
use super::super::kind::{Kind, Payload};
use super::super::payload::control::Ack;
use super::golden::goldens;
use super::raw;

#[test]
fn our_own_frames_take_the_fast_path() {
    for (name, text) in goldens() {
        assert!(of_ours(&text).is_some(), "{name}");
    }
    let ack = json!({"ok": true, "for": "x", "ack_seq": 3, "ack_bitmap": u64::MAX});
    assert!(Ack::of_ours(&raw(&ack)).is_some());
}

#[test]
fn what_frames_have_in_common_is_kept_once() {
    let frame = |tenant: &str| {
        json!({
            "type": "control.heartbeat", "id": "x", "ts": "2026-01-31T12:00:00Z",
            "tenant": tenant, "sender": {"role": "worker", "id": "w"}, "payload": {},
        })
        .to_string()
    };
    let mut reader = Reader::default();
    let mut read =
        |tenant: &str| reader.keep(EnvelopeText::of_ours(&frame(tenant)).expect("spelled as ours"));
    let (first, second, third) = (read("a"), read("a"), read("b"));
    assert!(std::ptr::eq(first.tenant.as_ptr(), second.tenant.as_ptr()));
    assert_eq!((&*second.tenant, &*third.tenant), ("a", "b"));
}

fn of_ours(text: &str) -> Option<Envelope> {
    EnvelopeText::of_ours(text).map(|frame| Reader::default().keep(frame))
}

/// Values that fit nowhere, or only in some places.
fn odd() -> impl Strategy<Value = Value> {
    select(vec![
        json!(null),
        json!(0),
        json!(1.0),
        json!(-1),
        json!(1_u64 << 53),
        json!(u64::MAX),
        json!(true),
        json!(""),
        json!("x"),
        json!("é\"\\\n"),
        json!("x".repeat(256)),
        json!("é".repeat(200)),
        json!("x".repeat(257)),
        json!([]),
        json!(["worker", "w"]),
        json!([""]),
        json!(vec!["x"; 65]),
        json!({}),
        json!({"for": "x", "request": true}),
        json!({"for": null}),
        json!({"role": "worker", "id": "w"}),
        json!({"role": "nobody", "id": "w"}),
        json!("2026-01-31T12:00:00"),
    ])
}

fn key() -> impl Strategy<Value = &'static str> {
    select(vec![
        "type",
        "id",
        "ts",
        "tenant",
        "sender",
        "corr",
        "seq",
        "session_seq",
        "sessionSeq",
        "ack",
        "flags",
        "payload",
        "unheard_of",
    ])
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 20_000,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn fast_path_and_lenient_reader_agree_about_frames(
        golden in any::<Index>(),
        changes in vec((key(), proptest::option::of(odd())), 0..3),
    ) {
        let mut frame: Value = serde_json::from_str(&golden.get(goldens_once()).1).expect("JSON");
        for (key, value) in changes {
            let map = frame.as_object_mut().expect("an object");
            match value {
                Some(value) => map.insert(key.to_owned(), value),
                None => map.remove(key),
            };
        }
        let text = frame.to_string();
        if let Some(fast) = of_ours(&text) {
            let lenient = Reader::default().read_leniently(&text);
            prop_assert!(lenient.is_ok(), "{lenient:?} {text}");
            let lenient = lenient.expect("checked");
            prop_assert_eq!(fast.to_text(), lenient.to_text());
        }
    }

    #[test]
    fn fast_path_and_lenient_reader_agree_about_acks(
        values in vec((
            select(vec!["ok", "for", "info", "ack_seq", "ack_bitmap", "recv_window", "ackSeq"]),
            odd(),
        ), 0..4),
    ) {
        let payload = raw(&Value::Object(
            values.into_iter().map(|(key, value)| (key.to_owned(), value)).collect(),
        ));
        let lenient = Payload::decode(Kind::Ack, &payload).map(|ack| text_of(&ack));
        if let Some(ours) = Ack::of_ours(&payload) {
            prop_assert_eq!(lenient.clone(), Ok(text_of(&Payload::Ack(ours))));
        }
        let read = Ack::of_frame(&payload).map(|ack| text_of(&Payload::Ack(ack)));
        prop_assert_eq!(read, lenient);
    }
}

fn text_of(payload: &Payload) -> String {
    payload.encode().1.get().to_owned()
}

fn goldens_once() -> &'static [(String, String)] {
    static GOLDENS: std::sync::OnceLock<Vec<(String, String)>> = std::sync::OnceLock::new();
    GOLDENS.get_or_init(goldens)
}
