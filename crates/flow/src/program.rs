//! A workflow, ready to be executed: numbers instead of names, nothing left to look up.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use model::TaskSpec;
use serde_json::Value;
use uuid::Uuid;

/// A workflow with its subgraphs. The first graph is the workflow itself.
#[derive(Debug)]
pub struct Program {
    /// The definition, byte for byte as it was authored.
    pub source: Bytes,
    /// The workflow and its subgraphs; a container names one by its place.
    pub graphs: Vec<Graph>,
}

/// Two programs are the same when they were made of the same definition.
impl PartialEq for Program {
    fn eq(&self, other: &Self) -> bool {
        self.source == other.source
    }
}

/// Nodes, and who waits for whom.
#[derive(Debug, Default)]
pub struct Graph {
    /// The workflow's or the subgraph's own id.
    pub id: Uuid,
    /// A name for people.
    pub name: String,
    /// The nodes, in the order in which they were authored.
    pub nodes: Vec<Node>,
    /// The nodes that wait for nobody.
    pub roots: Vec<u32>,
    /// What the graph gives when it is done, by name; an expression or a plain value each. Empty
    /// when the author did not say: then each node that nobody waits for gives its result, under
    /// its alias or its id.
    pub outputs: BTreeMap<String, Value>,
    /// Nodes whose results `outputs` look at (or the ends, when there are no outputs).
    pub outputs_read: Vec<u32>,
}

/// One node of a graph.
#[derive(Debug)]
pub struct Node {
    /// The author's id.
    pub id: Uuid,
    /// The name that expressions may use besides the id.
    pub alias: Option<String>,
    /// A name for people.
    pub label: String,
    /// What the node does itself.
    pub host: Step,
    /// What is wrapped around it, outermost first.
    pub middlewares: Vec<Step>,
    /// Nodes that must have come to their end before: by edges and by expressions, each once.
    pub waits_for: Vec<u32>,
    /// Nodes that wait for this one, each once.
    pub followers: Vec<u32>,
    /// How many nodes look at its result or parameters; the graph's own outputs count as one.
    pub readers: u32,
    /// Whether someone looks at its parameters, too.
    pub keeps_parameters: bool,
    /// What a failure means to the others.
    pub on_error: OnError,
    /// What a skipped predecessor means to this node.
    pub on_skip: OnSkip,
    /// It is skipped unless this says yes.
    pub when: Option<Expression>,
    /// It is executed once per element of a list.
    pub map: Option<Map>,
    /// What its author says of its result: a JSON Schema, as authored.
    pub results: Option<Bytes>,
}

impl Node {
    /// The steps from the outside in: the middlewares, then the node itself.
    pub fn step(&self, level: usize) -> &Step {
        self.middlewares.get(level).unwrap_or(&self.host)
    }

    /// The level of the node itself, behind its middlewares.
    pub fn host_level(&self) -> usize {
        self.middlewares.len()
    }

    /// The name that people know it by: its alias, else its label, else its id.
    pub fn name(&self) -> String {
        match &self.alias {
            Some(alias) => alias.clone(),
            None if self.label.is_empty() => self.id.to_string(),
            None => self.label.clone(),
        }
    }

    /// A name that can be copied into a command, which a label with its spaces cannot.
    pub fn handle(&self) -> String {
        self.alias.clone().unwrap_or_else(|| self.id.to_string())
    }
}

/// One thing that is executed: a node, or a middleware around it.
#[derive(Debug)]
pub struct Step {
    /// The author's id of the node or of the middleware.
    pub id: Uuid,
    /// What is done.
    pub work: Work,
    /// What it is given.
    pub parameters: Parameters,
    /// What flows into its parameters, in the order of the edges.
    pub wires: Vec<Wire>,
    /// Nodes that its expressions look at, each once.
    pub references: Vec<u32>,
}

/// What a step does.
#[derive(Debug)]
pub enum Work {
    /// A worker executes it.
    Task {
        /// What it takes, how it is retried, how long it may take.
        spec: Arc<TaskSpec>,
        /// At most one task with the key runs at a time; may hold expressions.
        concurrency_key: Option<String>,
        /// Which worker it should be given to.
        affinity: Option<Affinity>,
    },
    /// A subgraph is executed.
    Container {
        /// Its place in the program.
        graph: u32,
        /// Ports that reach into the subgraph.
        ports: ContainerPorts,
    },
    /// Time passes: parameter `ms`, `seconds` or `until`.
    Delay,
    /// Someone sends an event: parameter `event` names it.
    WaitEvent {
        /// No longer than this.
        timeout: Option<Duration>,
    },
    /// Someone says yes or no.
    Approve {
        /// No longer than this.
        timeout: Option<Duration>,
    },
}

/// Wires of a container that end at nodes inside of it.
#[derive(Debug, Default)]
pub struct ContainerPorts {
    /// Values from the container's filled parameters, into parameters of nodes inside:
    /// (path in the container's parameters, node inside, path in its parameters).
    pub inputs: Vec<(Vec<String>, u32, Vec<String>)>,
    /// Values from nodes inside, into the container's result:
    /// (node inside, root, path there, path in the container's result).
    pub outputs: Vec<(u32, Root, Vec<String>, Vec<String>)>,
}

/// Keeps tasks together on one worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Affinity {
    /// How strong the wish is.
    pub mode: AffinityMode,
    /// Tasks with the same key belong together; may hold expressions.
    pub key: String,
    /// How long the worker is kept in mind after its last task with the key.
    pub ttl: Duration,
}

/// How strong an affinity is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AffinityMode {
    /// Only that worker, while it is alive.
    Sticky,
    /// That worker if it is free.
    Preferred,
}

/// What a step is given, before anything flows in.
#[derive(Debug)]
pub enum Parameters {
    /// No expression and no wire: these bytes, exactly as authored.
    Plain(Bytes),
    /// Something must be filled in.
    Open {
        /// As authored, expressions in place.
        authored: Value,
        /// Whether any text in it holds `{{`.
        has_expressions: bool,
    },
}

/// Data that flows along an edge into a step.
#[derive(Debug)]
pub struct Wire {
    /// Where it comes from.
    pub from: Endpoint,
    /// Where it goes, below the step's parameters; empty replaces all of them.
    pub to: Vec<String>,
}

/// A value of another node.
#[derive(Debug)]
pub struct Endpoint {
    /// Which node.
    pub node: u32,
    /// A middleware of that node, by its place; `None` is the node itself.
    pub middleware: Option<u32>,
    /// Result or parameters.
    pub root: Root,
    /// Where below the root.
    pub path: Vec<String>,
}

/// Where a path begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Root {
    /// At the parameters.
    Parameters,
    /// At the result.
    Results,
}

/// What a failed node means to its run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnError {
    /// The run fails, and the others are stopped.
    #[default]
    Fail,
    /// The others go on as if it had succeeded without a result.
    Continue,
    /// Those that wait for it are skipped, and so on down the line.
    Skip,
}

/// What a predecessor that its own condition skipped means to a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnSkip {
    /// The node runs all the same.
    #[default]
    Run,
    /// The node is skipped too.
    Skip,
}

/// An expression, without the braces around it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expression {
    /// Its text.
    pub source: String,
    /// Nodes that it looks at, each once.
    pub references: Vec<u32>,
}

/// Once per element.
#[derive(Debug)]
pub struct Map {
    /// What gives the list: an expression, or a list as it stands.
    pub over: Value,
    /// Nodes that `over` looks at.
    pub references: Vec<u32>,
    /// No more than so many elements at once.
    pub max_parallel: Option<u32>,
}
