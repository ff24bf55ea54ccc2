//! Which worker has the work of a run: one binding per run and package.
//!
//! A grant binds, and tasks of the same run and package go to the bound worker first if it asks.
//! People may move a binding, or keep a run from a worker: that is a fact of its own. What the
//! tasks say is found again after a restart.

use std::collections::{BTreeMap, BTreeSet};

use model::{Demand, RunId, TaskId, Timestamp, WorkerId};

use crate::change::{EndedAttempt, TaskState};
use crate::command::Rebind;
use crate::coordinator::Decision;
use crate::effect::{Answer, BindingView, Refusal};
use crate::run::change::{BoundPackage, FactNumber, RunBindings, RunChange, RunParts};
use crate::run::run_state::Run;
use crate::state::State;
use crate::task::record::Task;

/// Limit: runs that may be kept from workers at the same time; each costs every grant a look.
const DRAINED_RUNS_MAX: usize = 1_000;
/// Limit: workers that one run may be kept from.
const RUN_DRAINS_MAX: usize = 1_000;
/// Limit: packages of one run that may have a worker of their own before a person names another
/// one.
const RUN_BINDINGS_MAX: usize = 10_000;

/// The bindings of all live runs.
#[derive(Debug, Default)]
pub(crate) struct Bindings {
    runs: BTreeMap<RunId, BTreeMap<String, Binding>>,
}

#[derive(Debug)]
struct Binding {
    /// Who has the work; `None` where the next grant says it.
    worker: Option<WorkerId>,
    since: Timestamp,
    /// A person took the work away from this worker: others are asked first.
    moved_from: Option<WorkerId>,
}

/// What the work of a task is called: its package, or its type where it needs none.
pub(crate) fn name_of(demand: &Demand) -> &str {
    match &demand.package {
        Some(package) => package.name.as_str(),
        None => demand.task_type.as_str(),
    }
}

impl Bindings {
    fn of(&self, run: RunId, name: &str) -> Option<&Binding> {
        self.runs.get(&run)?.get(name)
    }

    fn note(&mut self, run: RunId, name: &str, worker: &WorkerId, at: Timestamp) {
        let of_run = self.runs.entry(run).or_default();
        let Some(binding) = of_run.get_mut(name) else {
            let binding = Binding { worker: Some(worker.clone()), since: at, moved_from: None };
            of_run.insert(name.to_owned(), binding);
            return;
        };
        let is_same = binding.worker.as_ref() == Some(worker);
        let is_left = binding.moved_from.as_ref() == Some(worker);
        if !is_same && !is_left && at >= binding.since {
            (binding.worker, binding.since) = (Some(worker.clone()), at);
        }
    }

    fn views(&self, run: RunId) -> Vec<BindingView> {
        let view = |(name, binding): (&String, &Binding)| {
            let worker = binding.worker.clone()?;
            Some(BindingView { package: name.clone(), worker, since: binding.since })
        };
        self.runs.get(&run).into_iter().flatten().filter_map(view).collect()
    }
}

impl State {
    /// A worker has a task since then: the work of its run is bound to that worker.
    pub(crate) fn bind_run_of(&mut self, id: TaskId, worker: &WorkerId, at: Timestamp) {
        let Self { tasks, bindings, placement, .. } = self;
        let task = tasks.get(id).expect("held tasks are live");
        if let Some(link) = task.link() {
            bindings.note(link.run, name_of(&placement.spec(task.spec).demand), worker, at);
        }
    }

    fn binding_of(&self, task: &Task) -> Option<&Binding> {
        let run = task.link()?.run;
        self.bindings.of(run, name_of(&self.placement.spec(task.spec).demand))
    }

    /// The worker that has the work of the task's run.
    pub(crate) fn bound_worker(&self, task: &Task) -> Option<&WorkerId> {
        self.binding_of(task)?.worker.as_ref()
    }

    /// The worker that a person took the work of the task's run away from.
    pub(crate) fn left_worker(&self, task: &Task) -> Option<&WorkerId> {
        self.binding_of(task)?.moved_from.as_ref()
    }

    /// The run has ended.
    pub(crate) fn forget_bindings(&mut self, run: RunId) {
        self.bindings.runs.remove(&run);
        self.placement.keep_run_from(run, None);
    }

