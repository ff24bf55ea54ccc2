//! Definitions and problems as short texts: `$a` stands for a UUID of its own.

use std::fmt::Write;

use bytes::Bytes;
use flow::{Compiled, Problem, Program, Severity};

/// The id that `$a` stands for.
pub(crate) fn id(letter: char) -> String {
    format!("00000000-0000-4000-8000-0000000000{:02x}", u32::from(letter))
}

/// The definition with ids in place of `$a` to `$z`.
pub(crate) fn written(definition: &str) -> String {
    ('a'..='z').fold(definition.to_owned(), |text, letter| {
        let id = id(letter);
        ['"', ':', '\'']
            .into_iter()
            .fold(text, |text, end| text.replace(&format!("${letter}{end}"), &format!("{id}{end}")))
    })
}

/// A workflow with these nodes and edges.
pub(crate) fn workflow(nodes: &str, edges: &str) -> String {
    format!(r#"{{"id": "$w", "nodes": [{nodes}], "edges": [{edges}]}}"#)
}

pub(crate) fn compile(definition: &str) -> Result<Compiled, Vec<Problem>> {
    flow::compile(Bytes::from(written(definition)))
}

/// The program of a definition that nothing is wrong with.
pub(crate) fn program(definition: &str) -> Program {
    match compile(definition) {
        Ok(compiled) => compiled.program,
        Err(problems) => panic!("{}", told(&problems)),
    }
}

/// All problems, one line each.
pub(crate) fn told(problems: &[Problem]) -> String {
    let mut text = String::new();
    for problem in problems {
        let Problem { code, severity, node, path, message } = problem;
        let mark = if *severity == Severity::Error { "" } else { " (warning)" };
        let node = node.as_deref().map(|node| format!(" {node}")).unwrap_or_default();
        writeln!(text, "{code}{mark}{node} {path}: {message}").expect("a text takes all");
    }
    ('a'..='z').fold(text, |text, letter| text.replace(&id(letter), &format!("${letter}")))
}

/// What is told about a definition.
pub(crate) fn check(definition: &str, expected: &expect_test::Expect) {
    let problems = match compile(definition) {
        Ok(compiled) => compiled.warnings,
        Err(problems) => problems,
    };
    expected.assert_eq(&told(&problems));
}
