//! Parameters against the schema that the node brings along. What is filled in later is not
//! looked at: values that hold an expression, and those that a wire brings.

use std::borrow::Cow;
use std::collections::BTreeSet;

use jsonschema::ValidationError;
use jsonschema::error::ValidationErrorKind;
use serde_json::Value;
use serde_json::value::RawValue;

use super::schema::{Schemas, Unusable};
use super::words;
use crate::compile::{CONTAINER_KEY, Context, GraphDraft, StepDraft, is_container};
use crate::problem::{Place, Problems, Quoted, SENTENCE_CHARACTERS_MAX, code, cut};

/// Steps that the check of one node may take.
pub const NODE_STEPS_MAX: usize = 1_000_000;
/// Steps that all checks of a definition may take together.
pub const ALL_STEPS_MAX: usize = 50_000_000;
/// Problems of one node that are told; one wrong list would fill the page.
const TOLD_PER_NODE_MAX: usize = 10;

/// Checks parameters, with an eye on what it costs.
#[derive(Debug)]
pub(crate) struct Check<'c, 's> {
    schemas: &'c mut Schemas<'s>,
    told: BTreeSet<&'s str>,
    steps_left: usize,
}

impl<'c, 's> Check<'c, 's> {
    /// With schemas that may be known already.
    pub(crate) fn new(schemas: &'c mut Schemas<'s>) -> Self {
        Self { schemas, told: BTreeSet::new(), steps_left: ALL_STEPS_MAX }
    }

    /// All nodes of one graph.
    pub(crate) fn graph(
        &mut self,
        context: &Context<'s>,
        draft: &GraphDraft<'s>,
        problems: &mut Problems,
    ) {
        let root = context.source().place();
        let nodes = root.key("nodes");
        for node in &draft.nodes {
            let at = nodes.index(node.index as usize).about(node.host.node.id.text());
            let is_wrapped = !node.middlewares.is_empty();
            let open = || draft.open_places(node.index, None, is_wrapped);
            self.step(&node.host, open, &at, problems);
            let place = at.key("middlewares");
            for (level, step) in node.middlewares.iter().enumerate() {
                let open = || draft.open_places(node.index, u32::try_from(level).ok(), level > 0);
                self.step(step, open, &place.index(level), problems);
            }
        }
    }

    fn step(
        &mut self,
        step: &StepDraft<'s>,
        open: impl FnOnce() -> OpenPlaces,
        at: &Place<'_>,
        problems: &mut Problems,
    ) {
        let schema = step.node.schema.given().and_then(|schemas| schemas.parameters);
        let Some(schema) = schema.map(RawValue::get) else { return };
        let usable = match &self.schemas.of(schema).usable {
            Ok(usable) => usable,
            Err(unusable) => {
                if self.told.insert(schema) {
                    let at = at.key("schema");
                    tell_unusable(unusable, &at.key("parameters"), problems);
                }
                return;
            }
        };
        let value = parameters(step);
        let steps = usable.steps.saturating_mul(n_values(&value));
        let at = at.key("parameters");
        if steps > NODE_STEPS_MAX || steps > self.steps_left {
            let message = "the parameters are not checked: they are too large for their schema";
            problems.warning(code::LIMIT, &at, format_args!("{message}"));
            return;
        }
        self.steps_left -= steps;
        if usable.validator.is_valid(&value) {
            return;
        }
        let mut open = open();
        open.add_expressions(&value, &mut String::new());
        if is_container(step.node) {
            open.add(&[CONTAINER_KEY.to_owned()]);
        }
        let errors = usable.validator.iter_errors(&value);
        for error in errors.filter(|error| !open.excuse(error)).take(TOLD_PER_NODE_MAX) {
            tell(&error, &at, problems);
        }
    }
}

fn tell_unusable(unusable: &Unusable, at: &Place<'_>, problems: &mut Problems) {
    match unusable {
        Unusable::Remote(reference) => {
            let message = format_args!(
                "the schema refers to {}; only places of its own, like #/$defs/name, are followed, \
                 so copy what it needs into it",
                Quoted(reference)
            );
            problems.error(code::PARAMETERS, at, message);
        }
        Unusable::PassedOver(reason) => {
            let message = format_args!(
                "the schema is not used to check parameters: {}",
                cut(reason, SENTENCE_CHARACTERS_MAX)
            );
            problems.warning(code::PARAMETERS, at, message);
        }
    }
}

