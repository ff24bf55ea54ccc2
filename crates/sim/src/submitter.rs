//! Someone who wants work done, writes down what was promised, and changes his live at times.

use std::collections::BTreeMap;
use std::time::Duration;

use coordinator::{Answer, Signal, SubmittedTask};
use model::{NewTask, QueueName, TaskId, Timestamp, WorkerId};

use crate::agenda::Event;
use crate::consequence::Consequence;
use crate::faults::Fault;
use crate::message::{Ask, Call, DrainWish, Peer, Reply, Request, Told, Wire};
use crate::oracle::Place;
use crate::rng::Dice;
use crate::runs::SavedWorkflow;
use crate::workload::{
    Intent, QUEUES, after_of, has_many_types, key_text, queue_name, submit_within,
};
use crate::world::{Tenant, World, shard_of};

/// How long a submitter waits before it asks again.
const PATIENCE: u64 = 2_000;
/// A task number that no run reaches.
const NUMBER_OF_NOBODY: u64 = 1 << 30;
/// Tries of an order that is not needed for the end of the run.
const TRIES_MAX: u32 = 4;

#[derive(Debug)]
pub(crate) struct Submitter {
    pub(crate) tenant: usize,
    pub(crate) half_open_until: u64,
    /// Wishes by the time of their submit.
    plan: BTreeMap<u64, Vec<u64>>,
    /// Keys of runs by the time of their start.
    runs: BTreeMap<u64, Vec<String>>,
    calls: BTreeMap<u64, Order>,
    acknowledged: Vec<(u64, TaskId)>,
    dice: Dice,
}

/// Something that a submitter wants answered.
#[derive(Clone, Debug)]
struct Order {
    wish: Wish,
    tries: u32,
    is_repeated: bool,
}

#[derive(Clone, Debug)]
enum Wish {
    Submit {
        intents: Vec<u64>,
        key_suffix: u32,
        is_keyed: bool,
        /// What each is to run after; empty when the tasks exist already.
        after: Vec<Vec<TaskId>>,
    },
    /// A task that is to run after one that nobody made.
    Orphan(u64),
    Pause(QueueName, bool),
    StartRun(String),
    Drain(WorkerId, Option<DrainWish>),
    /// The word that a node waits for.
    Say(Box<Signal>),
    /// The same key with other content.
    Conflict(u64),
    Stop(TaskId),
    Requeue(TaskId),
    Look(TaskId, u64),
}

/// What a submitter's clock wakes it for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SubmitterTimer {
    Submit,
    StartRuns,
    Say,
    Meddle,
    GiveUp(u64),
}

impl Submitter {
    /// Whether everything that was to be submitted has been acknowledged.
    pub(crate) fn is_content(&self) -> bool {
        let is_open = |order: &Order| matches!(order.wish, Wish::Submit { .. } | Wish::StartRun(_));
        self.plan.is_empty()
            && self.runs.is_empty()
            && !self.calls.values().any(|order| is_open(order) && !order.is_repeated)
    }
}

impl World {
    pub(crate) fn spawn_submitters(&mut self) {
        for (number, tenant) in (0_u64..).zip([0, 0, 1]) {
            self.submitters.push(Submitter {
                tenant,
                half_open_until: 0,
                plan: BTreeMap::new(),
                runs: BTreeMap::new(),
                calls: BTreeMap::new(),
                acknowledged: Vec::new(),
                dice: Dice::of_parts(self.seed, 50 + number, 13),
            });
        }
        for number in 0..self.config.tasks {
            if self.config.skip.contains(&number) {
                continue;
            }
            let mut dice = Dice::of_parts(self.seed, number, 17);
            // Wishes that share a moment travel in one submit.
            let at = dice.below(submit_within(self.seed) / 250) * 250;
            // Tasks of many types are one tenant's, so that many of them wait at the same time.
            let n_submitters = if has_many_types(self.seed) { 2 } else { self.submitters.len() };
            let submitter = dice.index(n_submitters);
            self.submitters[submitter].plan.entry(at).or_default().push(number);
        }
        self.plan_runs();
        for submitter in 0..self.submitters.len() {
            self.submitter_timer(submitter, 10, SubmitterTimer::Submit);
            self.submitter_timer(submitter, 10, SubmitterTimer::StartRuns);
            self.submitter_timer(submitter, 300, SubmitterTimer::Say);
            self.submitter_timer(submitter, 1_000, SubmitterTimer::Meddle);
        }
    }

    fn plan_runs(&mut self) {
        for number in 0..self.config.workflows {
            let mut dice = Dice::of_parts(self.seed, number, 29);
            let at = dice.below(self.config.safety_ms() / 2);
            let submitter = dice.index(self.submitters.len());
            let key = format!("run-{number}");
            self.runs.want(&key, SavedWorkflow::of(self.seed, number));
            self.submitters[submitter].runs.entry(at).or_default().push(key);
        }
    }

