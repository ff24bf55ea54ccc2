//! The schemas, the typed payloads and the goldens say the same.

mod agreement;
mod fast_path;
mod golden;
mod leniency;
mod limits;
mod noise;
mod reference;

use serde_json::Value;
use serde_json::value::RawValue;

use super::codec::DecodeError;
use super::kind::{Kind, Payload};

/// The schema of a payload, or with `None` that of the envelope.
fn schema_of(kind: Option<Kind>) -> Value {
    let folder =
        if kind.is_none_or(|kind| kind.name().starts_with("control.")) { "session" } else { "biz" };
    let name = match kind.map(Kind::name) {
        Some(name) => name.split_once('.').expect("a prefix").1,
        None => "envelope",
    };
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../schemas");
    let path = format!("{root}/{folder}/{name}.schema.json");
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn examples_of(schema: &Value) -> &[Value] {
    schema["examples"].as_array().expect("examples")
}

fn raw(value: &Value) -> Box<RawValue> {
    serde_json::value::to_raw_value(value).expect("JSON")
}

fn decode(kind: Kind, payload: &Value) -> Result<Payload, DecodeError> {
    Payload::decode(kind, &raw(payload))
}

fn decode_text(kind: Kind, payload: &str) -> Result<Payload, DecodeError> {
    Payload::decode(kind, serde_json::from_str(payload).expect("JSON"))
}

fn encoded(payload: &Payload) -> Value {
    serde_json::from_str(payload.encode().1.get()).expect("JSON")
}
