//! What people write: a workflow as JSON, as seed 003 section 4 has it, and fields of our own.

mod read;

use bytes::Bytes;
use serde::de::DeserializeSeed;
use serde_json::value::RawValue;

use crate::problem::{Place, Problems, code};

pub(crate) use read::{Budget, List, Loose, Pairs, Shape, Spelling, Text};

use read::{Within, object};

/// The longest definition.
pub const DEFINITION_BYTES_MAX: usize = 64 * 1024 * 1024;
/// Nodes and middlewares of a workflow and its subgraphs together.
pub const NODES_MAX: usize = 200_000;
/// Edges of a workflow and its subgraphs together.
pub const EDGES_MAX: usize = 1_000_000;
/// Ports, labels, ends of edges and all other small things together.
pub const OBJECTS_MAX: usize = 6_000_000;
/// Elements of lists that are of the wrong kind. More of them are no slip of the pen.
pub const WRONG_ELEMENTS_MAX: usize = 1_000;

/// Reads a definition, as far as it can be read.
pub(crate) fn decode<'a>(source: &'a Bytes, problems: &mut Problems) -> Option<Workflow<'a>> {
    let at = Place::root("");
    if source.len() > DEFINITION_BYTES_MAX {
        let n = source.len();
        let message =
            format_args!("the definition has {n} bytes, at most {DEFINITION_BYTES_MAX} are taken");
        problems.error(code::LIMIT, &at, message);
        return None;
    }
    let Ok(text) = std::str::from_utf8(source) else {
        problems.error(code::INVALID, &at, format_args!("the definition is not UTF-8 text"));
        return None;
    };
    let budget = Budget::new([NODES_MAX, EDGES_MAX, OBJECTS_MAX, WRONG_ELEMENTS_MAX]);
    let mut reader = serde_json::Deserializer::from_str(text);
    let read = Within::<Loose<Workflow<'a>>>::new(&budget)
        .deserialize(&mut reader)
        .and_then(|read| reader.end().map(|()| read));
    match (read, budget.exceeded()) {
        (Ok(Loose::Given(workflow)), _) => return Some(workflow),
        (Err(_), Some((what, limit))) => {
            let message = format_args!("the definition has more than {limit} {what}; split it");
            problems.error(code::LIMIT, &at, message);
        }
        (Err(error), None) => {
            let message = format_args!("the definition cannot be read: {error}");
            problems.error(code::INVALID, &at, message);
        }
        (Ok(Loose::Wrong(kind)), _) => {
            let message = format_args!("the definition is {kind}; it must be an object");
            problems.error(code::INVALID, &at, message);
        }
        (Ok(Loose::Absent), _) => {
            let message = "the definition is null; it must be an object";
            problems.error(code::INVALID, &at, format_args!("{message}"));
        }
    }
    None
}

/// JSON that is looked at later.
pub(crate) type Raw<'a> = Option<&'a RawValue>;
/// A whole number.
pub(crate) type Whole = Loose<i64>;

object! {
    /// A workflow, or the inside of a subgraph.
    Workflow<'a> as Object {
        id: Text<'a> = "id",
        metadata: Loose<Metadata<'a>> = "metadata",
        nodes: List<Box<Node<'a>>> = "nodes",
        edges: List<Edge<'a>> = "edges",
        subgraphs: List<Subgraph<'a>> = "subgraphs",
        runtimes: Pairs<'a, Runtime<'a>> = "runtimes",
        outputs: Raw<'a> = "outputs",
    }
}

object! {
    /// What people say about a workflow or a subgraph.
    Metadata<'a> as Object {
        name: Text<'a> = "name",
        label: Text<'a> = "label",
    }
}

object! {
    /// A workflow inside a workflow, which containers name.
    Subgraph<'a> as Object {
        id: Text<'a> = "id",
        definition: Loose<Box<Workflow<'a>>> = "definition",
        metadata: Loose<Metadata<'a>> = "metadata",
    }
}

object! {
    /// Hints about one runtime.
    Runtime<'a> as Object {
        hints: Loose<Hints<'a>> = "workerHints" or "worker_hints",
    }
}

