//! Values against the schemas that nodes bring along. Of parameters, what is filled in later is not
//! looked at: values that hold an expression, and those that a wire brings. What a worker reports is
//! what happened, so a result that does not fit is told and changes nothing.

use std::borrow::Cow;
use std::collections::BTreeSet;

use bytes::Bytes;
use jsonschema::ValidationError;
use jsonschema::error::{TypeKind, ValidationErrorKind};
use serde_json::Value;
use serde_json::value::RawValue;

use super::schema::{Schemas, Unusable, Usable, options};
use crate::compile::{
    CONTAINER_KEY, Context, GraphDraft, StepDraft, each_expression, inputs, is_container,
};
use crate::problem::{
    Place, Problems, SENTENCE_CHARACTERS_MAX, code, cut, escaped, kind_of, quoted, type_name,
};

/// Limit: steps that the check of one node may take.
const NODE_STEPS_MAX: usize = 1_000_000;
/// Limit: steps that all checks of a definition may take together.
const ALL_STEPS_MAX: usize = 50_000_000;
/// Limit: sentences about one result.
pub const RESULT_SENTENCES_MAX: usize = 10;
/// Problems of one node that are told; one wrong list would fill the page.
const TOLD_PER_NODE_MAX: usize = 10;

/// Looks at parameters, and at what nodes gave, with an eye on what it costs.
#[derive(Debug)]
pub struct SchemaCheck<'s> {
    pub(crate) schemas: Schemas<'s>,
    /// Schemas that were told to be of no use.
    told: BTreeSet<&'s str>,
    steps_left: usize,
}

impl Default for SchemaCheck<'_> {
    fn default() -> Self {
        Self { schemas: Schemas::default(), told: BTreeSet::new(), steps_left: ALL_STEPS_MAX }
    }
}

impl<'s> SchemaCheck<'s> {
    /// All nodes of one graph.
    pub(crate) fn graph(&mut self, context: &Context<'s>, draft: &GraphDraft<'s>) {
        let root = context.place();
        let nodes = root.key("nodes");
        for node in &draft.nodes {
            let at = nodes.index(node.host.index as usize).about(node.host.node.id.text());
            self.step(draft, &node.host, &at);
            let place = at.key("middlewares");
            for (level, step) in node.middlewares.iter().enumerate() {
                self.step(draft, step, &place.index(level));
            }
        }
    }

    fn step(&mut self, draft: &GraphDraft<'s>, step: &StepDraft<'s>, at: &Place<'_>) {
        let schema = step.node.schema.given().and_then(|schemas| schemas.parameters);
        let Some(schema) = schema.map(RawValue::get) else { return };
        let usable = match &self.schemas.of(schema).usable {
            Ok(usable) => usable,
            Err(unusable) => {
                if self.told.insert(schema) {
                    tell_unusable(unusable, &at.key("schema").key("parameters"));
                }
                return;
            }
        };
        let value = match &step.rendered {
            Some(value) => Cow::Borrowed(value),
            None => Cow::Owned(inputs(step.node)),
        };
        let at = at.key("parameters");
        if !is_affordable(usable, &value, &mut self.steps_left) {
            let message = "the parameters are not checked: they are too large for their schema";
            at.warning(code::LIMIT, message);
            return;
        }
        if usable.validator.is_valid(&value) {
            return;
        }
        let mut open: Vec<String> = draft.fed_paths(step).map(|path| pointer(path)).collect();
        let nowhere = Problems::default();
        each_expression(&value, &nowhere.at(""), &mut |at, _| open.push(at.to_string()));
        if is_container(step.node) {
            open.push(format!("/{CONTAINER_KEY}"));
        }
        let errors = usable.validator.iter_errors(&value);
        let errors = errors.filter(|error| !is_excused(error, &open, step.is_wrapped));
        errors.take(TOLD_PER_NODE_MAX).for_each(|error| tell(&error, &at));
    }

    /// What about a result is not as the node's `schema.results` says, a sentence each. A schema
    /// that cannot be used says nothing, and so does one that would cost too much.
    pub fn of_result(&mut self, schema: &'s Bytes, result: &Value) -> Vec<String> {
        let Ok(text) = std::str::from_utf8(schema) else { return Vec::new() };
        let Ok(usable) = &self.schemas.of(text).usable else { return Vec::new() };
        if !is_affordable(usable, result, &mut self.steps_left) || usable.validator.is_valid(result)
        {
            return Vec::new();
        }
        let errors = usable.validator.iter_errors(result).take(RESULT_SENTENCES_MAX);
        errors.map(|error| sentence(&error)).collect()
    }
}

fn is_affordable(usable: &Usable, value: &Value, steps_left: &mut usize) -> bool {
    let steps = usable.steps.saturating_mul(n_values(value));
    let is_affordable = steps <= NODE_STEPS_MAX && steps <= *steps_left;
    if is_affordable {
        *steps_left -= steps;
    }
    is_affordable
}

