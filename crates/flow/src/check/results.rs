//! Results against the schema that the node brings along. What a worker reports is what happened,
//! so a result that does not fit is told and changes nothing.

use bytes::Bytes;
use jsonschema::ValidationError;
use jsonschema::error::ValidationErrorKind;
use serde_json::Value;

use super::parameters::{ALL_STEPS_MAX, NODE_STEPS_MAX, n_values, verdict};
use super::schema::Schemas;
use crate::problem::{Quoted, SENTENCE_CHARACTERS_MAX, cut};

/// Sentences about one result.
pub const RESULT_SENTENCES_MAX: usize = 10;

/// Looks at what nodes gave, with an eye on what it costs.
#[derive(Debug)]
pub struct ResultCheck<'s> {
    schemas: Schemas<'s>,
    steps_left: usize,
}

impl Default for ResultCheck<'_> {
    fn default() -> Self {
        Self { schemas: Schemas::default(), steps_left: ALL_STEPS_MAX }
    }
}

impl<'s> ResultCheck<'s> {
    /// What about a result is not as the node's `schema.results` says, a sentence each. A schema
    /// that cannot be used says nothing, and so does one that would cost too much.
    pub fn of(&mut self, schema: &'s Bytes, result: &Value) -> Vec<String> {
        let Ok(text) = std::str::from_utf8(schema) else { return Vec::new() };
        let Ok(usable) = &self.schemas.of(text).usable else { return Vec::new() };
        let steps = usable.steps.saturating_mul(n_values(result));
        if steps > NODE_STEPS_MAX || steps > self.steps_left {
            return Vec::new();
        }
        self.steps_left -= steps;
        if usable.validator.is_valid(result) {
            return Vec::new();
        }
        let errors = usable.validator.iter_errors(result).take(RESULT_SENTENCES_MAX);
        errors.map(|error| sentence(&error)).collect()
    }
}

fn sentence(error: &ValidationError<'_>) -> String {
    let pointer = error.instance_path().as_str();
    let place = format!("results{}", pointer.replace('/', "."));
    let rest = match error.kind() {
        ValidationErrorKind::Required { property } => {
            let property = property.as_str().unwrap_or_default();
            return format!("{}.{} is missing; the node promises it", place, Quoted(property));
        }
        _ => verdict(error),
    };
    format!("{}{}", Quoted(&place), cut(&rest, SENTENCE_CHARACTERS_MAX))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_result_that_does_not_fit_is_told() {
        let schema = Bytes::from_static(
            br#"{"type":"object","required":["status"],"properties":{
                "status":{"enum":["SUCCEEDED","FAILED"]},"page":{"type":"object"}}}"#,
        );
        let mut check = ResultCheck::default();
        for (result, expected) in [
            (json!({"status": "SUCCEEDED", "more": 1}), &[][..]),
            (json!({}), &["results.status is missing; the node promises it"]),
            (json!([1]), &["results is a list; it must be an object"]),
            (
                json!({"status": "?", "page": 7}),
                &[
                    "results.page is a number; it must be an object",
                    r#"results.status is "?"; it must be one of "SUCCEEDED", "FAILED""#,
                ],
            ),
        ] {
            let mut told = check.of(&schema, &result);
            told.sort_unstable();
            assert_eq!(told, expected, "{result}");
        }
    }

    #[test]
    fn a_schema_that_cannot_be_used_says_nothing() {
        let mut check = ResultCheck::default();
        let (odd, remote) = (
            Bytes::from_static(b"{\"type\":7}"),
            Bytes::from_static(b"{\"$ref\":\"http://example.org/x\"}"),
        );
        assert!(check.of(&odd, &json!({})).is_empty());
        assert!(check.of(&remote, &json!({})).is_empty());
    }

    #[test]
    fn all_looks_together_have_an_end() {
        let schema = Bytes::from_static(br#"{"type":"array","items":{"type":"string"}}"#);
        let mut check = ResultCheck { schemas: Schemas::default(), steps_left: 100 };
        let wrong = json!([1, 2, 3]);
        let told = (0..1000).filter(|_| !check.of(&schema, &wrong).is_empty()).count();
        assert!((1..100).contains(&told), "{told}");
    }
}
