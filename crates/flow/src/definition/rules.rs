//! What a field must be; the tables of `definition` name one rule for each.

use std::borrow::Cow;
use std::str::FromStr;
use std::time::Duration;

use model::{ConcurrencyKey, InvalidText, TagKey, TagValue, TypeName, is_deeper_than};
use serde_json::value::RawValue;

use super::read::{Shape, Whole};
use super::{List, Loose, Node, Pairs, Raw, Retry, Runtime, Text, Workflow};
use crate::compile::uuid;
use crate::fill::{NESTING_MAX, PARAMETERS_BYTES_MAX};
use crate::problem::{Place, code, quoted};

/// Limit: tools or labels that a node may demand, of each.
pub(super) const DEMAND_ENTRIES_MAX: usize = 64;
/// Limit: the label of a node.
const LABEL_BYTES_MAX: usize = 1_024;
/// Limit: ports of one side of a node.
pub(super) const PORTS_MAX: usize = 256;
/// Limit: middlewares around one node.
const MIDDLEWARES_MAX: usize = 32;
/// Limit: the name of a node in expressions.
const ALIAS_BYTES_MAX: usize = 128;
/// Limit: a key with its expressions.
const KEY_BYTES_MAX: usize = 4_096;
/// Limit: elements of a list that are executed at the same time.
pub(super) const PARALLEL_MAX: i64 = 1_000_000;
/// Limit: how long a worker may be kept in mind.
pub(super) const AFFINITY_TTL_MAX: Duration = Duration::from_hours(7 * 24);
/// The shortest time that a field may give.
pub(super) const MILLISECOND: Duration = Duration::from_millis(1);

