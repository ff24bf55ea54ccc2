//! Whether what flows along an edge fits where it goes.

use std::borrow::Cow;

use jsonschema::JsonType;
use serde_json::Value;
use serde_json::value::RawValue;

use super::schema::{Schemas, options};
use crate::compile::{Bound, Context, GraphDraft};
use crate::definition::Node;
use crate::problem::{Severity, code, quoted, type_name};
use crate::program::Root;

/// References behind references; a circle ends here.
const REFERENCES_MAX: usize = 16;

/// Looks at all that flows in one graph.
pub(crate) fn check<'s>(context: &Context<'s>, draft: &GraphDraft<'s>, schemas: &mut Schemas<'s>) {
    let source = context.source();
    let root = context.place();
    let edges = root.key("edges");
    for flow in &draft.flows {
        let Some(from) = type_at(context, &flow.from, schemas) else { continue };
        let Some(to) = type_at(context, &flow.to, schemas) else { continue };
        let edge = source.workflow.edges.items().get(flow.edge).and_then(|edge| edge.given());
        let ends = edge.and_then(|edge| Some((edge.source.given()?, edge.target.given()?)));
        let Some((begin, end)) = ends else { continue };
        let at = edges.index(flow.edge).about(end.node.text());
        let (begin, end) = (key(begin.port.text()), key(end.port.text()));
        match from.misfit(&to, &begin, &end) {
            Some((Severity::Error, sentence)) => at.error(code::WIRE_TYPE, sentence),
            Some((Severity::Warning, sentence)) => at.warning(code::WIRE_TYPE, sentence),
            None => {}
        }
    }
}

/// What people call a port; of a middleware's the last part.
fn key(port: &str) -> Cow<'_, str> {
    quoted(port.rsplit(':').next().unwrap_or(port))
}

/// What the schema says about the value behind a port; `None` where it says nothing.
fn type_at<'s>(context: &Context<'s>, bound: &Bound, schemas: &mut Schemas<'s>) -> Option<Type> {
    let (node, root, path): (&Node<'s>, _, _) = match &bound.inside {
        Some(inside) => {
            let graph = &context.sources[inside.graph as usize];
            (graph.node(inside.node as usize)?, inside.root, &inside.path)
        }
        None => (context.source().node(bound.node as usize)?, bound.root, &bound.path),
    };
    let node = match bound.middleware {
        Some(level) => node.middlewares.items().get(level as usize)?.given()?,
        None => node,
    };
    // A node that is executed per element gives a list of what its schema describes.
    if root == Root::Results && node.map.given().is_some() {
        return None;
    }
    let given = node.schema.given()?;
    let text = match root {
        Root::Parameters => given.parameters,
        Root::Results => given.results,
    };
    Type::below(&schemas.of(text.map(RawValue::get)?).value, path)
}

/// What a schema says about one value, as far as wires care.
#[derive(Debug)]
struct Type {
    /// Kinds that it may be, in the words of JSON Schema.
    kinds: Vec<String>,
    /// All that it may be.
    choices: Option<Vec<Value>>,
    /// What a text or a number stands for.
    format: Option<String>,
    /// What a text contains.
    media: Option<String>,
}

impl Type {
    /// What a schema says about the value at a path; `None` where it says nothing.
    fn below(schema: &Value, path: &[String]) -> Option<Self> {
        let mut at = resolved(schema, schema)?;
        for segment in path {
            let next = at.get("properties").and_then(|properties| properties.get(segment));
            let is_place = segment.bytes().all(|byte| byte.is_ascii_digit());
            let next = next.or_else(|| at.get("items").filter(|_| is_place));
            at = resolved(schema, next?)?;
        }
        Self::of(at)
    }

    fn of(schema: &Value) -> Option<Self> {
        let text = |key| schema.get(key).and_then(Value::as_str).map(str::to_owned);
        let mut kinds: Vec<String> = match schema.get("type") {
            Some(Value::String(one)) => vec![one.clone()],
            Some(Value::Array(some)) => {
                some.iter().filter_map(Value::as_str).map(str::to_owned).collect()
            }
            _ => Vec::new(),
        };
        let constant = schema.get("const").map(|value| vec![value.clone()]);
        let choices = schema.get("enum").and_then(Value::as_array).cloned().or(constant);
        if kinds.is_empty()
            && let Some(choices) = &choices
        {
            kinds = choices.iter().map(|value| kind_of(value).to_owned()).collect();
            kinds.sort_unstable();
            kinds.dedup();
        }
        if kinds.is_empty() {
            return None;
        }
        Some(Self { kinds, choices, format: text("format"), media: text("contentMediaType") })
    }

    /// Why some values of this type do not fit there, or none, in a sentence about both ports.
    fn misfit(&self, to: &Self, begin: &str, end: &str) -> Option<(Severity, String)> {
        let takes = |kind: &String| {
            to.kinds
                .iter()
                .any(|wanted| wanted == kind || (wanted == "number" && kind == "integer"))
        };
        let n_taken = self.kinds.iter().filter(|kind| takes(kind)).count();
        let differ = |one: &Option<String>, other: &Option<String>| {
            one.is_some() && other.is_some() && one != other
        };
        if n_taken == 0 || differ(&self.media, &to.media) {
            let (is, wants) = (self.words(), to.words());
            let sentence = format!(
                "{begin} is {is}; {end} wants {wants}; connect it to another port, or put a node \
                 between that converts it"
            );
            return Some((Severity::Error, sentence));
        }
        if let Some(wanted) = &to.choices {
            let (n, n_known) = match &self.choices {
                Some(from) => (from.len(), from.iter().filter(|it| wanted.contains(it)).count()),
                None => (usize::MAX, 1),
            };
            let wanted = || options(wanted);
            return if n_known == n && n > 0 {
                None
            } else if n_known == 0 {
                let sentence =
                    format!("{begin} never is what {end} wants; it must be one of {}", wanted());
                Some((Severity::Error, sentence))
            } else {
                let sentence = format!(
                    "{begin} may be something that {end} does not take; it must be one of {}",
                    wanted()
                );
                Some((Severity::Warning, sentence))
            };
        }
        if n_taken < self.kinds.len() || differ(&self.format, &to.format) {
            let (is, wants) = (self.words(), to.words());
            let sentence =
                format!("{begin} is {is}; {end} wants {wants}, so some values will not fit");
            return Some((Severity::Warning, sentence));
        }
        None
    }

    /// In words, like "text (image/png)".
    fn words(&self) -> String {
        let kinds: Vec<_> = self.kinds.iter().map(|kind| type_name(kind)).collect();
        let kinds = kinds.join(" or ");
        match self.media.as_ref().or(self.format.as_ref()) {
            Some(detail) => format!("{kinds} ({detail})"),
            None => kinds,
        }
    }
}

/// Follows references inside of the schema.
fn resolved<'v>(root: &'v Value, mut schema: &'v Value) -> Option<&'v Value> {
    for _ in 0..REFERENCES_MAX {
        let Some(reference) = schema.get("$ref").and_then(Value::as_str) else {
            return Some(schema);
        };
        schema = root.pointer(reference.strip_prefix('#')?)?;
    }
    None
}

fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Number(number) if !number.is_f64() => "integer",
        other => JsonType::from(other).as_str(),
    }
}
