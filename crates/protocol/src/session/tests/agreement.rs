//! The typed payloads accept exactly what the schemas accept.
//!
//! Documents are drawn from the schema itself, then damaged at random. Keys that no schema knows
//! are not among the damages: there the two differ on purpose.

use proptest::prelude::*;
use proptest::sample::{Index, select};
use proptest::test_runner::{Config, TestCaseError, TestRunner};
use serde_json::{Map, Value, json};

use super::super::codec::INTEGER_MAX;
use super::super::envelope::Envelope;
use super::super::kind::Kind;
use super::schema_of;

const CASES_PER_SCHEMA: u32 = 2_000;

#[test]
fn typed_decode_and_schema_accept_the_same_payloads() {
    for kind in Kind::all() {
        check(kind.name(), &schema_of(Some(kind)), |document| {
            super::decode(kind, document).map(|_| ()).map_err(|error| error.to_string())
        });
    }
}

#[test]
fn typed_decode_and_schema_accept_the_same_envelopes() {
    check("envelope", &schema_of(None), |document| {
        Envelope::from_text(&document.to_string()).map(|_| ()).map_err(|error| error.to_string())
    });
}

fn check(name: &str, schema: &Value, typed: impl Fn(&Value) -> Result<(), String>) {
    let validator = jsonschema::validator_for(schema).expect("a schema");
    let (n_accepted, n_refused) = (std::cell::Cell::new(0), std::cell::Cell::new(0));
    let damages = proptest::collection::vec(damage(), 0..3);
    let mut runner = TestRunner::new(Config {
        cases: CASES_PER_SCHEMA,
        failure_persistence: None,
        ..Config::default()
    });
    let outcome = runner.run(&(valid(schema), damages), |(mut document, damages)| {
        let is_whole = damages.is_empty();
        // Tags first: on text that another damage put there they would make an unknown key.
        let (tags, others): (Vec<_>, Vec<_>) = damages.iter().partition(|it| it.is_tag());
        tags.iter().chain(&others).for_each(|damage| damage.apply(&mut document));
        let by_schema = validator.validate(&document).map_err(|error| error.to_string());
        let counter = if by_schema.is_ok() { &n_accepted } else { &n_refused };
        counter.set(counter.get() + 1);
        let by_type = typed(&document);
        if is_whole && by_schema.is_err() {
            return Err(TestCaseError::fail(format!("drawn but invalid: {by_schema:?}")));
        }
        if by_schema.is_ok() == by_type.is_ok() {
            return Ok(());
        }
        Err(TestCaseError::fail(format!("{document}: schema {by_schema:?}, type {by_type:?}")))
    });
    outcome.unwrap_or_else(|error| panic!("{name}: {error}"));
    let both = n_accepted.get().min(n_refused.get());
    assert!(both > CASES_PER_SCHEMA / 20, "{name}: {n_accepted:?} accepted, {n_refused:?} refused");
}

/// Something done to one place of a document.
#[derive(Clone, Debug)]
struct Damage {
    place: Index,
    what: What,
}

#[derive(Clone, Debug)]
enum What {
    Drop,
    Replace(Value),
    // What a derived enum would take for a word.
    Tag,
}

fn damage() -> impl Strategy<Value = Damage> {
    let what = prop_oneof![
        2 => Just(What::Drop),
        6 => select(junk()).prop_map(What::Replace),
        1 => Just(What::Tag),
    ];
    (any::<Index>(), what).prop_map(|(place, what)| Damage { place, what })
}

impl Damage {
    fn is_tag(&self) -> bool {
        matches!(self.what, What::Tag)
    }

    fn apply(&self, document: &mut Value) {
        let places = places(document);
        let place = &places[self.place.index(places.len())];
        let target = document.pointer_mut(place).expect("a place of the document");
        match &self.what {
            What::Replace(junk) => *target = junk.clone(),
            What::Tag => {
                if let Some(word) = target.as_str() {
                    *target = json!({ word: null });
                }
            }
            What::Drop => drop_at(document, place),
        }
    }
}

fn drop_at(document: &mut Value, place: &str) {
    let Some((parent, last)) = place.rsplit_once('/') else { return };
    match document.pointer_mut(parent).expect("a parent") {
        Value::Object(map) => drop(map.remove(&last.replace("~1", "/").replace("~0", "~"))),
        Value::Array(items) => drop(items.remove(last.parse().expect("an index"))),
        _ => unreachable!("only these have places in them"),
    }
}

/// The JSON pointers of every value of a document, the document itself included.
fn places(document: &Value) -> Vec<String> {
    let mut places = vec![String::new()];
    let mut collect = |key: String, inner: &Value| {
        places.extend(self::places(inner).into_iter().map(|place| format!("/{key}{place}")));
    };
    match document {
        Value::Object(map) => map
            .iter()
            .for_each(|(key, inner)| collect(key.replace('~', "~0").replace('/', "~1"), inner)),
        Value::Array(list) => {
            list.iter().enumerate().for_each(|(at, inner)| collect(at.to_string(), inner));
        }
        _ => {}
    }
    places
}

fn junk() -> Vec<Value> {
    let mut junk = vec![json!(null), json!(true), json!({}), json!([]), json!([""]), json!([1])];
    junk.extend(numbers());
    junk.extend(texts().into_iter().map(Value::from));
    junk
}

