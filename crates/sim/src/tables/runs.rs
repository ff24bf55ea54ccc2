//! Runs in plain memory: what every store's rows of them are compared with.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;

use coordinator::{
    EndedCall, ItemEnd, ListRecord, NodeEnd, RestoredRun, RunBindings, RunChange, RunNumbers,
    RunParts, RunRecord, SubgraphRecord, TaskRecord,
};
use model::{CallLink, IdempotencyKey, RunId, ShardId};

use store::{Contradiction, RunKey};

/// Every run, by id.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct RunTables {
    runs: BTreeMap<RunId, KeptRun>,
    marks: BTreeMap<(ShardId, IdempotencyKey), RunId>,
}

/// A run and its parts, but for its tasks.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct KeptRun {
    record: RunRecord,
    frames: BTreeMap<u32, SubgraphRecord>,
    closed: BTreeMap<u32, NodeEnd>,
    ended: BTreeMap<(u32, u32), NodeEnd>,
    lists: BTreeMap<(u32, u32), ListRecord>,
    items: BTreeMap<(u32, u32, u32), ItemEnd>,
    calls: BTreeMap<CallLink, EndedCall>,
    rebound: Option<Box<RunBindings>>,
}

impl RunTables {
    /// Walks through the changes as if each had been applied before the next.
    pub(crate) fn check(&self, changes: &[RunChange]) -> Result<(), Contradiction> {
        let mut check = Check { kept: self, news: News::default() };
        changes.iter().try_for_each(|change| check.follow(change))
    }

    /// Makes a checked change true.
    pub(crate) fn apply(&mut self, change: &RunChange) {
        if let RunChange::RunStarted(record) = change {
            self.insert(record);
            return;
        }
        let kept = self.runs.get_mut(&change.run()).expect("checked: the run exists");
        match change {
            RunChange::RunStarted(_) => unreachable!("inserted above"),
            RunChange::RunBegan { at, .. } => {
                kept.record.began_at.get_or_insert(*at);
            }
            RunChange::SubgraphOpened { frame, .. } => {
                kept.frames.insert(frame.number, (**frame).clone());
            }
            RunChange::SubgraphClosed { frame, end, .. } => {
                kept.closed.insert(*frame, (**end).clone());
            }
            RunChange::NodeEnded { frame, node, end, .. } => {
                kept.ended.insert((*frame, *node), (**end).clone());
            }
            RunChange::ListBegun { list, .. } => {
                kept.lists.insert((list.frame, list.node), *list);
            }
            RunChange::ItemEnded { item, .. } => {
                kept.items.insert((item.frame, item.node, item.item), (**item).clone());
            }
            RunChange::CallEnded { call, .. } => {
                kept.calls.insert(call.call.clone(), (**call).clone());
            }
            RunChange::Numbered { numbers, .. } => kept.number(numbers),
            RunChange::Rebound { bindings, .. } => kept.rebound = Some(bindings.clone()),
            RunChange::RunSettled { end, .. } => {
                kept.record.end = Some(end.clone());
                kept.rebound = None;
            }
        }
    }

    fn insert(&mut self, record: &RunRecord) {
        if let Some(mark) = &record.idempotency {
            self.marks.insert((record.id.shard(), mark.key.clone()), record.id);
        }
        let kept = KeptRun {
            record: record.clone(),
            frames: BTreeMap::new(),
            closed: BTreeMap::new(),
            ended: BTreeMap::new(),
            lists: BTreeMap::new(),
            items: BTreeMap::new(),
            calls: BTreeMap::new(),
            rebound: None,
        };
        self.runs.insert(record.id, kept);
    }

    /// The number that the next new run of a shard gets.
    pub(crate) fn next_run(&self, shard: ShardId) -> u64 {
        let last = self.of_shard(shard).next_back();
        last.map_or(1, |kept| kept.record.id.number() + 1)
    }

    /// Runs without an end, oldest first.
    pub(crate) fn live(&self, shard: ShardId) -> impl Iterator<Item = &KeptRun> {
        self.of_shard(shard).filter(|kept| kept.record.end.is_none())
    }

