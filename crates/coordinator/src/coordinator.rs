//! The one way in: a command or a due moment, then one line per case.

use std::collections::BTreeMap;

use model::{RunId, ShardId, TaskId, Timestamp};

use crate::change::{
    Change, EndedAttempt, Progress, Settlement, TaskRecord, TaskState, WaitReason,
};
use crate::command::{Command, Moment, Question, Ticket};
use crate::effect::{Answer, Effect, LoadKey, LoadTicket, Refusal, Step};
use crate::run::apply::After;
use crate::run::change::{RestoredRun, RunChange};
use crate::run::signal::latest_delay_end;
use crate::state::Deadline;
use crate::state::State;
use crate::task::explain::Wanted;
use crate::task::lease::fresh_lease;
use crate::task::load::Facts;
use crate::tenant_change::TenantSettings;

/// Decides for one shard.
#[derive(Debug)]
pub struct Coordinator {
    state: State,
}

/// How much a coordinator has in hand, for gauges.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// Live tasks.
    pub live: u64,
    /// Tasks that may run and are held by no worker.
    pub ready: u64,
    /// Tasks held by workers.
    pub in_flight: u64,
}

impl Coordinator {
    /// A coordinator that knows what the store knows.
    ///
    /// The tasks come oldest first, so that those which others wait for are there before them.
    /// Every lease gets one fresh TTL: renewals are not written to the store, so the end that is
    /// written there may have been moved since, and its worker must be able to come back.
    pub fn restore(
        shard: ShardId,
        next_number: u64,
        tasks: impl IntoIterator<Item = TaskRecord>,
        at: Moment,
    ) -> Self {
        let mut coordinator = Self { state: State::new(shard, next_number) };
        let mut decision = Decision::new(&mut coordinator.state, at);
        for mut record in tasks {
            match &mut record.progress.state {
                TaskState::Leased(lease) => {
                    *lease = fresh_lease(lease, &record.spec, at.now);
                    decision.touch_worker(&lease.holder);
                }
                // The wall clock may have been set back while nobody was here.
                TaskState::Waiting { until, why: WaitReason::Backoff } => {
                    *until = (*until).min(at.now.after(record.spec.retry.backoff_max));
                }
                TaskState::Waiting { until, why: WaitReason::Delay } => {
                    *until = (*until).min(latest_delay_end(&record.parameters, at.now));
                }
                TaskState::Waiting { .. } | TaskState::Ready | TaskState::Settled(_) => {}
            }
            decision.state.insert_record(&record);
            decision.remember_holder(&record);
        }
        coordinator
    }

    /// Takes in the live runs, oldest first, after their tasks.
    pub fn restore_runs(
        &mut self,
        next_run: u64,
        runs: impl IntoIterator<Item = RestoredRun>,
        at: Moment,
    ) {
        Decision::new(&mut self.state, at).restore_runs(next_run, runs);
    }

    /// Takes in what was set about queues and workers, after the tasks.
    pub fn restore_settings(&mut self, settings: TenantSettings) {
        self.state.restore_settings(settings);
    }

    /// Lets a turn begin fewer nodes than it could, for tests: a small run then has nodes whose
    /// turn has come and that are not begun, as a large one has.
    pub fn set_begun_per_turn(&mut self, max: usize) {
        self.state.runs.begun_per_turn = max.max(1);
    }

    /// Carries out a command.
    pub fn handle(&mut self, at: Moment, command: Command) -> Step {
        let mut decision = Decision::new(&mut self.state, at);
        decision.number_runs();
        decision.carry_out(command);
        decision.advance_runs();
        decision.advance_schedules();
        decision.place();
        decision.step
    }

    /// Acts on everything that is due; calling it early does nothing.
    pub fn tick(&mut self, at: Moment) -> Step {
        let mut decision = Decision::new(&mut self.state, at);
        decision.number_runs();
        while let Some((_, deadline)) = decision.state.deadlines.pop_due(at.now) {
            match deadline {
                Deadline::Task(task) => decision.on_task_due(task),
                Deadline::Request(ticket) => decision.on_request_due(ticket),
                Deadline::Watch(ticket) => decision.on_watch_due(ticket),
                Deadline::Worker(worker) => decision.on_worker_due(&worker),
                Deadline::Call(ticket) => decision.on_call_due(ticket),
            }
        }
        decision.advance_runs();
        decision.advance_schedules();
        decision.place();
        decision.step
    }

