//! The fields of a node, and of a middleware.

use std::ops::RangeInclusive;
use std::time::Duration;

use model::{
    ATTEMPTS_MAX, BACKOFF_MAX, ConcurrencyKey, LEASE_TTL_MAX, LEASE_TTL_MIN, PRIORITY_LIMIT,
    QueueName, TIMEOUT_MAX, ToolName, TypeName,
};
use serde_json::value::RawValue;

use super::field::Fields;
use crate::definition::{Affinity, List, Map, Node, Port, Retry, Spelling, Ui};
use crate::problem::{Place, Quoted, code};

/// A label for people is a line, not a page.
pub const LABEL_BYTES_MAX: usize = 1_024;
/// Ports of one side of a node.
pub const PORTS_MAX: usize = 256;
/// Middlewares around one node.
pub const MIDDLEWARES_MAX: usize = 32;
/// The longest name for expressions.
pub const ALIAS_BYTES_MAX: usize = 128;
/// The longest key that keeps tasks together or apart, with its expressions.
pub const KEY_BYTES_MAX: usize = 4_096;
/// Elements of a list that are executed at the same time.
pub const PARALLEL_MAX: i64 = 1_000_000;
/// How long a worker may be kept in mind.
pub const AFFINITY_TTL_MAX: Duration = Duration::from_hours(7 * 24);

/// Tells what is wrong with the fields of a node.
pub(crate) fn check(node: &Node<'_>, at: &Place<'_>, fields: &mut Fields<'_>) {
    fields.needs::<TypeName>(&node.kind, &at.key("type"));
    common(node, at, fields);
    let place = at.key("middlewares");
    let middlewares = fields.list(&node.middlewares, &place);
    fields.at_most(middlewares.len(), MIDDLEWARES_MAX, &place);
    for (level, middleware) in middlewares.iter().enumerate() {
        let at = place.index(level);
        if let Some(middleware) = fields.needed(middleware, &at, "an object") {
            fields.fits::<TypeName>(&middleware.kind, &at.key("type"));
            common(middleware, &at, fields);
        }
    }
}

fn common(node: &Node<'_>, at: &Place<'_>, fields: &mut Fields<'_>) {
    fields.id(&node.id, &at.key("id"));
    if let Some(package) = fields.object(&node.package, &at.key("package")) {
        let at = at.key("package");
        fields.text(&package.name, &at.key("name"));
        fields.text(&package.version, &at.key("version"));
    }
    names(node, at, fields);
    fields.raw_object(node.parameters, &at.key("parameters"));
    fields.object(&node.schema, &at.key("schema"));
    ports(node, at, fields);
    demands(node, at, fields);
    flow(node, at, fields);
}

fn names(node: &Node<'_>, at: &Place<'_>, fields: &mut Fields<'_>) {
    if let Some(label) = fields.text(&node.label, &at.key("label"))
        && label.len() > LABEL_BYTES_MAX
    {
        let n = label.len();
        let message = format_args!("label has {n} bytes, at most {LABEL_BYTES_MAX} are taken");
        fields.problems.error(code::LIMIT, &at.key("label"), message);
    }
    fields.text(&node.role, &at.key("role"));
    if let Some(alias) = fields.text(&node.alias, &at.key("alias"))
        && !is_identifier(alias)
    {
        let message = format_args!(
            "alias is \"{}\"; it must be a word that expressions can use: at most {ALIAS_BYTES_MAX} \
             of A-Z a-z 0-9 _, not beginning with a digit",
            Quoted(alias)
        );
        fields.problems.error(code::INVALID, &at.key("alias"), message);
    }
}

fn is_identifier(text: &str) -> bool {
    let is_letter = |byte: u8| byte.is_ascii_alphabetic() || byte == b'_';
    text.len() <= ALIAS_BYTES_MAX
        && text.bytes().next().is_some_and(is_letter)
        && text.bytes().all(|byte| is_letter(byte) || byte.is_ascii_digit())
}

fn ports(node: &Node<'_>, at: &Place<'_>, fields: &mut Fields<'_>) {
    let at = at.key("ui");
    let Some(ui) = fields.object(&node.ui, &at) else { return };
    let Ui { input_ports, output_ports, .. } = ui.as_ref();
    one_side(input_ports, &at.key(ui.spelling("inputPorts")), fields);
    one_side(output_ports, &at.key(ui.spelling("outputPorts")), fields);
}

fn one_side(ports: &List<Port<'_>>, at: &Place<'_>, fields: &mut Fields<'_>) {
    let ports = fields.list(ports, at);
    fields.at_most(ports.len(), PORTS_MAX, at);
    for (index, port) in ports.iter().enumerate() {
        let at = at.index(index);
        let Some(port) = fields.needed(port, &at, "an object with a key") else { continue };
        fields.needed(&port.key, &at.key("key"), "text, the port's own name");
        let at = at.key("binding");
        if let Some(binding) = fields.object(&port.binding, &at) {
            fields.text(&binding.path, &at.key("path"));
            fields.text(&binding.prefix, &at.key("prefix"));
        }
    }
}

