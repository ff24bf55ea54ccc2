//! What must come of a workflow: its nodes one after the other, nothing at the same time, nothing
//! ever lost. It shares with the coordinator what expressions mean, and none of its rules.

use coordinator::{NodeWord, RunWord};
use flow::{Graph, Item, Node, NodeFacts, NodesView, OnError, OnSkip, Program, Scope, Work};
use serde_json::{Map, Value, json};

use super::deeds::{Deed, after_calls, deed};

/// How a run must end.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Expected {
    pub(super) word: RunWord,
    pub(super) outputs: Option<Value>,
}

/// How one node ended.
#[derive(Clone, Debug)]
struct Ended {
    word: NodeWord,
    result: Option<Value>,
    error: Option<Value>,
    order: u32,
}

impl Ended {
    fn good(result: Value) -> Self {
        Self { word: NodeWord::Succeeded, result: Some(result), error: None, order: 0 }
    }

    fn bad() -> Self {
        let error = Some(json!({ "code": "E", "message": "m" }));
        Self { word: NodeWord::Failed, result: None, error, order: 0 }
    }

    fn of(word: NodeWord) -> Self {
        Self { word, result: None, error: None, order: 0 }
    }

    fn is_bad(&self) -> bool {
        matches!(self.word, NodeWord::Failed | NodeWord::Cancelled)
    }
}

struct Nodes(Vec<Option<Ended>>);

impl NodesView for Nodes {
    fn facts(&self, node: u32) -> Option<NodeFacts<'_>> {
        let ended = self.0[node as usize].as_ref()?;
        Some(NodeFacts {
            status: ended.word.text(),
            results: ended.result.as_ref(),
            parameters: None,
            middlewares: &[],
            error: ended.error.as_ref(),
            order: ended.order,
        })
    }
}

pub(super) fn interpret(program: &Program, run_id: &str, inputs: &Value) -> Expected {
    let world = Interpreter { program, run_id, inputs };
    match world.frame(0, inputs) {
        Ok(outputs) => Expected { word: RunWord::Succeeded, outputs: Some(outputs) },
        Err(()) => Expected { word: RunWord::Failed, outputs: None },
    }
}

struct Interpreter<'a> {
    program: &'a Program,
    run_id: &'a str,
    inputs: &'a Value,
}

/// What a chain has given so far.
#[derive(Default)]
struct Gathered {
    host: Option<Value>,
    over: Map<String, Value>,
}