    /// Keeps a run from these workers and no others. Those of its tasks that are ready go to
    /// where they belong after that.
    fn keep_run_from(&mut self, run: RunId, workers: BTreeSet<WorkerId>, own: &[TaskId]) {
        let kept_from = Some(workers).filter(|workers| !workers.is_empty());
        if self.placement.run_kept_from(run) == kept_from.as_ref() {
            return;
        }
        let is_ready = |id: &&TaskId| self.tasks.get(**id).is_some_and(|t| self.is_visible(t));
        let ready: Vec<TaskId> = own.iter().filter(is_ready).copied().collect();
        for task in &ready {
            self.move_out(*task);
        }
        self.placement.keep_run_from(run, kept_from);
        for task in &ready {
            self.move_in(*task);
        }
    }

    /// How a run is bound, as the store is to keep it.
    fn run_bindings(&self, run: RunId) -> RunBindings {
        let bound = self.bindings.runs.get(&run).into_iter().flatten();
        let bound = bound.map(|(package, binding)| BoundPackage {
            package: package.clone(),
            worker: binding.worker.clone(),
            since: binding.since,
            moved_from: binding.moved_from.clone(),
        });
        let kept_from = self.placement.run_kept_from(run).into_iter().flatten();
        let (bound, kept_from) = (bound.collect(), kept_from.cloned().collect());
        RunBindings { bound, kept_from, fact: None }
    }

    /// Makes a person's word true, live and after a restart.
    pub(crate) fn apply_bindings(&mut self, run: RunId, said: &RunBindings) {
        let of_run = said.bound.iter().map(|bound| {
            let BoundPackage { package, worker, since, moved_from } = bound.clone();
            (package, Binding { worker, since, moved_from })
        });
        self.bindings.runs.insert(run, of_run.collect());
        let live = self.runs.live.get(&run);
        let own: Vec<TaskId> = live.into_iter().flat_map(|run| run.tasks.keys()).copied().collect();
        self.keep_run_from(run, said.kept_from.iter().cloned().collect(), &own);
    }

    pub(crate) fn check_bindings(&self) {
        for run in self.bindings.runs.keys() {
            let has_task =
                || self.tasks.iter().any(|task| task.link().is_some_and(|l| l.run == *run));
            assert!(self.runs.live.contains_key(run) || has_task(), "bindings of a run that ended");
        }
    }
}