    fn submitter_timer(&mut self, submitter: usize, after: u64, timer: SubmitterTimer) {
        self.agenda.plan(self.clock.now + after, Event::Submitter { submitter, timer });
    }

    pub(crate) fn submitter_wakes(&mut self, submitter: usize, timer: SubmitterTimer) {
        match timer {
            SubmitterTimer::Submit => self.submitter_submits(submitter),
            SubmitterTimer::StartRuns => self.submitter_starts_runs(submitter),
            SubmitterTimer::Say => self.submitter_says(submitter),
            SubmitterTimer::Meddle => self.submitter_meddles(submitter),
            SubmitterTimer::GiveUp(number) => self.submitter_gives_up(submitter, number),
        }
    }

    fn submitter_submits(&mut self, submitter: usize) {
        while let Some(first) = self.submitters[submitter].plan.first_entry() {
            if *first.key() > self.clock.now {
                let after = *first.key() - self.clock.now;
                return self.submitter_timer(submitter, after, SubmitterTimer::Submit);
            }
            let intents = first.remove();
            let is_keyed = |number: &u64| Intent::of(self.seed, *number, true).is_keyed;
            let (keyed, plain): (Vec<_>, Vec<_>) = intents.into_iter().partition(is_keyed);
            for (intents, is_keyed) in [(keyed, true), (plain, false)] {
                if !intents.is_empty() {
                    let after = self.to_run_after(submitter, &intents);
                    let wish = Wish::Submit { intents, key_suffix: 0, is_keyed, after };
                    self.submitter_asks(submitter, wish, 1);
                }
            }
        }
    }

    fn submitter_starts_runs(&mut self, submitter: usize) {
        while let Some(first) = self.submitters[submitter].runs.first_entry() {
            if *first.key() > self.clock.now {
                let after = *first.key() - self.clock.now;
                return self.submitter_timer(submitter, after, SubmitterTimer::StartRuns);
            }
            for key in first.remove() {
                self.submitter_asks(submitter, Wish::StartRun(key), 1);
            }
        }
    }

    fn submitter_says(&mut self, submitter: usize) {
        let after = self.submitters[submitter].dice.between(100, 900);
        self.submitter_timer(submitter, after, SubmitterTimer::Say);
        if let Some(signal) = self.some_word(self.submitters[submitter].tenant) {
            self.submitter_asks(submitter, Wish::Say(signal), 1);
        }
    }

    fn to_run_after(&self, submitter: usize, intents: &[u64]) -> Vec<Vec<TaskId>> {
        let known: Vec<TaskId> =
            self.submitters[submitter].acknowledged.iter().map(|(_, task)| *task).collect();
        intents.iter().map(|number| after_of(self.seed, *number, &known)).collect()
    }

    fn submitter_asks(&mut self, submitter: usize, wish: Wish, tries: u32) {
        let tenant = self.submitters[submitter].tenant;
        let ask = self.to_ask(tenant, &wish);
        self.last_call += 1;
        let number = self.last_call;
        let order = Order { wish, tries, is_repeated: false };
        self.submitters[submitter].calls.insert(number, order);
        let sent_at = self.clock.now;
        let call = Call { peer: Peer::Submitter(submitter), process: 0, number, sent_at };
        let at = self.choose_server(tenant);
        self.post(&Wire::Request(Request { call, at, ask }));
        self.submitter_timer(submitter, PATIENCE, SubmitterTimer::GiveUp(number));
    }

    fn to_ask(&self, tenant: usize, wish: &Wish) -> Ask {
        match wish {
            Wish::Submit { intents, key_suffix, is_keyed, after } => {
                let key = |number: u64| is_keyed.then(|| format!("wish-{number}-{key_suffix}"));
                let task = |(place, number): (usize, &u64)| NewTask {
                    after: after.get(place).cloned().unwrap_or_default(),
                    pin: None,
                    ..self.to_task(*number, key(*number))
                };
                Ask::Submit(intents.iter().enumerate().map(task).collect())
            }
            Wish::Orphan(number) => {
                let nobody = TaskId::of(shard_of(tenant), NUMBER_OF_NOBODY);
                let after = vec![nobody];
                Ask::Submit(vec![NewTask { after, ..self.to_task(*number, None) }])
            }
            Wish::Pause(queue, on) => Ask::Pause(queue.clone(), *on),
            Wish::StartRun(key) => {
                let workflow = self.runs.workflow(key).expect("only wanted runs are started");
                Ask::StartRun(Box::new(workflow.new_run(key)))
            }
            Wish::Say(signal) => Ask::Signal(signal.clone()),
            Wish::Drain(worker, wish) => Ask::Drain(worker.clone(), *wish),
            Wish::Conflict(number) => {
                let mut task = self.to_task(*number, Some(format!("wish-{number}-0")));
                if let Some(mark) = &mut task.idempotency {
                    mark.fingerprint ^= 1;
                }
                Ask::Submit(vec![task])
            }
            Wish::Stop(task) => Ask::Stop(*task),
            Wish::Requeue(task) => Ask::Requeue(*task),
            Wish::Look(task, kind) => match kind {
                0 => Ask::Watch(*task, Duration::from_secs(3)),
                1 => Ask::ListWorkers,
                2 => Ask::ListQueues,
                3 => Ask::Peek,
                _ => Ask::Explain(*task),
            },
        }
    }

