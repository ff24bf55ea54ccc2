//! A restart: the facts of a run are replayed in the order of their numbers, through the same
//! writer that made them state when they became true.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use model::{NodeLink, RunId, TaskId, Timestamp};

use crate::change::{TaskFacts, TaskState};
use crate::coordinator::Decision;
use crate::run::apply::RunFact;
use crate::run::change::{FactNumber, RestoredRun, RunChange, RunParts};

/// A live task of a run that comes back.
pub(crate) struct LiveTask {
    pub(crate) id: TaskId,
    pub(crate) link: Arc<NodeLink>,
    pub(crate) parameters: Bytes,
    pub(crate) created_at: Timestamp,
    /// When a worker had it last, if one ever had.
    pub(crate) held_at: Option<Timestamp>,
    pub(crate) epoch: u32,
    pub(crate) facts: TaskFacts,
}

/// The facts of a run, each with its number if it has one.
pub(crate) type Facts<'a> = Vec<(Option<FactNumber>, RunFact<'a>)>;

impl Decision<'_> {
    pub(crate) fn restore_runs(&mut self, next: u64, runs: impl IntoIterator<Item = RestoredRun>) {
        self.state.runs.next = self.state.runs.next.max(next);
        let mut live = self.live_tasks_of_runs();
        for run in runs {
            let id = run.record.id;
            self.restore_run(run, live.remove(&id).unwrap_or_default());
        }
    }

    fn live_tasks_of_runs(&self) -> BTreeMap<RunId, Vec<LiveTask>> {
        let mut live: BTreeMap<RunId, Vec<LiveTask>> = BTreeMap::new();
        for task in self.state.tasks.iter() {
            let Some(link) = task.link() else { continue };
            live.entry(link.run).or_default().push(LiveTask {
                id: task.id,
                link: Arc::clone(link),
                parameters: task.parameters.clone(),
                created_at: task.created_at,
                held_at: task
                    .progress
                    .state
                    .granted_at()
                    .or_else(|| task.ended_attempts().last().map(|ended| ended.at)),
                epoch: task.progress.epoch,
                facts: task.facts(),
            });
        }
        live
    }

    fn restore_run(&mut self, mut restored: RestoredRun, mut live: Vec<LiveTask>) {
        let id = restored.record.id;
        let Ok(compiled) = flow::compile(restored.record.definition.clone()) else {
            let reason = "its definition cannot be read by this version";
            return self.state.runs.unreadable.push((id, reason));
        };
        self.state.insert_run(&restored.record, Arc::new(compiled.program));
        for record in &restored.parts.tasks {
            self.remember_holder(record);
        }
        let facts = facts_of(&restored.parts, &live);
        if !facts.is_empty() && facts.iter().all(|(number, _)| number.is_none()) {
            drop(facts);
            self.number_run(id, &mut restored.parts, &mut live);
        } else if !self.replay(id, facts) {
            self.state.remove_run(id);
            let reason = "the numbers of its stored facts are damaged";
            return self.state.runs.unreadable.push((id, reason));
        }
        self.restore_bindings(id, &restored.parts);
    }

    /// `false` when the numbers cannot be those of one history.
    fn replay(&mut self, id: RunId, mut facts: Facts<'_>) -> bool {
        facts.sort_by_key(|(number, _)| *number);
        let has_gap = facts.first().is_some_and(|(number, _)| number.is_none());
        if has_gap || facts.windows(2).any(|pair| pair[0].0 == pair[1].0) {
            return false;
        }
        for (number, fact) in facts {
            self.state.apply_to_run(id, number, fact);
        }
        true
    }

    /// Makes the numbers durable that a restart gave to the facts of an older version.
    pub(crate) fn number_runs(&mut self) {
        for (run, numbers) in std::mem::take(&mut self.state.runs.numbered) {
            if self.state.runs.live.contains_key(&run) {
                self.record_run(RunChange::Numbered { run, numbers });
            }
        }
    }
}

/// Every fact of a run that is stored.
pub(crate) fn facts_of<'a>(restored: &'a RunParts, live: &'a [LiveTask]) -> Facts<'a> {
    let mut facts: Facts<'a> = Vec::new();
    for task in live {
        let LiveTask { id, link, parameters, epoch, .. } = task;
        let begun = RunFact::TaskBegun { task: *id, link, parameters };
        facts.push((task.facts.begun, begun));
        if *epoch > 0 {
            facts.push((task.facts.granted, RunFact::TaskGranted { task: *id, epoch: *epoch }));
        }
    }
    for record in &restored.tasks {
        let (Some(link), TaskState::Settled(settlement)) = (&record.link, &record.progress.state)
        else {
            continue;
        };
        let (task, parameters, epoch) = (record.id, &record.parameters, record.progress.epoch);
        facts.push((record.facts.begun, RunFact::TaskBegun { task, link, parameters }));
        if epoch > 0 {
            facts.push((record.facts.granted, RunFact::TaskGranted { task, epoch }));
        }
        facts.push((record.facts.settled, RunFact::TaskSettled { task, settlement }));
    }
    facts.extend(restored.frames.iter().map(|one| (one.fact, RunFact::SubgraphOpened(one))));
    facts.extend(restored.closed.iter().map(|(frame, end)| {
        let closed = RunFact::SubgraphClosed { frame: *frame, end };
        (end.fact, closed)
    }));
    facts.extend(restored.ended.iter().map(|(frame, node, end)| {
        let ended = RunFact::NodeEnded { frame: *frame, node: *node, end };
        (end.fact, ended)
    }));
    let begun = |list| RunFact::ListBegun { list, items: None };
    facts.extend(restored.lists.iter().map(|list| (list.fact, begun(list))));
    facts.extend(restored.items.iter().map(|item| (item.end.fact, RunFact::ItemEnded(item))));
    facts.extend(restored.calls.iter().map(|call| (call.fact, RunFact::CallEnded(call))));
    // A word of an older version has no number, and its place changes nothing but bindings.
    let said = restored.rebound.as_ref().and_then(|said| said.fact);
    facts.extend(said.map(|number| (Some(number), RunFact::Rebound)));
    facts
}