    /// The moment at which `tick` has something to do.
    pub fn next_deadline(&self) -> Option<Timestamp> {
        let runs = &self.state.runs;
        if !runs.due.is_empty() || !runs.unreadable.is_empty() || !runs.numbered.is_empty() {
            return Some(Timestamp::default());
        }
        let schedules = self.state.schedules.next_deadline(self.state.now);
        self.state.deadlines.first().into_iter().chain(schedules).min()
    }

    /// How much there is to do.
    pub fn load(&self) -> Load {
        Load {
            live: self.state.tasks.len() as u64,
            ready: self.state.placement.ready_len() as u64,
            in_flight: self.state.queues.values().map(|counts| counts.leased).sum(),
        }
    }

    /// The state of every live run as text, for tests: a restart must bring back the same.
    pub fn run_states(&self) -> BTreeMap<RunId, String> {
        self.state.runs.live.iter().map(|(id, run)| (*id, run.rendered())).collect()
    }

    /// Checks that every index says what the tasks say; a walk over everything, for tests.
    ///
    /// # Panics
    /// When an index lies.
    pub fn check_invariants(&self) {
        self.state.check_invariants();
    }
}

/// One command, or one look at the deadlines: reads state, collects facts and effects.
pub(crate) struct Decision<'a> {
    pub(crate) state: &'a mut State,
    pub(crate) step: Step,
    pub(crate) at: Moment,
    /// What was read from the store for this command.
    pub(crate) facts: Facts,
}

impl<'a> Decision<'a> {
    fn new(state: &'a mut State, at: Moment) -> Self {
        assert!(at.now >= state.now, "the clock never runs backwards");
        state.now = at.now;
        Self { state, step: Step::default(), at, facts: Facts::default() }
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.at.now
    }

    fn carry_out(&mut self, command: Command) {
        match command {
            Command::Ask(ticket, question) => {
                let missing = self.state.missing_for(&question);
                if missing.is_empty() {
                    return self.on_question(ticket, question);
                }
                let load = self.state.loads.begin((ticket, question));
                self.step.effects.push(Effect::Load { load, keys: missing });
            }
            Command::Withdraw { ticket } => self.on_withdraw(ticket),
            Command::ReturnLeases { leases } => self.on_return(&leases),
            Command::GiveBack { worker, leases } => self.on_give_back(&worker, &leases),
            Command::LoseWorker { worker } => self.on_lose_worker(&worker),
            Command::Prepared { prepare, preparation } => self.on_prepared(prepare, preparation),
            Command::Loaded { load, found } => self.on_loaded(load, found),
            Command::LoadFailed { load } => self.on_load_failed(load),
        }
    }

    fn on_question(&mut self, ticket: Ticket, question: Question) {
        let answer = match question {
            // These may be answered later.
            Question::RequestLeases { request } => return self.on_request(ticket, request),
            Question::Watch { task, until } => return self.on_watch(ticket, task, until),
            Question::WatchRun { run, until } => return self.on_watch_run(ticket, run, until),
            Question::Next { call } => return self.on_next(ticket, &call),
            Question::Submit { tasks } => self.on_submit(tasks),
            Question::Heartbeat { worker, leases } => Ok(self.on_heartbeat(&worker, leases)),
            Question::Register { worker, offer, silence_limits, anew } => {
                self.on_register(&worker, &offer, (silence_limits, anew))
            }
            Question::NoteVerified { worker, tool, output } => {
                self.on_verified(worker, tool, output)
            }
            Question::Unregister { worker } => Ok(self.on_unregister(&worker)),
            Question::Drain { worker, drain } => self.on_drain(worker, drain),
            Question::SetDrain { worker, cause, on } => self.on_set_drain(&worker, cause, on),
            Question::SetPause { queue, pause } => self.on_set_pause(queue, pause),
            Question::Report { reports } => Ok(self.on_reports(reports)),
            Question::Stop { task } => Ok(self.on_stop(task)),
            Question::Requeue { task } => self.on_requeue(task),
            Question::Explain { task } => Ok(self.on_explain(task)),
            Question::Peek { queues, types, skip, limit } => {
                let wanted = Wanted { queues: queues.into_iter().collect(), types };
                Ok(self.on_peek(&wanted, skip, limit))
            }
            Question::StartRun { run } => self.on_start_run(*run),
            Question::CancelRun { run, by } => Ok(self.on_cancel_run(run, &by)),
            Question::Underway { run } => Ok(self.on_underway(run)),
            Question::Signal { signal } => self.on_signal(&signal),
            Question::Bindings { run } => Ok(self.on_bindings(run)),
            Question::Rebind { rebind } => self.on_rebind(&rebind),
            Question::ListSchedules => Ok(self.on_list_schedules()),
            Question::ShowSchedule { schedule } => self.on_show_schedule(schedule),
            Question::AddSchedule { schedule, spec } => self.on_add_schedule(schedule, *spec),
            Question::EditSchedule { schedule, edit } => self.on_edit_schedule(schedule, *edit),
            Question::RemoveSchedule { schedule } => self.on_remove_schedule(schedule),
            Question::Backfill { schedule, moments } => self.on_backfill(schedule, &moments),
            Question::ListWorkers => Ok(self.on_list_workers()),
            Question::ListQueues => Ok(self.on_list_queues()),
        };
        self.answer(ticket, answer.unwrap_or_else(Answer::Refused));
    }

