//! What is read quickly is read as the lenient reader reads it.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use serde_json::{Value, json};

use super::super::envelope::Envelope;
use super::super::kind::Kind;
use super::super::payload::Payload;
use super::super::payload::control::Ack;
use super::super::quick::{Last, QuickEnvelope, quick_ack};
use super::golden::goldens;
use super::raw;

#[test]
fn our_own_frames_are_read_quickly() {
    for (name, text) in goldens() {
        assert!(QuickEnvelope::read(&text, &mut Last::default()).is_some(), "{name}");
    }
    let ack = json!({"ok": true, "for": "x", "ack_seq": 3, "ack_bitmap": u64::MAX});
    assert!(quick_ack(&raw(&ack)).is_some());
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
    let mut last = Last::default();
    let mut read = |tenant: &str| QuickEnvelope::read(&frame(tenant), &mut last).expect("quick");
    let (first, second, third) = (read("a"), read("a"), read("b"));
    assert!(std::ptr::eq(first.tenant.as_ptr(), second.tenant.as_ptr()));
    assert_eq!((&*second.tenant, &*third.tenant), ("a", "b"));
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
    fn quick_and_lenient_agree_about_frames(
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
        if let Some(quick) = QuickEnvelope::read(&text, &mut Last::default()) {
            let lenient = Envelope::from_text_leniently(&text);
            prop_assert!(lenient.is_ok(), "{lenient:?} {text}");
            let lenient = lenient.expect("checked");
            prop_assert_eq!(quick.to_text(), lenient.to_text());
        }
    }

    #[test]
    fn quick_and_lenient_agree_about_acks(
        values in vec((
            select(vec!["ok", "for", "info", "ack_seq", "ack_bitmap", "recv_window", "ackSeq"]),
            odd(),
        ), 0..4),
    ) {
        let payload = raw(&Value::Object(
            values.into_iter().map(|(key, value)| (key.to_owned(), value)).collect(),
        ));
        let lenient = Payload::decode(Kind::Ack, &payload);
        if let Some(quick) = quick_ack(&payload) {
            prop_assert_eq!(lenient.clone(), Ok(Payload::Ack(quick)));
        }
        prop_assert_eq!(Ack::of_frame(&payload).map(Payload::Ack), lenient);
    }
}

fn goldens_once() -> &'static [(String, String)] {
    static GOLDENS: std::sync::OnceLock<Vec<(String, String)>> = std::sync::OnceLock::new();
    GOLDENS.get_or_init(goldens)
}
