//! Makes valid histories of runs: each choice becomes a fact that can follow from what is.

use std::sync::Arc;

use bytes::Bytes;
use coordinator::{
    BoundPackage, EndedCall, FactNumber, ItemEnd, ListRecord, NodeEnd, NodeWord, RestoredRun,
    RunAbout, RunBindings, RunChange, RunEnd, RunNumbers, RunRecord, RunWord, SubgraphRecord,
};
use model::{IdempotencyMark, RunId, ShardId, TaskId};

use super::history::{Dice, call, fact_if_any, failure};
use sim::Tables;

/// A fact about a run that may come next in `shard`, by chance.
pub(crate) fn next_run_change(tables: &Tables, shard: ShardId, dice: &mut Dice) -> RunChange {
    let restored = tables.restore(shard);
    if restored.runs.is_empty() || dice.one_in(4) {
        return start(RunId::of(shard, restored.next_run), dice);
    }
    let live = &restored.runs[dice.roll(restored.runs.len())];
    let run = live.record.id;
    match dice.roll(16) {
        0..3 => open(live, shard, dice),
        3 => close(live, shard, dice).unwrap_or_else(|| open(live, shard, dice)),
        4..8 => end_node(live, shard, dice),
        9 => RunChange::RunBegan { run, at: dice.moment() },
        10 => begin_list(live, dice),
        11 => end_item(live, shard, dice),
        12 => end_call(live, shard, dice),
        13 => number(live, dice),
        8 => RunChange::Rebound { run, bindings: Box::new(bindings(dice)) },
        _ => RunChange::RunSettled { run, end: Box::new(run_end(dice)) },
    }
}

/// Every run of a shard, newest first, without what may be long.
pub(crate) fn all_runs(tables: &Tables, shard: ShardId) -> Vec<RunRecord> {
    tables.runs(shard).cloned().collect()
}

fn start(run: RunId, dice: &mut Dice) -> RunChange {
    let number = run.number();
    let older = (number > 1 && dice.one_in(3)).then(|| RunId::of(run.shard(), number - 1));
    let about = RunAbout {
        name: "nächtlich \"1\"".into(),
        workflow_id: format!("flow-{}", dice.roll(2)),
        workflow_version: dice.one_in(2).then(|| dice.number()),
        definition_hash: format!("{:064x}", dice.number()),
        client_id: dice.one_in(2).then(|| "browser".into()),
        retry_of: older,
        started_by: "schedule 7".into(),
        nodes: u32::try_from(dice.roll(30_000)).expect("small"),
    };
    RunChange::RunStarted(Box::new(RunRecord {
        id: run,
        definition: Bytes::from(format!("{{ \"n\":\t[{}0] }}", "7, ".repeat(dice.roll(3_000)))),
        inputs: Bytes::from(format!("{{\"x\":{}}}", dice.number())),
        idempotency: dice.one_in(2).then(|| IdempotencyMark {
            key: format!("start {number}").parse().expect("valid"),
            fingerprint: u64::MAX - dice.number(),
        }),
        created_at: dice.moment(),
        began_at: None,
        about: Arc::new(about),
        end: None,
    }))
}

fn open(live: &RestoredRun, shard: ShardId, dice: &mut Dice) -> RunChange {
    let number = live.parts.frames.last().map_or(1, |last| last.number + 1);
    let small = |dice: &mut Dice| u32::try_from(dice.roll(4)).expect("small");
    let frame = SubgraphRecord {
        number,
        graph: small(dice),
        parent: small(dice),
        node: small(dice),
        item: dice.one_in(2).then(|| small(dice)),
        call: dice.one_in(2).then(|| Box::new(call(shard, dice))),
        inputs: Bytes::from(format!("{{\"y\":{}}}", dice.number())),
        opened_at: dice.moment(),
        fact: fact_if_any(dice),
    };
    let step_id = uuid::Uuid::nil();
    RunChange::SubgraphOpened { run: live.record.id, step_id, frame: Box::new(frame) }
}

/// An open frame's end, if one is open.
fn close(live: &RestoredRun, shard: ShardId, dice: &mut Dice) -> Option<RunChange> {
    let is_open = |number: u32| live.parts.closed.iter().all(|(closed, _)| *closed != number);
    let frame =
        live.parts.frames.iter().map(|frame| frame.number).find(|number| is_open(*number))?;
    let end = Box::new(node_end(shard, dice));
    Some(RunChange::SubgraphClosed { run: live.record.id, frame, end })
}