impl Decision<'_> {
    pub(crate) fn on_bindings(&self, run: RunId) -> Answer {
        if self.state.runs.live.contains_key(&run) {
            Answer::Bindings(self.state.bindings.views(run))
        } else {
            Answer::NotLive
        }
    }

    pub(crate) fn on_rebind(&mut self, rebind: &Rebind) -> Result<Answer, Refusal> {
        let Rebind { run, to, drain, .. } = rebind;
        if !self.state.runs.live.contains_key(run) {
            return Err(Refusal::UnknownRun);
        }
        if let Some(worker) = to.as_ref().filter(|worker| !self.state.workers.is_known(worker)) {
            return Err(Refusal::UnknownWorker { worker: worker.clone() });
        }
        let left = self.workers_to_leave(rebind)?;
        if *drain {
            self.check_run_drains(*run, left.len())?;
        }
        let bindings = Box::new(self.rebound(rebind, left)?);
        self.record_run(RunChange::Rebound { run: *run, bindings });
        Ok(Answer::Bindings(self.state.bindings.views(*run)))
    }

    /// How the run is bound when a person's word is carried out.
    fn rebound(&self, rebind: &Rebind, left: Vec<WorkerId>) -> Result<RunBindings, Refusal> {
        let Rebind { run, package, to, drain } = rebind;
        let since = self.now();
        let mut bindings = self.state.run_bindings(*run);
        bindings.fact = self.state.runs.live.get(run).map(Run::next_fact);
        if let (Some(name), Some(_)) = (package, to)
            && let Err(place) = bindings.bound.binary_search_by(|bound| bound.package.cmp(name))
        {
            if bindings.bound.len() >= RUN_BINDINGS_MAX {
                return Err(Refusal::RunDrainsFull);
            }
            let package = name.clone();
            let unbound = BoundPackage { package, worker: None, since, moved_from: None };
            bindings.bound.insert(place, unbound);
        }
        let is_meant = |name: &String| package.as_ref().is_none_or(|package| package == name);
        for bound in bindings.bound.iter_mut().filter(|bound| is_meant(&bound.package)) {
            let left = bound.worker.take().filter(|left| Some(left) != to.as_ref());
            (bound.worker, bound.since, bound.moved_from) = (to.clone(), since, left);
        }
        let mut kept_from: BTreeSet<WorkerId> = bindings.kept_from.into_iter().collect();
        kept_from.extend(left.into_iter().filter(|_| *drain));
        if let Some(to) = to {
            kept_from.remove(to);
        }
        bindings.kept_from = kept_from.into_iter().collect();
        Ok(bindings)
    }

    /// The workers that have what is to go elsewhere.
    fn workers_to_leave(&self, rebind: &Rebind) -> Result<Vec<WorkerId>, Refusal> {
        let views = self.state.bindings.views(rebind.run);
        let is_meant = |view: &BindingView| {
            rebind.package.as_ref().is_none_or(|package| *package == view.package)
        };
        let mut left: Vec<WorkerId> =
            views.into_iter().filter(is_meant).map(|view| view.worker).collect();
        let can_begin = rebind.to.is_some() && rebind.package.is_some() && !rebind.drain;
        if left.is_empty() && !can_begin {
            return Err(Refusal::NotBound);
        }
        left.sort_unstable();
        left.dedup();
        left.retain(|worker| Some(worker) != rebind.to.as_ref());
        Ok(left)
    }

    fn check_run_drains(&self, run: RunId, more: usize) -> Result<(), Refusal> {
        let placement = &self.state.placement;
        let of_run = placement.run_kept_from(run).map_or(0, BTreeSet::len);
        let is_new = of_run == 0 && placement.drained_runs() >= DRAINED_RUNS_MAX;
        if is_new || of_run + more > RUN_DRAINS_MAX {
            return Err(Refusal::RunDrainsFull);
        }
        Ok(())
    }

    /// A restart: what a person said last, and then whoever got a task since, in order.
    pub(crate) fn restore_bindings(&mut self, run: RunId, restored: &RunParts) {
        let said = restored.rebound.as_deref().cloned().unwrap_or_default();
        self.state.apply_bindings(run, &said);
        let live = self.state.runs.live.get(&run).into_iter().flat_map(|run| run.tasks.keys());
        let live = live.filter_map(|task| self.state.tasks.get(*task)).filter_map(|task| {
            let spec = self.state.placement.spec(task.spec);
            let held = holder(&task.progress.state, task.ended_attempts())?;
            Some((task.facts().granted, &spec.demand, held))
        });
        let settled = restored.tasks.iter().filter_map(|record| {
            let held = holder(&record.progress.state, &record.ended_attempts)?;
            Some((record.facts.granted, &record.spec.demand, held))
        });
        // A word of an older version has no number: its moment tells what came after it.
        let since = |(fact, ..): &(Option<FactNumber>, &Demand, _)| *fact > said.fact;
        let mut held: Vec<_> = live.chain(settled).filter(since).collect();
        held.sort_by_key(|(fact, ..)| *fact);
        let held = held.into_iter().map(|(_, demand, held)| (name_of(demand).to_owned(), held));
        for (name, (worker, at)) in held.collect::<Vec<_>>() {
            self.state.bindings.note(run, &name, &worker, at);
        }
    }
}

/// Who had a task last, and since when as far as is known.
fn holder(state: &TaskState, ended: &[EndedAttempt]) -> Option<(WorkerId, Timestamp)> {
    match state {
        TaskState::Leased(lease) => Some((lease.holder.clone(), lease.granted_at)),
        TaskState::Settled(end) => {
            end.holder.clone().map(|worker| (worker, end.granted_at.unwrap_or(end.at)))
        }
        TaskState::Waiting { .. } | TaskState::Ready => {
            ended.last().map(|ended| (ended.worker.clone(), ended.at))
        }
    }
}
