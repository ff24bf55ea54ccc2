//! What is wrong with a definition, and where that stands.

use std::borrow::Cow;
use std::cell::RefCell;
use std::fmt::{self, Display};

use jsonschema::JsonType;
use serde::Serialize;
use serde_json::Value;

/// Limit: problems of a workflow; the rest is counted.
const PROBLEMS_TOLD_MAX: usize = 100;
/// Labels and values in a message are cut here.
const QUOTED_CHARACTERS_MAX: usize = 80;
/// Whole sentences of others are cut here.
pub(crate) const SENTENCE_CHARACTERS_MAX: usize = 400;

/// One thing that is wrong, or odd.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Problem {
    /// A short code, like `E.FLOW.CYCLE`.
    pub code: &'static str,
    /// Whether it keeps the workflow from running.
    pub severity: Severity,
    /// The node that it is about, as authored.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// Where in the document, as a JSON pointer.
    pub path: String,
    /// A sentence for people.
    pub message: String,
}

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// It runs all the same.
    Warning,
    /// It does not run.
    Error,
}

/// The codes, with one sentence each.
pub(crate) mod code {
    /// It is not shaped like a workflow: no JSON, a field of the wrong kind, an id that is no UUID.
    pub(crate) const INVALID: &str = "E.FLOW.INVALID";
    /// Two things of a graph have the same id or alias.
    pub(crate) const DUPLICATE_ID: &str = "E.FLOW.DUPLICATE_ID";
    /// An edge begins or ends at a node that is not there.
    pub(crate) const UNKNOWN_NODE: &str = "E.FLOW.UNKNOWN_NODE";
    /// An edge begins or ends at a port that is not there.
    pub(crate) const UNKNOWN_PORT: &str = "E.FLOW.UNKNOWN_PORT";
    /// Nodes wait for each other in a circle.
    pub(crate) const CYCLE: &str = "E.FLOW.CYCLE";
    /// Parameters do not fit the node's own schema.
    pub(crate) const PARAMETERS: &str = "E.FLOW.PARAMETERS";
    /// What flows along an edge does not fit where it goes.
    pub(crate) const WIRE_TYPE: &str = "E.FLOW.WIRE_TYPE";
    /// A node's package is missing or not fully named.
    pub(crate) const PACKAGE: &str = "E.FLOW.PACKAGE";
    /// A middleware is not there, or cannot be one.
    pub(crate) const MIDDLEWARE: &str = "E.FLOW.MIDDLEWARE";
    /// A container names no subgraph that could be executed.
    pub(crate) const SUBGRAPH: &str = "E.FLOW.SUBGRAPH";
    /// An expression cannot be read, or looks at a node that is not there.
    pub(crate) const EXPRESSION: &str = "E.FLOW.EXPRESSION";
    /// There is too much of something.
    pub(crate) const LIMIT: &str = "E.FLOW.LIMIT";
}

/// All problems of one definition, as they are found, by their severity.
#[derive(Debug, Default)]
pub(crate) struct Problems(RefCell<[Told; 2]>);

#[derive(Debug, Default)]
struct Told {
    list: Vec<Problem>,
    n_untold: usize,
}

impl Problems {
    /// The place that a pointer names; empty is the whole document.
    pub(crate) fn at<'p>(&'p self, pointer: &'p str) -> Place<'p> {
        Place { problems: self, above: None, step: Step::Pointer(pointer), node: None }
    }

    /// Whether something keeps the workflow from running.
    pub(crate) fn has_errors(&self) -> bool {
        !self.0.borrow()[Severity::Error as usize].list.is_empty()
    }

    /// Nothing but warnings; or the errors, then the warnings.
    pub(crate) fn into_result(self) -> Result<Vec<Problem>, Vec<Problem>> {
        let has_errors = self.has_errors();
        let [warnings, errors] = self.0.into_inner();
        let mut all = errors.finish(Severity::Error, "error");
        all.extend(warnings.finish(Severity::Warning, "warning"));
        if has_errors { Err(all) } else { Ok(all) }
    }
}

impl Told {
    fn finish(mut self, severity: Severity, what: &str) -> Vec<Problem> {
        let n = self.n_untold;
        if n > 0 {
            let verb = if n == 1 { " is" } else { "s are" };
            let message = format!("{n} more {what}{verb} not listed here; repair these first");
            let (node, path) = (None, String::new());
            self.list.push(Problem { code: code::LIMIT, severity, node, path, message });
        }
        self.list
    }
}

/// A place in the document: a step below another place. It is written out only when a problem with
/// it is told.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place<'p> {
    problems: &'p Problems,
    above: Option<&'p Place<'p>>,
    step: Step<'p>,
    node: Option<&'p str>,
}

