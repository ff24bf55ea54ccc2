//! Short stories about runs, one per promise.

use std::sync::Arc;

use coordinator::{Change, FactNumber, ListRecord, RunChange, RunNumbers, RunParts, TaskFacts};
use model::{IdempotencyMark, LeaseId, RunId, TaskId};

use super::run_sample::{
    call_ended, frame_closed, frame_opened, item_ended, linked, list_begun, node_ended, rebound,
    run_began, run_settled, run_started,
};
use super::sample::{at, granted, settled, submitted, tenant};
use shard::{ClaimedShard, Restored, Turn};
use store::{CommitError, RunKey, RunQuery, Store};

/// Puts a store through every promise about runs. `open` gives a fresh, empty store each time.
pub(crate) async fn exercise_runs(open: impl AsyncFn() -> Arc<dyn Store>) {
    tasks_and_runs_of_a_turn_share_their_fate(open().await).await;
    a_turn_of_runs_alone_is_kept(open().await).await;
    a_stale_claim_keeps_no_run(open().await).await;
    contradictions_are_refused(open().await).await;
    an_ended_run_is_closed_to_facts(open().await).await;
    another_shards_run_is_refused(open().await).await;
    a_start_key_belongs_to_one_run(open().await).await;
    a_restart_brings_live_runs_back_and_no_others(open().await).await;
    only_linked_tasks_belong_to_a_run(open().await).await;
    what_a_person_said_of_a_run_lasts_as_long_as_the_run(open().await).await;
    a_run_begins_once_and_is_found_by_that(open().await).await;
    the_numbers_of_facts_come_back(open().await).await;
    an_older_run_gets_its_numbers(open().await).await;
}

async fn claim(store: &Arc<dyn Store>, name: &str) -> ClaimedShard {
    store.claim(tenant(name)).await.expect("claims")
}

async fn commit(
    store: &Arc<dyn Store>,
    claim: ClaimedShard,
    changes: Vec<Change>,
    runs: Vec<RunChange>,
) -> Result<(), CommitError> {
    store.commit(Turn { changes, runs, ..Turn::empty(claim) }).await.map(|_| ())
}

async fn restore(store: &Arc<dyn Store>, claim: ClaimedShard) -> Restored {
    store.restore(claim).await.expect("restores")
}

/// The turn is refused as an error of the coordinator, in these words.
fn refused(outcome: &Result<(), CommitError>, words: &str) {
    let Err(CommitError::Unavailable(why)) = outcome else { panic!("not refused: {outcome:?}") };
    assert!(why.contains(words), "{words:?} is not in {why:?}");
}

async fn tasks_and_runs_of_a_turn_share_their_fate(store: Arc<dyn Store>) {
    let acme = claim(&store, "acme").await;
    let (run, task) = (RunId::of(acme.shard, 1), TaskId::of(acme.shard, 0));
    let twice = vec![run_started(run), node_ended(run, 0, 0), node_ended(run, 0, 0)];
    refused(&commit(&store, acme, vec![submitted(task)], twice).await, "ended twice");

    let acme = claim(&store, "acme").await;
    let never = vec![submitted(task), granted(TaskId::of(acme.shard, 9), 1)];
    let outcome = commit(&store, acme, never, vec![run_started(run)]).await;
    refused(&outcome, "is not in a state");

    let acme = claim(&store, "acme").await;
    let expected = Restored { next_run: 1, ..Restored::default() };
    assert_eq!(restore(&store, acme).await, expected);
    commit(&store, acme, vec![submitted(task)], vec![run_started(run)]).await.expect("kept");
    let restored = restore(&store, acme).await;
    assert_eq!((restored.tasks.len(), restored.runs.len(), restored.next_run), (1, 1, 2));
}

async fn a_turn_of_runs_alone_is_kept(store: Arc<dyn Store>) {
    let acme = claim(&store, "acme").await;
    let run = RunId::of(acme.shard, 1);
    commit(&store, acme, vec![], vec![run_started(run)]).await.expect("kept");
    let RunChange::RunStarted(record) = run_started(run) else { unreachable!("just made") };
    let found = store.run(acme.shard, RunKey::Id(run)).await.expect("finds");
    assert_eq!(found.as_ref(), Some(&*record));
}

async fn a_stale_claim_keeps_no_run(store: Arc<dyn Store>) {
    let old = claim(&store, "acme").await;
    let new = claim(&store, "acme").await;
    let runs = vec![run_started(RunId::of(old.shard, 1))];
    assert_eq!(commit(&store, old, vec![], runs.clone()).await, Err(CommitError::Fenced));
    assert_eq!(restore(&store, new).await.runs, []);
    commit(&store, new, vec![], runs).await.expect("kept");
}

