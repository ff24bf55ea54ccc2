//! A workflow as it is written, in a file, on stdin, or kept by a server: what is wrong with it, and how
//! it looks at a glance.

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

use super::kept::find;
use crate::commands::task::read_file;
use crate::context::Context;
use crate::failure::{self, ExitCode, Failure, Result};
use crate::format;
use crate::output::{self, Output, Show};

const HINT: &str = "a workflow is a JSON object with `id`, `metadata`, `nodes` and `edges`; begin \
                    one with `astra flow new FILE`";

/// What a word of the command line names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Named {
    /// A file, or stdin.
    File(String),
    /// A workflow that a server keeps: its id, the first letters of it, or its name.
    Kept(String),
}

impl Named {
    /// What is there as a file is one; so is what looks like one.
    pub(super) fn of(text: &str) -> Self {
        let ends_like_one =
            Path::new(text).extension().is_some_and(|end| end.eq_ignore_ascii_case("json"));
        if text == "-" || ends_like_one || Path::new(text).is_file() {
            Self::File(text.into())
        } else {
            Self::Kept(text.into())
        }
    }
}

/// A workflow's text, as authored.
#[derive(Clone, Debug)]
pub(super) struct Document {
    /// Where it came from, for people.
    pub(super) origin: String,
    pub(super) source: String,
    /// The kept version, if it is one.
    pub(super) version: Option<u64>,
}

impl Document {
    pub(super) fn of_file(file: &str) -> Result<Self> {
        let origin = if file == "-" { "stdin".into() } else { file.to_owned() };
        Ok(Self { origin, source: read_file(file)?, version: None })
    }

    /// The version that is asked for, or the newest.
    pub(super) async fn kept(text: &str, version: Option<u64>, context: &Context) -> Result<Self> {
        let found = find(context, text).await?;
        let version = version.unwrap_or(found.version);
        let id = format::percent_encoded(&found.workflow_id);
        let path = format!("/api/v1/workflows/{id}?version={version}");
        let source = context.ask(context.client.get_text(&path)).await?;
        Ok(Self { origin: found.name, source, version: Some(version) })
    }

    /// The text as it goes to a server, which is told JSON from nonsense here already.
    pub(super) fn raw(&self) -> Result<Box<RawValue>> {
        serde_json::from_str(&self.source)
            .map_err(|error| Failure::usage(format!("{} is not JSON: {error}", self.origin), HINT))
    }

    /// For a look at single fields; `null` where it is no JSON.
    pub(super) fn value(&self) -> Value {
        serde_json::from_str(&self.source).unwrap_or_default()
    }

