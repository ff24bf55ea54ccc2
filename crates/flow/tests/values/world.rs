//! A small graph whose nodes have ended, as a JSON document.

use std::collections::BTreeMap;

use bytes::Bytes;
use flow::{
    Endpoint, EvalError, Expression, Graph, Item, Map, Node, NodeFacts, NodesView, OnError, OnSkip,
    Parameters, Root, Scope, Step, Wire, Work,
};
use serde_json::{Value, json};
use uuid::Uuid;

/// The nodes of a graph, and what is known of them.
pub(crate) struct World {
    pub(crate) graph: Graph,
    facts: Vec<Value>,
    middlewares: Vec<Vec<Value>>,
    orders: Vec<u32>,
    pub(crate) inputs: Value,
    pub(crate) run_inputs: Value,
    pub(crate) item: Option<Value>,
    pub(crate) payload: Option<Value>,
}

/// The id of the node at a place.
pub(crate) fn id(place: u32) -> Uuid {
    Uuid::from_u128(0xabcd_ef00_1234_4678_9abc_0000_0000_0000 + u128::from(place))
}

impl World {
    /// Nodes by alias (one that begins with a hyphen is none), in the order of the alphabet; each
    /// as `{"status", "results", "parameters", "error", "middlewares", "order"}`. `null` has not
    /// ended.
    pub(crate) fn new(nodes: Value) -> Self {
        let Value::Object(nodes) = nodes else { panic!("nodes are an object") };
        let mut world = Self {
            graph: Graph::default(),
            facts: Vec::new(),
            middlewares: Vec::new(),
            orders: Vec::new(),
            inputs: json!({"name": "Ada", "list": [1, 2, 3], "zero": 0}),
            run_inputs: json!({"deep": {"er": true}}),
            item: None,
            payload: None,
        };
        for (place, (alias, facts)) in (0..).zip(nodes) {
            world.graph.nodes.push(node(place, &alias));
            let middlewares = facts.get("middlewares").and_then(Value::as_array).cloned();
            world.middlewares.push(middlewares.unwrap_or_default());
            let order = facts.get("order").and_then(Value::as_u64).unwrap_or(place.into());
            world.orders.push(u32::try_from(order).expect("a small number"));
            world.facts.push(facts);
        }
        world
    }

    pub(crate) fn ask<T>(&self, question: impl FnOnce(&Scope<'_>) -> T) -> T {
        question(&Scope {
            graph: &self.graph,
            run_id: "run-1",
            run_inputs: &self.run_inputs,
            inputs: &self.inputs,
            nodes: self,
            item: self.item.as_ref().map(|value| Item { value, index: 7 }),
            payload: self.payload.as_ref(),
        })
    }

    /// The id of a node.
    pub(crate) fn id_of(&self, alias: &str) -> Uuid {
        let is_meant = |node: &&Node| node.alias.as_deref() == Some(alias);
        self.graph.nodes.iter().find(is_meant).expect("the node is there").id
    }

    pub(crate) fn references(&self) -> Vec<u32> {
        (0..).zip(&self.graph.nodes).map(|(place, _)| place).collect()
    }

    /// A step with expressions, which may look at every node.
    pub(crate) fn step(&self, authored: Value) -> Step {
        let has_expressions = authored.to_string().contains("{{");
        let parameters = Parameters::Open { authored, has_expressions };
        Step { references: self.references(), ..step(0, parameters) }
    }

    /// What an expression gives.
    pub(crate) fn value(&self, source: &str) -> Result<Value, EvalError> {
        let step = self.step(json!({ "x": format!("{{{{ {source} }}}}") }));
        let bytes = self.ask(|scope| flow::fill(&step, scope))?;
        let mut filled: Value = serde_json::from_slice(&bytes).expect("parameters are JSON");
        Ok(filled["x"].take())
    }

    pub(crate) fn says_yes(&self, source: &str) -> Result<bool, EvalError> {
        let when = Expression { source: source.to_owned(), references: self.references() };
        self.ask(|scope| flow::says_yes(&when, scope))
    }

    pub(crate) fn list(&self, over: Value) -> Result<Vec<Value>, EvalError> {
        let map = Map { over, references: self.references(), max_parallel: None };
        self.ask(|scope| flow::list_of(&map, scope))
    }

    pub(crate) fn outputs(&mut self, outputs: Value) -> Result<Value, EvalError> {
        let outputs: BTreeMap<String, Value> = serde_json::from_value(outputs).expect("an object");
        self.graph.outputs = outputs;
        self.graph.outputs_read = self.references();
        self.ask(|scope| flow::outputs_of(&self.graph, scope))
    }
}

impl NodesView for World {
    fn facts(&self, node: u32) -> Option<NodeFacts<'_>> {
        let place = node as usize;
        let facts = self.facts.get(place)?.as_object()?;
        Some(NodeFacts {
            status: match facts["status"].as_str()? {
                "succeeded" => "succeeded",
                "failed" => "failed",
                "skipped" => "skipped",
                other => panic!("{other} is not used here"),
            },
            results: facts.get("results"),
            parameters: facts.get("parameters"),
            middlewares: &self.middlewares[place],
            error: facts.get("error"),
            order: self.orders[place],
        })
    }
}

fn node(place: u32, alias: &str) -> Node {
    Node {
        id: id(place),
        alias: (!alias.starts_with('-')).then(|| alias.to_owned()),
        label: String::new(),
        host: step(place, Parameters::Plain(Bytes::from_static(b"{}"))),
        middlewares: Vec::new(),
        waits_for: Vec::new(),
        followers: Vec::new(),
        readers: 1,
        keeps_parameters: true,
        on_error: OnError::default(),
        on_skip: OnSkip::default(),
        when: None,
        map: None,
        results: None,
    }
}

pub(crate) fn step(place: u32, parameters: Parameters) -> Step {
    Step { id: id(place), work: Work::Delay, parameters, wires: vec![], references: vec![] }
}

/// A wire from `results.a.b` of a node to `c.d`; `mw0:` in front means its first middleware.
pub(crate) fn wire(node: u32, from: &str, to: &str) -> Wire {
    let (middleware, from) = match from.strip_prefix("mw0:") {
        Some(from) => (Some(0), from),
        None => (None, from),
    };
    let mut path = segments(from);
    let root = match path.remove(0).as_str() {
        "results" => Root::Results,
        _ => Root::Parameters,
    };
    Wire { from: Endpoint { node, middleware, root, path }, to: segments(to) }
}

fn segments(path: &str) -> Vec<String> {
    path.split('.').filter(|segment| !segment.is_empty()).map(str::to_owned).collect()
}