    fn to_task(&self, number: u64, key: Option<String>) -> NewTask {
        let wall = Timestamp::from_millis(self.clock.wall());
        let mut task = Intent::of(self.seed, number, true).to_task(wall, key.clone());
        if let (Some(mark), Some(key)) = (&mut task.idempotency, key) {
            mark.key = key_text(&key);
        }
        task
    }

    /// No answer: who has a key asks again under the same one; who has none cannot know, and
    /// leaves it at that.
    fn submitter_gives_up(&mut self, submitter: usize, number: u64) {
        let renames = self.config.clients_rename;
        let Some(order) = self.submitters[submitter].calls.get_mut(&number) else { return };
        if std::mem::replace(&mut order.is_repeated, true) {
            return;
        }
        let (mut wish, tries) = (order.wish.clone(), order.tries + 1);
        match &mut wish {
            Wish::Submit { is_keyed: false, .. } => return,
            Wish::Submit { key_suffix, .. } => *key_suffix += u32::from(renames),
            Wish::StartRun(_) => {}
            _ if tries > TRIES_MAX => return,
            Wish::Conflict(_)
            | Wish::Drain(..)
            | Wish::Say(_)
            | Wish::Orphan(_)
            | Wish::Pause(..)
            | Wish::Stop(_)
            | Wish::Requeue(_)
            | Wish::Look(..) => {}
        }
        self.submitter_asks(submitter, wish, tries);
    }

    // ----- changes of live

    fn submitter_meddles(&mut self, submitter: usize) {
        if !self.has_faults {
            return;
        }
        let it = &mut self.submitters[submitter];
        let after = it.dice.between(300, 2_500);
        let kind = it.dice.below(18);
        let known = it.dice.pick(&it.acknowledged.clone()).copied();
        let is_foreign = it.dice.chance(30);
        self.submitter_timer(submitter, after, SubmitterTimer::Meddle);
        let Some((intent, task)) = known else { return };
        if is_foreign {
            return self.ask_about_foreign(submitter);
        }
        let is_keyed = Intent::of(self.seed, intent, true).is_keyed;
        let wish = match kind {
            0 => Wish::Stop(task),
            10..14 => Wish::Stop(self.one_to_stop(submitter).unwrap_or(task)),
            1 | 2 => Wish::Requeue(self.one_to_requeue(submitter).unwrap_or(task)),
            3 | 4 if is_keyed => {
                let (intents, after) = (vec![intent], Vec::new());
                Wish::Submit { intents, key_suffix: 0, is_keyed: true, after }
            }
            5 if is_keyed => Wish::Conflict(intent),
            6 => Wish::Orphan(intent),
            // Queues go on more often than they are paused, or little would happen at all.
            7..10 => Wish::Pause(self.some_queue(submitter), kind == 7),
            14..18 => self.some_drain(submitter, kind < 16),
            _ => Wish::Look(task, kind % 5),
        };
        self.submitter_asks(submitter, wish, 1);
    }

    /// Someone has got hold of a task of another tenant.
    fn ask_about_foreign(&mut self, submitter: usize) {
        let tenant = self.submitters[submitter].tenant;
        let others = self.submitters.iter().filter(|other| other.tenant != tenant);
        let foreign: Vec<TaskId> =
            others.flat_map(|other| other.acknowledged.iter().map(|(_, task)| *task)).collect();
        if let Some(task) = self.submitters[submitter].dice.pick(&foreign).copied() {
            self.submitter_asks(submitter, Wish::Stop(task), 1);
        }
    }

    /// Drains some worker for some time, or lets it take work again.
    fn some_drain(&mut self, submitter: usize, on: bool) -> Wish {
        let names = self.worker_names(self.submitters[submitter].tenant);
        let dice = &mut self.submitters[submitter].dice;
        let worker = dice.pick(&names).cloned().expect("every tenant has workers");
        let gone_in = dice.chance(700).then(|| Duration::from_millis(dice.between(200, 5_000)));
        Wish::Drain(worker, on.then_some(DrainWish { gone_in }))
    }

