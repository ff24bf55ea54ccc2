//! What a step does.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Deserialize;

use crate::compile::spec::{Specs, millis};
use crate::definition::Node;
use crate::program::{Affinity, AffinityMode, ContainerPorts, Work};

/// Time passes.
pub(crate) const DELAY: &str = "core.delay";
/// Someone sends an event.
pub(crate) const WAIT_EVENT: &str = "core.wait_event";
/// Someone says yes or no.
pub(crate) const APPROVE: &str = "core.approve";
/// How long a worker is kept in mind when the author does not say.
pub(crate) const AFFINITY_TTL_DEFAULT: Duration = Duration::from_mins(10);

/// What a node or a middleware does, unless it is a container.
pub(crate) fn work<'s>(node: &'s Node<'s>, specs: &mut Specs<'s>) -> Work {
    match node.kind.text() {
        DELAY => Work::Delay,
        WAIT_EVENT => Work::WaitEvent { timeout: timeout(node) },
        APPROVE => Work::Approve { timeout: timeout(node) },
        _ => Work::Task {
            spec: specs.of(node),
            concurrency_key: node.concurrency_key.given().map(|key| key.as_ref().to_owned()),
            affinity: affinity(node),
        },
    }
}

/// What a container does.
pub(crate) fn container(graph: u32, index: u32, ports: &mut BTreeMap<u32, ContainerPorts>) -> Work {
    Work::Container { graph, ports: ports.remove(&index).unwrap_or_default() }
}

/// What a waiting node says in its parameters.
#[derive(Deserialize)]
struct Waiting {
    #[serde(rename = "timeoutMs", alias = "timeout_ms", default)]
    timeout_ms: Option<u64>,
}

fn timeout(node: &Node<'_>) -> Option<Duration> {
    let parameters = node.parameters.and_then(|raw| serde_json::from_str(raw.get()).ok());
    let own = parameters.and_then(|waiting: Waiting| waiting.timeout_ms);
    own.map(Duration::from_millis).or_else(|| node.timeout_ms.given().copied().map(millis))
}

fn affinity(node: &Node<'_>) -> Option<Affinity> {
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