    fn on_loaded(&mut self, load: LoadTicket, found: Vec<(LoadKey, TaskRecord)>) {
        let Some((ticket, question)) = self.state.loads.end(load) else { return };
        self.facts = found.into_iter().collect();
        self.on_question(ticket, question);
        self.state.loads.forget_old();
    }

    fn on_load_failed(&mut self, load: LoadTicket) {
        let Some((ticket, _)) = self.state.loads.end(load) else { return };
        self.answer(ticket, Answer::Refused(Refusal::StoreUnavailable));
        self.state.loads.forget_old();
    }

    /// Records a fact and makes it true, with all that follows for tasks that wait for others and
    /// for runs.
    pub(crate) fn change(&mut self, change: Change) {
        let (task, progress) = (change.task(), change.progress());
        let outcome = match &change {
            Change::TaskSettled { .. } => progress.state.outcome(),
            _ => None,
        };
        let link = match &change {
            Change::TaskSettled { .. } | Change::AttemptEnded { .. } => {
                self.state.tasks.get(task).and_then(|task| task.link().cloned())
            }
            _ => None,
        };
        let called = link.as_ref().map(|link| self.state.calls_of(link.run, task));
        let after = self.record(change);
        if let Some(outcome) = outcome
            && !self.state.dependents.is_empty()
        {
            self.after_settled(task, outcome);
        }
        if let (Some(link), Some(called)) = (link, called) {
            self.after_caller(link.run, task, called);
            self.after_linked(&link, after);
        }
    }

    /// A task comes to its end, with all that follows.
    pub(crate) fn settle(&mut self, id: TaskId, attempt: Option<EndedAttempt>, progress: Progress) {
        let task = self.state.tasks.get(id).expect("only live tasks settle");
        let fact = self.state.next_fact_of(task);
        self.change(Change::TaskSettled { task: id, attempt, progress, fact });
    }

    /// A task comes to an end that no report tells.
    pub(crate) fn settle_as(
        &mut self,
        id: TaskId,
        attempt: Option<EndedAttempt>,
        settlement: Settlement,
    ) {
        let task = self.state.tasks.get(id).expect("only live tasks settle");
        let state = TaskState::Settled(Box::new(settlement));
        let progress = Progress { state, ..task.progress };
        self.settle(id, attempt, progress);
    }

    /// Records a fact about a run and makes it true.
    pub(crate) fn record_run(&mut self, change: RunChange) -> After {
        let after = self.state.apply_run(&change);
        self.step.runs.push(change);
        after
    }

    /// Records a fact and makes it true. Gives what follows for the run of its task.
    pub(crate) fn record(&mut self, change: Change) -> After {
        let after = self.state.apply(&change);
        if let Change::TaskSettled { task, .. } = &change {
            for (ticket, until) in self.state.watches.take(*task) {
                self.state.deadlines.remove(until, Deadline::Watch(ticket));
                self.answer(ticket, Answer::WatchEnded);
            }
        }
        self.step.changes.push(change);
        after
    }

    pub(crate) fn answer(&mut self, ticket: Ticket, answer: Answer) {
        self.step.effects.push(Effect::Answer { ticket, answer });
    }
}