/// The parameters as they stand; those of a container without the name of its subgraph.
fn parameters<'d>(step: &'d StepDraft<'_>) -> Cow<'d, Value> {
    if let Some(value) = &step.rendered {
        return Cow::Borrowed(value);
    }
    let text = step.node.parameters.map_or("{}", RawValue::get);
    let mut value = serde_json::from_str(text).unwrap_or_default();
    if is_container(step.node)
        && let Value::Object(fields) = &mut value
    {
        fields.remove(CONTAINER_KEY);
    }
    Cow::Owned(value)
}

/// How many values there are in a value, itself included. It nests as deep as a parser lets it.
pub(crate) fn n_values(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(n_values).sum::<usize>(),
        Value::Object(fields) => 1 + fields.values().map(n_values).sum::<usize>(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => 1,
    }
}

/// Places in the parameters of a step whose values are not known yet, as JSON pointers.
#[derive(Debug)]
pub(crate) struct OpenPlaces {
    pointers: Vec<String>,
    /// A middleware in front may hand on more than what is written.
    is_wrapped: bool,
}

impl OpenPlaces {
    /// None yet, of a step that has a middleware in front or not.
    pub(crate) fn new(is_wrapped: bool) -> Self {
        Self { pointers: Vec::new(), is_wrapped }
    }

    /// A value comes here.
    pub(crate) fn add(&mut self, path: &[String]) {
        let mut pointer = String::new();
        for segment in path {
            push(&mut pointer, segment);
        }
        self.pointers.push(pointer);
    }

    fn add_expressions(&mut self, value: &Value, at: &mut String) {
        let length = at.len();
        match value {
            Value::String(text) if text.contains("{{") => self.pointers.push(at.clone()),
            Value::Array(items) => {
                for (index, item) in items.iter().enumerate() {
                    push(at, &index.to_string());
                    self.add_expressions(item, at);
                    at.truncate(length);
                }
            }
            Value::Object(fields) => {
                for (key, field) in fields {
                    push(at, key);
                    self.add_expressions(field, at);
                    at.truncate(length);
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }

    /// Whether what is filled in later may put right what is wrong.
    fn excuse(&self, error: &ValidationError<'_>) -> bool {
        let at = error.instance_path().as_str();
        let is_below = |pointer: &str, at: &str| {
            pointer.strip_prefix(at).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        if self.pointers.iter().any(|open| is_below(at, open)) {
            return true;
        }
        match error.kind() {
            ValidationErrorKind::Required { property } => {
                let mut missing = at.to_owned();
                push(&mut missing, property.as_str().unwrap_or_default());
                (self.is_wrapped && at.is_empty())
                    || self.pointers.iter().any(|open| is_below(open, &missing))
            }
            ValidationErrorKind::Type { .. } => false,
            ValidationErrorKind::AdditionalProperties { unexpected } => {
                unexpected.iter().all(|key| {
                    let mut extra = at.to_owned();
                    push(&mut extra, key);
                    self.pointers.iter().any(|open| is_below(open, &extra))
                })
            }
            // All other rules look at everything below.
            _ => self.pointers.iter().any(|open| is_below(open, at)),
        }
    }
}

fn push(pointer: &mut String, segment: &str) {
    pointer.push('/');
    pointer.push_str(&segment.replace('~', "~0").replace('/', "~1"));
}

fn tell(error: &ValidationError<'_>, at: &Place<'_>, problems: &mut Problems) {
    let pointer = error.instance_path().as_str();
    let place = at.pointer(pointer);
    if let ValidationErrorKind::Required { property } = error.kind() {
        let property = property.as_str().unwrap_or_default();
        let message = format_args!("{} is missing; the node needs it", Quoted(property));
        problems.error(code::PARAMETERS, &place.key(property), message);
        return;
    }
    let name = if pointer.is_empty() { "parameters".to_owned() } else { place.name() };
    let verdict = verdict(error);
    let message = format_args!("{}{}", Quoted(&name), cut(&verdict, SENTENCE_CHARACTERS_MAX));
    problems.error(code::PARAMETERS, &place, message);
}

/// What is wrong with a value, as the rest of a sentence about it.
pub(crate) fn verdict(error: &ValidationError<'_>) -> String {
    let value = error.instance();
    match error.kind() {
        ValidationErrorKind::Type { kind } => {
            format!(" is {}; it must be {}", words::kind_of(value), words::wanted(kind))
        }
        ValidationErrorKind::Enum { options } => {
            let value = value.to_string();
            format!(" is {}; it must be one of {}", Quoted(&value), words::options(options))
        }
        ValidationErrorKind::AdditionalProperties { unexpected } => {
            let unexpected = unexpected.join(", ");
            let unexpected = Quoted(&unexpected);
            format!(" does not know {unexpected}; remove it, or look for a typing error")
        }
        _ => format!(": {}", error.masked_with("the value")),
    }
}