impl Interpreter<'_> {
    /// What the graph gives; an error when a node failed that may not.
    fn frame(&self, graph: u32, inputs: &Value) -> Result<Value, ()> {
        let graph = &self.program.graphs[graph as usize];
        let mut nodes = Nodes(vec![None; graph.nodes.len()]);
        let mut order = 0;
        while let Some(next) = (0..graph.nodes.len()).find(|place| {
            let waits = &graph.nodes[*place].waits_for;
            nodes.0[*place].is_none()
                && waits.iter().all(|other| nodes.0[*other as usize].is_some())
        }) {
            let node = &graph.nodes[next];
            let mut ended = self.node(graph, node, &nodes, inputs);
            ended.order = order;
            order += 1;
            if ended.is_bad() && node.on_error == OnError::Fail {
                return Err(());
            }
            nodes.0[next] = Some(ended);
        }
        assert!(nodes.0.iter().all(Option::is_some), "a graph without circles comes to its end");
        flow::outputs_of(graph, &self.scope(graph, &nodes, inputs)).map_err(|_| ())
    }

    fn scope<'a>(&'a self, graph: &'a Graph, nodes: &'a Nodes, inputs: &'a Value) -> Scope<'a> {
        Scope {
            graph,
            run_id: self.run_id,
            run_inputs: self.inputs,
            inputs,
            nodes,
            item: None,
            payload: None,
        }
    }

    fn node(&self, graph: &Graph, node: &Node, nodes: &Nodes, inputs: &Value) -> Ended {
        let before = |place: &u32| nodes.0[*place as usize].as_ref().expect("ended before");
        let blocks = |place: &u32| {
            let ended = before(place);
            ended.word == NodeWord::Blocked
                || ended.is_bad() && graph.nodes[*place as usize].on_error == OnError::Skip
        };
        if node.waits_for.iter().any(blocks) {
            return Ended::of(NodeWord::Blocked);
        }
        let was_skipped = |place: &u32| before(place).word == NodeWord::Skipped;
        if node.on_skip == OnSkip::Skip && node.waits_for.iter().any(was_skipped) {
            return Ended::of(NodeWord::Skipped);
        }
        let scope = self.scope(graph, nodes, inputs);
        match node.when.as_ref().map(|when| flow::says_yes(when, &scope)) {
            Some(Ok(false)) => return Ended::of(NodeWord::Skipped),
            Some(Err(_)) => return Ended::bad(),
            Some(Ok(true)) | None => {}
        }
        let Some(map) = &node.map else { return self.unit(node, &scope) };
        let Ok(items) = flow::list_of(map, &scope) else { return Ended::bad() };
        let mut results = Vec::new();
        let mut errors = Vec::new();
        for (index, value) in items.iter().enumerate() {
            let index = u32::try_from(index).expect("few");
            let ended = self.unit(node, &Scope { item: Some(Item { value, index }), ..scope });
            if ended.is_bad() {
                if node.on_error == OnError::Fail {
                    return Ended::bad();
                }
                errors.push(index);
            }
            results.push(ended.result.unwrap_or(Value::Null));
        }
        let mut joined = json!({ "items": results, "count": items.len() });
        if !errors.is_empty() {
            joined["errors"] = json!(errors);
        }
        Ended::good(joined)
    }

    fn unit(&self, node: &Node, scope: &Scope<'_>) -> Ended {
        let mut gathered = Gathered::default();
        let ended = self.link(node, 0, scope, &mut gathered);
        if node.middlewares.is_empty() || ended.word != NodeWord::Succeeded {
            return ended;
        }
        let mut result = match gathered.host {
            Some(Value::Object(fields)) => fields,
            _ => Map::new(),
        };
        result.extend(gathered.over);
        Ended::good(Value::Object(result))
    }

    fn link(&self, node: &Node, level: usize, scope: &Scope<'_>, gathered: &mut Gathered) -> Ended {
        let step = node.step(level);
        let Ok(parameters) = flow::fill(step, scope) else { return Ended::bad() };
        let parameters: Value = serde_json::from_slice(&parameters).expect("JSON");
        let ended = match &step.work {
            Work::Task { spec, .. } => match deed(spec.demand.task_type.as_str(), &parameters) {
                Deed::Gives(result) | Deed::Stumbles(result) => Ended::good(result),
                Deed::Skips => Ended { result: Some(json!({})), ..Ended::of(NodeWord::Skipped) },
                Deed::Fails => Ended::bad(),
                Deed::Calls { times, is_strict } => {
                    self.calls((node, level), (times, is_strict), scope, gathered)
                }
            },
            Work::Container { graph, .. } => {
                let mut inputs = parameters;
                if let Some(fields) = inputs.as_object_mut() {
                    fields.remove("__container");
                }
                self.frame(*graph, &inputs).map_or_else(|()| Ended::bad(), Ended::good)
            }
            Work::Delay => Ended::good(json!({ "done": true })),
            Work::Approve { .. } if parameters["say"] == json!(true) => {
                Ended::good(json!({ "approved": true, "by": "sim", "payload": {} }))
            }
            Work::WaitEvent { .. } | Work::Approve { .. } => Ended::bad(),
        };
        if let (NodeWord::Succeeded, Some(result)) = (ended.word, &ended.result) {
            match result {
                _ if level == node.host_level() => gathered.host = Some(result.clone()),
                Value::Object(fields) => gathered.over.extend(fields.clone()),
                _ => {}
            }
        }
        ended
    }

    fn calls(
        &self,
        (node, level): (&Node, usize),
        (times, is_strict): (u64, bool),
        scope: &Scope<'_>,
        gathered: &mut Gathered,
    ) -> Ended {
        let mut good = 0;
        for iteration in 0..times {
            let payload = json!({ "iteration": iteration });
            let inner = Scope { payload: Some(&payload), ..*scope };
            let ended = self.link(node, level + 1, &inner, gathered);
            if ended.word == NodeWord::Succeeded {
                good += 1;
            } else if is_strict {
                return Ended::bad();
            }
        }
        Ended::good(after_calls(good))
    }
}