/// A field that anything may be, or that another rule looks at.
pub(super) fn unchecked<T>(_value: &T, _at: &Place<'_>) {}

fn given<'v, T>(value: &'v Loose<T>, at: &Place<'_>, wanted: &str) -> Option<&'v T> {
    if let Loose::Wrong(kind) = value {
        at.error(code::INVALID, format_args!("{} is {kind}; it must be {wanted}", at.name()));
    }
    value.given()
}

fn needed<'v, T>(value: &'v Loose<T>, at: &Place<'_>, wanted: &str) -> Option<&'v T> {
    if matches!(value, Loose::Absent) {
        at.error(code::INVALID, format_args!("{} is missing; it must be {wanted}", at.name()));
    }
    given(value, at, wanted)
}

/// A field that may be left out.
pub(super) fn may<'a, T: Shape<'a>>(wanted: &'static str) -> impl Fn(&Loose<T>, &Place<'_>) {
    move |value, at| {
        if let Some(value) = given(value, at, wanted) {
            value.check(at);
        }
    }
}

/// A field that must be there.
pub(super) fn must<'a, T: Shape<'a>>(wanted: &'static str) -> impl Fn(&Loose<T>, &Place<'_>) {
    move |value, at| {
        if let Some(value) = needed(value, at, wanted) {
            value.check(at);
        }
    }
}

/// A list that may be left out, and the rule of its elements.
pub(super) fn list<T>(
    n_max: usize,
    rule: impl Fn(&Loose<T>, &Place<'_>),
) -> impl Fn(&List<T>, &Place<'_>) {
    move |list, at| {
        let items = given(list, at, "a list").map_or(&[][..], Vec::as_slice);
        at_most(items.len(), n_max, at);
        for (index, item) in items.iter().enumerate() {
            rule(item, &at.index(index));
        }
    }
}

fn at_most(n: usize, limit: usize, at: &Place<'_>) {
    if n > limit {
        let name = at.name();
        at.error(code::LIMIT, format_args!("{name} has {n} entries; at most {limit} are taken"));
    }
}

/// The nodes of a graph.
pub(super) fn nodes(nodes: &List<Box<Node<'_>>>, at: &Place<'_>) {
    let Some(nodes) = needed(nodes, at, "a list with at least one node") else { return };
    if nodes.is_empty() {
        at.error(code::INVALID, "there are no nodes; a workflow needs at least one");
    }
    for (index, node) in nodes.iter().enumerate() {
        let at = at.index(index);
        let Some(node) = needed(node, &at, "an object") else { continue };
        let at = at.about(node.id.text());
        needs::<TypeName>(&node.kind, &at.key("type"));
        node.check(&at);
        list(MIDDLEWARES_MAX, middleware)(&node.middlewares, &at.key("middlewares"));
    }
}

fn middleware(middleware: &Loose<Box<Node<'_>>>, at: &Place<'_>) {
    if let Some(middleware) = needed(middleware, at, "an object") {
        fits::<TypeName>(&middleware.kind, &at.key("type"));
        middleware.check(at);
    }
}

/// The graph of a subgraph, whose own id may be left out.
pub(super) fn subgraph(definition: &Loose<Box<Workflow<'_>>>, at: &Place<'_>) {
    if let Some(definition) = needed(definition, at, "an object with nodes") {
        let at_id = at.key("id");
        if let Some(text) = given(&definition.id, &at_id, "text") {
            is_uuid(text, &at_id);
        }
        definition.check(at);
    }
}

/// Runtimes by any names.
pub(super) fn runtimes(runtimes: &Pairs<'_, Runtime<'_>>, at: &Place<'_>) {
    given(runtimes, at, "an object");
    for (name, runtime) in runtimes.items() {
        may("an object")(runtime, &at.key(name));
    }
}

/// An id that must be there.
pub(super) fn id(value: &Text<'_>, at: &Place<'_>) {
    if let Some(text) = needed(value, at, "a UUID") {
        is_uuid(text, at);
    }
}

fn is_uuid(text: &str, at: &Place<'_>) {
    if uuid(text).is_none() {
        let message = format_args!(
            "\"{}\" is not a UUID; write one with hyphens, like \
             2b2c3fcb-9c18-4ca2-9b5a-8ad4deb1f164",
            quoted(text)
        );
        at.error(code::INVALID, message);
    }
}

/// A text that follows the rule of its type, and may be left out.
pub(super) fn fits<T: FromStr<Err = InvalidText>>(value: &Text<'_>, at: &Place<'_>) {
    if let Some(text) = given(value, at, "text") {
        follows::<T>(text, at);
    }
}

/// A text that follows the rule of its type, and must be there.
pub(super) fn needs<T: FromStr<Err = InvalidText>>(value: &Text<'_>, at: &Place<'_>) {
    if let Some(text) = needed(value, at, "text") {
        follows::<T>(text, at);
    }
}

fn follows<T: FromStr<Err = InvalidText>>(text: &str, at: &Place<'_>) {
    if let Err(InvalidText { rule, .. }) = text.parse::<T>() {
        let (name, text) = (at.name(), quoted(text));
        at.error(code::INVALID, format_args!("{name} is \"{text}\"; it must be {rule}"));
    }
}

/// One of a few words.
pub(super) fn one_of(words: &'static [&str]) -> impl Fn(&Text<'_>, &Place<'_>) {
    |value, at| {
        if let Some(text) = given(value, at, "text")
            && !words.contains(&text.as_ref())
        {
            let (name, text, words) = (at.name(), quoted(text), words.join(", "));
            let message = format_args!("{name} is \"{text}\"; it must be one of {words}");
            at.error(code::INVALID, message);
        }
    }
}

/// A whole number in its bounds.
pub(super) fn whole(low: i64, high: i64) -> impl Fn(&Whole, &Place<'_>) {
    move |value, at| {
        if let Some(number) = given(value, at, "a whole number")
            && !(low..=high).contains(number)
        {
            let name = at.name();
            let message = format_args!("{name} is {number}; it must lie between {low} and {high}");
            at.error(code::INVALID, message);
        }
    }
}

/// A time in whole milliseconds.
pub(super) fn millis(low: Duration, high: Duration) -> impl Fn(&Whole, &Place<'_>) {
    let millis = |duration: Duration| i64::try_from(duration.as_millis()).unwrap_or(i64::MAX);
    whole(millis(low), millis(high))
}

/// A node's name for people.
pub(super) fn label(value: &Text<'_>, at: &Place<'_>) {
    let n = given(value, at, "text").map_or(0, |label| label.len());
    if n > LABEL_BYTES_MAX {
        let message = format_args!("label has {n} bytes, at most {LABEL_BYTES_MAX} are taken");
        at.error(code::LIMIT, message);
    }
}

/// A node's name in expressions.
pub(super) fn alias(value: &Text<'_>, at: &Place<'_>) {
    if let Some(alias) = given(value, at, "text")
        && !is_identifier(alias)
    {
        let message = format_args!(
            "alias is \"{}\"; it must be a word that expressions can use: at most {ALIAS_BYTES_MAX} \
             of A-Z a-z 0-9 _, not beginning with a digit",
            quoted(alias)
        );
        at.error(code::INVALID, message);
    }
}

fn is_identifier(text: &str) -> bool {
    let is_letter = |byte: u8| byte.is_ascii_alphabetic() || byte == b'_';
    text.len() <= ALIAS_BYTES_MAX
        && text.bytes().next().is_some_and(is_letter)
        && text.bytes().all(|byte| is_letter(byte) || byte.is_ascii_digit())
}

/// Labels that a worker must carry.
pub(super) fn labels(labels: &Pairs<'_, Cow<'_, str>>, at: &Place<'_>) {
    given(labels, at, "an object");
    at_most(labels.items().len(), DEMAND_ENTRIES_MAX, at);
    for (key, value) in labels.items() {
        let at = at.key(key);
        if let Err(InvalidText { rule, .. }) = key.parse::<TagKey>() {
            at.error(code::INVALID, format_args!("the label \"{}\" must be {rule}", quoted(key)));
        }
        needs::<TagValue>(value, &at);
    }
}

/// A key that tasks share, which may hold expressions.
pub(super) fn key(value: &Text<'_>, at: &Place<'_>) {
    let Some(text) = given(value, at, "text") else { return };
    if !text.contains("{{") {
        follows::<ConcurrencyKey>(text, at);
    } else if text.len() > KEY_BYTES_MAX {
        let name = at.name();
        let message = format_args!("{name} must have at most {KEY_BYTES_MAX} characters");
        at.error(code::INVALID, message);
    }
}

/// The key of an affinity, which must be there.
pub(super) fn affinity_key(value: &Text<'_>, at: &Place<'_>) {
    needed(value, at, "text that tasks which belong together share");
    key(value, at);
}

/// Retries, with a warning where the longest pause is shorter than the first one.
pub(super) fn retry(value: &Loose<Box<Retry<'_>>>, at: &Place<'_>) {
    may("an object")(value, at);
    let Some(retry) = value.given() else { return };
    if let (Some(first), Some(last)) = (retry.backoff_ms.given(), retry.backoff_max_ms.given())
        && last < first
    {
        let at = at.key(if retry.is_snake { "backoff_max_ms" } else { "backoffMaxMs" });
        let message = format_args!(
            "the longest pause is {last} ms and the first one {first} ms; all pauses last {last} ms"
        );
        at.warning(code::INVALID, message);
    }
}

/// What a node is executed for.
pub(super) fn over(raw: &Raw<'_>, at: &Place<'_>) {
    let Some(over) = raw.map(RawValue::get) else {
        let message = "over is missing; it must be a list, or an expression that gives one";
        at.error(code::INVALID, message);
        return;
    };
    if !over.starts_with(['[', '"']) {
        at.error(code::INVALID, "over must be a list, or an expression that gives one");
    }
    payload(over, at);
}

/// JSON that is opaque from here on: an object, not too long and not too deep.
pub(super) fn raw_object(raw: &Raw<'_>, at: &Place<'_>) {
    let Some(text) = raw.map(RawValue::get) else { return };
    if !text.starts_with('{') {
        at.error(code::INVALID, format_args!("{} must be an object", at.name()));
    }
    payload(text, at);
}

/// Not too long and not too deep.
fn payload(text: &str, at: &Place<'_>) {
    let n = text.len();
    if n > PARAMETERS_BYTES_MAX {
        let message = format_args!(
            "{} has {n} bytes, at most {PARAMETERS_BYTES_MAX} are taken; put the data where \
             workers can fetch it, and its address here",
            at.name()
        );
        at.error(code::LIMIT, message);
    }
    if is_deeper_than(text.as_bytes(), NESTING_MAX) {
        let message = format_args!(
            "{} nests more than {NESTING_MAX} levels deep; write deeply nested data as a text",
            at.name()
        );
        at.error(code::LIMIT, message);
    }
}