    pub(super) fn bytes(&self) -> Bytes {
        Bytes::from(self.source.clone())
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
    for named in workflows.iter().map(|text| Named::of(text)) {
        let document = match named {
            Named::File(file) => Document::of_file(&file)?,
            Named::Kept(text) => Document::kept(&text, None, &context()?).await?,
        };
        files.push(if is_online {
            ask_server(&document, &context()?).await?
        } else {
            Checked::here(&document)
        });
    }
    let is_good = files.iter().all(|file| file.valid);
    output.show(&Verdict { files });
    Ok(if is_good { ExitCode::Success } else { ExitCode::Validation })
}

async fn ask_server(document: &Document, context: &Context) -> Result<Checked> {
    let path = "/api/v1/workflows/validate";
    let said: Validation = context.post(path, &document.raw()?).await?;
    Ok(Checked::new(document, said.problems))
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

/// What people read at a glance of an id that has no other name.
const ID_LETTERS: usize = 8;

/// A workflow at a glance.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Outline {
    workflow_id: String,
    name: String,
    description: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<u64>,
    valid: bool,
    nodes: Vec<OutlineNode>,
    subgraphs: Vec<OutlineGraph>,
    #[serde(skip)]
    checked: Checked,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct OutlineGraph {
    name: String,
    nodes: Vec<OutlineNode>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct OutlineNode {
    node_id: String,
    name: String,
    label: String,
    #[serde(rename = "type")]
    node_type: String,
    middlewares: Vec<String>,
    /// Names of the nodes that it waits for; empty too while the workflow cannot run.
    after: Vec<String>,
}

impl Outline {
    pub(super) fn of(document: &Document) -> Self {
        let (checked, value) = (Checked::here(document), document.value());
        let program = flow::compile(document.bytes()).ok().map(|compiled| compiled.program);
        let graphs = program.as_ref().map_or(&[][..], |program| &program.graphs);
        let graph_of = |id: &str| graphs.iter().find(|graph| graph.id.to_string() == id);
        let metadata = |key: &str| text(value.get("metadata").unwrap_or(&Value::Null), key);
        let subgraphs = items(&value, "subgraphs").iter().map(|subgraph| {
            let definition = subgraph.get("definition").unwrap_or(&Value::Null);
            let name = text(subgraph.get("metadata").unwrap_or(&Value::Null), "label");
            let id = text(subgraph, "id");
            let nodes = outline_nodes(definition, graph_of(&id.to_lowercase()));
            OutlineGraph { name: if name.is_empty() { id } else { name }, nodes }
        });
        Self {
            workflow_id: text(&value, "id"),
            name: metadata("name"),
            description: metadata("description"),
            version: document.version,
            valid: checked.valid,
            nodes: outline_nodes(&value, graphs.first()),
            subgraphs: subgraphs.collect(),
            checked,
        }
    }
}

fn outline_nodes(workflow: &Value, graph: Option<&flow::Graph>) -> Vec<OutlineNode> {
    let outline = |(index, node): (usize, &Value)| {
        let compiled = graph.and_then(|graph| graph.nodes.get(index).map(|node| (graph, node)));
        let after = compiled.map_or_else(Vec::new, |(graph, node)| {
            let name = |place: &u32| graph.nodes.get(*place as usize).map(flow::Node::name);
            node.waits_for.iter().filter_map(name).collect()
        });
        let middlewares = items(node, "middlewares").iter().map(|one| text(one, "type")).collect();
        OutlineNode {
            node_id: text(node, "id"),
            name: name(node),
            label: text(node, "label"),
            node_type: text(node, "type"),
            middlewares,
            after,
        }
    };
    items(workflow, "nodes").iter().enumerate().map(outline).collect()
}

fn name(node: &Value) -> String {
    let known = ["alias", "label"].map(|key| text(node, key));
    let known = known.into_iter().find(|name| !name.is_empty());
    known.unwrap_or_else(|| text(node, "id").chars().take(ID_LETTERS).collect())
}

fn items<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value.get(key).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn text(value: &Value, key: &str) -> String {
    value.get(key).and_then(Value::as_str).unwrap_or_default().to_owned()
}

impl Show for Outline {
    fn text(&self) -> String {
        let version = self.version.map_or_else(String::new, |n| format!(" · version {n}"));
        let mut shown = format!("{} · {}{version}\n", self.name, self.workflow_id);
        if !self.description.is_empty() {
            format::push(&mut shown, format_args!("  {}\n", self.description));
        }
        format::push(&mut shown, format_args!("\n{}\n", table(&self.nodes)));
        for graph in &self.subgraphs {
            let (name, table) = (&graph.name, table(&graph.nodes));
            format::push(&mut shown, format_args!("\nsubgraph {name}\n\n{table}\n"));
        }
        if !self.checked.problems.is_empty() {
            format::push(&mut shown, format_args!("\n{}\n", self.checked.text()));
        }
        shown
    }

    fn quiet(&self) -> String {
        self.workflow_id.clone()
    }
}

fn table(nodes: &[OutlineNode]) -> String {
    let rows = nodes.iter().map(|node| {
        let kind = match node.middlewares.as_slice() {
            [] => node.node_type.clone(),
            around => format!("{} in {}", node.node_type, around.join(", ")),
        };
        let after = if node.after.is_empty() { "-".into() } else { node.after.join(", ") };
        [node.name.clone(), kind, after, node.label.clone()]
    });
    output::table(["NODE", "TYPE", "AFTER", "LABEL"], rows)
}

pub(super) async fn show(
    workflow: &str,
    version: Option<u64>,
    context: impl Fn() -> Result<Context>,
    output: Output,
) -> Result<ExitCode> {
    let document = match Named::of(workflow) {
        Named::File(file) => Document::of_file(&file)?,
        Named::Kept(text) => Document::kept(&text, version, &context()?).await?,
    };
    document.raw()?;
    output.show(&Outline::of(&document));
    Ok(ExitCode::Success)
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
    let [workflow, first, second, edge] = [(); 4].map(|()| Uuid::new_v4());
    let name = serde_json::Value::from(name);
    format!(
        r#"{{
  "id": "{workflow}",
  "schemaVersion": "2025-10",
  "metadata": {{ "name": {name}, "description": "Two steps in a row." }},
  "nodes": [
    {{
      "id": "{first}",
      "alias": "greet",
      "type": "core.echo",
      "label": "Make a greeting",
      "position": {{ "x": 0, "y": 0 }},
      "parameters": {{ "text": "hello, {{{{ run.inputs.name | default('world') }}}}" }}
    }},
    {{
      "id": "{second}",
      "alias": "shout",
      "type": "core.echo",
      "label": "Make it loud",
      "position": {{ "x": 240, "y": 0 }},
      "parameters": {{ "text": "{{{{ nodes.greet.results.text | upper }}}}" }}
    }}
  ],
  "edges": [
    {{
      "id": "{edge}",
      "source": {{ "node": "{first}" }},
      "target": {{ "node": "{second}" }}
    }}
  ],
  "outputs": {{ "text": "{{{{ nodes.shout.results.text }}}}" }}
}}
"#
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_looks_like_a_file_is_one() {
        for file in ["-", "a.json", "dir/b.JSON"] {
            assert_eq!(Named::of(file), Named::File(file.into()));
        }
        for kept in ["nightly", "0ec2393a", "a.b"] {
            assert_eq!(Named::of(kept), Named::Kept(kept.into()));
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
