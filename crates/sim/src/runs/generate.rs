//! A workflow from a seed: every kind of node, edge, condition and wrapping.

use serde_json::{Map, Value, json};
use uuid::Uuid;

use crate::rng::{Dice, scatter};

/// Subgraphs are nested no deeper than this.
const DEPTH_MAX: u32 = 2;

/// Makes one workflow.
pub(super) struct Generator {
    dice: Dice,
    last_id: u128,
}

impl Generator {
    /// Makes the workflow of a seed that has this number.
    pub(super) fn new(seed: u64, number: u64) -> Self {
        Self { dice: Dice::of_parts(seed, scatter(number), 23), last_id: 0 }
    }

    fn id(&mut self) -> Uuid {
        self.last_id += 1;
        Uuid::from_u128(0x5157_0000_0000_4000_8000_0000_0000_0000 + self.last_id)
    }

    pub(super) fn workflow(&mut self, depth: u32) -> Value {
        let n_nodes = self.dice.between(1, if depth == 0 { 9 } else { 4 });
        let mut nodes: Vec<Value> = Vec::new();
        let mut edges = Vec::new();
        let mut subgraphs = Vec::new();
        for _ in 0..n_nodes {
            let node = self.node(&nodes, depth, &mut subgraphs);
            for earlier in &nodes {
                if self.dice.chance(250) {
                    edges.push(json!({
                        "source": { "node": earlier["id"] }, "target": { "node": node["id"] }
                    }));
                }
            }
            nodes.push(node);
        }
        json!({
            "id": self.id(), "schemaVersion": "2025-10", "metadata": { "name": "random" },
            "nodes": nodes, "edges": edges, "subgraphs": subgraphs
        })
    }

    fn node(&mut self, earlier: &[Value], depth: u32, subgraphs: &mut Vec<Value>) -> Value {
        let (id, place) = (self.id(), earlier.len());
        let mut node = Map::new();
        node.insert("id".into(), json!(id));
        node.insert("alias".into(), json!(format!("n{place}")));
        node.insert("label".into(), json!(format!("n{place}")));
        node.insert("retry".into(), json!({ "maxAttempts": 900, "backoffMs": 10 }));
        let mut parameters = Map::new();
        parameters.insert("own".into(), json!(self.dice.below(5)));
        if self.dice.chance(500) && !earlier.is_empty() {
            let other = self.dice.index(earlier.len());
            parameters.insert("in".into(), json!(format!("{{{{ nodes.n{other}.results.n }}}}")));
        }
        let kind = self.kind(depth, &mut parameters, subgraphs);
        if self.dice.chance(200) && !earlier.is_empty() {
            let other = self.dice.index(earlier.len());
            node.insert("when".into(), json!(format!("nodes.n{other}.status == 'succeeded'")));
        }
        if self.dice.chance(200) {
            let max = self.dice.between(1, 3);
            node.insert("map".into(), json!({ "over": self.list(earlier), "maxParallel": max }));
            parameters.insert("item".into(), json!("{{ item }}"));
        }
        if self.dice.chance(250) {
            let count = self.dice.between(1, 2);
            let chain: Vec<Value> = (0..count).map(|_| self.middleware()).collect();
            node.insert("middlewares".into(), json!(chain));
        }
        let on_error = *self.dice.pick(&["fail", "continue", "skip", "skip"]).expect("some");
        node.insert("onError".into(), json!(on_error));
        node.insert("onSkip".into(), json!(if self.dice.chance(300) { "skip" } else { "run" }));
        node.insert("type".into(), json!(kind));
        node.insert("parameters".into(), Value::Object(parameters));
        Value::Object(node)
    }

    fn kind(
        &mut self,
        depth: u32,
        parameters: &mut Map<String, Value>,
        subgraphs: &mut Vec<Value>,
    ) -> &'static str {
        match self.dice.below(20) {
            0 | 1 => "fail",
            2 => "skip",
            3 | 4 => "flaky",
            5 => {
                parameters.insert("ms".into(), json!(self.dice.below(300)));
                "core.delay"
            }
            6 => {
                parameters.insert("say".into(), json!(self.dice.chance(700)));
                "core.approve"
            }
            7..=10 if depth < DEPTH_MAX => {
                let (id, definition) = (self.id(), self.workflow(depth + 1));
                subgraphs.push(json!({ "id": id, "definition": definition }));
                parameters.insert("__container".into(), json!({ "subgraphId": id }));
                "workflow.container"
            }
            _ => "ok",
        }
    }

    fn middleware(&mut self) -> Value {
        let how = if self.dice.chance(500) { "strict" } else { "lenient" };
        let times = self.dice.below(4);
        json!({
            "id": self.id(), "type": format!("m.{times}.{how}"), "label": "m",
            "retry": { "maxAttempts": 900, "backoffMs": 10 },
            "parameters": { "own": self.dice.below(5) }
        })
    }

    fn list(&mut self, earlier: &[Value]) -> Value {
        if self.dice.chance(500) || earlier.is_empty() {
            return json!((0..self.dice.below(5)).collect::<Vec<u64>>());
        }
        let other = self.dice.index(earlier.len());
        json!(format!("{{{{ nodes.n{other}.results.list }}}}"))
    }
}