fn tell_unusable(unusable: &Unusable, at: &Place<'_>) {
    match unusable {
        Unusable::Remote(reference) => {
            let message = format_args!(
                "the schema refers to {}; only places of its own, like #/$defs/name, are followed, \
                 so copy what it needs into it",
                quoted(reference)
            );
            at.error(code::PARAMETERS, message);
        }
        Unusable::PassedOver(reason) => {
            let reason = cut(reason, SENTENCE_CHARACTERS_MAX);
            let message = format_args!("the schema is not used to check parameters: {reason}");
            at.warning(code::PARAMETERS, message);
        }
    }
}

/// How many values there are in a value, itself included. It nests as deep as a parser lets it.
fn n_values(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(n_values).sum::<usize>(),
        Value::Object(fields) => 1 + fields.values().map(n_values).sum::<usize>(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => 1,
    }
}

fn pointer(path: &[String]) -> String {
    path.iter().map(|segment| ["/", &escaped(segment)].concat()).collect()
}

/// Whether what is filled in later, at the places that are `open`, may put right what is wrong. A
/// middleware in front may hand on more than what is written.
fn is_excused(error: &ValidationError<'_>, open: &[String], is_wrapped: bool) -> bool {
    let at = error.instance_path().as_str();
    let is_below = |pointer: &str, at: &str| {
        pointer.strip_prefix(at).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    let is_field_open = |key: &str| {
        let field = format!("{at}/{}", escaped(key));
        open.iter().any(|open| is_below(open, &field))
    };
    if open.iter().any(|open| is_below(at, open)) {
        return true;
    }
    match error.kind() {
        ValidationErrorKind::Required { property } => {
            (is_wrapped && at.is_empty()) || is_field_open(property.as_str().unwrap_or_default())
        }
        ValidationErrorKind::Type { .. } => false,
        ValidationErrorKind::AdditionalProperties { unexpected } => {
            unexpected.iter().all(|key| is_field_open(key))
        }
        // All other rules look at everything below.
        _ => open.iter().any(|open| is_below(open, at)),
    }
}

fn tell(error: &ValidationError<'_>, at: &Place<'_>) {
    let pointer = error.instance_path().as_str();
    let place = at.pointer(pointer);
    if let ValidationErrorKind::Required { property } = error.kind() {
        let property = property.as_str().unwrap_or_default();
        let message = format_args!("{} is missing; the node needs it", quoted(property));
        place.key(property).error(code::PARAMETERS, message);
        return;
    }
    let name = if pointer.is_empty() { "parameters".to_owned() } else { place.name() };
    place.error(code::PARAMETERS, verdict(&name, error));
}

/// What is wrong with a value of this name, as a sentence.
fn verdict(name: &str, error: &ValidationError<'_>) -> String {
    let value = error.instance();
    let verdict = match error.kind() {
        ValidationErrorKind::Type { kind } => {
            format!(" is {}; it must be {}", kind_of(value), wanted(kind))
        }
        ValidationErrorKind::Enum { options: all } => {
            let all = options(all.as_array().map_or(&[], Vec::as_slice));
            format!(" is {}; it must be one of {all}", quoted(&value.to_string()))
        }
        ValidationErrorKind::AdditionalProperties { unexpected } => {
            let unexpected = unexpected.join(", ");
            let unexpected = quoted(&unexpected);
            format!(" does not know {unexpected}; remove it, or look for a typing error")
        }
        _ => format!(": {}", error.masked_with("the value")),
    };
    format!("{}{}", quoted(name), cut(&verdict, SENTENCE_CHARACTERS_MAX))
}

fn wanted(kind: &TypeKind) -> String {
    match kind {
        TypeKind::Single(one) => type_name(one.as_str()).to_owned(),
        TypeKind::Multiple(some) => {
            let names: Vec<_> = some.iter().map(|one| type_name(one.as_str())).collect();
            names.join(" or ")
        }
    }
}

fn sentence(error: &ValidationError<'_>) -> String {
    let place = format!("results{}", error.instance_path().as_str().replace('/', "."));
    if let ValidationErrorKind::Required { property } = error.kind() {
        let property = quoted(property.as_str().unwrap_or_default());
        return format!("{place}.{property} is missing; the node promises it");
    }
    verdict(&place, error)
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
        let mut check = SchemaCheck::default();
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
            let mut told = check.of_result(&schema, &result);
            told.sort_unstable();
            assert_eq!(told, expected, "{result}");
        }
    }

    #[test]
    fn a_schema_that_cannot_be_used_says_nothing() {
        let mut check = SchemaCheck::default();
        let (odd, remote) = (
            Bytes::from_static(b"{\"type\":7}"),
            Bytes::from_static(b"{\"$ref\":\"http://example.org/x\"}"),
        );
        assert!(check.of_result(&odd, &json!({})).is_empty());
        assert!(check.of_result(&remote, &json!({})).is_empty());
    }

    #[test]
    fn all_looks_together_have_an_end() {
        let schema = Bytes::from_static(br#"{"type":"array","items":{"type":"string"}}"#);
        let mut check = SchemaCheck { steps_left: 100, ..SchemaCheck::default() };
        let wrong = json!([1, 2, 3]);
        let told = (0..1000).filter(|_| !check.of_result(&schema, &wrong).is_empty()).count();
        assert!((1..100).contains(&told), "{told}");
    }
}
