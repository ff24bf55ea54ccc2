//! The parameters of a step, when its turn comes; and what it may look at then.

use bytes::Bytes;
use model::is_deeper_than;
use serde_json::{Map, Value, json};

use crate::expression::{View, evaluate, kind_of, render};
use crate::path::{put_value, value_at};
use crate::problem::cut;
use crate::program::{Endpoint, Expression, Graph, Map as MapOver, Parameters, Root, Step};

/// Limit: the parameters of a node, filled in.
pub(crate) const PARAMETERS_BYTES_MAX: usize = 1024 * 1024;
/// How deep parameters may nest, the same as at the doors. Whoever reads them with a recursive
/// parser is safe.
pub(crate) const NESTING_MAX: usize = 64;
/// Limit: the most elements that one node is executed for.
const MAP_ITEMS_MAX: usize = 100_000;
/// Limit: the most bytes of a list that a node is executed for.
const LIST_BYTES_MAX: usize = 8 * 1024 * 1024;
/// Limit: what a run, or a subgraph, gives.
const OUTPUTS_BYTES_MAX: usize = 8 * 1024 * 1024;
/// The most characters of a reason: it may hold names and paths that others have made up.
const REASON_CHARS_MAX: usize = 1000;

/// What the expressions and wires of a step see.
#[derive(Clone, Copy)]
pub struct Scope<'a> {
    /// The graph that the step belongs to.
    pub graph: &'a Graph,
    /// The run's id, as people see it: `run.id`.
    pub run_id: &'a str,
    /// What the run was given: `run.inputs`.
    pub run_inputs: &'a Value,
    /// What the graph was given: `inputs`; for the workflow itself the same as `run.inputs`.
    pub inputs: &'a Value,
    /// The nodes of the graph: `nodes.<id or alias>`.
    pub nodes: &'a dyn NodesView,
    /// The element of a list that the step is executed for: `item` and `index`.
    pub item: Option<Item<'a>>,
    /// What the middleware in front handed on: its keys are laid over the parameters.
    pub payload: Option<&'a Value>,
}

/// One element of a list.
#[derive(Clone, Copy)]
pub struct Item<'a> {
    /// The element.
    pub value: &'a Value,
    /// Its place, from 0.
    pub index: u32,
}

/// What is known of nodes that have come to their end.
pub trait NodesView {
    /// `None` while the node has not ended.
    fn facts(&self, node: u32) -> Option<NodeFacts<'_>>;
}

/// One node that has ended.
#[derive(Clone, Copy)]
pub struct NodeFacts<'a> {
    /// `succeeded`, `failed`, `skipped` or `cancelled`: `nodes.x.status`.
    pub status: &'static str,
    /// `nodes.x.results`; `None` where it gave none.
    pub results: Option<&'a Value>,
    /// What it was given, where someone looks at it: `nodes.x.parameters`.
    pub parameters: Option<&'a Value>,
    /// The results of its middlewares, by place; shorter when not all of them ran.
    pub middlewares: &'a [Value],
    /// `{"code", "message"}` of a failure: `nodes.x.error`.
    pub error: Option<&'a Value>,
    /// Which node of the graph it was that ended so-manieth. Of two wires to one place the later
    /// one wins.
    pub order: u32,
}

/// Why something could not be filled in.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {reason}")]
pub struct EvalError {
    /// Where the expression stands, like `parameters.url` or `when`.
    pub path: String,
    /// What is wrong with it.
    pub reason: String,
}

impl EvalError {
    /// An error with a reason of bounded length.
    pub(crate) fn new(path: impl Into<String>, reason: impl Into<String>) -> Self {
        let reason = cut(&reason.into(), REASON_CHARS_MAX).into_owned();
        Self { path: path.into(), reason }
    }
}

/// What the step is given: authored parameters, then what flows in, then expressions, then what
/// the middleware in front handed on.
pub fn fill(step: &Step, scope: &Scope<'_>) -> Result<Bytes, EvalError> {
    let wrong = |reason: String| EvalError::new("parameters", reason);
    let arrivals = arrivals(step, scope);
    let payload = scope.payload.and_then(Value::as_object);
    let mut room = Room::new("parameters", PARAMETERS_BYTES_MAX);
    let mut filled = match &step.parameters {
        Parameters::Plain(bytes) if arrivals.is_empty() && payload.is_none() => {
            return Ok(bytes.clone());
        }
        Parameters::Plain(bytes) if bytes.is_empty() => Value::Object(Map::new()),
        Parameters::Plain(bytes) => {
            serde_json::from_slice(bytes).map_err(|error| wrong(error.to_string()))?
        }
        Parameters::Open { authored, has_expressions: false } => authored.clone(),
        Parameters::Open { authored, has_expressions: true } => {
            // What flows in takes the place of an expression before that is worked out; but what
            // flowed in is never taken for an expression. Hence this order.
            let taken: Vec<&[String]> = arrivals.iter().map(|(to, _)| *to).collect();
            let view = View::Run(scope, &step.references);
            Renderer { view, taken: &taken, room: &mut room }.render("parameters", authored)?
        }
    };
    for (to, value) in arrivals {
        room.take(value).map_err(wrong)?;
        put_value(&mut filled, to, value.clone());
    }
    if let Some(payload) = payload {
        lay_over(&mut filled, payload, &mut room).map_err(wrong)?;
    }
    let bytes = serde_json::to_vec(&filled).map_err(|error| wrong(error.to_string()))?;
    if bytes.len() > PARAMETERS_BYTES_MAX {
        return Err(wrong(room.too_large()));
    }
    if is_deeper_than(&bytes, NESTING_MAX) {
        return Err(wrong(format!("they nest more than {NESTING_MAX} levels deep")));
    }
    Ok(Bytes::from(bytes))
}