/// Each of them once within a turn and once against what is kept.
async fn contradictions_are_refused(store: Arc<dyn Store>) {
    let acme = claim(&store, "acme").await;
    let run = |number| RunId::of(acme.shard, number);
    let lease = LeaseId { task: TaskId::of(acme.shard, 0), epoch: 1 };
    let kept = vec![
        run_started(run(1)),
        frame_opened(run(1), 1),
        frame_opened(run(1), 2),
        frame_closed(run(1), 2),
        node_ended(run(1), 0, 0),
        list_begun(run(1), 0, 5),
        item_ended(run(1), 0, 5),
        call_ended(run(1), lease),
    ];
    commit(&store, acme, vec![], kept).await.expect("kept");
    let start = || run_started(run(2));
    for (facts, words) in [
        (vec![run_started(run(1))], "exists"),
        (vec![start(), start()], "exists"),
        (vec![frame_opened(run(7), 1)], "is not live"),
        (vec![node_ended(run(7), 0, 0)], "is not live"),
        (vec![run_settled(run(7))], "is not live"),
        (vec![rebound(run(7), "w1")], "is not live"),
        (vec![run_began(run(7), 1)], "is not live"),
        (vec![run_settled(run(1)), rebound(run(1), "w1")], "is not live"),
        (vec![frame_opened(run(2), 1), start()], "is not live"),
        (vec![frame_opened(run(1), 1)], "frame 1 of run"),
        (vec![start(), frame_opened(run(2), 1), frame_opened(run(2), 1)], "frame 1 of run"),
        (vec![frame_closed(run(1), 2)], "frame 2 of run"),
        (vec![frame_closed(run(1), 1), frame_closed(run(1), 1)], "frame 1 of run"),
        (vec![frame_closed(run(1), 3)], "is not open"),
        (vec![node_ended(run(1), 0, 0)], "node 0 in frame 0"),
        (vec![node_ended(run(1), 1, 4), node_ended(run(1), 1, 4)], "node 4 in frame 1"),
        (vec![run_settled(run(1)), run_settled(run(1))], "is not live"),
        (vec![list_begun(run(7), 0, 5)], "is not live"),
        (vec![item_ended(run(7), 0, 5)], "is not live"),
        (vec![call_ended(run(7), lease)], "is not live"),
        (vec![list_begun(run(1), 0, 5)], "began twice"),
        (vec![item_ended(run(1), 0, 5)], "an element of node 5 in frame 0"),
        (vec![call_ended(run(1), lease)], "a call of"),
        (vec![numbered(run(1), 3)], "is not numbered"),
    ] {
        let acme = claim(&store, "acme").await;
        let before = restore(&store, acme).await;
        refused(&commit(&store, acme, vec![], facts).await, words);
        let acme = claim(&store, "acme").await;
        assert_eq!(restore(&store, acme).await, before, "nothing of it is kept: {words}");
    }
}

async fn an_ended_run_is_closed_to_facts(store: Arc<dyn Store>) {
    let acme = claim(&store, "acme").await;
    let run = RunId::of(acme.shard, 1);
    let life = vec![run_started(run), frame_opened(run, 1), run_settled(run)];
    commit(&store, acme, vec![], life).await.expect("a whole life in one turn");
    for late in [
        run_settled(run),
        frame_opened(run, 2),
        frame_closed(run, 1),
        node_ended(run, 0, 0),
        rebound(run, "w1"),
        run_started(run),
    ] {
        let acme = claim(&store, "acme").await;
        refused(&commit(&store, acme, vec![], vec![late]).await, "run");
    }
    let parts = store.run_parts(acme.shard, run).await.expect("reads");
    assert_eq!((parts.frames.len(), parts.closed.len(), parts.ended.len()), (1, 0, 0));
}

async fn another_shards_run_is_refused(store: Arc<dyn Store>) {
    let acme = claim(&store, "acme").await;
    let bolt = claim(&store, "bolt").await;
    let theirs = RunId::of(bolt.shard, 1);
    commit(&store, bolt, vec![], vec![run_started(theirs)]).await.expect("kept");
    refused(&commit(&store, acme, vec![], vec![run_settled(theirs)]).await, "another shard");
    assert_eq!(store.run(acme.shard, RunKey::Id(theirs)).await.expect("finds"), None);
    let parts = store.run_parts(acme.shard, theirs).await.expect("reads");
    assert_eq!(parts, RunParts::default());
    assert_eq!(restore(&store, bolt).await.runs.len(), 1);
}

