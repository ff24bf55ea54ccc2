//! Expressions: `{{ nodes.open.results.url }}` in a text, or on their own as a condition.
//!
//! An expression is taken apart first (`scan`): every path into the run is replaced by a place
//! holder, so that only what is looked at (`path`) is ever handed to the engine, and so that an id
//! with hyphens can be written as it is. Its values are weighed (`value`), and what it calls is
//! bounded (`filters`).

mod filters;
mod path;
mod scan;
mod value;

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use minijinja::tests::{is_filter, is_test};
use minijinja::value::{Object, Serde};
use minijinja::{Environment, Error, ErrorKind, UndefinedBehavior, Value as EngineValue};
use serde_json::Value;

use filters::add_filters;
use path::Origin;
pub(crate) use path::{View, kind_of};
pub(crate) use scan::bare;
use scan::{Code, Piece, character, pieces, place_of, scan};
use value::{hold, invalid, start, to_json, weight_of};

/// Limit: the longest text of one expression.
const EXPRESSION_BYTES_MAX: usize = 16 * 1024;
/// Limit: the most that one expression gives, as JSON.
const OUTPUT_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Limit: the most instructions that the engine carries out for one expression.
const FUEL_MAX: u64 = 100_000;
/// Limit: the most operators, filters and brackets in one expression: each may cost a call within a
/// call.
const OPERATIONS_MAX: usize = 400;
/// Limit: the most parts of lists that one expression takes.
const SLICES_MAX: usize = 32;

/// What an expression on its own gives, with or without braces around it.
pub(crate) fn evaluate(source: &str, view: View<'_>) -> Result<Value, String> {
    let source = bare(source);
    let code = scan(source).map_err(|fault| fault.sentence(source, 0))?;
    work_out(code, view)
}

/// What an expression on its own gives that looks at one value, which it calls `input`. Engine and
/// limits are those of a workflow's expressions.
pub fn evaluate_input(source: &str, input: &Value) -> Result<Value, String> {
    evaluate(source, View::Input(input))
}

/// What a text gives: a text that is one expression and nothing else gives its value, a text with
/// something around it gives a text.
pub(crate) fn render(text: &str, view: View<'_>) -> Result<Value, String> {
    let pieces = pieces(text)?;
    if let [Piece::Code { source, at }] = pieces.as_slice() {
        let code = scan(source).map_err(|fault| fault.sentence(text, *at))?;
        return work_out(code, view);
    }
    render_pieces(text, &pieces, view).map(Value::String)
}

/// What a text with expressions in it gives, as a text; see [`evaluate_input`].
pub fn render_input(text: &str, input: &Value) -> Result<String, String> {
    render_pieces(text, &pieces(text)?, View::Input(input))
}

fn render_pieces(text: &str, pieces: &[Piece<'_>], view: View<'_>) -> Result<String, String> {
    let mut rendered = String::new();
    for piece in pieces {
        match piece {
            Piece::Text(text) => rendered.push_str(text),
            Piece::Code { source, at } => {
                let code = scan(source).map_err(|fault| fault.sentence(text, *at))?;
                // A text as it is, everything else as JSON.
                match work_out(code, view)? {
                    Value::String(text) => rendered.push_str(&text),
                    other => rendered.push_str(&other.to_string()),
                }
            }
        }
        if rendered.len() > OUTPUT_BYTES_MAX {
            return Err(format!("it gives more than {OUTPUT_BYTES_MAX} bytes"));
        }
    }
    Ok(rendered)
}

/// The names (alias or id, as written) of all nodes that a text looks at, each once: a text with
/// `{{ }}` in it, else an expression on its own. Or a sentence that says where the text is wrong.
pub(crate) fn references(text: &str) -> Result<Vec<String>, String> {
    let mut names = BTreeSet::new();
    let pieces =
        if text.contains("{{") { pieces(text)? } else { vec![Piece::Code { source: text, at: 0 }] };
    for piece in pieces {
        let Piece::Code { source, at } = piece else { continue };
        let code = scan(source).map_err(|fault| fault.sentence(text, at))?;
        known(&code).map_err(|reason| {
            format!("{reason}, in the expression at character {}", character(text, at))
        })?;
        names.extend(code.paths.into_iter().filter_map(|path| match path.origin {
            Origin::Node(name) => Some(name),
            _ => None,
        }));
    }
    Ok(names.into_iter().collect())
}

thread_local! {
    /// Made once: it holds some dozens of filters, and nothing of what it works out.
    static ENGINE: Environment<'static> = engine();
}

fn engine() -> Environment<'static> {
    let mut engine = Environment::empty();
    add_filters(&mut engine);
    engine.set_undefined_behavior(UndefinedBehavior::Strict);
    engine.set_fuel(Some(FUEL_MAX));
    engine
}