/// Puts each field of a payload over the parameters. Parameters that have no fields stay.
fn lay_over(
    filled: &mut Value,
    payload: &Map<String, Value>,
    room: &mut Room,
) -> Result<(), String> {
    if filled.is_null() {
        *filled = Value::Object(Map::new());
    }
    let Value::Object(fields) = filled else { return Ok(()) };
    for (name, value) in payload {
        room.take(value)?;
        fields.insert(name.clone(), value.clone());
    }
    Ok(())
}

/// What a text of a step gives, like the key of its affinity.
pub fn text_of(text: &str, step: &Step, scope: &Scope<'_>) -> Result<String, EvalError> {
    if !text.contains("{{") {
        return Ok(text.to_owned());
    }
    let view = View::Run(scope, &step.references);
    match render(text, view).map_err(|reason| EvalError::new(text, reason))? {
        Value::String(text) => Ok(text),
        other => Ok(other.to_string()),
    }
}

/// Whether a condition holds.
pub fn says_yes(when: &Expression, scope: &Scope<'_>) -> Result<bool, EvalError> {
    let view = View::Run(scope, &when.references);
    let value = evaluate(&when.source, view).map_err(|reason| EvalError::new("when", reason))?;
    Ok(match value {
        Value::Null => false,
        Value::Bool(bool) => bool,
        Value::Number(number) => number.as_f64() != Some(0.0),
        Value::String(text) => !text.is_empty(),
        Value::Array(items) => !items.is_empty(),
        Value::Object(fields) => !fields.is_empty(),
    })
}

/// The elements that a node is executed for: those of a list; of an object its fields, as
/// `{"key", "value"}` each.
pub fn list_of(map: &MapOver, scope: &Scope<'_>) -> Result<Vec<Value>, EvalError> {
    let wrong = |reason: String| EvalError::new("map.over", reason);
    let view = View::Run(scope, &map.references);
    let over = match &map.over {
        Value::String(text) if !text.contains("{{") => evaluate(text, view).map_err(wrong)?,
        other => {
            let mut room = Room::new("the list", LIST_BYTES_MAX);
            Renderer { view, taken: &[], room: &mut room }.render("map.over", other)?
        }
    };
    let items: Vec<Value> = match over {
        Value::Array(items) => items,
        Value::Object(fields) => {
            fields.into_iter().map(|(key, value)| json!({"key": key, "value": value})).collect()
        }
        other => {
            let kind = kind_of(&other);
            return Err(wrong(format!("it is {kind}, and neither a list nor an object")));
        }
    };
    let n = items.len();
    if n > MAP_ITEMS_MAX {
        return Err(wrong(format!("it has {n} elements; at most {MAP_ITEMS_MAX} go")));
    }
    Ok(items)
}

/// What a graph gives when all its nodes have ended.
pub fn outputs_of(graph: &Graph, scope: &Scope<'_>) -> Result<Value, EvalError> {
    let mut room = Room::new("outputs", OUTPUTS_BYTES_MAX);
    let mut outputs = Map::new();
    if !graph.outputs.is_empty() {
        let view = View::Run(scope, &graph.outputs_read);
        for (name, output) in &graph.outputs {
            let mut renderer = Renderer { view, taken: &[], room: &mut room };
            let value = renderer.render(&format!("outputs.{name}"), output)?;
            outputs.insert(name.clone(), value);
        }
        return Ok(Value::Object(outputs));
    }
    for &end in &graph.outputs_read {
        let results = scope.nodes.facts(end).and_then(|facts| facts.results);
        let (Some(results), Some(node)) = (results, graph.nodes.get(end as usize)) else {
            continue;
        };
        let name = node.handle();
        let wrong = |reason| EvalError::new(format!("outputs.{name}"), reason);
        room.take(results).map_err(wrong)?;
        outputs.insert(name, results.clone());
    }
    Ok(Value::Object(outputs))
}