async fn a_start_key_belongs_to_one_run(store: Arc<dyn Store>) {
    let acme = claim(&store, "acme").await;
    let marked = |claim: ClaimedShard, number| {
        let mut change = run_started(RunId::of(claim.shard, number));
        if let RunChange::RunStarted(record) = &mut change {
            let key = "start 66".parse().expect("valid");
            record.idempotency = Some(IdempotencyMark { key, fingerprint: number });
        }
        change
    };
    commit(&store, acme, vec![], vec![marked(acme, 1)]).await.expect("kept");
    refused(&commit(&store, acme, vec![], vec![marked(acme, 2)]).await, "idempotency key");
    let bolt = claim(&store, "bolt").await;
    commit(&store, bolt, vec![], vec![marked(bolt, 1)]).await.expect("its keys are its own");
    let bolt_twice = vec![run_started(RunId::of(bolt.shard, 2)), marked(bolt, 3)];
    refused(&commit(&store, bolt, vec![], bolt_twice).await, "idempotency key");

    let key = RunKey::Idempotency("start 66".parse().expect("valid"));
    let found = store.run(acme.shard, key).await.expect("finds").expect("it is there");
    assert_eq!(found.id, RunId::of(acme.shard, 1));
}

async fn a_restart_brings_live_runs_back_and_no_others(store: Arc<dyn Store>) {
    let acme = claim(&store, "acme").await;
    let (live, ended) = (RunId::of(acme.shard, 1), RunId::of(acme.shard, 2));
    let task = |number| TaskId::of(acme.shard, number);
    let changes = vec![
        linked(submitted(task(0)), live, 0),
        granted(task(0), 1),
        settled(task(0), 1),
        linked(submitted(task(1)), live, 1),
        linked(submitted(task(2)), ended, 0),
        granted(task(2), 1),
        settled(task(2), 1),
    ];
    let runs = vec![run_started(live), run_started(ended), run_settled(ended)];
    commit(&store, acme, changes, runs).await.expect("kept");
    let restored = restore(&store, acme).await;
    let [run] = &restored.runs[..] else { panic!("one run is live: {:?}", restored.runs) };
    let numbers: Vec<_> = run.parts.tasks.iter().map(|task| task.id.number()).collect();
    assert_eq!((run.record.id, numbers, restored.next_run), (live, vec![0], 3));
    let parts = store.run_parts(acme.shard, live).await.expect("reads");
    let numbers: Vec<_> = parts.tasks.iter().map(|task| task.id.number()).collect();
    assert_eq!(numbers, [0, 1], "live and settled");
}

/// Every fact that the state of a run depends on.
async fn the_numbers_of_facts_come_back(store: Arc<dyn Store>) {
    let acme = claim(&store, "acme").await;
    let (run, task) = (RunId::of(acme.shard, 1), TaskId::of(acme.shard, 0));
    let fact = FactNumber::new;
    let with_fact = |mut change: Change, number| {
        match &mut change {
            Change::TaskSubmitted(record) => record.facts.begun = fact(number),
            Change::LeaseGranted { fact: own, .. } | Change::TaskSettled { fact: own, .. } => {
                *own = fact(number);
            }
            _ => {}
        }
        change
    };
    let begun = with_fact(linked(submitted(task), run, 0), 6);
    let runs = vec![
        run_started(run),
        frame_opened(run, 1),
        frame_closed(run, 1),
        node_ended(run, 0, 0),
        list_begun(run, 0, 5),
        item_ended(run, 0, 5),
        call_ended(run, LeaseId { task, epoch: 1 }),
        rebound(run, "w1"),
    ];
    commit(&store, acme, vec![begun], runs).await.expect("kept");
    let granted = with_fact(granted(task, 1), 7);
    commit(&store, acme, vec![granted], vec![]).await.expect("kept");
    let live = &restore(&store, acme).await.tasks[0];
    let expected = TaskFacts { begun: fact(6), granted: fact(7), settled: None };
    assert_eq!(live.facts, expected);
    let settled = with_fact(settled(task, 1), 8);
    commit(&store, acme, vec![settled], vec![]).await.expect("kept");
    let restored = restore(&store, acme).await;
    let found = &restored.runs[0].parts;
    assert_eq!(found.tasks[0].facts, TaskFacts { settled: fact(8), ..expected });
    assert_eq!((found.frames[0].fact, found.closed[0].1.fact), (fact(1), fact(2)));
    assert_eq!((found.ended[0].2.fact, found.items[0].end.fact), (fact(2), fact(2)));
    assert_eq!((found.lists[0].length, found.lists[0].fact), (3, fact(4)));
    assert_eq!(found.calls[0].fact, fact(5));
    assert_eq!(found.rebound.as_ref().and_then(|said| said.fact), fact(3));
}