fn demands(node: &Node<'_>, at: &Place<'_>, fields: &mut Fields<'_>) {
    fields.fits::<QueueName>(&node.queue, &at.key("queue"));
    let place = at.key("tools");
    let tools = fields.list(&node.tools, &place);
    fields.at_most(tools.len(), super::field::DEMAND_ENTRIES_MAX, &place);
    for (index, tool) in tools.iter().enumerate() {
        let at = place.index(index);
        fields.needs::<ToolName>(tool, &at);
    }
    fields.labels(&node.labels, &at.key("labels"));
    let priority = i64::from(PRIORITY_LIMIT);
    fields.whole(&node.priority, &at.key("priority"), &(-priority..=priority));
    let timeout = millis(Duration::from_millis(1), TIMEOUT_MAX);
    fields.whole(&node.timeout_ms, &at.key(node.spelling("timeoutMs")), &timeout);
    let lease = millis(LEASE_TTL_MIN, LEASE_TTL_MAX);
    fields.whole(&node.lease_ttl_ms, &at.key(node.spelling("leaseTtlMs")), &lease);
    key(&node.concurrency_key, &at.key(node.spelling("concurrencyKey")), fields);
    if let Some(given) = fields.object(&node.retry, &at.key("retry")) {
        retry(given, &at.key("retry"), fields);
    }
    if let Some(given) = fields.object(&node.affinity, &at.key("affinity")) {
        affinity(given, &at.key("affinity"), fields);
    }
}

fn key(value: &crate::definition::Text<'_>, at: &Place<'_>, fields: &mut Fields<'_>) {
    let Some(text) = fields.text(value, at) else { return };
    if !text.contains("{{") {
        fields.fits::<ConcurrencyKey>(value, at);
    } else if text.len() > KEY_BYTES_MAX {
        let message = format_args!("{} must have at most {KEY_BYTES_MAX} characters", at.name());
        fields.problems.error(code::INVALID, at, message);
    }
}

fn retry(retry: &Retry<'_>, at: &Place<'_>, fields: &mut Fields<'_>) {
    let pause = millis(Duration::ZERO, BACKOFF_MAX);
    let attempts = 1..=i64::from(ATTEMPTS_MAX);
    fields.whole(&retry.max_attempts, &at.key(retry.spelling("maxAttempts")), &attempts);
    fields.whole(&retry.backoff_ms, &at.key(retry.spelling("backoffMs")), &pause);
    let at = at.key(retry.spelling("backoffMaxMs"));
    fields.whole(&retry.backoff_max_ms, &at, &pause);
    if let (Some(first), Some(last)) = (retry.backoff_ms.given(), retry.backoff_max_ms.given())
        && last < first
    {
        let message = format_args!(
            "the longest pause is {last} ms and the first one {first} ms; all pauses last {last} ms"
        );
        fields.problems.warning(code::INVALID, &at, message);
    }
}

fn affinity(affinity: &Affinity<'_>, at: &Place<'_>, fields: &mut Fields<'_>) {
    fields.one_of(&affinity.mode, &at.key("mode"), &["sticky", "preferred"]);
    fields.needed(&affinity.key, &at.key("key"), "text that tasks which belong together share");
    key(&affinity.key, &at.key("key"), fields);
    let ttl = millis(Duration::from_millis(1), AFFINITY_TTL_MAX);
    fields.whole(&affinity.ttl_ms, &at.key(affinity.spelling("ttlMs")), &ttl);
}

fn flow(node: &Node<'_>, at: &Place<'_>, fields: &mut Fields<'_>) {
    fields.given(&node.when, &at.key("when"), "an expression, or true or false");
    let words = ["fail", "continue", "skip"];
    fields.one_of(&node.on_error, &at.key(node.spelling("onError")), &words);
    fields.one_of(&node.on_skip, &at.key(node.spelling("onSkip")), &["run", "skip"]);
    if let Some(given) = fields.object(&node.map, &at.key("map")) {
        map(given, &at.key("map"), fields);
    }
}

fn map(map: &Map<'_>, at: &Place<'_>, fields: &mut Fields<'_>) {
    let parallel = 1..=PARALLEL_MAX;
    fields.whole(&map.max_parallel, &at.key(map.spelling("maxParallel")), &parallel);
    let at = at.key("over");
    let Some(over) = map.over.map(RawValue::get) else {
        let message = "over is missing; it must be a list, or an expression that gives one";
        fields.problems.error(code::INVALID, &at, format_args!("{message}"));
        return;
    };
    if !over.starts_with(['[', '"']) {
        let message = "over must be a list, or an expression that gives one";
        fields.problems.error(code::INVALID, &at, format_args!("{message}"));
    }
    fields.payload(over, &at);
}

fn millis(low: Duration, high: Duration) -> RangeInclusive<i64> {
    let millis = |duration: Duration| i64::try_from(duration.as_millis()).unwrap_or(i64::MAX);
    millis(low)..=millis(high)
}