    pub(crate) fn run(&self, shard: ShardId, key: &RunKey) -> Option<RunRecord> {
        let run = match key {
            RunKey::Id(run) => (run.shard() == shard).then_some(*run)?,
            RunKey::Idempotency(key) => *self.marks.get(&(shard, key.clone()))?,
        };
        self.runs.get(&run).map(|kept| kept.record.clone())
    }

    /// What belongs to a run, with the tasks that the caller found.
    pub(crate) fn parts(&self, run: RunId, tasks: Vec<TaskRecord>) -> RunParts {
        let Some(kept) = self.runs.get(&run) else {
            return RunParts { tasks, ..RunParts::default() };
        };
        kept.parts(tasks)
    }

    /// Every run, oldest first.
    pub(crate) fn records(&self, shard: ShardId) -> impl DoubleEndedIterator<Item = &RunRecord> {
        self.of_shard(shard).map(|kept| &kept.record)
    }

    fn of_shard(&self, shard: ShardId) -> impl DoubleEndedIterator<Item = &KeptRun> {
        self.runs.range(runs_of(shard)).map(|(_, kept)| kept)
    }
}

impl KeptRun {
    pub(crate) fn id(&self) -> RunId {
        self.record.id
    }

    /// As a restart brings it back, with the settled tasks that the caller found.
    pub(crate) fn restored(&self, settled: Vec<TaskRecord>) -> RestoredRun {
        RestoredRun { record: self.record.clone(), parts: self.parts(settled) }
    }

    fn parts(&self, tasks: Vec<TaskRecord>) -> RunParts {
        let ended = self.ended.iter();
        RunParts {
            frames: self.frames.values().cloned().collect(),
            closed: self.closed.iter().map(|(frame, end)| (*frame, end.clone())).collect(),
            ended: ended.map(|(&(frame, node), end)| (frame, node, end.clone())).collect(),
            lists: self.lists.values().copied().collect(),
            items: self.items.values().cloned().collect(),
            calls: self.calls.values().cloned().collect(),
            rebound: self.rebound.clone(),
            tasks,
        }
    }

    fn number(&mut self, numbers: &RunNumbers) {
        for (frame, fact) in &numbers.opened {
            self.frames.get_mut(frame).expect("checked").fact = Some(*fact);
        }
        for (frame, fact) in &numbers.closed {
            self.closed.get_mut(frame).expect("checked").fact = Some(*fact);
        }
        for (frame, node, fact) in &numbers.ended {
            self.ended.get_mut(&(*frame, *node)).expect("checked").fact = Some(*fact);
        }
        self.lists.extend(numbers.lists.iter().map(|list| ((list.frame, list.node), *list)));
    }
}

/// Runs are numbered as tasks are.
fn runs_of(shard: ShardId) -> RangeInclusive<RunId> {
    let run = |id: i64| RunId::from_integer(id).expect("runs are numbered as tasks are");
    run(shard.first_task().to_integer())..=run(shard.last_task().to_integer())
}

/// What the changes of a turn made true so far.
#[derive(Debug, Default)]
struct News {
    /// Whether the runs that they touch are live.
    runs: BTreeMap<RunId, bool>,
    keys: BTreeSet<(ShardId, IdempotencyKey)>,
    opened: BTreeSet<(RunId, u32)>,
    closed: BTreeSet<(RunId, u32)>,
    ended: BTreeSet<(RunId, u32, u32)>,
    lists: BTreeSet<(RunId, (u32, u32))>,
    items: BTreeSet<(RunId, (u32, u32, u32))>,
    calls: BTreeSet<(RunId, CallLink)>,
}

struct Check<'a> {
    kept: &'a RunTables,
    news: News,
}