/// What an expression gives; or why it gives nothing.
fn work_out(code: Code<'_>, view: View<'_>) -> Result<Value, String> {
    // By far the most of them. Nothing is copied that is not looked at.
    if code.is_path {
        let path = &code.paths[0];
        return view.at(path).map(Cow::into_owned).ok_or_else(|| view.explain(path));
    }
    start(code.operations);
    let value =
        |path| view.at(path).map(|json| (EngineValue::from(Serde(&*json)), weight_of(&json)));
    let places = Places(code.paths.iter().map(value).collect());
    let work = || {
        ENGINE.with(|engine| {
            let expression = engine.compile_expression_owned(code.source)?;
            to_json(&expression.eval(EngineValue::from_object(places))?)
        })
    };
    guarded(work).map_err(|error| {
        if !is_about_undefined(&error) {
            return reason(&error);
        }
        match code.paths.iter().find(|path| view.at(path).is_none()) {
            Some(path) => view.explain(path),
            None => format!("something in {} is undefined", code.authored),
        }
    })
}

/// Whether the engine can read an expression, and knows all that it names.
fn known(code: &Code<'_>) -> Result<(), String> {
    ENGINE.with(|engine| {
        let compiled = guarded(|| engine.compile_expression(&code.source));
        let expression = compiled.map_err(|error| reason(&error))?;
        let state = engine.empty_state();
        if let Some(name) = code.filters.iter().find(|name| !is_filter(&state, name)) {
            return Err(format!("there is no filter {name}"));
        }
        if let Some(name) = code.tests.iter().find(|name| !is_test(&state, name)) {
            return Err(format!("there is no test {name}"));
        }
        // In order, so that the same text gives the same sentence.
        let names: BTreeSet<String> = expression.undeclared_variables(false).into_iter().collect();
        let mut unknown = names.iter().map(String::as_str).filter(|name| place_of(name).is_none());
        // Only `core.transform` has an `input`.
        let has_input = code.paths.iter().any(|path| path.origin == Origin::Input);
        match unknown.find(|name| *name != "range").or(has_input.then_some("input")) {
            None => Ok(()),
            Some(name) => Err(format!(
                "{name} is not known here; there are nodes, run, inputs, item and index"
            )),
        }
    })
}

/// Whether something was looked at that is not there.
fn is_about_undefined(error: &Error) -> bool {
    error.kind() == ErrorKind::UndefinedError
        || error.detail().is_some_and(|detail| detail.contains("undefined"))
}

/// The sentence of an error, without the engine's own words around it.
fn reason(error: &Error) -> String {
    error.detail().map_or_else(|| error.kind().to_string(), str::to_owned)
}

/// The values behind the place holders, and what each weighs.
#[derive(Debug)]
struct Places(Vec<Option<(EngineValue, usize)>>);

impl Object for Places {
    fn get_value(self: &Arc<Self>, key: &EngineValue) -> Option<EngineValue> {
        let (value, weight) = self.0.get(place_of(key.as_str()?)?)?.as_ref()?;
        Some(match hold(*weight) {
            Ok(()) => value.clone(),
            Err(error) => EngineValue::from(error),
        })
    }
}

