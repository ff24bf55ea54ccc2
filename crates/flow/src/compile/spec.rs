//! What nodes ask of a worker. Equal wishes share one specification.

use std::collections::{BTreeMap, BTreeSet};
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use model::{Demand, LEASE_TTL_DEFAULT, PackageRef, RetryPolicy, TaskSpec};

use crate::definition::{Hints, Node, Package, Pairs, Retry, Workflow};

/// The queue of nodes that name none.
const DEFAULT_QUEUE: &str = "default";

/// A node's wishes in the author's words.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Words<'s> {
    kind: &'s str,
    package: Option<Wanted<'s>>,
    queue: &'s str,
    tools: Vec<&'s str>,
    labels: Vec<(&'s str, &'s str)>,
    numbers: [Option<i64>; 6],
}

/// A package in the author's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Wanted<'s> {
    name: &'s str,
    version: &'s str,
    /// Newer versions are as good.
    or_newer: bool,
}

/// Hints by the package that they are about.
pub(crate) type PackageHints<'s> = BTreeMap<&'s str, &'s Hints<'s>>;

/// The hints of a workflow, which hold for its subgraphs too.
pub(crate) fn hints<'s>(workflow: &'s Workflow<'s>) -> PackageHints<'s> {
    let runtimes = workflow.runtimes.given().map_or(&[][..], Vec::as_slice);
    let runtimes = runtimes.iter().filter_map(|(_, runtime)| runtime.given());
    let hints = runtimes.filter_map(|runtime| runtime.hints.given());
    hints.map(|hints| (hints.package.text(), hints)).collect()
}

/// Specifications that were made before, by the words that they were made of.
#[derive(Debug, Default)]
pub(crate) struct Specs<'s> {
    made: BTreeMap<Words<'s>, Arc<TaskSpec>>,
    hints: PackageHints<'s>,
}

impl<'s> Specs<'s> {
    /// With the hints of a workflow.
    pub(crate) fn new(workflow: &'s Workflow<'s>) -> Self {
        Self { made: BTreeMap::new(), hints: hints(workflow) }
    }

    /// What the node asks for. The definition has been found to be right before.
    pub(crate) fn of(&mut self, node: &'s Node<'s>) -> Arc<TaskSpec> {
        let words = self.words(node);
        if let Some(spec) = self.made.get(&words) {
            return Arc::clone(spec);
        }
        let spec = Arc::new(spec(&words));
        self.made.insert(words, Arc::clone(&spec));
        spec
    }

    fn words(&self, node: &'s Node<'s>) -> Words<'s> {
        let package = node.package.given();
        let hints = package.and_then(|package| self.hints.get(package.name.text()));
        let package = package.map(|package| wanted(package, hints.copied()));
        let queues = [node.queue.text(), hints.map_or("", |hints| hints.queue.text())];
        let queue = queues.into_iter().find(|queue| !queue.is_empty()).unwrap_or(DEFAULT_QUEUE);
        let mut labels = pairs(&node.labels);
        if let Some(hints) = hints {
            for (key, value) in pairs(&hints.labels) {
                if labels.iter().all(|(own, _)| *own != key) {
                    labels.push((key, value));
                }
            }
        }
        labels.sort_unstable();
        let retry = node.retry.given();
        let retry = |pick: fn(&Retry<'_>) -> Option<i64>| retry.and_then(|retry| pick(retry));
        let numbers = [
            node.priority.given().copied(),
            node.lease_ttl_ms.given().copied(),
            node.timeout_ms.given().copied(),
            retry(|retry| retry.max_attempts.given().copied()),
            retry(|retry| retry.backoff_ms.given().copied()),
            retry(|retry| retry.backoff_max_ms.given().copied()),
        ];
        let tools = node.tools.items().iter().map(crate::definition::Text::text).collect();
        Words { kind: node.kind.text(), package, queue, tools, labels, numbers }
    }
}

/// A node that names no version takes the least one of the hints, or a newer.
fn wanted<'s>(package: &'s Package<'s>, hints: Option<&'s Hints<'s>>) -> Wanted<'s> {
    let (name, own) = (package.name.text(), package.version.text());
    let or_newer = own.is_empty();
    let version = if or_newer { hints.map_or("", |hints| hints.min_version.text()) } else { own };
    Wanted { name, version, or_newer }
}

fn pairs<'s>(pairs: &'s Pairs<'_, std::borrow::Cow<'_, str>>) -> Vec<(&'s str, &'s str)> {
    let pairs = pairs.given().map_or(&[][..], Vec::as_slice);
    pairs.iter().map(|(key, value)| (key.as_ref(), value.text())).collect()
}

fn spec(words: &Words<'_>) -> TaskSpec {
    let [priority, lease_ttl, timeout, attempts, backoff, backoff_max] = words.numbers;
    let labels = words.labels.iter().map(|(key, value)| (checked(key), checked(value)));
    let package = words.package.map(|Wanted { name, version, or_newer }| PackageRef {
        name: checked(name),
        version: if or_newer { checked(&format!("{version}+")) } else { checked(version) },
    });
    TaskSpec {
        demand: Demand {
            queue: checked(words.queue),
            task_type: checked(words.kind),
            tools: words.tools.iter().map(|tool| checked(tool)).collect::<BTreeSet<_>>(),
            tags: labels.collect::<BTreeMap<_, _>>(),
            package,
        },
        priority: priority.map_or(0, |it| i16::try_from(it).expect("at most PRIORITY_LIMIT")),
        lease_ttl: lease_ttl.map_or(LEASE_TTL_DEFAULT, millis),
        timeout: timeout.map(millis),
        retry: retry(attempts, backoff, backoff_max),
    }
}

fn retry(attempts: Option<i64>, backoff: Option<i64>, backoff_max: Option<i64>) -> RetryPolicy {
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
pub(crate) fn millis(number: i64) -> Duration {
    Duration::from_millis(number.unsigned_abs())
}

fn checked<T: FromStr>(text: &str) -> T {
    let fits = text.parse().ok();
    fits.expect("the shape of a definition is checked before a program is made of it")
}
