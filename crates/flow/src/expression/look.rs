//! What a path leads to.

use std::borrow::Cow;

use serde_json::{Map, Value, json};

use super::scan::{Origin, Path};
use crate::path::get;
use crate::scope::{NodeFacts, Scope};

/// How many names are listed where one was not found.
const NAMES_SHOWN_MAX: usize = 20;

/// What an expression looks at, and which nodes it may look at.
#[derive(Clone, Copy)]
pub(crate) struct View<'a> {
    pub(crate) scope: &'a Scope<'a>,
    pub(crate) references: &'a [u32],
}

/// What an expression can look at.
pub(super) trait Look {
    /// The value at a path; `None` where there is none.
    fn at(&self, path: &Path) -> Option<Cow<'_, Value>>;

    /// Why a path leads to nothing.
    fn explain(&self, path: &Path) -> String;

    /// The names at the last place on the way that is there.
    fn known_names(&self, path: &Path) -> String {
        let mut known = path.clone();
        while known.segments.pop().is_some() {
            if let Some(value) = self.at(&known) {
                return has(&known.to_string(), "has", &value);
            }
        }
        format!("there is no {known}")
    }
}

/// One value, which expressions call `input`.
#[derive(Clone, Copy)]
pub(super) struct Input<'a>(pub(super) &'a Value);

impl Look for Input<'_> {
    fn at(&self, path: &Path) -> Option<Cow<'_, Value>> {
        let is_input = path.origin == Origin::Input;
        get(self.0, &path.segments).filter(|_| is_input).map(Cow::Borrowed)
    }

    fn explain(&self, path: &Path) -> String {
        if path.origin != Origin::Input {
            return format!("{path} is not known here; there is input");
        }
        format!("{path} is undefined ({})", self.known_names(path))
    }
}

impl Look for View<'_> {
    fn at(&self, path: &Path) -> Option<Cow<'_, Value>> {
        let (root, rest) = self.root(path)?;
        match root {
            Cow::Borrowed(root) => get(root, rest).map(Cow::Borrowed),
            Cow::Owned(root) => get(&root, rest).cloned().map(Cow::Owned),
        }
    }

    fn explain(&self, path: &Path) -> String {
        let why = match &path.origin {
            Origin::Node(name) => match self.facts(name) {
                None => format!("\"{name}\" has not come to its end"),
                Some(facts) => explain_node(name, facts, path),
            },
            Origin::Item | Origin::Index if self.scope.item.is_none() => {
                "the node is not executed for the elements of a list".to_owned()
            }
            _ => self.known_names(path),
        };
        format!("{path} is undefined ({why})")
    }
}

impl<'a> View<'a> {
    /// Where the way of a path begins, and the way from there.
    fn root<'p>(&self, path: &'p Path) -> Option<(Cow<'a, Value>, &'p [String])> {
        let scope = self.scope;
        let all = path.segments.as_slice();
        let (first, rest) = match all.split_first() {
            Some((first, rest)) => (Some(first.as_str()), rest),
            None => (None, all),
        };
        match &path.origin {
            Origin::Input => None,
            Origin::Inputs => Some((Cow::Borrowed(scope.inputs), all)),
            Origin::Item => Some((Cow::Borrowed(scope.item?.value), all)),
            Origin::Index => Some((Cow::Owned(Value::from(scope.item?.index)), all)),
            Origin::Run => match first {
                Some("inputs") => Some((Cow::Borrowed(scope.run_inputs), rest)),
                Some("id") => Some((Cow::Owned(Value::from(scope.run_id)), rest)),
                Some(_) => None,
                None => {
                    let run = json!({"id": scope.run_id, "inputs": scope.run_inputs});
                    Some((Cow::Owned(run), all))
                }
            },
            Origin::Node(name) => {
                let facts = self.facts(name)?;
                match first {
                    Some(first) => Some((part(facts, first)?, rest)),
                    None => Some((Cow::Owned(whole(facts)), all)),
                }
            }
        }
    }

    fn facts(&self, name: &str) -> Option<NodeFacts<'a>> {
        let id = uuid::Uuid::try_parse(name).ok();
        let is_meant = |place: &&u32| {
            let node = self.scope.graph.nodes.get(**place as usize);
            node.is_some_and(|node| node.alias.as_deref() == Some(name) || Some(node.id) == id)
        };
        self.scope.nodes.facts(*self.references.iter().find(is_meant)?)
    }
}

fn part<'a>(facts: NodeFacts<'a>, name: &str) -> Option<Cow<'a, Value>> {
    let value = match name {
        "status" => return Some(Cow::Owned(Value::from(facts.status))),
        "results" => facts.results,
        "parameters" => facts.parameters,
        "error" => facts.error,
        _ => return None,
    };
    Some(value.map_or(Cow::Owned(Value::Null), Cow::Borrowed))
}

fn whole(facts: NodeFacts<'_>) -> Value {
    let fields = ["status", "results", "parameters", "error"].into_iter();
    let field = |name| Some((String::from(name), part(facts, name)?.into_owned()));
    Value::Object(fields.filter_map(field).collect::<Map<_, _>>())
}

fn explain_node(name: &str, facts: NodeFacts<'_>, path: &Path) -> String {
    let known = "a node has status, results, parameters and error";
    let Some((first, way)) = path.segments.split_first() else { return known.to_owned() };
    let Some(root) = part(facts, first) else { return known.to_owned() };
    if root.is_null() {
        return format!("\"{name}\" has {} and has no {first}", facts.status);
    }
    // The last place on the way that is there.
    let depth = (0..way.len()).rev().find(|&depth| get(&root, &way[..depth]).is_some());
    match depth {
        None | Some(0) => has(&format!("{first} of \"{name}\""), "have", &root),
        Some(depth) => {
            let mut known = path.clone();
            known.segments.truncate(depth + 1);
            has(&known.to_string(), "has", get(&root, &way[..depth]).unwrap_or(&Value::Null))
        }
    }
}

/// What a value has to offer.
fn has(what: &str, verb: &str, value: &Value) -> String {
    match value {
        Value::Object(fields) if fields.is_empty() => format!("{what} {verb} nothing in it"),
        Value::Object(fields) => {
            let names: Vec<&str> =
                fields.keys().map(String::as_str).take(NAMES_SHOWN_MAX).collect();
            let more = if fields.len() > names.len() { ", ..." } else { "" };
            format!("{what} {verb}: {}{more}", names.join(", "))
        }
        Value::Array(items) => format!("{what} {verb} {} elements", items.len()),
        other => format!("{what} {} {}", if verb == "have" { "are" } else { "is" }, kind_of(other)),
    }
}

/// What kind of value it is, in words.
pub(crate) fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}
