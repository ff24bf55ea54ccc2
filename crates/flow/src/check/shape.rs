//! Whether each field is of the kind that it should be. `schemas/workflow.json` says the same to
//! editors; what it refuses is refused here, and nothing else is.

mod field;
mod node;

use crate::definition::{Edge, End, Hints, Pairs, Runtime, Spelling, Subgraph, Workflow};
use crate::problem::{Place, Problems, code};
use field::Fields;

pub use field::DEMAND_ENTRIES_MAX;
pub(crate) use field::is_deeper_than;
pub use node::{
    AFFINITY_TTL_MAX, ALIAS_BYTES_MAX, KEY_BYTES_MAX, LABEL_BYTES_MAX, MIDDLEWARES_MAX,
    PARALLEL_MAX, PORTS_MAX,
};

/// Tells every field that is missing, or not what it should be.
pub(crate) fn check(workflow: &Workflow<'_>, problems: &mut Problems) {
    let mut fields = Fields { problems };
    let root = Place::root("");
    fields.id(&workflow.id, &root.key("id"));
    graph(workflow, &root, &mut fields);
}

fn graph(workflow: &Workflow<'_>, at: &Place<'_>, fields: &mut Fields<'_>) {
    if let Some(metadata) = fields.object(&workflow.metadata, &at.key("metadata")) {
        let at = at.key("metadata");
        fields.text(&metadata.name, &at.key("name"));
        fields.text(&metadata.label, &at.key("label"));
    }
    nodes(workflow, at, fields);
    let place = at.key("edges");
    for (index, item) in fields.list(&workflow.edges, &place).iter().enumerate() {
        let place = place.index(index);
        if let Some(item) = fields.needed(item, &place, "an object") {
            edge(item, &place, fields);
        }
    }
    let place = at.key("subgraphs");
    for (index, item) in fields.list(&workflow.subgraphs, &place).iter().enumerate() {
        let place = place.index(index);
        if let Some(item) = fields.needed(item, &place, "an object") {
            subgraph(item, &place, fields);
        }
    }
    runtimes(&workflow.runtimes, &at.key("runtimes"), fields);
    fields.raw_object(workflow.outputs, &at.key("outputs"));
}

fn nodes(workflow: &Workflow<'_>, at: &Place<'_>, fields: &mut Fields<'_>) {
    let at = at.key("nodes");
    let Some(nodes) = fields.needed(&workflow.nodes, &at, "a list with at least one node") else {
        return;
    };
    if nodes.is_empty() {
        let message = "there are no nodes; a workflow needs at least one";
        fields.problems.error(code::INVALID, &at, format_args!("{message}"));
    }
    for (index, node) in nodes.iter().enumerate() {
        let at = at.index(index);
        if let Some(node) = fields.needed(node, &at, "an object") {
            node::check(node, &at.about(node.id.text()), fields);
        }
    }
}

fn edge(edge: &Edge<'_>, at: &Place<'_>, fields: &mut Fields<'_>) {
    fields.text(&edge.id, &at.key("id"));
    for (end, key) in [(&edge.source, "source"), (&edge.target, "target")] {
        let at = at.key(key);
        if let Some(End { node, port, .. }) = fields.needed(end, &at, "an object with a node") {
            fields.needed(node, &at.key("node"), "the id of a node");
            fields.text(port, &at.key("port"));
        }
    }
}

fn subgraph(subgraph: &Subgraph<'_>, at: &Place<'_>, fields: &mut Fields<'_>) {
    fields.id(&subgraph.id, &at.key("id"));
    if let Some(metadata) = fields.object(&subgraph.metadata, &at.key("metadata")) {
        let at = at.key("metadata");
        fields.text(&metadata.name, &at.key("name"));
        fields.text(&metadata.label, &at.key("label"));
    }
    let at = at.key("definition");
    if let Some(definition) = fields.needed(&subgraph.definition, &at, "an object with nodes") {
        fields.id_if_any(&definition.id, &at.key("id"));
        graph(definition, &at, fields);
    }
}

fn runtimes(runtimes: &Pairs<'_, Runtime<'_>>, at: &Place<'_>, fields: &mut Fields<'_>) {
    for (name, runtime) in fields.pairs(runtimes, at) {
        let at = at.key(name);
        let Some(runtime) = fields.object(runtime, &at) else { continue };
        let at = at.key(runtime.spelling("workerHints"));
        let Some(hints) = fields.object(&runtime.hints, &at) else { continue };
        let Hints { package, min_version, queue, labels, .. } = hints;
        fields.text(package, &at.key("package"));
        let place = at.key(hints.spelling("minVersion"));
        fields.fits::<model::PackageVersion>(min_version, &place);
        fields.fits::<model::QueueName>(queue, &at.key("queue"));
        fields.labels(labels, &at.key("labels"));
    }
}