/// What the engine gives; a panic of it is an error like any other.
///
/// The engine is not ours and has panicked before, on texts that anybody may send. It keeps nothing
/// of what it works out, so that nothing half done can be seen afterwards.
fn guarded<T>(work: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| Err(invalid("it cannot be worked out")))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "0b6f2f3e-4c5d-4e6f-8a9b-0c1d2e3f4a5b";

    #[test]
    fn every_node_that_is_looked_at_is_named() {
        for (text, expected) in [
            ("nothing", Err("nothing is not known here")),
            ("{{ 1 + 1 }}", Ok(vec![])),
            ("plain nodes.x {{ inputs.a }} nodes.y", Ok(vec![])),
            ("{{ nodes.open.results.url }}", Ok(vec!["open"])),
            ("nodes.open.status == 'failed'", Ok(vec!["open"])),
            ("a {{ nodes.b.status }} c {{ nodes.a.status }}{{nodes.b.status}}", Ok(vec!["a", "b"])),
            (&format!("{{{{ nodes.{ID}.results }}}}"), Ok(vec![ID])),
            (
                &format!("{{{{ nodes.{}.results }}}}", ID.to_uppercase()),
                Ok(vec![&ID.to_uppercase()]),
            ),
            (&format!("nodes[\"{ID}\"].results.x - 1"), Ok(vec![ID])),
            ("nodes['open'].results", Ok(vec!["open"])),
            ("nodes [ 'open' ] . results", Ok(vec!["open"])),
            ("nodes.a.results[nodes.b.results.index]", Ok(vec!["a", "b"])),
            ("nodes.a.results.list[1:2]", Ok(vec!["a"])),
            ("nodes.a.results.list[nodes.b.results.x:]", Ok(vec!["a", "b"])),
            ("inputs.nodes.x + item.nodes", Ok(vec![])),
            ("'nodes.x' ~ \"{{ nodes.y }}\"", Ok(vec!["y"])),
            ("{{ 'nodes.x' ~ \"}} nodes.y\" ~ '\\'nodes.z' }}", Ok(vec![])),
            ("{{ {'nodes': {'a': nodes.b.status}} }}", Ok(vec!["b"])),
            ("nodes.a.results.xs | map(attribute='b') | list", Ok(vec!["a"])),
            (
                "nodes.a.results.x if nodes.b.status == 'x' else nodes.c.results.y",
                Ok(vec!["a", "b", "c"]),
            ),
            ("nodes", Err("name the node directly")),
            ("nodes[inputs.x].results", Err("name the node directly")),
            ("nodes[0]", Err("name the node directly")),
            ("nodes | length", Err("name the node directly")),
            ("{{ nodes.a.results( ) }}", Err("not a function")),
            ("{{ nodes.a.results", Err("at character 1 is never closed")),
            ("ü {{ 1 + }}", Err("in the expression at character 5")),
            ("{{ }}", Err("unexpected")),
            ("{{ foo.bar }}", Err("foo is not known here")),
            ("{{ _0 }}", Err("_0")),
            ("{{ 1|nope }}", Err("there is no filter nope")),
            ("{{ 1 is not nope }}", Err("there is no test nope")),
            ("{{ 1|round is number and 2 is in [1] }}", Ok(vec![])),
            ("{{ (1 }}", Err("never closed")),
            ("{% if x %} {{ inputs.x }}", Err("{% %}")),
        ] {
            let found = references(text);
            match (&found, expected) {
                (Ok(names), Ok(expected)) => assert_eq!(*names, expected, "{text}"),
                (Err(sentence), Err(part)) => {
                    assert!(sentence.contains(part), "{text}: {sentence}");
                }
                (found, expected) => panic!("{text}: {found:?}, not {expected:?}"),
            }
        }
    }

    #[test]
    fn an_expression_has_a_longest_length() {
        let long = |length: usize| format!("{{{{{}1}}}}", " ".repeat(length - 1));
        assert_eq!(references(&long(EXPRESSION_BYTES_MAX)), Ok(vec![]));
        let sentence = references(&long(EXPRESSION_BYTES_MAX + 1)).unwrap_err();
        assert!(sentence.contains("16384"), "{sentence}");
    }
}
