//! What people write: a workflow as JSON, as seed 003 section 4 has it, and fields of our own.
//! `schemas/workflow.json` says the same to editors; what it refuses is refused here, and nothing
//! else is.

mod read;
mod rules;

use std::borrow::Cow;
use std::time::Duration;

use bytes::Bytes;
use model::{
    ATTEMPTS_MAX, BACKOFF_MAX, LEASE_TTL_MAX, LEASE_TTL_MIN, PRIORITY_LIMIT, PackageVersion,
    QueueName, TIMEOUT_MAX, ToolName,
};
use serde::de::DeserializeSeed;

use crate::problem::{Place, Problems, code};

use read::{Budget, Counted, Key, Shape, Whole, Within, objects};
pub(crate) use read::{List, Loose, Pairs, Raw, Text};
use rules::{
    AFFINITY_TTL_MAX, DEMAND_ENTRIES_MAX, MILLISECOND, PARALLEL_MAX, PORTS_MAX, affinity_key,
    alias, fits, id, key, label, labels, list, may, millis, must, needs, nodes, one_of, over,
    raw_object, retry, runtimes, subgraph, unchecked, whole,
};

/// Limit: the longest definition.
const DEFINITION_BYTES_MAX: usize = 64 * 1024 * 1024;
/// Limit: nodes and middlewares of a workflow and its subgraphs together.
const NODES_MAX: usize = 200_000;
/// Limit: edges of a workflow and its subgraphs together.
const EDGES_MAX: usize = 1_000_000;
/// Limit: ports, labels, ends of edges and all other small things together.
const OBJECTS_MAX: usize = 6_000_000;
/// Limit: elements of lists that are of the wrong kind. More of them are no slip of the pen.
const WRONG_ELEMENTS_MAX: usize = 1_000;

/// Reads a definition, as far as it can be read, and tells every field that is missing, or not what
/// it should be.
pub(crate) fn decode<'a>(source: &'a Bytes, problems: &Problems) -> Option<Workflow<'a>> {
    let at = problems.at("");
    if source.len() > DEFINITION_BYTES_MAX {
        let n = source.len();
        let limit = DEFINITION_BYTES_MAX;
        at.error(
            code::LIMIT,
            format_args!("the definition has {n} bytes, at most {limit} are taken"),
        );
        return None;
    }
    let Ok(text) = std::str::from_utf8(source) else {
        at.error(code::INVALID, "the definition is not UTF-8 text");
        return None;
    };
    let budget = Budget::new();
    let mut reader = serde_json::Deserializer::from_str(text);
    let read = Within::<Loose<Workflow<'a>>>::new(&budget)
        .deserialize(&mut reader)
        .and_then(|read| reader.end().map(|()| read));
    let (code, what) = match (read, budget.exceeded.get()) {
        (Ok(Loose::Given(workflow)), _) => {
            id(&workflow.id, &at.key("id"));
            workflow.check(&at);
            return Some(workflow);
        }
        (Err(_), Some((what, limit))) => {
            (code::LIMIT, format!("has more than {limit} {what}; split it"))
        }
        (Err(error), None) => (code::INVALID, format!("cannot be read: {error}")),
        (Ok(Loose::Wrong(kind)), _) => (code::INVALID, format!("is {kind}; it must be an object")),
        (Ok(Loose::Absent), _) => (code::INVALID, "is null; it must be an object".to_owned()),
    };
    at.error(code, format_args!("the definition {what}"));
    None
}

