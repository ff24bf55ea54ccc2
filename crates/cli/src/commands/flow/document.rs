//! A workflow as it is written, in a file, on stdin, or kept by a server, and what is wrong with it.

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::Path;

use bytes::Bytes;
use protocol::rest::problem::FlowProblem;
use protocol::rest::workflows::Validation;
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use uuid::Uuid;

use super::kept::{find, path};
use crate::commands::task::read_file;
use crate::context::Context;
use crate::failure::{self, ExitCode, Failure, Result};
use crate::output::{self, Output, Show};

const HINT: &str = "a workflow is a JSON object with `id`, `metadata`, `nodes` and `edges`; begin \
                    one with `astra flow new FILE`";

/// What `astra flow new` writes.
const TEMPLATE: &str = include_str!("new.json");

/// Whether a word of the command line names a file rather than a kept workflow: what is there as a
/// file, what looks like one, and `-` for stdin.
pub(super) fn is_file(text: &str) -> bool {
    let path = Path::new(text);
    let ends_like_one = path.extension().is_some_and(|end| end.eq_ignore_ascii_case("json"));
    text == "-" || ends_like_one || path.is_file()
}

/// A workflow's text, as authored.
#[derive(Clone, Debug)]
pub(super) struct Document {
    /// Where it came from, for people.
    pub(super) origin: String,
    pub(super) source: String,
}

impl Document {
    pub(super) fn of_file(file: &str) -> Result<Self> {
        let origin = if file == "-" { "stdin".into() } else { file.to_owned() };
        Ok(Self { origin, source: read_file(file)? })
    }

    /// A workflow that a server keeps: the version that is asked for, or the newest.
    pub(super) async fn kept(text: &str, version: Option<u64>, context: &Context) -> Result<Self> {
        let found = find(context, text).await?;
        let version = version.unwrap_or(found.version);
        let path = format!("{}?version={version}", path(&found));
        let source = context.ask(context.client.get_text(&path)).await?;
        Ok(Self { origin: found.name, source })
    }

    /// The text as it goes to a server, which is told JSON from nonsense here already.
    pub(super) fn raw(&self) -> Result<Box<RawValue>> {
        serde_json::from_str(&self.source)
            .map_err(|error| Failure::usage(format!("{} is not JSON: {error}", self.origin), HINT))
    }
}

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
        let problems = match flow::compile(Bytes::from(document.source.clone())) {
            Ok(compiled) => compiled.warnings,
            Err(problems) => problems,
        };
        Self::new(document, problems.into_iter().map(on_the_wire).collect())
    }

    pub(super) fn new(document: &Document, problems: Vec<FlowProblem>) -> Self {
        let valid = problems.iter().all(|problem| problem.severity != "error");
        let names = names(&serde_json::from_str(&document.source).unwrap_or_default());
        Self { file: document.origin.clone(), valid, problems, names }
    }

    /// A headline, and a line for each problem.
    pub(super) fn text(&self) -> String {
        let n_errors = self.problems.iter().filter(|one| one.severity == "error").count();
        let n_warnings = self.problems.len() - n_errors;
        let count = |n: usize, noun: &str| crate::format::count(n, noun);
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
        output::lines(std::iter::once(head).chain(lines))
    }
}

/// Tells the problems of a workflow that was refused, by the names that its author gave.
pub(super) fn tell_problems(mut failure: Failure, document: &Document, output: Output) -> Failure {
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

pub(super) async fn validate(
    workflows: &[String],
    is_online: bool,
    context: impl Fn() -> Result<Context>,
    output: Output,
) -> Result<ExitCode> {
    let mut files = Vec::new();
    for text in workflows {
        let document = if is_file(text) {
            Document::of_file(text)?
        } else {
            Document::kept(text, None, &context()?).await?
        };
        files.push(if is_online {
            let said: Validation =
                context()?.post("/api/v1/workflows/validate", &document.raw()?).await?;
            Checked::new(&document, said.problems)
        } else {
            Checked::here(&document)
        });
    }
    let is_good = files.iter().all(|file| file.valid);
    output.show(&Verdict { files });
    Ok(if is_good { ExitCode::Success } else { ExitCode::Validation })
}

#[derive(Serialize)]
struct Verdict {
    files: Vec<Checked>,
}

impl Show for Verdict {
    fn text(&self) -> String {
        output::lines(self.files.iter().map(Checked::text))
    }

    /// Those that cannot run.
    fn quiet(&self) -> String {
        let bad = self.files.iter().filter(|file| !file.valid);
        output::lines(bad.map(|file| file.file.clone()))
    }

    fn json_lines(&self) -> String {
        output::lines(self.files.iter().map(output::json))
    }
}

fn items<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value.get(key).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

pub(super) fn begin(file: &str, name: &str, output: Output) -> Result<ExitCode> {
    let text = template(name);
    let written = OpenOptions::new().write(true).create_new(true).open(file);
    let written = written.and_then(|mut open| open.write_all(text.as_bytes()));
    written.map_err(|error| {
        let hint = "give the name of a file that is not there yet";
        Failure::new(ExitCode::Failed, format!("cannot write {file}: {error}"), hint)
    })?;
    output.answer(&json!({ "file": file }), format!("{file} is a workflow of two nodes"), file);
    output.note(format!("run it with `astra flow run {file} -i name=Ann`"));
    Ok(ExitCode::Success)
}

fn template(name: &str) -> String {
    let id = Uuid::new_v4().to_string();
    TEMPLATE.replace("WORKFLOW_ID", &id).replace("\"WORKFLOW_NAME\"", &output::json(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_looks_like_a_file_is_one() {
        for file in ["-", "a.json", "dir/b.JSON"] {
            assert!(is_file(file), "{file}");
        }
        for kept in ["nightly", "0ec2393a", "a.b"] {
            assert!(!is_file(kept), "{kept}");
        }
    }

    #[test]
    fn what_is_begun_can_run() {
        let compiled = flow::compile(template("A \"quoted\" name").into());
        let compiled = compiled.expect("no problems");
        assert_eq!(compiled.warnings, []);
        assert_eq!(compiled.program.graphs[0].nodes.len(), 2);
    }
}
