//! Runs to play with.

use std::sync::Arc;

use bytes::Bytes;
use coordinator::{
    BoundPackage, Change, EndedCall, FactNumber, ItemEnd, ListRecord, NodeEnd, NodeWord, RunAbout,
    RunBindings, RunChange, RunEnd, RunRecord, RunWord, SubgraphRecord,
};
use model::{CallLink, LeaseId, NodeLink, RunId};
use uuid::Uuid;

use super::sample::at;

/// A plain run.
pub(crate) fn run_started(run: RunId) -> RunChange {
    RunChange::RunStarted(Box::new(RunRecord {
        id: run,
        definition: Bytes::from_static(b"{ \"nodes\": [] }"),
        inputs: Bytes::from_static(b"{}"),
        idempotency: None,
        created_at: at(0),
        began_at: None,
        about: Arc::new(RunAbout {
            name: "nightly".into(),
            workflow_id: "flow-1".into(),
            started_by: "a token".into(),
            nodes: 3,
            ..RunAbout::default()
        }),
        end: None,
    }))
}

/// The first of its nodes began.
pub(crate) fn run_began(run: RunId, second: u64) -> RunChange {
    RunChange::RunBegan { run, at: at(second) }
}

/// A subgraph that it entered.
pub(crate) fn frame_opened(run: RunId, number: u32) -> RunChange {
    let frame = SubgraphRecord {
        number,
        graph: 1,
        parent: 0,
        node: 2,
        item: None,
        call: None,
        inputs: Bytes::from_static(b"{}"),
        opened_at: at(1),
        fact: FactNumber::new(1),
    };
    RunChange::SubgraphOpened { run, step_id: Uuid::nil(), frame: Box::new(frame) }
}

pub(crate) fn frame_closed(run: RunId, frame: u32) -> RunChange {
    RunChange::SubgraphClosed { run, frame, end: Box::new(succeeded()) }
}

/// One of its nodes that came to a good end.
pub(crate) fn node_ended(run: RunId, frame: u32, node: u32) -> RunChange {
    RunChange::NodeEnded {
        run,
        frame,
        node,
        step_id: uuid::Uuid::nil(),
        end: Box::new(succeeded()),
    }
}

fn succeeded() -> NodeEnd {
    NodeEnd {
        word: NodeWord::Succeeded,
        at: at(2),
        result: Some(Bytes::from_static(b"{}")),
        failure: None,
        reused: None,
        fact: FactNumber::new(2),
    }
}

/// A node that is executed once for each of three elements.
pub(crate) fn list_begun(run: RunId, frame: u32, node: u32) -> RunChange {
    let list = ListRecord { frame, node, length: 3, fact: FactNumber::new(4) };
    RunChange::ListBegun { run, list, items: Arc::default() }
}

/// An element that could not be begun.
pub(crate) fn item_ended(run: RunId, frame: u32, node: u32) -> RunChange {
    let item = ItemEnd { frame, node, item: 1, end: succeeded() };
    RunChange::ItemEnded { run, item: Box::new(item) }
}

/// A call whose caller waited no longer.
pub(crate) fn call_ended(run: RunId, caller: LeaseId) -> RunChange {
    let call = CallLink { caller, request: "r".into() };
    let call = EndedCall { call, failure: None, at: at(2), fact: FactNumber::new(5) };
    RunChange::CallEnded { run, call: Box::new(call) }
}

/// A person's word that a worker has its work.
pub(crate) fn rebound(run: RunId, worker: &str) -> RunChange {
    let bound = BoundPackage {
        package: "tools".into(),
        worker: Some(worker.parse().expect("a name")),
        since: at(2),
        moved_from: Some("w9".parse().expect("a name")),
    };
    let kept_from = vec!["w9".parse().expect("a name")];
    let bindings = RunBindings { bound: vec![bound], kept_from, fact: FactNumber::new(3) };
    RunChange::Rebound { run, bindings: Box::new(bindings) }
}

/// Its good end.
pub(crate) fn run_settled(run: RunId) -> RunChange {
    let end = RunEnd {
        word: RunWord::Succeeded,
        at: at(3),
        node: None,
        failure: None,
        outputs: Some(Bytes::from_static(b"{\"sum\": 42}")),
    };
    RunChange::RunSettled { run, end: Box::new(end) }
}

/// Makes a submitted task part of a run.
pub(crate) fn linked(mut change: Change, run: RunId, node: u32) -> Change {
    if let Change::TaskSubmitted(record) = &mut change {
        record.run = Some(run.to_string().parse().expect("a valid name"));
        record.link = Some(Arc::new(NodeLink {
            run,
            frame: 0,
            node,
            item: None,
            level: 0,
            step_id: Uuid::from_u128(u128::from(node)),
            call: None,
        }));
    }
    change
}
