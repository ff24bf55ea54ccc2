//! JSON Schema in words for people.

use jsonschema::JsonType;
use jsonschema::error::TypeKind;
use serde_json::Value;

/// So many choices are told.
const OPTIONS_TOLD_MAX: usize = 10;

/// What kind of value this is.
pub(crate) fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

/// A type of JSON Schema, with its article.
pub(crate) fn type_name(name: &str) -> &str {
    match name {
        "null" => "null",
        "boolean" => "true or false",
        "integer" => "a whole number",
        "number" => "a number",
        "string" => "text",
        "array" => "a list",
        "object" => "an object",
        other => other,
    }
}

/// What was wanted instead.
pub(crate) fn wanted(kind: &TypeKind) -> String {
    match kind {
        TypeKind::Single(one) => type_name(one.as_str()).to_owned(),
        TypeKind::Multiple(some) => {
            let names: Vec<_> =
                some.iter().map(|one: JsonType| type_name(one.as_str()).to_owned()).collect();
            names.join(" or ")
        }
    }
}

/// The choices of an `enum`.
pub(crate) fn options(options: &Value) -> String {
    let all = options.as_array().map_or(&[][..], Vec::as_slice);
    let mut told: Vec<String> = all.iter().take(OPTIONS_TOLD_MAX).map(Value::to_string).collect();
    if all.len() > told.len() {
        told.push(format!("{} more", all.len() - told.len()));
    }
    told.join(", ")
}