fn numbers() -> Vec<Value> {
    let integer_max = i64::try_from(INTEGER_MAX).expect("fits");
    let mut numbers: Vec<Value> =
        [0, 1, -1, 64, integer_max, integer_max + 1, -integer_max, -integer_max - 1, i64::MIN]
            .map(Value::from)
            .to_vec();
    numbers.push(json!(u64::MAX));
    numbers.extend([0.5, 1.0, -0.0, 1.5, -2.0, 1e3, 9_007_199_254_740_991.0].map(Value::from));
    numbers.extend([9_007_199_254_740_992.0, 18_446_744_073_709_551_616.0, 1e300].map(Value::from));
    numbers
}

fn texts() -> Vec<String> {
    let mut texts: Vec<String> = [
        "",
        "x",
        "null",
        "E.X",
        "a b",
        "\u{0}",
        "\u{1f600}\"\\\n",
        "worker",
        "token",
        "installed",
        "SUCCEEDED",
        "COMMITTED",
        "stdout",
        "sticky",
    ]
    .map(str::to_owned)
    .to_vec();
    texts.extend(["ä".repeat(256), "ä".repeat(257), "x".repeat(256), "x".repeat(257)]);
    texts.extend(moments().map(str::to_owned));
    texts.extend(uris().map(str::to_owned));
    texts.extend(["0".repeat(64), "Fa".repeat(32), "g".repeat(64), "0".repeat(63)]);
    texts
}

fn moments() -> [&'static str; 10] {
    [
        "2026-01-31T12:00:00Z",
        "2026-02-31t23:59:60.123456789+23:59",
        "2026-01-31T12:00:00-00:00",
        "2026-01-31T12:00:00",
        "2026-01-31 12:00:00Z",
        "2026-01-31T24:00:00Z",
        "2026-01-31T12:00:00+24:00",
        "2026-01-31T12:00:00.Z",
        "2026-01-31T12:00:00Z\n",
        "２026-01-31T12:00:00Z",
    ]
}

fn uris() -> [&'static str; 7] {
    ["file:///tmp/a.zip", "a:b", "a:", ":b", "1a:b", "a+b.c-d:e f", "https://exämple/"]
}

/// A document that the schema accepts.
fn valid(schema: &Value) -> BoxedStrategy<Value> {
    if let Some(words) = schema["enum"].as_array() {
        return select(words.clone()).boxed();
    }
    match &schema["type"] {
        Value::Array(types) => {
            let mut only = schema.clone();
            only["type"] = types[0].clone();
            prop_oneof![4 => valid(&only), 1 => Just(Value::Null)].boxed()
        }
        Value::String(name) => valid_of_type(name, schema),
        _ => select(junk()).boxed(),
    }
}

fn valid_of_type(name: &str, schema: &Value) -> BoxedStrategy<Value> {
    match name {
        "boolean" => any::<bool>().prop_map(Value::from).boxed(),
        "integer" | "number" => fitting(numbers(), schema),
        "string" => fitting(texts().into_iter().map(Value::from).collect(), schema),
        "array" => {
            let n_min = schema["minItems"].as_u64().map_or(0, |n| usize::try_from(n).expect("few"));
            let items = proptest::collection::vec(valid(&schema["items"]), n_min..n_min + 3);
            items.prop_map(Value::from).boxed()
        }
        "object" => valid_object(schema),
        other => unreachable!("no schema has the type {other}"),
    }
}

/// Those of the candidates that the schema itself lets through.
fn fitting(candidates: Vec<Value>, schema: &Value) -> BoxedStrategy<Value> {
    let validator = jsonschema::validator_for(schema).expect("a schema");
    let fit: Vec<_> = candidates.into_iter().filter(|it| validator.is_valid(it)).collect();
    select(fit).boxed()
}

fn valid_object(schema: &Value) -> BoxedStrategy<Value> {
    let empty = Map::new();
    let properties = schema["properties"].as_object().unwrap_or(&empty);
    let is_required = |key: &str| {
        schema["required"].as_array().is_some_and(|keys| keys.iter().any(|it| it == key))
    };
    let mut object = Just(Map::new()).boxed();
    for (key, inner) in properties {
        let value = valid(inner);
        let value = if is_required(key) {
            value.prop_map(Some).boxed()
        } else {
            proptest::option::of(value).boxed()
        };
        object = with_key(object, key.clone(), value);
    }
    let extra = match &schema["additionalProperties"] {
        Value::Bool(false) => None,
        Value::Object(inner) => Some(valid(&Value::Object(inner.clone()))),
        _ => Some(select(junk()).boxed()),
    };
    if let Some(extra) = extra {
        object = with_key(object, "of/the~peer".to_owned(), proptest::option::of(extra).boxed());
    }
    object.prop_map(Value::Object).boxed()
}

fn with_key(
    object: BoxedStrategy<Map<String, Value>>,
    key: String,
    value: BoxedStrategy<Option<Value>>,
) -> BoxedStrategy<Map<String, Value>> {
    (object, value)
        .prop_map(move |(mut object, value)| {
            object.extend(value.map(|value| (key.clone(), value)));
            object
        })
        .boxed()
}