objects! {
    /// A workflow, or the inside of a subgraph.
    Workflow<'a> as Object {
        id: Text<'a> = "id", unchecked;
        metadata: Loose<Metadata<'a>> = "metadata", may("an object");
        nodes: List<Box<Node<'a>>> = "nodes", nodes;
        edges: List<Edge<'a>> = "edges", list(usize::MAX, must("an object"));
        subgraphs: List<Subgraph<'a>> = "subgraphs", list(usize::MAX, must("an object"));
        runtimes: Pairs<'a, Runtime<'a>> = "runtimes", runtimes;
        outputs: Raw<'a> = "outputs", raw_object;
    }

    /// What people say about a workflow or a subgraph.
    Metadata<'a> as Object {
        name: Text<'a> = "name", may("text");
        label: Text<'a> = "label", may("text");
    }

    /// A workflow inside a workflow, which containers name.
    Subgraph<'a> as Object {
        id: Text<'a> = "id", id;
        metadata: Loose<Metadata<'a>> = "metadata", may("an object");
        definition: Loose<Box<Workflow<'a>>> = "definition", subgraph;
    }

    /// Hints about one runtime.
    Runtime<'a> as Object {
        hints: Loose<Hints<'a>> = "workerHints" or "worker_hints", may("an object");
    }

    /// What nodes of one package ask for unless they say otherwise.
    Hints<'a> as Object {
        package: Text<'a> = "package", may("text");
        min_version: Text<'a> = "minVersion" or "min_version", fits::<PackageVersion>;
        queue: Text<'a> = "queue", fits::<QueueName>;
        labels: Pairs<'a, Cow<'a, str>> = "labels", labels;
    }

    /// A node, or a middleware around one: those have other rules for their type, and none around
    /// them.
    Node<'a> as Node {
        kind: Text<'a> = "type", unchecked;
        id: Text<'a> = "id", id;
        package: Loose<Package<'a>> = "package", may("an object");
        label: Text<'a> = "label", label;
        role: Text<'a> = "role", may("text");
        alias: Text<'a> = "alias", alias;
        parameters: Raw<'a> = "parameters", raw_object;
        schema: Loose<Box<Schemas<'a>>> = "schema", may("an object");
        ui: Loose<Box<Ui<'a>>> = "ui", may("an object");
        queue: Text<'a> = "queue", fits::<QueueName>;
        tools: List<Cow<'a, str>> = "tools", list(DEMAND_ENTRIES_MAX, needs::<ToolName>);
        labels: Pairs<'a, Cow<'a, str>> = "labels", labels;
        priority: Whole = "priority", whole(-i64::from(PRIORITY_LIMIT), PRIORITY_LIMIT.into());
        timeout_ms: Whole = "timeoutMs" or "timeout_ms", millis(MILLISECOND, TIMEOUT_MAX);
        lease_ttl_ms: Whole = "leaseTtlMs" or "lease_ttl_ms", millis(LEASE_TTL_MIN, LEASE_TTL_MAX);
        concurrency_key: Text<'a> = "concurrencyKey" or "concurrency_key", key;
        retry: Loose<Box<Retry<'a>>> = "retry", retry;
        affinity: Loose<Box<Affinity<'a>>> = "affinity", may("an object");
        when: Loose<Condition<'a>> = "when", may("an expression, or true or false");
        on_error: Text<'a> = "onError" or "on_error", one_of(&["fail", "continue", "skip"]);
        on_skip: Text<'a> = "onSkip" or "on_skip", one_of(&["run", "skip"]);
        map: Loose<Box<Map<'a>>> = "map", may("an object");
        middlewares: List<Box<Node<'a>>> = "middlewares", unchecked;
    }

    /// The package that serves a node.
    Package<'a> as Object {
        name: Text<'a> = "name", may("text");
        version: Text<'a> = "version", may("text");
    }

    /// JSON Schemas of what goes in and of what comes out.
    Schemas<'a> as Object {
        parameters: Raw<'a> = "parameters", unchecked;
        results: Raw<'a> = "results", unchecked;
    }

    /// What the editor draws; the ports matter to us.
    Ui<'a> as Object {
        input_ports: List<Port<'a>> = "inputPorts" or "input_ports",
            list(PORTS_MAX, must("an object with a key"));
        output_ports: List<Port<'a>> = "outputPorts" or "output_ports",
            list(PORTS_MAX, must("an object with a key"));
    }

    /// A place where edges begin or end.
    Port<'a> as Object {
        key: Text<'a> = "key", must("text, the port's own name");
        binding: Loose<Binding<'a>> = "binding", may("an object");
    }

    /// The value that a port stands for.
    Binding<'a> as Object {
        path: Text<'a> = "path", may("text");
        prefix: Text<'a> = "prefix", may("text");
    }

    /// When a failed attempt is tried again.
    Retry<'a> as Object {
        max_attempts: Whole = "maxAttempts" or "max_attempts", whole(1, ATTEMPTS_MAX.into());
        backoff_ms: Whole = "backoffMs" or "backoff_ms", millis(Duration::ZERO, BACKOFF_MAX);
        backoff_max_ms: Whole = "backoffMaxMs" or "backoff_max_ms",
            millis(Duration::ZERO, BACKOFF_MAX);
    }

    /// Keeps tasks together on one worker.
    Affinity<'a> as Object {
        mode: Text<'a> = "mode", one_of(&["sticky", "preferred"]);
        key: Text<'a> = "key", affinity_key;
        ttl_ms: Whole = "ttlMs" or "ttl_ms", millis(MILLISECOND, AFFINITY_TTL_MAX);
    }

    /// Once per element of a list.
    Map<'a> as Object {
        max_parallel: Whole = "maxParallel" or "max_parallel", whole(1, PARALLEL_MAX);
        over: Raw<'a> = "over", over;
    }

    /// From one port to another.
    Edge<'a> as Edge {
        id: Text<'a> = "id", may("text");
        source: Loose<End<'a>> = "source", must("an object with a node");
        target: Loose<End<'a>> = "target", must("an object with a node");
    }

    /// One end of an edge.
    End<'a> as Object {
        node: Text<'a> = "node", must("the id of a node");
        port: Text<'a> = "port", may("text");
    }
}

impl<'a> Node<'a> {
    /// Its middlewares with their levels; those that are no objects are passed over.
    pub(crate) fn levels(&self) -> impl Iterator<Item = (usize, &Node<'a>)> {
        let levels = self.middlewares.items().iter().enumerate();
        levels.filter_map(|(level, middleware)| Some((level, middleware.given()?.as_ref())))
    }
}

/// What decides whether a node is executed.
#[derive(Debug)]
pub(crate) enum Condition<'a> {
    Expression(Cow<'a, str>),
    Constant(bool),
}

impl<'a> Shape<'a> for Condition<'a> {
    fn of_text(text: Cow<'a, str>) -> Option<Self> {
        Some(Self::Expression(text))
    }

    fn of_flag(flag: bool) -> Option<Self> {
        Some(Self::Constant(flag))
    }
}