object! {
    /// What nodes of one package ask for unless they say otherwise.
    Hints<'a> as Object {
        package: Text<'a> = "package",
        min_version: Text<'a> = "minVersion" or "min_version",
        queue: Text<'a> = "queue",
        labels: Pairs<'a, std::borrow::Cow<'a, str>> = "labels",
    }
}

object! {
    /// A node, or a middleware around one.
    Node<'a> as Node {
        id: Text<'a> = "id",
        kind: Text<'a> = "type",
        package: Loose<Package<'a>> = "package",
        label: Text<'a> = "label",
        role: Text<'a> = "role",
        parameters: Raw<'a> = "parameters",
        schema: Loose<Box<Schemas<'a>>> = "schema",
        ui: Loose<Box<Ui<'a>>> = "ui",
        middlewares: List<Box<Node<'a>>> = "middlewares",
        alias: Text<'a> = "alias",
        when: Loose<Condition<'a>> = "when",
        on_error: Text<'a> = "onError" or "on_error",
        on_skip: Text<'a> = "onSkip" or "on_skip",
        retry: Loose<Box<Retry<'a>>> = "retry",
        timeout_ms: Whole = "timeoutMs" or "timeout_ms",
        priority: Whole = "priority",
        queue: Text<'a> = "queue",
        tools: List<std::borrow::Cow<'a, str>> = "tools",
        labels: Pairs<'a, std::borrow::Cow<'a, str>> = "labels",
        concurrency_key: Text<'a> = "concurrencyKey" or "concurrency_key",
        lease_ttl_ms: Whole = "leaseTtlMs" or "lease_ttl_ms",
        affinity: Loose<Box<Affinity<'a>>> = "affinity",
        map: Loose<Box<Map<'a>>> = "map",
    }
}

object! {
    /// The package that serves a node.
    Package<'a> as Object {
        name: Text<'a> = "name",
        version: Text<'a> = "version",
    }
}

object! {
    /// JSON Schemas of what goes in and of what comes out.
    Schemas<'a> as Object {
        parameters: Raw<'a> = "parameters",
        results: Raw<'a> = "results",
    }
}

object! {
    /// What the editor draws; the ports matter to us.
    Ui<'a> as Object {
        input_ports: List<Port<'a>> = "inputPorts" or "input_ports",
        output_ports: List<Port<'a>> = "outputPorts" or "output_ports",
    }
}

object! {
    /// A place where edges begin or end.
    Port<'a> as Object {
        key: Text<'a> = "key",
        binding: Loose<Binding<'a>> = "binding",
    }
}

object! {
    /// The value that a port stands for.
    Binding<'a> as Object {
        path: Text<'a> = "path",
        prefix: Text<'a> = "prefix",
    }
}

object! {
    /// When a failed attempt is tried again.
    Retry<'a> as Object {
        max_attempts: Whole = "maxAttempts" or "max_attempts",
        backoff_ms: Whole = "backoffMs" or "backoff_ms",
        backoff_max_ms: Whole = "backoffMaxMs" or "backoff_max_ms",
    }
}

object! {
    /// Keeps tasks together on one worker.
    Affinity<'a> as Object {
        mode: Text<'a> = "mode",
        key: Text<'a> = "key",
        ttl_ms: Whole = "ttlMs" or "ttl_ms",
    }
}

object! {
    /// Once per element of a list.
    Map<'a> as Object {
        over: Raw<'a> = "over",
        max_parallel: Whole = "maxParallel" or "max_parallel",
    }
}

object! {
    /// From one port to another.
    Edge<'a> as Edge {
        id: Text<'a> = "id",
        source: Loose<End<'a>> = "source",
        target: Loose<End<'a>> = "target",
    }
}

object! {
    /// One end of an edge.
    End<'a> as Object {
        node: Text<'a> = "node",
        port: Text<'a> = "port",
    }
}

/// What decides whether a node is executed.
#[derive(Debug)]
pub(crate) enum Condition<'a> {
    /// An expression.
    Expression(std::borrow::Cow<'a, str>),
    /// Always the same.
    Constant(bool),
}

impl<'a> Shape<'a> for Condition<'a> {
    fn of_text(text: std::borrow::Cow<'a, str>) -> Option<Self> {
        Some(Self::Expression(text))
    }

    fn of_flag(flag: bool) -> Option<Self> {
        Some(Self::Constant(flag))
    }
}
