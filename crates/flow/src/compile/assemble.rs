//! Puts a program together, once nothing is wrong with it.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use model::{Demand, LEASE_TTL_DEFAULT, PackageRef, RetryPolicy, TaskSpec};
use serde_json::Value;
use serde_json::value::RawValue;

use super::Context;
use super::draft::{GraphDraft, Links, NodeDraft, StepDraft, inputs};
use super::ports::Flow;
use super::sources::{is_container, uuid};
use crate::definition::{Hints, Node as Authored, Pairs, Text, Workflow};
use crate::program::{
    Affinity, AffinityMode, ContainerPorts, Graph, Node, OnError, OnSkip, Parameters, Step, Work,
};

/// Time passes.
pub(crate) const DELAY: &str = "core.delay";
/// Someone sends an event.
pub(crate) const WAIT_EVENT: &str = "core.wait_event";
/// Someone says yes or no.
pub(crate) const APPROVE: &str = "core.approve";
/// How long a worker is kept in mind when the author does not say.
const AFFINITY_TTL_DEFAULT: Duration = Duration::from_mins(10);
/// The queue of nodes that name none.
const DEFAULT_QUEUE: &str = "default";

/// Puts the graphs of one program together.
pub(super) struct Assembly<'s> {
    bytes: &'s Bytes,
    specs: Specs<'s>,
    /// The ports of the containers of the graph.
    ports: BTreeMap<u32, ContainerPorts>,
    /// What flows in the graph, by the step that it goes to; last first.
    flows: Vec<Flow>,
}

impl<'s> Assembly<'s> {
    /// For the definition in these bytes.
    pub(super) fn new(workflow: &'s Workflow<'s>, bytes: &'s Bytes) -> Self {
        let specs = Specs { made: BTreeMap::new(), hints: hints(workflow) };
        Self { bytes, specs, ports: BTreeMap::new(), flows: Vec::new() }
    }

    /// Makes a graph of its draft and the ports of its containers.
    pub(super) fn graph(
        &mut self,
        context: &Context<'s>,
        draft: GraphDraft<'s>,
        ports: BTreeMap<u32, ContainerPorts>,
    ) -> Graph {
        self.ports = ports;
        self.flows = draft.flows;
        self.flows.reverse();
        let source = context.source();
        let nodes = draft.nodes.into_iter().zip(draft.links).map(|(node, links)| {
            let graph = source.inner.get(&node.host.index).copied();
            let is_fed = draft.fed.contains_key(&node.host.index);
            self.node(node, links, graph, is_fed)
        });
        let nodes: Vec<_> = nodes.collect();
        let roots = nodes.iter().zip(0_u32..);
        let roots = roots.filter(|(node, _)| node.waits_for.is_empty()).map(|(_, index)| index);
        Graph {
            id: uuid(source.id).unwrap_or_default(),
            name: source.name.to_owned(),
            roots: roots.collect(),
            nodes,
            outputs: draft.outputs,
            outputs_read: draft.outputs_read,
        }
    }

    /// `graph` is what a container stands for, and `is_fed` says that one puts values in.
    fn node(
        &mut self,
        draft: NodeDraft<'s>,
        links: Links,
        graph: Option<u32>,
        is_fed: bool,
    ) -> Node {
        let NodeDraft { host, middlewares, when, map, .. } = draft;
        let authored = host.node;
        let work = graph.map(|graph| {
            let ports = self.ports.remove(&host.index).unwrap_or_default();
            Work::Container { graph, ports }
        });
        let host = self.step(host, work, is_fed);
        let middlewares = middlewares.into_iter().map(|draft| self.step(draft, None, false));
        let middlewares = middlewares.collect();
        let results = authored.schema.given().and_then(|schema| schema.results);
        Node {
            id: uuid(authored.id.text()).unwrap_or_default(),
            alias: authored.alias.given().map(|alias| alias.as_ref().to_owned()),
            label: authored.label.text().to_owned(),
            middlewares,
            host,
            waits_for: links.waits_for,
            followers: links.followers,
            readers: links.readers,
            keeps_parameters: links.keeps_parameters,
            on_error: match authored.on_error.text() {
                "continue" => OnError::Continue,
                "skip" => OnError::Skip,
                _ => OnError::Fail,
            },
            on_skip: match authored.on_skip.text() {
                "skip" => OnSkip::Skip,
                _ => OnSkip::Run,
            },
            when,
            map,
            results: results.map(|schema| self.bytes.slice_ref(schema.get().as_bytes())),
        }
    }