impl Check<'_> {
    fn follow(&mut self, change: &RunChange) -> Result<(), Contradiction> {
        let run = change.run();
        let kept = self.kept.runs.get(&run);
        if let RunChange::RunStarted(record) = change {
            return self.start(record);
        }
        if !self.is_live(run) {
            return Err(Contradiction::RunNotLive(run));
        }
        match change {
            RunChange::RunStarted(_) => unreachable!("followed above"),
            RunChange::SubgraphOpened { frame, .. } => {
                let number = frame.number;
                let is_kept = kept.is_some_and(|kept| kept.frames.contains_key(&number));
                let is_new = !is_kept && self.news.opened.insert((run, number));
                is_new.then_some(()).ok_or(Contradiction::FrameExists(run, number))
            }
            RunChange::SubgraphClosed { frame, .. } => {
                let is_kept = kept.is_some_and(|kept| kept.frames.contains_key(frame));
                let was_closed = kept.is_some_and(|kept| kept.closed.contains_key(frame));
                let is_open = is_kept || self.news.opened.contains(&(run, *frame));
                let closes = is_open && !was_closed && self.news.closed.insert((run, *frame));
                closes.then_some(()).ok_or(Contradiction::FrameNotOpen(run, *frame))
            }
            RunChange::NodeEnded { frame, node, .. } => {
                let is_kept = kept.is_some_and(|kept| kept.ended.contains_key(&(*frame, *node)));
                let is_new = !is_kept && self.news.ended.insert((run, *frame, *node));
                is_new.then_some(()).ok_or(Contradiction::NodeEndedTwice(run, *frame, *node))
            }
            RunChange::ListBegun { list, .. } => {
                let place = (list.frame, list.node);
                let is_kept = kept.is_some_and(|kept| kept.lists.contains_key(&place));
                let is_new = !is_kept && self.news.lists.insert((run, place));
                is_new.then_some(()).ok_or(Contradiction::ListBegunTwice(run, place.0, place.1))
            }
            RunChange::ItemEnded { item, .. } => {
                let place = (item.frame, item.node, item.item);
                let is_kept = kept.is_some_and(|kept| kept.items.contains_key(&place));
                let is_new = !is_kept && self.news.items.insert((run, place));
                is_new.then_some(()).ok_or(Contradiction::ItemEndedTwice(run, place.0, place.1))
            }
            RunChange::CallEnded { call, .. } => {
                let is_kept = kept.is_some_and(|kept| kept.calls.contains_key(&call.call));
                let is_new = !is_kept && self.news.calls.insert((run, call.call.clone()));
                is_new.then_some(()).ok_or(Contradiction::CallEndedTwice(run, call.call.caller))
            }
            RunChange::Numbered { numbers, .. } => {
                let holds = self.holds(run, numbers);
                holds.then_some(()).ok_or(Contradiction::Unnumbered(run))
            }
            RunChange::RunBegan { .. } | RunChange::Rebound { .. } => Ok(()),
            RunChange::RunSettled { .. } => {
                self.news.runs.insert(run, false);
                Ok(())
            }
        }
    }

    /// Whether there is everything that gets a number, and no list that would begin twice.
    fn holds(&mut self, run: RunId, numbers: &RunNumbers) -> bool {
        let (kept, news) = (self.kept.runs.get(&run), &mut self.news);
        let RunNumbers { tasks: _, opened, closed, ended, lists } = numbers;
        let is_kept = |is: &dyn Fn(&KeptRun) -> bool| kept.is_some_and(is);
        opened.iter().all(|(frame, _)| {
            is_kept(&|kept| kept.frames.contains_key(frame)) || news.opened.contains(&(run, *frame))
        }) && closed.iter().all(|(frame, _)| {
            is_kept(&|kept| kept.closed.contains_key(frame)) || news.closed.contains(&(run, *frame))
        }) && ended.iter().all(|(frame, node, _)| {
            is_kept(&|kept| kept.ended.contains_key(&(*frame, *node)))
                || news.ended.contains(&(run, *frame, *node))
        }) && lists.iter().all(|list| {
            let place = (list.frame, list.node);
            !is_kept(&|kept| kept.lists.contains_key(&place)) && news.lists.insert((run, place))
        })
    }

    fn start(&mut self, record: &RunRecord) -> Result<(), Contradiction> {
        let is_known = self.kept.runs.contains_key(&record.id);
        if is_known || self.news.runs.insert(record.id, record.end.is_none()).is_some() {
            return Err(Contradiction::RunExists(record.id));
        }
        let Some(mark) = &record.idempotency else { return Ok(()) };
        let key = (record.id.shard(), mark.key.clone());
        if self.kept.marks.contains_key(&key) || !self.news.keys.insert(key) {
            return Err(Contradiction::RunKeyTaken(record.id));
        }
        Ok(())
    }

    fn is_live(&self, run: RunId) -> bool {
        let kept = self.kept.runs.get(&run).map(|kept| kept.record.end.is_none());
        self.news.runs.get(&run).copied().or(kept).unwrap_or(false)
    }
}
