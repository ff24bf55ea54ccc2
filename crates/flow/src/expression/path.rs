//! Paths in expressions, `nodes.open.results.url`, `inputs["a b"][0]` or `item`; and what they lead
//! to.

use std::borrow::Cow;
use std::fmt;

use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::scan::{Fault, string_end};
use crate::fill::{NodeFacts, Scope};
use crate::path::value_at;
use crate::problem;

/// What an expression looks at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Path {
    /// Where it begins.
    pub(super) origin: Origin,
    /// The way from there.
    pub(super) segments: Vec<String>,
}

/// Where a path begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    /// A node, by its alias or its id as written.
    Node(String),
    /// The run.
    Run,
    /// The one value that an expression outside of a workflow looks at.
    Input,
    /// What the graph was given.
    Inputs,
    /// The element that the node is executed for.
    Item,
    /// Its place.
    Index,
}

/// The path as people write it.
impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.origin {
            Origin::Node(name) => write!(f, "nodes.{name}")?,
            Origin::Run => f.write_str("run")?,
            Origin::Input => f.write_str("input")?,
            Origin::Inputs => f.write_str("inputs")?,
            Origin::Item => f.write_str("item")?,
            Origin::Index => f.write_str("index")?,
        }
        for segment in &self.segments {
            let bytes = segment.as_bytes();
            if bytes.iter().all(u8::is_ascii_digit) {
                write!(f, "[{segment}]")?;
            } else if identifier_end(bytes, 0) == bytes.len() {
                write!(f, ".{segment}")?;
            } else {
                write!(f, "[{segment:?}]")?;
            }
        }
        Ok(())
    }
}