    fn step(&mut self, draft: StepDraft<'s>, work: Option<Work>, is_fed: bool) -> Step {
        let at = (draft.index, draft.level);
        let mut wires = Vec::new();
        while let Some(flow) = self.flows.pop_if(|flow| flow.step() == at) {
            wires.push(flow.into_wire());
        }
        let authored = draft.node;
        let parameters = match (draft.rendered, authored.parameters.map(RawValue::get)) {
            (Some(authored), _) => Parameters::Open { authored, has_expressions: true },
            _ if is_fed || !wires.is_empty() => {
                Parameters::Open { authored: inputs(authored), has_expressions: false }
            }
            _ if is_container(authored) => Parameters::Plain(inputs(authored).to_string().into()),
            (None, Some(text)) => Parameters::Plain(self.bytes.slice_ref(text.as_bytes())),
            (None, None) => Parameters::Plain(Bytes::from_static(b"{}")),
        };
        Step {
            id: uuid(authored.id.text()).unwrap_or_default(),
            work: work.unwrap_or_else(|| self.work(authored)),
            parameters,
            wires,
            references: draft.references.nodes,
        }
    }

    /// What a node or a middleware does, unless it is a container.
    fn work(&mut self, node: &'s Authored<'s>) -> Work {
        match node.kind.text() {
            DELAY => Work::Delay,
            WAIT_EVENT => Work::WaitEvent { timeout: timeout(node) },
            APPROVE => Work::Approve { timeout: timeout(node) },
            _ => Work::Task {
                spec: self.specs.of(node),
                concurrency_key: node.concurrency_key.given().map(|key| key.as_ref().to_owned()),
                affinity: affinity(node),
            },
        }
    }
}

/// What a waiting node says in its parameters, else in its own field.
fn timeout(node: &Authored<'_>) -> Option<Duration> {
    let parameters = inputs(node);
    let own = parameters.get("timeoutMs").or(parameters.get("timeout_ms")).and_then(Value::as_u64);
    own.map(Duration::from_millis).or_else(|| node.timeout_ms.given().copied().map(millis))
}

fn affinity(node: &Authored<'_>) -> Option<Affinity> {
    let given = node.affinity.given()?;
    Some(Affinity {
        mode: match given.mode.text() {
            "preferred" => AffinityMode::Preferred,
            _ => AffinityMode::Sticky,
        },
        key: given.key.text().to_owned(),
        ttl: given.ttl_ms.given().copied().map_or(AFFINITY_TTL_DEFAULT, millis),
    })
}

/// Hints by the package that they are about.
pub(crate) type PackageHints<'s> = BTreeMap<&'s str, &'s Hints<'s>>;

/// The hints of a workflow, which hold for its subgraphs too.
pub(crate) fn hints<'s>(workflow: &'s Workflow<'s>) -> PackageHints<'s> {
    let runtimes = workflow.runtimes.items().iter().filter_map(|(_, runtime)| runtime.given());
    let hints = runtimes.filter_map(|runtime| runtime.hints.given());
    hints.map(|hints| (hints.package.text(), hints)).collect()
}

/// A node's wishes in the author's words.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Words<'s> {
    kind: &'s str,
    /// Its name and its version, and whether newer ones are as good.
    package: Option<(&'s str, &'s str, bool)>,
    queue: &'s str,
    tools: Vec<&'s str>,
    labels: Vec<(&'s str, &'s str)>,
    /// Priority, lease and timeout.
    numbers: [Option<i64>; 3],
    /// Attempts, first and longest pause.
    retry: [Option<i64>; 3],
}

/// What nodes ask of a worker, by the words that it was made of: equal wishes share one.
struct Specs<'s> {
    made: BTreeMap<Words<'s>, Arc<TaskSpec>>,
    hints: PackageHints<'s>,
}

