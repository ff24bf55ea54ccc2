//! What a person said of the workers that have the work of a run, as one JSON text in its row.

use coordinator::{BoundPackage, FactNumber, RunBindings};
use model::{InvalidText, Timestamp, WorkerId};
use serde::{Deserialize, Serialize};

/// An unknown field may be a condition; to skip it could give the work to a worker that a person
/// took it from. So it is refused.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct BindingsDocument {
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    bound: Vec<BoundDocument>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    kept_from: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    fact: Option<u64>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct BoundDocument {
    package: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    worker: Option<String>,
    since: i64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    moved_from: Option<String>,
}

/// Why stored bindings cannot be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BindingsError {
    #[error("its bindings are not what was once written: {0}")]
    Document(#[from] serde_json::Error),
    #[error("its bindings name an invalid worker: {0}")]
    Worker(#[from] InvalidText),
}

/// The document of the bindings.
pub(crate) fn write(bindings: &RunBindings) -> String {
    let text = |worker: &Option<WorkerId>| worker.as_ref().map(ToString::to_string);
    let bound = bindings.bound.iter().map(|bound| BoundDocument {
        package: bound.package.clone(),
        worker: text(&bound.worker),
        since: bound.since.to_integer(),
        moved_from: text(&bound.moved_from),
    });
    let document = BindingsDocument {
        bound: bound.collect(),
        kept_from: bindings.kept_from.iter().map(ToString::to_string).collect(),
        fact: bindings.fact.map(FactNumber::get),
    };
    serde_json::to_string(&document).expect("texts and numbers always become JSON")
}

/// The bindings of a row.
pub(crate) fn read(document: &str) -> Result<RunBindings, BindingsError> {
    let document: BindingsDocument = serde_json::from_str(document)?;
    let worker = |text: Option<String>| text.map(|text| text.parse()).transpose();
    let bound = document.bound.into_iter().map(|bound| {
        Ok(BoundPackage {
            package: bound.package,
            worker: worker(bound.worker)?,
            since: Timestamp::from_integer(bound.since),
            moved_from: worker(bound.moved_from)?,
        })
    });
    let kept_from = document.kept_from.iter().map(|text| text.parse());
    Ok(RunBindings {
        bound: bound.collect::<Result<_, InvalidText>>()?,
        kept_from: kept_from.collect::<Result<_, InvalidText>>()?,
        fact: document.fact.and_then(FactNumber::new),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_comes_back() {
        let worker = |name: &str| name.parse::<WorkerId>().expect("a name");
        let bindings = RunBindings {
            bound: vec![
                BoundPackage {
                    package: "\"p\" ü".into(),
                    worker: Some(worker("w1")),
                    since: Timestamp::from_integer(7),
                    moved_from: None,
                },
                BoundPackage {
                    package: "q".into(),
                    worker: None,
                    since: Timestamp::from_integer(i64::MAX),
                    moved_from: Some(worker("w2")),
                },
            ],
            kept_from: vec![worker("w2")],
            fact: FactNumber::new(9),
        };
        assert_eq!(read(&write(&bindings)).expect("valid"), bindings);
        let nothing = RunBindings::default();
        assert_eq!(write(&nothing), "{}");
        assert_eq!(read("{}").expect("valid"), nothing);
    }

    #[test]
    fn what_was_never_written_is_refused() {
        for document in ["[", r#"{"unless":1}"#, r#"{"kept_from":["w 1"]}"#] {
            assert!(read(document).is_err(), "{document}");
        }
    }
}