/// Behind the end of the identifier that begins at `begin`; `begin` where there is none.
pub(super) fn identifier_end(bytes: &[u8], begin: usize) -> usize {
    let is_first = |byte: u8| byte.is_ascii_alphabetic() || byte == b'_';
    if !bytes.get(begin).copied().is_some_and(is_first) {
        return begin;
    }
    let length = bytes[begin..].iter().take_while(|&&byte| is_word(byte)).count();
    begin + length
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// The first place from `here` on that holds no blank.
pub(super) fn skip_blanks(bytes: &[u8], here: usize) -> usize {
    here + bytes[here..].iter().take_while(|byte| byte.is_ascii_whitespace()).count()
}

/// Reads the path that begins with the identifier between `begin` and `end`, and says where it
/// ends. `None` where the identifier is not the beginning of a path.
pub(super) fn read_path(
    source: &str,
    begin: usize,
    end: usize,
) -> Result<Option<(Path, usize)>, Fault> {
    let mut here = end;
    let origin = match &source[begin..end] {
        "run" => Origin::Run,
        "input" => Origin::Input,
        "inputs" => Origin::Inputs,
        "item" => Origin::Item,
        "index" => Origin::Index,
        "nodes" => {
            let (name, after) = node_name(source, end).ok_or_else(|| {
                Fault::new(begin, "name the node directly, like nodes.open or nodes[\"its id\"]")
            })?;
            here = after;
            Origin::Node(name)
        }
        _ => return Ok(None),
    };
    let mut segments = Vec::new();
    while let Some((segment, after)) = segment(source, here) {
        segments.push(segment);
        here = after;
    }
    let path = Path { origin, segments };
    if source.as_bytes().get(skip_blanks(source.as_bytes(), here)) == Some(&b'(') {
        return Err(Fault::new(begin, format!("{path} is not a function")));
    }
    Ok(Some((path, here)))
}

/// What comes behind `nodes`: `.alias`, `.<id>` or `["alias or id"]`.
fn node_name(source: &str, here: usize) -> Option<(String, usize)> {
    let bytes = source.as_bytes();
    let dot = skip_blanks(bytes, here);
    if bytes.get(dot) == Some(&b'.') {
        let begin = skip_blanks(bytes, dot + 1);
        let id = source.get(begin..begin + uuid::fmt::Hyphenated::LENGTH);
        if let Some(id) = id.filter(|id| Uuid::try_parse(id).is_ok()) {
            return Some((id.to_owned(), begin + id.len()));
        }
    }
    let (name, after) = segment(source, here)?;
    let is_number = name.bytes().all(|byte| byte.is_ascii_digit());
    (!is_number).then_some((name, after))
}

/// One step of a path: `.name`, `.0`, `[0]` or `["name"]`; and where it ends.
fn segment(source: &str, here: usize) -> Option<(String, usize)> {
    let bytes = source.as_bytes();
    let here = skip_blanks(bytes, here);
    match bytes.get(here)? {
        b'.' => {
            let begin = skip_blanks(bytes, here + 1);
            let end = identifier_end(bytes, begin).max(digits_end(bytes, begin));
            (end > begin).then(|| (source[begin..end].to_owned(), end))
        }
        b'[' => {
            let begin = skip_blanks(bytes, here + 1);
            let (segment, end) = match bytes.get(begin)? {
                b'"' | b'\'' => {
                    let end = string_end(bytes, begin)?;
                    (&source[begin + 1..end - 1], end)
                }
                _ => {
                    let end = digits_end(bytes, begin);
                    (&source[begin..end], end)
                }
            };
            let close = skip_blanks(bytes, end);
            // A string with escapes, or anything that must be worked out, is left to the engine.
            let is_fixed =
                end > begin && !segment.contains('\\') && bytes.get(close) == Some(&b']');
            is_fixed.then(|| (segment.to_owned(), close + 1))
        }
        _ => None,
    }
}

fn digits_end(bytes: &[u8], begin: usize) -> usize {
    let digits = bytes.get(begin..).unwrap_or_default();
    begin + digits.iter().take_while(|byte| byte.is_ascii_digit()).count()
}

/// How many names are listed where one was not found.
const NAMES_SHOWN_MAX: usize = 20;

/// What an expression can look at.
#[derive(Clone, Copy)]
pub(crate) enum View<'a> {
    /// One value, which expressions call `input`.
    Input(&'a Value),
    /// A run, and those nodes of it that may be looked at.
    Run(&'a Scope<'a>, &'a [u32]),
}

impl<'a> View<'a> {
    /// The value at a path; `None` where there is none.
    pub(super) fn at(&self, path: &Path) -> Option<Cow<'a, Value>> {
        let (root, rest) = self.root(path)?;
        match root {
            Cow::Borrowed(root) => value_at(root, rest).map(Cow::Borrowed),
            Cow::Owned(root) => value_at(&root, rest).cloned().map(Cow::Owned),
        }
    }

    /// Why a path leads to nothing.
    pub(super) fn explain(&self, path: &Path) -> String {
        let why = match (self, &path.origin) {
            (Self::Input(_), origin) if *origin != Origin::Input => {
                return format!("{path} is not known here; there is input");
            }
            (_, Origin::Node(name)) => match self.facts(name) {
                None => format!("\"{name}\" has not come to its end"),
                Some(facts) => explain_node(name, facts, path),
            },
            (Self::Run(scope, _), Origin::Item | Origin::Index) if scope.item.is_none() => {
                "the node is not executed for the elements of a list".to_owned()
            }
            _ => self.known_names(path),
        };
        format!("{path} is undefined ({why})")
    }

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

    /// Where the way of a path begins, and the way from there.
    fn root<'p>(&self, path: &'p Path) -> Option<(Cow<'a, Value>, &'p [String])> {
        let all = path.segments.as_slice();
        let scope = match self {
            Self::Run(scope, _) => scope,
            Self::Input(value) if path.origin == Origin::Input => {
                return Some((Cow::Borrowed(value), all));
            }
            Self::Input(_) => return None,
        };
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
        let Self::Run(scope, references) = self else { return None };
        let id = Uuid::try_parse(name).ok();
        let is_meant = |place: &&u32| {
            let node = scope.graph.nodes.get(**place as usize);
            node.is_some_and(|node| node.alias.as_deref() == Some(name) || Some(node.id) == id)
        };
        scope.nodes.facts(*references.iter().find(is_meant)?)
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
    let depth = (0..way.len()).rev().find(|&depth| value_at(&root, &way[..depth]).is_some());
    match depth {
        None | Some(0) => has(&format!("{first} of \"{name}\""), "have", &root),
        Some(depth) => {
            let mut known = path.clone();
            known.segments.truncate(depth + 1);
            has(&known.to_string(), "has", value_at(&root, &way[..depth]).unwrap_or(&Value::Null))
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
    if value.is_string() { "a text" } else { problem::kind_of(value) }
}
