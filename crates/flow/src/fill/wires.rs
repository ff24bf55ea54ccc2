//! What flows into a step.

use serde_json::Value;

use crate::path::get;
use crate::program::{Endpoint, Root, Step};
use crate::scope::{NodeFacts, Scope};

/// A value that flowed in.
pub(super) struct Arrival<'a> {
    order: u32,
    /// Where it goes.
    pub(super) to: &'a [String],
    /// What it is.
    pub(super) value: &'a Value,
}

/// What flows in, in the order in which the nodes ended that it comes from.
pub(super) fn arrivals<'a>(step: &'a Step, scope: &Scope<'a>) -> Vec<Arrival<'a>> {
    let mut arrivals = Vec::new();
    for wire in &step.wires {
        let Some(facts) = scope.nodes.facts(wire.from.node) else { continue };
        let Some(value) = source(facts, &wire.from) else { continue };
        // Parameters stay an object.
        if wire.to.is_empty() && !value.is_object() {
            continue;
        }
        arrivals.push(Arrival { order: facts.order, to: &wire.to, value });
    }
    // Stable: wires of one node stay in the order of the edges.
    arrivals.sort_by_key(|arrival| arrival.order);
    arrivals
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
    get(root?, &from.path)
}