#[derive(Clone, Copy, Debug)]
enum Step<'p> {
    /// A pointer that is already written.
    Pointer(&'p str),
    Key(&'p str),
    Index(usize),
}

impl<'p> Place<'p> {
    fn below<'a>(&'a self, step: Step<'a>) -> Place<'a> {
        Place { problems: self.problems, above: Some(self), step, node: self.node }
    }

    /// A field of the object that stands here.
    pub(crate) fn key<'a>(&'a self, key: &'a str) -> Place<'a> {
        self.below(Step::Key(key))
    }

    /// An element of the list that stands here.
    pub(crate) fn index(&self, index: usize) -> Place<'_> {
        self.below(Step::Index(index))
    }

    /// What a pointer names from here on.
    pub(crate) fn pointer<'a>(&'a self, pointer: &'a str) -> Place<'a> {
        self.below(Step::Pointer(pointer))
    }

    /// The same place, which is about a node.
    pub(crate) fn about(self, node: &'p str) -> Self {
        let node = if node.is_empty() { self.node } else { Some(node) };
        Self { node, ..self }
    }

    /// The last step, for sentences: `nodes`, or `nodes[3]`.
    pub(crate) fn name(&self) -> String {
        match self.step {
            Step::Pointer(pointer) => pointer.rsplit('/').next().unwrap_or_default().to_owned(),
            Step::Key(key) => key.to_owned(),
            Step::Index(index) => {
                let above = self.above.map(Place::name).unwrap_or_default();
                format!("{above}[{index}]")
            }
        }
    }

    /// Something here keeps the workflow from running.
    pub(crate) fn error(&self, code: &'static str, message: impl Display) {
        self.tell(Severity::Error, code, &message);
    }

    /// Something here is odd.
    pub(crate) fn warning(&self, code: &'static str, message: impl Display) {
        self.tell(Severity::Warning, code, &message);
    }

    fn tell(&self, severity: Severity, code: &'static str, message: &dyn Display) {
        let told = &mut self.problems.0.borrow_mut()[severity as usize];
        if told.list.len() >= PROBLEMS_TOLD_MAX {
            told.n_untold += 1;
            return;
        }
        let node = self.node.map(str::to_owned);
        let (path, message) = (self.to_string(), message.to_string());
        told.list.push(Problem { code, severity, node, path, message });
    }
}

/// As a JSON pointer.
impl Display for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(above) = self.above {
            above.fmt(f)?;
        }
        match self.step {
            Step::Pointer(pointer) => f.write_str(pointer),
            Step::Key(key) => write!(f, "/{}", escaped(key)),
            Step::Index(index) => write!(f, "/{index}"),
        }
    }
}

/// One segment of a JSON pointer.
pub(crate) fn escaped(key: &str) -> Cow<'_, str> {
    if key.contains(['~', '/']) {
        Cow::Owned(key.replace('~', "~0").replace('/', "~1"))
    } else {
        Cow::Borrowed(key)
    }
}

/// A type of JSON Schema, with its article.
pub(crate) fn type_name(name: &str) -> &str {
    match name {
        "null" => "null",
        "boolean" => "true or false",
        "integer" => "a whole number",
        "number" => "a number",
        "string" => "text",
        "array" => "a list",
        "object" => "an object",
        other => other,
    }
}

/// What kind of value it is, in words.
pub(crate) fn kind_of(value: &Value) -> &'static str {
    type_name(JsonType::from(value).as_str())
}

/// A text of the author in a message, cut where it gets long.
pub(crate) fn quoted(text: &str) -> Cow<'_, str> {
    cut(text, QUOTED_CHARACTERS_MAX)
}

/// A text, cut after so many characters.
pub(crate) fn cut(text: &str, characters_max: usize) -> Cow<'_, str> {
    match text.char_indices().nth(characters_max) {
        None => Cow::Borrowed(text),
        Some((end, _)) => Cow::Owned(format!("{}...", &text[..end])),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_written_as_a_pointer() {
        let problems = Problems::default();
        let root = problems.at("");
        assert_eq!(root.to_string(), "");
        let nodes = root.key("nodes");
        let node = nodes.index(3).about("a");
        let parameters = node.key("parameters");
        assert_eq!(parameters.key("a/b~c").to_string(), "/nodes/3/parameters/a~1b~0c");
        assert_eq!(parameters.pointer("/x/0").to_string(), "/nodes/3/parameters/x/0");
        assert_eq!(parameters.node, Some("a"));
    }

    #[test]
    fn a_hundred_are_told_and_the_rest_is_counted() {
        let problems = Problems::default();
        for _ in 0..PROBLEMS_TOLD_MAX + 3 {
            problems.at("/id").error(code::INVALID, "is missing");
        }
        problems.at("").warning(code::PACKAGE, "odd");
        let told = problems.into_result().expect_err("there are errors");
        assert_eq!(told.len(), PROBLEMS_TOLD_MAX + 2);
        assert_eq!(
            told[PROBLEMS_TOLD_MAX].message,
            "3 more errors are not listed here; repair these first"
        );
        assert_eq!(told[PROBLEMS_TOLD_MAX + 1].severity, Severity::Warning);
    }

    #[test]
    fn long_texts_are_cut_between_characters() {
        assert_eq!(quoted("short").to_string(), "short");
        let long = "ü".repeat(QUOTED_CHARACTERS_MAX + 1);
        assert_eq!(quoted(&long).to_string(), "ü".repeat(QUOTED_CHARACTERS_MAX) + "...");
    }
}