/// The next node of a frame, so that none ends twice.
fn end_node(live: &RestoredRun, shard: ShardId, dice: &mut Dice) -> RunChange {
    let frame = u32::try_from(dice.roll(live.parts.frames.len() + 1)).expect("small");
    let of_frame = live.parts.ended.iter().filter(|(other, _, _)| *other == frame);
    let node = of_frame.map(|(_, node, _)| node + 1).max().unwrap_or(0);
    let end = Box::new(node_end(shard, dice));
    RunChange::NodeEnded { run: live.record.id, frame, node, step_id: uuid::Uuid::nil(), end }
}

fn fact(dice: &mut Dice) -> Option<FactNumber> {
    FactNumber::new(1 + dice.number())
}

/// The next node, so that no list begins twice.
fn next_list(live: &RestoredRun, dice: &mut Dice) -> ListRecord {
    let node = live.parts.lists.iter().map(|list| list.node + 1).max().unwrap_or(0);
    let length = u32::try_from(dice.roll(1_000)).expect("small");
    ListRecord { frame: 0, node, length, fact: fact(dice) }
}

fn begin_list(live: &RestoredRun, dice: &mut Dice) -> RunChange {
    let list = next_list(live, dice);
    RunChange::ListBegun { run: live.record.id, list, items: Arc::default() }
}

fn end_item(live: &RestoredRun, shard: ShardId, dice: &mut Dice) -> RunChange {
    let item = live.parts.items.iter().map(|item| item.item + 1).max().unwrap_or(0);
    let end = NodeEnd { fact: fact(dice), ..node_end(shard, dice) };
    let item = ItemEnd { frame: 0, node: 1, item, end };
    RunChange::ItemEnded { run: live.record.id, item: Box::new(item) }
}

fn end_call(live: &RestoredRun, shard: ShardId, dice: &mut Dice) -> RunChange {
    let mut call = call(shard, dice);
    call.request = format!("{} {}", live.parts.calls.len(), call.request).into();
    let failure = dice.one_in(2).then(|| failure(dice));
    let call = EndedCall { call, failure, at: dice.moment(), fact: fact(dice) };
    RunChange::CallEnded { run: live.record.id, call: Box::new(call) }
}

/// Numbers for what the run has.
fn number(live: &RestoredRun, dice: &mut Dice) -> RunChange {
    let mut number = || fact(dice).expect("a number");
    let opened = live.parts.frames.iter().map(|frame| (frame.number, number())).collect();
    let closed = live.parts.closed.iter().map(|(frame, _)| (*frame, number())).collect();
    let ended = live.parts.ended.iter().map(|(frame, node, _)| (*frame, *node, number())).collect();
    let lists = vec![next_list(live, dice)];
    let numbers = Box::new(RunNumbers { tasks: Vec::new(), opened, closed, ended, lists });
    RunChange::Numbered { run: live.record.id, numbers }
}

fn bindings(dice: &mut Dice) -> RunBindings {
    let worker = |dice: &mut Dice| format!("w{}", dice.roll(9)).parse().expect("a name");
    let bound = (0..dice.roll(3)).map(|n| BoundPackage {
        package: format!("tools {n}"),
        worker: dice.one_in(2).then(|| worker(dice)),
        since: dice.moment(),
        moved_from: dice.one_in(2).then(|| worker(dice)),
    });
    let bound = bound.collect();
    let kept_from = (0..dice.roll(3)).map(|_| worker(dice)).collect();
    RunBindings { bound, kept_from, fact: fact_if_any(dice) }
}

fn node_end(shard: ShardId, dice: &mut Dice) -> NodeEnd {
    let words = [
        NodeWord::Succeeded,
        NodeWord::Failed,
        NodeWord::Skipped,
        NodeWord::Blocked,
        NodeWord::Cancelled,
    ];
    NodeEnd {
        word: words[dice.roll(words.len())],
        at: dice.moment(),
        result: dice.one_in(2).then(|| Bytes::from(format!("[{}]", dice.number()))),
        failure: dice.one_in(3).then(|| failure(dice)),
        reused: dice.one_in(4).then(|| TaskId::of(shard, dice.number())),
        fact: fact_if_any(dice),
    }
}

fn run_end(dice: &mut Dice) -> RunEnd {
    let words = [RunWord::Succeeded, RunWord::Failed, RunWord::Cancelled];
    RunEnd {
        word: words[dice.roll(words.len())],
        at: dice.moment(),
        node: dice.one_in(2).then(|| "a node's id".into()),
        failure: dice.one_in(2).then(|| failure(dice)),
        outputs: dice.one_in(2).then(|| Bytes::from(format!("{{\"z\":{}}}", dice.number()))),
    }
}