impl<'s> Specs<'s> {
    /// What the node asks for. The definition has been found to be right before.
    fn of(&mut self, node: &'s Authored<'s>) -> Arc<TaskSpec> {
        let words = self.words(node);
        Arc::clone(self.made.entry(words).or_insert_with_key(|words| Arc::new(spec(words))))
    }

    fn words(&self, node: &'s Authored<'s>) -> Words<'s> {
        let package = node.package.given();
        let hints = package.and_then(|package| self.hints.get(package.name.text()));
        // A node that names no version takes the least one of the hints, or a newer.
        let package = package.map(|package| match package.version.text() {
            "" => (package.name.text(), hints.map_or("", |hints| hints.min_version.text()), true),
            version => (package.name.text(), version, false),
        });
        let queues = [node.queue.text(), hints.map_or("", |hints| hints.queue.text())];
        let queue = queues.into_iter().find(|queue| !queue.is_empty()).unwrap_or(DEFAULT_QUEUE);
        let mut labels = pairs(&node.labels);
        for (key, value) in hints.map_or(Vec::new(), |hints| pairs(&hints.labels)) {
            if labels.iter().all(|(own, _)| *own != key) {
                labels.push((key, value));
            }
        }
        labels.sort_unstable();
        let numbers = [&node.priority, &node.lease_ttl_ms, &node.timeout_ms];
        let retry = node.retry.given().map_or([None; 3], |retry| {
            let numbers = [&retry.max_attempts, &retry.backoff_ms, &retry.backoff_max_ms];
            numbers.map(|number| number.given().copied())
        });
        Words {
            kind: node.kind.text(),
            package,
            queue,
            tools: node.tools.items().iter().map(Text::text).collect(),
            labels,
            numbers: numbers.map(|number| number.given().copied()),
            retry,
        }
    }
}

fn pairs<'s>(pairs: &'s Pairs<'_, Cow<'_, str>>) -> Vec<(&'s str, &'s str)> {
    pairs.items().iter().map(|(key, value)| (key.as_ref(), value.text())).collect()
}

fn spec(words: &Words<'_>) -> TaskSpec {
    let [priority, lease_ttl, timeout] = words.numbers;
    let labels = words.labels.iter().map(|(key, value)| (checked(key), checked(value)));
    let package = words.package.map(|(name, version, or_newer)| PackageRef {
        name: checked(name),
        version: if or_newer { checked(&format!("{version}+")) } else { checked(version) },
    });
    TaskSpec {
        demand: Demand {
            queue: checked(words.queue),
            task_type: checked(words.kind),
            tools: words.tools.iter().map(|tool| checked(tool)).collect(),
            tags: labels.collect(),
            package,
        },
        priority: priority.map_or(0, |it| i16::try_from(it).expect("at most PRIORITY_LIMIT")),
        lease_ttl: lease_ttl.map_or(LEASE_TTL_DEFAULT, millis),
        timeout: timeout.map(millis),
        retry: retry(words.retry),
    }
}

fn retry([attempts, backoff, backoff_max]: [Option<i64>; 3]) -> RetryPolicy {
    let mut policy = RetryPolicy::default();
    if let Some(attempts) = attempts {
        policy.max_attempts = u32::try_from(attempts).expect("at most ATTEMPTS_MAX");
    }
    if let Some(backoff) = backoff.map(millis) {
        policy.backoff = backoff;
        // Who asks for a longer pause than the default cap did not mean to have it cut.
        policy.backoff_max = policy.backoff_max.max(backoff);
    }
    if let Some(backoff_max) = backoff_max.map(millis) {
        policy.backoff_max = backoff_max;
        policy.backoff = policy.backoff.min(backoff_max);
    }
    policy
}

/// A number of milliseconds that was found to be right.
fn millis(number: i64) -> Duration {
    Duration::from_millis(number.unsigned_abs())
}

fn checked<T: FromStr>(text: &str) -> T {
    let fits = text.parse().ok();
    fits.expect("the shape of a definition is checked before a program is made of it")
}