/// What becomes true in the turn that numbers the facts keeps its own number.
async fn an_older_run_gets_its_numbers(store: Arc<dyn Store>) {
    let acme = claim(&store, "acme").await;
    let (run, task) = (RunId::of(acme.shard, 1), TaskId::of(acme.shard, 0));
    let old = vec![run_started(run), frame_opened(run, 1)];
    let changes = vec![linked(submitted(task), run, 0), granted(task, 1)];
    commit(&store, acme, changes, old).await.expect("kept");
    let mut end = settled(task, 1);
    if let Change::TaskSettled { fact, .. } = &mut end {
        *fact = FactNumber::new(9);
    }
    commit(&store, acme, vec![end], vec![numbered(run, 1)]).await.expect("kept");
    let restored = restore(&store, acme).await;
    let found = &restored.runs[0].parts;
    let fact = FactNumber::new;
    let expected = TaskFacts { begun: fact(2), granted: fact(3), settled: fact(9) };
    assert_eq!(found.tasks[0].facts, expected);
    assert_eq!((found.frames[0].fact, found.lists[0].fact), (fact(1), fact(4)));
}

/// Numbers for the first task, a frame and a list that was not stored.
fn numbered(run: RunId, frame: u32) -> RunChange {
    let fact = |number| FactNumber::new(number).expect("not 0");
    let facts = TaskFacts { begun: Some(fact(2)), granted: Some(fact(3)), settled: None };
    let list = ListRecord { frame: 0, node: 1, length: 2, fact: Some(fact(4)) };
    let numbers = RunNumbers {
        tasks: vec![(TaskId::of(run.shard(), 0), facts)],
        opened: vec![(frame, fact(1))],
        lists: vec![list],
        ..RunNumbers::default()
    };
    RunChange::Numbered { run, numbers: Box::new(numbers) }
}

/// A person may submit a task under any run's name.
async fn only_linked_tasks_belong_to_a_run(store: Arc<dyn Store>) {
    let acme = claim(&store, "acme").await;
    let run = RunId::of(acme.shard, 1);
    let mut named = linked(submitted(TaskId::of(acme.shard, 0)), run, 0);
    if let Change::TaskSubmitted(record) = &mut named {
        record.link = None;
    }
    commit(&store, acme, vec![named], vec![run_started(run)]).await.expect("kept");
    let parts = store.run_parts(acme.shard, run).await.expect("reads");
    assert_eq!(parts.tasks, []);
}

async fn what_a_person_said_of_a_run_lasts_as_long_as_the_run(store: Arc<dyn Store>) {
    let acme = claim(&store, "acme").await;
    let (run, other) = (RunId::of(acme.shard, 1), RunId::of(acme.shard, 2));
    let said = |worker| match rebound(run, worker) {
        RunChange::Rebound { bindings, .. } => Some(bindings),
        _ => unreachable!("just made"),
    };
    let first = vec![run_started(run), run_started(other), rebound(run, "w1")];
    commit(&store, acme, vec![], first).await.expect("kept");
    let restored = restore(&store, acme).await;
    let found: Vec<_> = restored.runs.into_iter().map(|run| run.parts.rebound).collect();
    assert_eq!(found, [said("w1"), None]);
    commit(&store, acme, vec![], vec![rebound(run, "w2")]).await.expect("kept");
    let parts = store.run_parts(acme.shard, run).await.expect("reads");
    assert_eq!(parts.rebound, said("w2"), "the last word counts");
    commit(&store, acme, vec![], vec![run_settled(run)]).await.expect("kept");
    let parts = store.run_parts(acme.shard, run).await.expect("reads");
    assert_eq!(parts.rebound, None);
}

async fn a_run_begins_once_and_is_found_by_that(store: Arc<dyn Store>) {
    let acme = claim(&store, "acme").await;
    let run = |number| RunId::of(acme.shard, number);
    let started = (1..=3).map(|number| run_started(run(number))).collect();
    commit(&store, acme, vec![], started).await.expect("kept");
    let began = vec![run_began(run(1), 5), run_began(run(2), 5), run_settled(run(2))];
    commit(&store, acme, vec![], began).await.expect("kept");
    commit(&store, acme, vec![], vec![run_began(run(1), 9)]).await.expect("kept");
    let restored = restore(&store, acme).await;
    let moments: Vec<_> = restored.runs.iter().map(|run| run.record.began_at).collect();
    assert_eq!(moments, [Some(at(5)), None], "the first moment counts");
    let found = async |ends: Vec<_>, begun| {
        let query = RunQuery { ends, begun, limit: 9, ..RunQuery::default() };
        let page = store.runs(acme.shard, query).await.expect("a page");
        page.runs.iter().map(|run| run.id.number()).collect::<Vec<_>>()
    };
    assert_eq!(found(vec![None], Some(true)).await, [1]);
    assert_eq!(found(vec![None], Some(false)).await, [3]);
    assert_eq!(found(vec![None], None).await, [3, 1]);
    assert_eq!(found(vec![], Some(false)).await, [3, 2], "an ended run is neither");
}
