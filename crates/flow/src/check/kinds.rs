//! What nodes and middlewares of each type need: packages, and what the builtin ones are given.

use std::collections::BTreeSet;

use model::{PackageName, PackageVersion};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::compile::{APPROVE, Context, DELAY, PackageHints, WAIT_EVENT, hints, is_container};
use crate::definition::{Loose, Node};
use crate::problem::{Place, code, quoted};

/// Types of this prefix are served without a package.
const BUILTIN_PREFIX: &str = "core.";
/// What `core.delay` may be given.
const DELAY_KEYS: [&str; 3] = ["ms", "seconds", "until"];

/// Looks at the nodes of one graph. Types that were told once to have no package are not told
/// again.
pub(crate) fn check<'s>(context: &Context<'s>, told: &mut BTreeSet<&'s str>) {
    let hints = &hints(context.sources[0].workflow);
    for (index, node) in context.source().nodes() {
        let root = context.place();
        let nodes = root.key("nodes");
        let at = nodes.index(index as usize).about(node.id.text());
        package(node, hints, told, &at.key("package"));
        if !is_container(node) {
            builtin(node, &at.key("parameters"));
        }
        let place = at.key("middlewares");
        for (level, middleware) in node.levels() {
            let at = place.index(level);
            package(middleware, hints, told, &at.key("package"));
            self::middleware(middleware, &at);
        }
    }
}

fn package<'s>(
    node: &'s Node<'s>,
    hints: &PackageHints<'s>,
    told: &mut BTreeSet<&'s str>,
    at: &Place<'_>,
) {
    let kind = node.kind.text();
    if let Some(package) = node.package.given() {
        let name = package.name.text().parse::<PackageName>().err();
        let least = hints.get(package.name.text()).map_or("", |hints| hints.min_version.text());
        let version = match package.version.text() {
            "" if !least.is_empty() => format!("{least}+").parse::<PackageVersion>().err(),
            own => own.parse::<PackageVersion>().err(),
        };
        for (error, key, text) in
            [(name, "name", &package.name), (version, "version", &package.version)]
        {
            // What is no text at all is told as such.
            let Some(error) = error.filter(|_| !matches!(text, Loose::Wrong(_))) else { continue };
            let message = format_args!(
                "{error}; a worker needs both name and version to find the code of {}, or a \
                 workerHints.minVersion for the package",
                quoted(kind)
            );
            at.key(key).error(code::PACKAGE, message);
        }
    } else if matches!(node.package, Loose::Absent)
        && !kind.is_empty()
        && !kind.starts_with(BUILTIN_PREFIX)
        && !is_container(node)
        && told.insert(kind)
    {
        let kind = quoted(kind);
        let message = format_args!(
            "{kind} names no package; only workers that serve {kind} on their own can take it"
        );
        at.warning(code::PACKAGE, message);
    }
}

fn middleware(node: &Node<'_>, at: &Place<'_>) {
    let kind = node.kind.text();
    let at_type = at.key("type");
    if matches!(node.kind, Loose::Absent) {
        let message = "a middleware needs a type, like core.retry; nobody could execute it";
        at_type.error(code::MIDDLEWARE, message);
    }
    if is_container(node) {
        let message = "a container cannot be a middleware; put the middleware around a container";
        at.error(code::MIDDLEWARE, message);
    }
    if [DELAY, WAIT_EVENT, APPROVE].contains(&kind) {
        let message = format_args!(
            "{kind} cannot be a middleware, because it calls nothing; make it a node in front"
        );
        at_type.error(code::MIDDLEWARE, message);
    }
}

/// What the coordinator executes itself must be told well: no worker would complain.
fn builtin(node: &Node<'_>, at: &Place<'_>) {
    let kind = node.kind.text();
    if ![DELAY, WAIT_EVENT, APPROVE].contains(&kind) {
        return;
    }
    let text = node.parameters.map_or("{}", RawValue::get);
    let Ok(Value::Object(given)) = serde_json::from_str::<Value>(text) else { return };
    // A port may bring what is not written here.
    let is_fed = node.ui.given().is_some_and(|ui| !ui.input_ports.items().is_empty());
    match kind {
        DELAY if !is_fed && !DELAY_KEYS.iter().any(|key| given.contains_key(*key)) => {
            let message = "core.delay is not told how long; give it ms, seconds or until";
            at.error(code::PARAMETERS, message);
        }
        WAIT_EVENT if !is_fed && !given.contains_key("event") => {
            let message = "core.wait_event is not told what to wait for; give it event, a name";
            at.error(code::PARAMETERS, message);
        }
        _ => {}
    }
    for (key, value) in &given {
        let wanted = match (kind, key.as_str()) {
            (DELAY, "ms" | "seconds") if !is_number_or_expression(value) => "a number from 0 on",
            (DELAY, "until") if !value.is_string() => "a moment like 2030-01-31T12:00:00Z",
            (WAIT_EVENT, "event") if !value.is_string() => "text",
            (WAIT_EVENT | APPROVE, "timeoutMs" | "timeout_ms")
                if value.as_u64().is_none_or(|ms| ms == 0) =>
            {
                "a whole number from 1 on, not an expression"
            }
            _ => continue,
        };
        at.key(key).error(code::PARAMETERS, format_args!("{key} must be {wanted}"));
    }
}

fn is_number_or_expression(value: &Value) -> bool {
    match value {
        Value::Number(number) => number.as_f64().is_some_and(|number| number >= 0.0),
        Value::String(text) => text.contains("{{"),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => false,
    }
}