    fn some_queue(&mut self, submitter: usize) -> QueueName {
        let name = self.submitters[submitter].dice.pick(&QUEUES).copied();
        queue_name(name.unwrap_or("default"))
    }

    /// A person looks at what runs first.
    fn one_to_stop(&mut self, submitter: usize) -> Option<TaskId> {
        let durable = &self.tenants[self.submitters[submitter].tenant].durable;
        let is_running =
            |task: &crate::oracle::TaskModel| task.place == Place::Leased && !task.is_of_run;
        let running = durable.tasks.iter().filter(|(_, task)| is_running(task));
        let running: Vec<TaskId> = running.map(|(id, _)| *id).collect();
        self.submitters[submitter].dice.pick(&running).copied()
    }

    /// A person looks at the list of failed tasks first.
    fn one_to_requeue(&mut self, submitter: usize) -> Option<TaskId> {
        let is_over = |place: Place| matches!(place, Place::Settled(outcome) if outcome != coordinator::Outcome::Completed);
        let durable = &self.tenants[self.submitters[submitter].tenant].durable;
        let over = durable.tasks.iter().filter(|(_, task)| is_over(task.place));
        let over: Vec<TaskId> = over.map(|(id, _)| *id).collect();
        self.submitters[submitter].dice.pick(&over).copied()
    }

    // ----- answers

    pub(crate) fn submitter_hears(&mut self, submitter: usize, reply: Reply) {
        let number = reply.call.number;
        let calls = &mut self.submitters[submitter].calls;
        let answer = match reply.told {
            Told::Answer(answer) => answer,
            Told::Unavailable | Told::Malformed => {
                return self.submitter_timer(submitter, 300, SubmitterTimer::GiveUp(number));
            }
        };
        let Some(order) = calls.remove(&number) else { return };
        let Tenant { durable, journal, .. } = &mut self.tenants[self.submitters[submitter].tenant];
        let notes = &mut self.notes;
        match (order.wish, answer) {
            (Wish::Submit { intents, .. }, Answer::Submitted(made)) => {
                self.submitter_is_told(submitter, &intents, &made);
            }
            (Wish::Submit { .. }, answer) => {
                notes.broken("P1", || format!("a submit was answered by {answer:?}"));
            }
            (Wish::Conflict(number), Answer::Submitted(made)) => {
                notes.broken("P1", || format!("wish {number} with other content made {made:?}"));
            }
            (Wish::Orphan(number), Answer::Submitted(made)) => {
                notes.broken("P1", || format!("wish {number} runs after nobody: {made:?}"));
            }
            (Wish::StartRun(key), Answer::RunStarted { run, .. }) => {
                let kept = self.runs.run_of(&key);
                notes.demand(kept == Some(run), "P1", || {
                    format!("{key} was answered with run {run}, the store has {kept:?}")
                });
            }
            (Wish::StartRun(_), answer) => {
                notes.broken("P1", || format!("a start was answered by {answer:?}"));
            }
            (Wish::Drain(worker, wish), Answer::DrainSet) => {
                let tenant = self.submitters[submitter].tenant;
                self.worker_is_notified(tenant, &worker, wish);
            }
            (Wish::Stop(task), Answer::Stopped) => journal.stopped(task, durable, notes),
            (Wish::Stop(task), Answer::NotLive) if !durable.tasks.contains_key(&task) => {
                notes.happened(Consequence::ForeignTaskUnknown);
            }
            (Wish::Requeue(task), Answer::Requeued) => journal.requeued(task, durable, notes),
            (
                Wish::Conflict(_)
                | Wish::Orphan(_)
                | Wish::Pause(..)
                | Wish::Drain(..)
                | Wish::Say(_)
                | Wish::Stop(_)
                | Wish::Requeue(_)
                | Wish::Look(..),
                _,
            ) => {}
        }
    }

    fn submitter_is_told(&mut self, submitter: usize, intents: &[u64], made: &[SubmittedTask]) {
        for (intent, made) in intents.iter().zip(made) {
            let own = &mut self.tenants[self.submitters[submitter].tenant];
            own.journal.submitted(*intent, *made, &own.durable, &mut self.notes);
            self.submitters[submitter].acknowledged.push((*intent, made.task));
        }
    }

    pub(crate) fn became_half_open(&mut self) {
        let until = self.clock.now + self.fault_dice.heavy_tail(1_000, 4);
        let count = self.workers.len() + self.submitters.len();
        let victim = self.fault_dice.index(count);
        if let Some(worker) = self.workers.get_mut(victim) {
            worker.half_open_until = until;
        } else if let Some(submitter) = self.submitters.get_mut(victim - self.workers.len()) {
            submitter.half_open_until = until;
        }
        self.trace.note(self.clock.now, &[4, victim as u64, until], || {
            format!("{} peer {victim} hears nothing until {until} ms", Fault::HalfOpen.name().0)
        });
    }
}
