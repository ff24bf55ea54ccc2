//! Reads frames that are spelled as we spell them, in one pass and without copies.
//!
//! It takes less than [`Envelope::from_text`] does, never more and never otherwise: whatever it
//! does not take is read leniently, which also finds the words for a refusal.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::alias;
use super::decode::{INTEGER_MAX, NAME_CHARS_MAX};
use super::envelope::{AckMark, Envelope, FLAGS_MAX, Sender, SenderRole};
use super::moment::is_moment;
use super::payload::control::Ack;

/// What the last frame of a connection said about itself; most frames say the same.
#[derive(Clone, Debug)]
pub(super) struct Last {
    ts: Arc<str>,
    tenant: Arc<str>,
    sender_id: Arc<str>,
}

impl Default for Last {
    fn default() -> Self {
        let nothing: Arc<str> = Arc::default();
        Self { ts: Arc::clone(&nothing), tenant: Arc::clone(&nothing), sender_id: nothing }
    }
}

fn share(last: &mut Arc<str>, text: &str) -> Arc<str> {
    if **last != *text {
        *last = text.into();
    }
    Arc::clone(last)
}

/// An envelope whose texts have no escapes.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct QuickEnvelope<'a> {
    #[serde(rename = "type")]
    kind: &'a str,
    id: &'a str,
    ts: &'a str,
    tenant: &'a str,
    #[serde(borrow)]
    sender: Object<QuickSender<'a>>,
    corr: Option<&'a str>,
    seq: Option<u64>,
    session_seq: Option<u64>,
    #[serde(borrow)]
    ack: Option<Object<QuickMark<'a>>>,
    #[serde(borrow)]
    flags: Option<Vec<&'a str>>,
    #[serde(borrow)]
    payload: &'a RawValue,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct QuickSender<'a> {
    role: &'a str,
    id: &'a str,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct QuickMark<'a> {
    #[serde(rename = "for")]
    of: Option<&'a str>,
    request: Option<bool>,
}

impl<'a> QuickEnvelope<'a> {
    /// The frame, or nothing if it must be read leniently.
    pub(super) fn read(text: &'a str, last: &mut Last) -> Option<Envelope> {
        let Object(quick): Object<Self> = serde_json::from_str(text).ok()?;
        if !quick.is_within_limits() {
            return None;
        }
        let role = match quick.sender.0.role {
            "worker" => SenderRole::Worker,
            "scheduler" => SenderRole::Scheduler,
            _ => return None,
        };
        Some(Envelope {
            kind: alias::shared_name(quick.kind),
            id: quick.id.to_owned(),
            ts: share(&mut last.ts, quick.ts),
            tenant: share(&mut last.tenant, quick.tenant),
            sender: Sender { role, id: share(&mut last.sender_id, quick.sender.0.id) },
            corr: quick.corr.map(str::to_owned),
            seq: quick.seq,
            session_seq: quick.session_seq,
            ack: quick
                .ack
                .map(|Object(ack)| AckMark { of: ack.of.map(str::to_owned), request: ack.request }),
            flags: quick.flags.map(|flags| flags.into_iter().map(str::to_owned).collect()),
            payload: quick.payload.to_owned(),
        })
    }

    fn is_within_limits(&self) -> bool {
        let flags = self.flags.as_deref().unwrap_or_default();
        let named = self.ack.as_ref().and_then(|Object(ack)| ack.of);
        [self.kind, self.id, self.tenant, self.sender.0.id].into_iter().all(is_short_name)
            && flags.iter().copied().all(is_short_name)
            && flags.len() <= FLAGS_MAX
            && [self.corr, named].into_iter().flatten().all(|text| text.len() <= NAME_CHARS_MAX)
            && [self.seq, self.session_seq].into_iter().flatten().all(|n| n <= INTEGER_MAX)
            && is_moment(self.ts)
            && self.payload.get().starts_with('{')
    }
}

// Counted in bytes, so never longer than the limit in characters allows.
fn is_short_name(text: &str) -> bool {
    (1..=NAME_CHARS_MAX).contains(&text.len())
}

/// The payload of an ack whose texts have no escapes.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct QuickAck<'a> {
    ok: Option<bool>,
    #[serde(rename = "for")]
    of: Option<&'a str>,
    info: Option<&'a str>,
    ack_seq: Option<u64>,
    ack_bitmap: Option<u64>,
    recv_window: Option<u64>,
}

/// The ack, or nothing if it must be read leniently.
pub(super) fn quick_ack(payload: &RawValue) -> Option<Ack> {
    let Object(quick): Object<QuickAck<'_>> = serde_json::from_str(payload.get()).ok()?;
    let numbers = [quick.ack_seq, quick.recv_window];
    if numbers.into_iter().flatten().any(|n| n > INTEGER_MAX) || quick.recv_window == Some(0) {
        return None;
    }
    Some(Ack {
        ok: quick.ok,
        of: quick.of.map(str::to_owned),
        info: quick.info.map(str::to_owned),
        ack_seq: quick.ack_seq,
        ack_bitmap: quick.ack_bitmap,
        recv_window: quick.recv_window,
    })
}

/// A struct that is written as an object; on its own it would also be read from a list.
struct Object<T>(T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(ObjectVisitor(PhantomData))
    }
}

struct ObjectVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for ObjectVisitor<T> {
    type Value = Object<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Object<T>, A::Error> {
        T::deserialize(MapAccessDeserializer::new(map)).map(Object)
    }
}
