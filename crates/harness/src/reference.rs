//! The reference pages that are made from the code: they cannot drift from it.

use std::fmt::Write;

use protocol::error_code::ErrorCode;
use serde_json::Value;

use server::doors::http::{openapi, who_may};
use server::metrics::METRICS;

use crate::limits::Limit;

const NOTE: &str = "<!-- Made from the code by `cargo xtask generate`; do not edit. -->";

/// Every page about the doors: where it stands, and its text.
pub(super) fn pages(limits: &[Limit]) -> Vec<(&'static str, String)> {
    vec![
        ("docs/reference/rest.md", rest()),
        ("docs/reference/error-codes.md", error_codes()),
        ("docs/reference/limits.md", limits_page(limits)),
        ("docs/reference/metrics.md", metrics()),
    ]
}

fn error_codes() -> String {
    let mut page = format!(
        "# Error codes\n\n{NOTE}\n\nEvery refusal has the body \
         `{{\"error\":{{\"code\",\"message\",\"hint\"}}}}`.\nA refused request changed nothing, \
         unless its code is `E.STORE.UNAVAILABLE`: then it may have been carried out or not.\n\n\
         | code | status | meaning | what to do |\n|---|---|---|---|\n"
    );
    for code in ErrorCode::ALL {
        let entry = code.entry();
        let (name, status) = (entry.name, entry.http_status);
        line(
            &mut page,
            format_args!("| `{name}` | {status} | {} | {} |", entry.meaning, entry.hint),
        );
    }
    page
}

fn limits_page(limits: &[Limit]) -> String {
    let mut page = format!(
        "# Limits\n\n{NOTE}\n\nOver a limit the answer is a clear refusal, and nothing is lost.\n\n\
         | limit | value | what it bounds |\n|---|---|---|\n"
    );
    for row in limits {
        line(&mut page, format_args!("| `{}` | {} | {} |", row.name, row.value, row.meaning));
    }
    page
}

fn metrics() -> String {
    let mut page = format!(
        "# Metrics\n\n{NOTE}\n\n`GET /metrics` in the OpenMetrics text format, with any valid \
         token.\nA token sees its own tenant's series and those of the server as a whole.\n\
         A histogram is exposed as `_bucket`, `_sum` and `_count`.\n\n\
         | metric | kind | labels | meaning |\n|---|---|---|---|\n"
    );
    for row in METRICS {
        let labels: Vec<_> = row.labels.iter().map(|label| format!("`{label}`")).collect();
        let labels = labels.join(", ");
        line(
            &mut page,
            format_args!("| `{}` | {} | {labels} | {} |", row.name, row.kind, row.help),
        );
    }
    page
}

fn rest() -> String {
    let document = serde_json::to_value(openapi()).expect("the document is plain data");
    let mut page = format!(
        "# REST interface\n\n{NOTE}\n\nJSON in, JSON out, `Authorization: Bearer <token>`.\n\
         The machine-readable form is `GET /api/v1/openapi.json`.\n\
         Requests with fields that are not listed here are refused.\n"
    );
    let tags = document["tags"].as_array().into_iter().flatten();
    for tag in tags {
        let (name, about) = (word(tag, "name"), word(tag, "description"));
        line(&mut page, format_args!("\n## {}\n\n{about}", capitalised(name)));
        operations(&mut page, &document, name);
    }
    line(&mut page, format_args!("\n## Types"));
    for (name, schema) in entries(&document["components"]["schemas"]) {
        schema_section(&mut page, name, schema);
    }
    page
}

fn operations(page: &mut String, document: &Value, tag: &str) {
    for (path, item) in entries(&document["paths"]) {
        for (method, operation) in entries(item) {
            if operation["tags"][0] == tag {
                operation_section(page, &method.to_uppercase(), path, operation);
            }
        }
    }
}

