//! The coordinator's words to the wire's.

use coordinator::{FactNumber, Grant, LostAuthority};
use model::{LeaseId, Offer, RunId};
use protocol::rest::leases::{VerdictAnswer, VerdictWord};
use protocol::session::codec::OpenObject;
use protocol::session::frame::BusinessFrame;
use protocol::session::kind::{Payload, Vocabulary};
use protocol::session::payload::exec::{
    Cancel, Constraints, Dispatch, Rebind, Verdict as VerdictPayload,
};
use protocol::session::payload::resource::Release;
use serde_json::value::RawValue;

use super::convert::CORE_PACKAGE;
use super::references;
use crate::verdict_words::lost_authority_word;

/// The version of [`CORE_PACKAGE`], which comes with the worker and so has no other.
const CORE_VERSION: &str = "1.0.0";

/// A grant as a dispatch. Its id is the lease: workers give it back with what they report.
///
/// The `seq` of a dispatch is the number of the grant among the facts of its run: every grant has a
/// new one, and only a retransmission repeats it. A task without a run takes `seq`, which rises with
/// every dispatch of the session.
pub(super) fn dispatch(
    grant: &Grant,
    offer: &Offer,
    seq: u64,
    (vocabulary, wants_ack): (Vocabulary, bool),
) -> BusinessFrame {
    let task_id = grant.lease.task.to_string();
    let demand = &grant.spec.demand;
    let (package_name, package_version) = match &demand.package {
        // Who asks for a least version is given the newest that the worker has.
        Some(wanted) => {
            let package = offer.package_for(wanted).unwrap_or(wanted);
            (package.name.to_string(), package.version.to_string())
        }
        None => (CORE_PACKAGE.to_owned(), CORE_VERSION.to_owned()),
    };
    let run_id = grant.run.as_ref().map(ToString::to_string);
    let run_id = run_id.or_else(|| grant.link.as_ref().map(|link| link.run.to_string()));
    let node_id = grant.link.as_ref().map(|link| link.step_id.to_string());
    let chain = grant.chain.as_deref();
    let timeout = grant.spec.timeout.map(|timeout| timeout.as_millis());
    let payload = Payload::ExecDispatch(Box::new(Dispatch {
        run_id: run_id.unwrap_or_else(|| task_id.clone()),
        node_id: node_id.unwrap_or_else(|| task_id.clone()),
        task_id: task_id.clone(),
        node_type: demand.task_type.to_string(),
        package_name,
        package_version,
        parameters: parameters(&grant.parameters),
        constraints: Constraints {
            timeout_ms: timeout.map(|ms| u64::try_from(ms).unwrap_or(u64::MAX)),
        },
        priority: (grant.spec.priority != 0).then(|| i64::from(grant.spec.priority)),
        host_node_id: chain.map(|chain| chain.host.to_string()),
        middleware_chain: chain
            .map(|chain| chain.middlewares.iter().map(ToString::to_string).collect()),
        chain_index: chain_index(grant),
        concurrency_key: grant.concurrency_key.as_ref().map(ToString::to_string),
        resource_refs: references::in_parameters(&grant.parameters),
        affinity: None,
    }));
    BusinessFrame {
        seq: Some(grant.fact.map_or(seq, FactNumber::get)),
        wants_ack,
        ..BusinessFrame::saying(&payload, vocabulary, grant.lease.to_string(), task_id)
    }
}

/// The place of a middleware among its peers; the node itself has none.
fn chain_index(grant: &Grant) -> Option<u64> {
    let (link, chain) = grant.link.as_ref().zip(grant.chain.as_ref())?;
    let is_middleware = usize::from(link.level) < chain.middlewares.len();
    is_middleware.then_some(u64::from(link.level))
}

/// Results travel to middlewares as objects: nothing becomes an empty one.
pub(super) fn object(json: &[u8]) -> OpenObject {
    if json == b"null" || json.is_empty() { OpenObject::empty() } else { parameters(json) }
}

/// Dispatches carry objects alone; anything else becomes the value of one.
fn parameters(json: &[u8]) -> OpenObject {
    let text = std::str::from_utf8(json).unwrap_or("{}").to_owned();
    let raw = RawValue::from_string(text).unwrap_or_default();
    let wrap = |raw: &RawValue| RawValue::from_string(format!("{{\"value\":{raw}}}"));
    match OpenObject::new(raw.clone()) {
        Some(object) => object,
        None => wrap(&raw).ok().and_then(OpenObject::new).unwrap_or_default(),
    }
}

/// Tells a worker to stop.
pub(super) fn cancel(lease: LeaseId, why: LostAuthority, vocabulary: Vocabulary) -> BusinessFrame {
    let task_id = lease.task.to_string();
    let payload = Payload::ExecCancel(Cancel {
        run_id: None,
        task_id: task_id.clone(),
        reason: lost_authority_word(why).to_owned(),
        lease_id: lease.to_string(),
    });
    BusinessFrame::saying(&payload, vocabulary, format!("cancel-{lease}"), task_id)
}

/// Tells a worker that a run has ended.
pub(super) fn release(run: RunId, vocabulary: Vocabulary) -> BusinessFrame {
    let run_id = run.to_string();
    let payload = Payload::ResourceRelease(Release { run_id: run_id.clone() });
    BusinessFrame::saying(&payload, vocabulary, format!("release-{run_id}"), run_id)
}

/// Tells a worker who has the work of a run from here on. The mark tells rebinds apart.
pub(super) fn rebind(rebind: Rebind, mark: &str, vocabulary: Vocabulary) -> BusinessFrame {
    let run_id = rebind.run_id.clone();
    let payload = Payload::RunRebind(rebind);
    BusinessFrame::saying(&payload, vocabulary, format!("rebind-{mark}"), run_id)
}

/// A verdict as a frame of its own.
pub(super) fn verdict(
    lease: LeaseId,
    answer: &VerdictAnswer,
    vocabulary: Vocabulary,
) -> BusinessFrame {
    let payload = Payload::ExecVerdict(VerdictPayload {
        lease_id: lease.to_string(),
        verdict: answer.verdict,
        reason: answer.reason.clone(),
        task_state: answer.task_state.map(|state| state.word().to_owned()),
    });
    BusinessFrame::saying(&payload, vocabulary, format!("verdict-{lease}"), lease.to_string())
}

/// A verdict in the words that an ack carries: `COMMITTED`, `CANCELLED superseded`.
pub(super) fn info(answer: &VerdictAnswer) -> String {
    let word = match answer.verdict {
        VerdictWord::Committed => "COMMITTED",
        VerdictWord::Cancelled => "CANCELLED",
        VerdictWord::Rejected => "REJECTED",
    };
    answer.reason.as_ref().map_or_else(|| word.to_owned(), |reason| format!("{word} {reason}"))
}
