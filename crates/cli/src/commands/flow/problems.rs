//! What is wrong with a workflow, in sentences.

use std::collections::BTreeMap;

use protocol::rest::problem::FlowProblem;
use serde::Serialize;
use serde_json::Value;

use super::document::Document;
use crate::failure::{self, Failure};
use crate::output::Output;

/// Everything that is wrong with a workflow, and what is odd about it.
#[derive(Debug, Serialize)]
pub(super) struct Checked {
    pub(super) file: String,
    pub(super) valid: bool,
    pub(super) problems: Vec<FlowProblem>,
    /// What people call its nodes, by id.
    #[serde(skip)]
    names: BTreeMap<String, String>,
}

impl Checked {
    /// Checked here, without a server.
    pub(super) fn here(document: &Document) -> Self {
        let problems = match flow::compile(document.bytes()) {
            Ok(compiled) => compiled.warnings,
            Err(problems) => problems,
        };
        Self::new(document, problems.into_iter().map(on_the_wire).collect())
    }

    pub(super) fn new(document: &Document, problems: Vec<FlowProblem>) -> Self {
        let valid = problems.iter().all(|problem| problem.severity != "error");
        let names = names(&document.value());
        Self { file: document.origin.clone(), valid, problems, names }
    }

    /// A headline, and a line for each problem.
    pub(super) fn text(&self) -> String {
        let n_errors = self.problems.iter().filter(|one| one.severity == "error").count();
        let n_warnings = self.problems.len() - n_errors;
        let count = |n: usize, noun: &str| crate::words::count(n, noun);
        let verdict = match (n_errors, n_warnings) {
            (0, 0) => "✓ valid".to_owned(),
            (0, n) => format!("✓ valid, with {}", count(n, "warning")),
            (n, 0) => format!("✗ {}", count(n, "problem")),
            (n, m) => format!("✗ {} and {}", count(n, "problem"), count(m, "warning")),
        };
        let lines = self.problems.iter().map(|one| {
            let name = one.node.as_ref().and_then(|id| self.names.get(id));
            failure::problem_line(one, name.map(String::as_str))
        });
        let head = format!("{}: {verdict}", self.file);
        std::iter::once(head).chain(lines).collect::<Vec<_>>().join("\n")
    }
}

/// Tells the problems of a workflow that was refused, by the names that its author gave.
pub(super) fn tell(mut failure: Failure, document: &Document, output: Output) -> Failure {
    if !failure.problems.is_empty() {
        let problems = std::mem::take(&mut failure.problems);
        output.note(Checked::new(document, problems).text());
        "the workflow cannot run as it stands".clone_into(&mut failure.message);
        "put right what is marked with ✗, and try again".clone_into(&mut failure.hint);
    }
    failure
}

fn on_the_wire(problem: flow::Problem) -> FlowProblem {
    let severity = match problem.severity {
        flow::Severity::Error => "error",
        flow::Severity::Warning => "warning",
    };
    FlowProblem {
        code: problem.code.into(),
        severity: severity.into(),
        node: problem.node,
        path: problem.path,
        message: problem.message,
    }
}

/// What people call the nodes of a workflow and of its subgraphs, by id.
fn names(workflow: &Value) -> BTreeMap<String, String> {
    let mut names = BTreeMap::new();
    let items = |value: &Value, key: &str| {
        value.get(key).and_then(Value::as_array).cloned().unwrap_or_default()
    };
    for node in items(workflow, "nodes") {
        let text = |key: &str| node.get(key).and_then(Value::as_str).map(ToOwned::to_owned);
        if let (Some(id), Some(name)) = (text("id"), text("alias").or_else(|| text("label"))) {
            names.insert(id, name);
        }
    }
    for subgraph in items(workflow, "subgraphs") {
        names.extend(subgraph.get("definition").map(self::names).unwrap_or_default());
    }
    names
}
