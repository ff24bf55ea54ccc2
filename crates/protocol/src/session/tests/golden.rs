//! Frames as they are on the wire, in both vocabularies and both directions.

use std::collections::BTreeSet;

use serde_json::Value;

use super::super::envelope::Envelope;
use super::super::kind::{Kind, Payload, Vocabulary};
use super::{examples_of, schema_of};

#[test]
fn every_golden_comes_back_as_it_was() {
    for (name, text) in goldens() {
        let frame = Envelope::from_text(&text).unwrap_or_else(|error| panic!("{name}: {error}"));
        let vocabulary = Vocabulary::of_first_frame(&frame.kind);
        assert!(name.starts_with(prefix_of(vocabulary)), "{name} speaks {vocabulary:?}");
        let kind = Kind::from_name(&frame.kind).expect("a known kind");
        let payload =
            Payload::decode(kind, &frame.payload).unwrap_or_else(|error| panic!("{name}: {error}"));
        let (said, raw) = payload.encode_for(vocabulary);
        let again = Envelope { kind: said.into(), payload: raw, ..frame };
        assert_same(&name, &again.to_text().expect("small"), &text);
    }
}

#[test]
fn every_kind_has_a_golden_in_both_vocabularies() {
    let names: BTreeSet<String> = goldens().into_iter().map(|(name, _)| name).collect();
    let mut expected = BTreeSet::new();
    for vocabulary in [Vocabulary::Prefixed, Vocabulary::Plain] {
        for kind in Kind::all() {
            let short = kind.name().split_once('.').expect("a prefix").1;
            expected.insert(format!("{}-{short}.json", prefix_of(vocabulary)));
        }
    }
    assert_eq!(names, expected);
}

#[test]
fn a_golden_of_the_prefixed_vocabulary_is_said_in_the_plain_one() {
    let goldens = goldens();
    let find = |name: &str| &goldens.iter().find(|(at, _)| at == name).expect("a golden").1;
    for kind in Kind::all() {
        let short = kind.name().split_once('.').expect("a prefix").1;
        let prefixed = Envelope::from_text(find(&format!("prefixed-{short}.json"))).expect("good");
        let plain = Envelope::from_text(find(&format!("plain-{short}.json"))).expect("good");
        let payload = Payload::decode(kind, &prefixed.payload).expect("good");
        let (said, raw) = payload.encode_for(Vocabulary::Plain);
        assert_eq!(said, plain.kind);
        assert_same(short, raw.get(), plain.payload.get());
    }
}

#[test]
fn every_example_of_a_schema_validates_and_comes_back() {
    for kind in Kind::all() {
        let schema = schema_of(Some(kind));
        let validator = jsonschema::validator_for(&schema).expect("a schema");
        for example in examples_of(&schema) {
            validator.validate(example).unwrap_or_else(|error| panic!("{}: {error}", kind.name()));
            let payload = super::decode(kind, example).expect("typed");
            assert_eq!(payload.encode().0, kind);
            assert_eq!(&super::encoded(&payload), example, "{}", kind.name());
        }
    }
    let schema = schema_of(None);
    let validator = jsonschema::validator_for(&schema).expect("a schema");
    for example in examples_of(&schema) {
        validator.validate(example).expect("an example");
        let frame = Envelope::from_text(&example.to_string()).expect("typed");
        assert_same("envelope", &frame.to_text().expect("small"), &example.to_string());
    }
}

fn prefix_of(vocabulary: Vocabulary) -> &'static str {
    match vocabulary {
        Vocabulary::Prefixed => "prefixed",
        Vocabulary::Plain => "plain",
    }
}

fn assert_same(name: &str, left: &str, right: &str) {
    let parse = |text: &str| serde_json::from_str::<Value>(text).expect("JSON");
    assert_eq!(parse(left), parse(right), "{name}");
}

/// The names and texts of all goldens.
pub(super) fn goldens() -> Vec<(String, String)> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/testdata/session");
    let mut goldens: Vec<_> = std::fs::read_dir(folder)
        .expect("testdata")
        .map(|entry| entry.expect("an entry"))
        .filter(|entry| entry.path().extension().is_some_and(|extension| extension == "json"))
        .map(|entry| {
            let text = std::fs::read_to_string(entry.path()).expect("a golden");
            (entry.file_name().into_string().expect("a name"), text)
        })
        .collect();
    goldens.sort();
    goldens
}