fn operation_section(page: &mut String, method: &str, path: &str, operation: &Value) {
    line(page, format_args!("\n### {}\n\n`{method} {path}`\n", word(operation, "summary")));
    let about = word(operation, "description");
    if !about.is_empty() {
        line(page, format_args!("{about}\n"));
    }
    let who = who_may(method, path);
    line(page, format_args!("Who may: {who}.\n"));
    for parameter in operation["parameters"].as_array().into_iter().flatten() {
        let (name, place) = (word(parameter, "name"), word(parameter, "in"));
        line(page, format_args!("- `{name}` ({place}): {}", word(parameter, "description")));
    }
    let body = &operation["requestBody"]["content"]["application/json"]["schema"];
    if !body.is_null() {
        line(page, format_args!("- body: {}", type_name(body)));
    }
    line(page, format_args!("\n| status | body | |\n|---|---|---|"));
    for (status, response) in entries(&operation["responses"]) {
        let content = entries(&response["content"]).next();
        let body = content.map(|(_, content)| type_name(&content["schema"])).unwrap_or_default();
        line(page, format_args!("| {status} | {body} | {} |", word(response, "description")));
    }
}

fn schema_section(page: &mut String, name: &str, schema: &Value) {
    line(page, format_args!("\n### {name}\n\n{}\n", word(schema, "description")));
    if let Some(words) = schema["enum"].as_array() {
        let words: Vec<_> = words.iter().map(|word| format!("`{}`", plain(word))).collect();
        line(page, format_args!("One of {}.", words.join(", ")));
        return;
    }
    let required: Vec<&str> =
        schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    line(page, format_args!("| field | type | |\n|---|---|---|"));
    for (field, schema) in entries(&schema["properties"]) {
        let optional = if required.contains(&field.as_str()) { "" } else { " (optional)" };
        let about = description(schema).replace('\n', " ");
        line(page, format_args!("| `{field}`{optional} | {} | {about} |", type_name(schema)));
    }
}

/// A type, for a person: `list of Task`, `integer`, `any JSON`.
fn type_name(schema: &Value) -> String {
    if let Some(reference) = schema["$ref"].as_str() {
        let name = reference.rsplit('/').next().unwrap_or(reference);
        return format!("[{name}](#{})", name.to_lowercase());
    }
    if let Some(either) = schema["oneOf"].as_array() {
        let named = either.iter().find(|one| one["type"] != "null");
        return named.map(type_name).unwrap_or_default();
    }
    let own = match &schema["type"] {
        Value::Array(types) => types.iter().find(|one| *one != "null").map(plain),
        Value::Null => None,
        one => Some(plain(one)),
    };
    match own.as_deref() {
        Some("array") => format!("list of {}", type_name(&schema["items"])),
        Some("object") if schema["additionalProperties"]["type"] == "number" => {
            "map of numbers".to_owned()
        }
        Some("object") if !schema["additionalProperties"].is_null() => "map of texts".to_owned(),
        Some("string") => "text".to_owned(),
        Some(other) => other.to_owned(),
        None => "any JSON".to_owned(),
    }
}

/// A field that may be absent keeps its words beside the type that it has when it is there.
fn description(schema: &Value) -> &str {
    let either = schema["oneOf"].as_array().into_iter().flatten();
    let all = std::iter::once(schema).chain(either);
    all.map(|one| word(one, "description")).find(|words| !words.is_empty()).unwrap_or_default()
}

fn entries(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value.as_object().into_iter().flatten()
}

fn word<'a>(value: &'a Value, name: &str) -> &'a str {
    value[name].as_str().unwrap_or_default()
}

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn capitalised(word: &str) -> String {
    let mut letters = word.chars();
    letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default()
}

fn line(page: &mut String, text: std::fmt::Arguments<'_>) {
    writeln!(page, "{text}").expect("a String takes everything");
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn pages_name_what_the_code_has() {
        let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
        let pages = pages(&crate::limits::all(root).expect("a table"));
        let page = |path: &str| {
            pages.iter().find(|(at, _)| *at == path).map(|(_, text)| text.as_str()).expect("a page")
        };
        let rest = page("docs/reference/rest.md");
        for expected in [
            "`POST /api/v1/tasks`",
            "Who may: admin or client.",
            "| 409 | [Problem](#problem) | E.TASK.IDEMPOTENCY, E.TASK.DEPENDENCY |",
            "| `tasks` | list of [TaskToSubmit](#tasktosubmit) |",
            "### VerdictAnswer",
        ] {
            assert!(rest.contains(expected), "rest.md has {expected}\n{rest}");
        }
        for code in ErrorCode::ALL {
            assert!(page("docs/reference/error-codes.md").contains(code.name()));
        }
        for row in METRICS {
            assert!(page("docs/reference/metrics.md").contains(row.name));
        }
        assert!(page("docs/reference/limits.md").contains("| `BODY_BYTES_MAX` | 16 MiB |"));
    }
}
