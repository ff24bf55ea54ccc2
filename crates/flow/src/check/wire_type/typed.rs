//! What a schema says about one value, as far as wires care.

use serde_json::Value;

use crate::check::words;

/// References behind references; a circle ends here.
const REFERENCES_MAX: usize = 16;

/// What is known about a value.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Type {
    /// Kinds that it may be, in the words of JSON Schema; any when empty.
    kinds: Vec<String>,
    /// All that it may be.
    choices: Option<Vec<Value>>,
    /// What a text or a number stands for.
    format: Option<String>,
    /// What a text contains.
    media: Option<String>,
}

/// How well one type fits another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fit {
    /// Always.
    Yes,
    /// Some values do.
    Sometimes,
    /// Never.
    No,
    /// Some of its choices do.
    SomeChoices,
    /// None of its choices does.
    NoChoice,
}

impl Type {
    /// What a schema says about the value at a path; `None` where it says nothing.
    pub(crate) fn below(schema: &Value, path: &[String]) -> Option<Self> {
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

    /// Whether all values of this type fit there.
    pub(crate) fn fits(&self, to: &Self) -> Fit {
        let takes = |kind: &String| {
            to.kinds
                .iter()
                .any(|wanted| wanted == kind || (wanted == "number" && kind == "integer"))
        };
        let n_taken = self.kinds.iter().filter(|kind| takes(kind)).count();
        let both = |one: &Option<String>, other: &Option<String>| {
            one.is_some() && other.is_some() && one != other
        };
        if n_taken == 0 || both(&self.media, &to.media) {
            return Fit::No;
        }
        match (&self.choices, &to.choices) {
            (_, None) => {}
            (None, Some(_)) => return Fit::SomeChoices,
            (Some(from), Some(to)) => {
                let n_known = from.iter().filter(|choice| to.contains(choice)).count();
                match n_known {
                    0 => return Fit::NoChoice,
                    n if n < from.len() => return Fit::SomeChoices,
                    _ => return Fit::Yes,
                }
            }
        }
        if n_taken < self.kinds.len() || both(&self.format, &to.format) {
            return Fit::Sometimes;
        }
        Fit::Yes
    }

    /// In words, like "text (image/png)".
    pub(crate) fn words(&self) -> String {
        let kinds: Vec<_> = self.kinds.iter().map(|kind| words::type_name(kind)).collect();
        let kinds = kinds.join(" or ");
        match self.media.as_ref().or(self.format.as_ref()) {
            Some(detail) => format!("{kinds} ({detail})"),
            None => kinds,
        }
    }

    /// All that it may be, as a list.
    pub(crate) fn choices_value(&self) -> Value {
        Value::Array(self.choices.clone().unwrap_or_default())
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
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}
