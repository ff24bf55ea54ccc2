//! Expressions: `{{ nodes.open.results.url }}` in a text, or on their own as a condition.
//!
//! An expression is taken apart first (`scan`): every path into the run is replaced by a place
//! holder, so that only what is looked at is ever handed to the engine, and so that an id with
//! hyphens can be written as it is.

mod convert;
mod engine;
mod filters;
mod guard;
mod look;
mod meter;
mod pieces;
mod scan;

use std::collections::BTreeSet;

use look::{Input, Look};
pub(crate) use look::{View, kind_of};
pub use meter::{HELD_BYTES_MAX, TOUCHED_BYTES_MAX};
pub(crate) use pieces::bare;
use pieces::{Piece, pieces};
use scan::{Origin, scan};
use serde_json::Value;

/// The longest text of one expression.
pub const EXPRESSION_BYTES_MAX: usize = 16 * 1024;

/// The most that one expression gives, as JSON.
pub const OUTPUT_BYTES_MAX: usize = 4 * 1024 * 1024;

/// The most instructions that the engine carries out for one expression.
pub const FUEL_MAX: u64 = 100_000;

/// The most operators, filters and brackets in one expression: each may cost a call within a call.
pub const OPERATIONS_MAX: usize = 400;

/// The most parts of lists that one expression takes.
pub const SLICES_MAX: usize = 32;

/// What an expression on its own gives, with or without braces around it.
pub(crate) fn evaluate(source: &str, view: View<'_>) -> Result<Value, String> {
    evaluate_in(source, &view)
}

/// What an expression on its own gives that looks at one value, which it calls `input`. Engine and
/// limits are those of a workflow's expressions.
pub fn evaluate_input(source: &str, input: &Value) -> Result<Value, String> {
    evaluate_in(source, &Input(input))
}

fn evaluate_in(source: &str, view: &impl Look) -> Result<Value, String> {
    let source = bare(source);
    let code = scan(source).map_err(|fault| fault.sentence(source, 0))?;
    engine::evaluate(code, view)
}

/// What a text gives: a text that is one expression and nothing else gives its value, a text with
/// something around it gives a text.
pub(crate) fn render(text: &str, view: View<'_>) -> Result<Value, String> {
    let pieces = pieces(text)?;
    if let [Piece::Code { source, at }] = pieces.as_slice() {
        let code = scan(source).map_err(|fault| fault.sentence(text, *at))?;
        return engine::evaluate(code, &view);
    }
    render_pieces(text, &pieces, &view).map(Value::String)
}

/// What a text with expressions in it gives, as a text; see [`evaluate_input`].
pub fn render_input(text: &str, input: &Value) -> Result<String, String> {
    render_pieces(text, &pieces(text)?, &Input(input))
}

fn render_pieces(text: &str, pieces: &[Piece<'_>], view: &impl Look) -> Result<String, String> {
    let mut rendered = String::new();
    for piece in pieces {
        match piece {
            Piece::Text(text) => rendered.push_str(text),
            Piece::Code { source, at } => {
                let code = scan(source).map_err(|fault| fault.sentence(text, *at))?;
                rendered.push_str(&convert::to_text(&engine::evaluate(code, view)?));
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
        engine::check(&code).and_then(|()| refuse_input(&code)).map_err(|reason| {
            format!("{reason}, in the expression at character {}", scan::character(text, at))
        })?;
        names.extend(code.paths.into_iter().filter_map(|path| match path.origin {
            Origin::Node(name) => Some(name),
            _ => None,
        }));
    }
    Ok(names.into_iter().collect())
}

/// Only `core.transform` has an `input`.
fn refuse_input(code: &scan::Code<'_>) -> Result<(), String> {
    let has_input = code.paths.iter().any(|path| path.origin == Origin::Input);
    if has_input { Err(engine::unknown_name("input")) } else { Ok(()) }
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