/// Where values flow in, and which, in the order in which the nodes ended that they come from.
fn arrivals<'a>(step: &'a Step, scope: &Scope<'a>) -> Vec<(&'a [String], &'a Value)> {
    let flows = step.wires.iter().filter_map(|wire| {
        let facts = scope.nodes.facts(wire.from.node)?;
        let value = source(facts, &wire.from)?;
        // Parameters stay an object.
        let is_kept = !wire.to.is_empty() || value.is_object();
        is_kept.then_some((facts.order, wire.to.as_slice(), value))
    });
    let mut flows: Vec<_> = flows.collect();
    // Stable: wires of one node stay in the order of the edges.
    flows.sort_by_key(|(order, ..)| *order);
    flows.into_iter().map(|(_, to, value)| (to, value)).collect()
}

fn source<'a>(facts: NodeFacts<'a>, from: &Endpoint) -> Option<&'a Value> {
    if !matches!(facts.status, "succeeded" | "skipped") {
        return None;
    }
    let root = match (from.middleware, from.root) {
        (None, Root::Results) => facts.results,
        (None, Root::Parameters) => facts.parameters,
        (Some(place), Root::Results) => facts.middlewares.get(place as usize),
        // What a middleware was given is not kept.
        (Some(_), Root::Parameters) => None,
    };
    value_at(root?, &from.path)
}

/// What may still be put in. A value is weighed before it is copied, so that a thousand mentions
/// of one large value end early.
struct Room {
    what: &'static str,
    most: usize,
    left: usize,
}

impl Room {
    fn new(what: &'static str, most: usize) -> Self {
        Self { what, most, left: most }
    }

    /// A value comes in.
    fn take(&mut self, value: &Value) -> Result<(), String> {
        self.left = self.left.checked_sub(bytes_at_least(value)).ok_or_else(|| self.too_large())?;
        Ok(())
    }

    /// What is said where there is no room.
    fn too_large(&self) -> String {
        format!("{} would have more than {} bytes", self.what, self.most)
    }
}

/// No more than the value has as JSON.
fn bytes_at_least(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) => 4,
        Value::Number(_) => 1,
        Value::String(text) => text.len() + 2,
        Value::Array(items) => 2 + items.iter().map(|item| bytes_at_least(item) + 1).sum::<usize>(),
        Value::Object(fields) => {
            let field = |(name, value): (&String, &Value)| name.len() + bytes_at_least(value) + 4;
            2 + fields.iter().map(field).sum::<usize>()
        }
    }
}

/// Goes through an authored value.
struct Renderer<'a, 'r> {
    view: View<'a>,
    /// Places that something else will take: what stands there is not worked out.
    taken: &'a [&'a [String]],
    room: &'r mut Room,
}

/// One step on the way into a value.
#[derive(Clone, Copy)]
enum Place<'v> {
    Field(&'v str),
    Element(usize),
}

impl Place<'_> {
    fn is(self, segment: &str) -> bool {
        match self {
            Self::Field(name) => name == segment,
            Self::Element(place) => segment.parse() == Ok(place),
        }
    }
}

impl Renderer<'_, '_> {
    /// The value with all its expressions worked out; `at` is its name for people.
    fn render(&mut self, at: &str, value: &Value) -> Result<Value, EvalError> {
        self.walk(at, value, &mut Vec::new())
    }

    fn walk<'v>(
        &mut self,
        at: &str,
        value: &'v Value,
        way: &mut Vec<Place<'v>>,
    ) -> Result<Value, EvalError> {
        match value {
            Value::String(text) if text.contains("{{") && !self.is_taken(way) => {
                let wrong = |reason| EvalError::new(name(at, way), reason);
                let value = render(text, self.view).map_err(wrong)?;
                self.room.take(&value).map_err(wrong)?;
                Ok(value)
            }
            Value::Array(items) => {
                let mut rendered = Vec::with_capacity(items.len());
                for (place, item) in items.iter().enumerate() {
                    way.push(Place::Element(place));
                    rendered.push(self.walk(at, item, way)?);
                    way.pop();
                }
                Ok(Value::Array(rendered))
            }
            Value::Object(fields) => {
                let mut rendered = Map::new();
                for (name, field) in fields {
                    way.push(Place::Field(name));
                    rendered.insert(name.clone(), self.walk(at, field, way)?);
                    way.pop();
                }
                Ok(Value::Object(rendered))
            }
            other => Ok(other.clone()),
        }
    }

    /// Whether what stands here will be replaced: as a whole, or because something goes below it.
    fn is_taken(&self, way: &[Place<'_>]) -> bool {
        self.taken.iter().any(|to| to.iter().zip(way).all(|(to, here)| here.is(to)))
    }
}

/// Where we are, for people: `parameters.urls[0]`.
fn name(at: &str, way: &[Place<'_>]) -> String {
    let mut name = at.to_owned();
    for place in way {
        match place {
            Place::Field(field) => name.extend([".", field]),
            Place::Element(place) => name.extend(["[", &place.to_string(), "]"]),
        }
    }
    name
}
