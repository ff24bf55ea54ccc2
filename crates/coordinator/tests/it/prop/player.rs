//! Plays a random history and compares every answer with the model.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use coordinator::{
    Answer, Change, Command, Coordinator, Effect, HeartbeatVerdict, Judgement, LeaseRequest,
    LoadKey, LoadTicket, Moment, Question, Refusal, Renewal, StateWord, Step, SubmittedTask,
    TaskRecord, TaskState, Ticket, Verdict,
};
use model::{
    Failure, LeaseId, NewTask, Offer, Report, ReportKey, ReportedOutcome, ShardId, TaskId,
    Timestamp, WorkerId,
};
use proptest::sample::Index;

use super::deed::{AfterPick, Deed, LeasePick, What, Wish, offer};
use super::model::Model;
use crate::story::{START, plain_request, shard};

/// The coordinator, the model, and who waits for what.
pub(super) struct Player {
    coordinator: Coordinator,
    model: Model,
    now: Timestamp,
    /// The sweep has come for everything that was due until then.
    swept: Timestamp,
    entropy: u64,
    last_ticket: u64,
    asked: BTreeMap<Ticket, Command>,
    loads: Vec<(LoadTicket, Vec<(LoadKey, TaskRecord)>)>,
    /// What the command being carried out gives back.
    returned: Vec<LeaseId>,
    sent: Vec<Report>,
    /// Held since before the last restart, and not named since.
    doubtful: BTreeSet<LeaseId>,
}

impl Player {
    pub(super) fn new() -> Self {
        let at = Moment { now: START, wall: START, entropy: 0 };
        Self {
            coordinator: Coordinator::restore(shard(), 0, [], at),
            model: Model::default(),
            now: START,
            swept: START,
            entropy: 0,
            last_ticket: 0,
            asked: BTreeMap::new(),
            loads: Vec::new(),
            returned: Vec::new(),
            sent: Vec::new(),
            doubtful: BTreeSet::new(),
        }
    }

    pub(super) fn play(&mut self, deed: Deed) {
        match deed {
            Deed::Submit(wishes) => {
                let task = |wish: &Wish| NewTask {
                    after: wish.after.iter().map(|pick| self.pick_after(pick)).collect(),
                    ..wish.to_task(self.now)
                };
                let tasks = wishes.iter().map(task).collect();
                self.ask(|ticket| Command::Ask(ticket, Question::Submit { tasks }));
            }
            Deed::Ask { worker, offer: kind, max, wait_s, confirm } => {
                let wait_until = self.now.after(Duration::from_secs(wait_s));
                let request = LeaseRequest {
                    offer: Arc::new(offer(kind)),
                    max,
                    confirm_within: confirm.then_some(Duration::from_secs(3)),
                    ..plain_request(worker_id(worker), wait_until)
                };
                self.ask(|ticket| Command::Ask(ticket, Question::RequestLeases { request }));
            }
            Deed::Beat { worker, leases } => {
                let worker = worker_id(worker);
                let leases: Vec<_> = leases.iter().map(|pick| self.pick_lease(pick)).collect();
                let leases = if leases.is_empty() {
                    Renewal::Unlisted { n_active: 0 }
                } else {
                    Renewal::Listed(leases)
                };
                self.ask(|ticket| Command::Ask(ticket, Question::Heartbeat { worker, leases }));
            }
            Deed::Report { worker, leases, what, key } => self.report(worker, &leases, what, key),
            Deed::Return(pick) => {
                let lease = self.pick_lease(&pick);
                self.returned = vec![lease];
                self.order(Command::ReturnLeases { leases: vec![lease] });
                self.returned.clear();
            }
            Deed::Pass(millis) => self.pass_until(self.now.after(Duration::from_millis(millis))),
            Deed::Oversleep(millis) => self.now = self.now.after(Duration::from_millis(millis)),
            Deed::Load(load, succeeds) => self.end_load(load, succeeds),
            Deed::Restart => self.restart(),
            Deed::Withdraw(request) => self.withdraw(request),
            Deed::Stop(_) | Deed::Requeue(_) | Deed::Watch(..) | Deed::Explain(_) => {
                self.play_on_task(&deed);
            }
        }
    }

    fn play_on_task(&mut self, deed: &Deed) {
        let until = |wait_s: u64| self.now.after(Duration::from_secs(wait_s));
        match deed {
            Deed::Stop(task) => {
                let task = self.pick_task(*task);
                self.ask(|ticket| Command::Ask(ticket, Question::Stop { task }));
            }
            Deed::Requeue(task) => {
                let task = self.pick_task(*task);
                self.ask(|ticket| Command::Ask(ticket, Question::Requeue { task }));
            }
            Deed::Watch(task, wait_s) => {
                let (task, until) = (self.pick_task(*task), until(*wait_s));
                self.ask(|ticket| Command::Ask(ticket, Question::Watch { task, until }));
            }
            Deed::Explain(task) => {
                let task = self.pick_task(*task);
                self.ask(|ticket| Command::Ask(ticket, Question::Explain { task }));
            }
            _ => panic!("not about one task: {deed:?}"),
        }
    }

    /// Ends the history: loads come back, waits end, and a worker that can do everything does.
    pub(super) fn finish(mut self) {
        while let Some((load, found)) = self.loads.pop() {
            self.order(Command::Loaded { load, found });
        }
        self.pass_until(self.now.after(Duration::from_mins(1)));
        assert!(self.asked.is_empty(), "unanswered: {:?}", self.asked);
        for _ in 0..1_000 {
            self.drain();
            if self.model.kept.live().next().is_none() {
                break;
            }
            let due = self.coordinator.next_deadline().expect("a task that waits has its moment");
            self.pass_until(due.max(self.now));
        }
        let waiting: Vec<_> = self.model.kept.live().collect();
        assert!(waiting.is_empty(), "nothing waits for ever: {waiting:?}");
        for report in std::mem::take(&mut self.sent) {
            self.send(vec![report]);
        }
    }

    fn drain(&mut self) {
        let worker: WorkerId = "drain".parse().expect("a worker");
        let request = LeaseRequest {
            offer: Arc::new(offer(0)),
            max: 100,
            ..plain_request(worker.clone(), self.now)
        };
        self.ask(|ticket| Command::Ask(ticket, Question::RequestLeases { request }));
        let report = |lease: LeaseId| Report {
            lease,
            worker: worker.clone(),
            key: ReportKey(0),
            outcome: outcome(What::Completed),
        };
        let reports: Vec<_> = self.model.held_by(&worker).into_iter().map(report).collect();
        self.send(reports);
    }

    // ----- asking

    fn at(&mut self) -> Moment {
        self.entropy = self.entropy.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        Moment { now: self.now, wall: self.now, entropy: self.entropy }
    }

    fn ask(&mut self, command: impl FnOnce(Ticket) -> Command) {
        self.last_ticket += 1;
        let ticket = Ticket(self.last_ticket);
        let command = command(ticket);
        self.asked.insert(ticket, command.clone());
        self.order(command);
    }

    fn order(&mut self, command: Command) {
        let at = self.at();
        let step = self.coordinator.handle(at, command);
        self.see(&step);
    }

    fn send(&mut self, reports: Vec<Report>) {
        self.ask(|ticket| Command::Ask(ticket, Question::Report { reports }));
        // At the end of a history the store answers at once.
        while self.sent.is_empty()
            && let Some((load, found)) = self.loads.pop()
        {
            self.order(Command::Loaded { load, found });
        }
    }

    fn report(&mut self, worker: Option<u8>, leases: &[LeasePick], what: What, key: u8) {
        let report = |pick: &LeasePick| {
            let lease = self.pick_lease(pick);
            let holder = self.model.holder(lease);
            let worker = worker.map(worker_id).or(holder).unwrap_or_else(|| worker_id(0));
            Report { lease, worker, key: ReportKey(key.into()), outcome: outcome(what) }
        };
        let reports: Vec<_> = leases.iter().map(report).collect();
        self.sent.extend(reports.iter().cloned());
        self.ask(|ticket| Command::Ask(ticket, Question::Report { reports }));
    }

    fn withdraw(&mut self, request: Index) {
        let open: Vec<_> = self
            .asked
            .iter()
            .filter(|(_, command)| {
                matches!(
                    command,
                    Command::Ask(_, Question::RequestLeases { .. } | Question::Watch { .. })
                )
            })
            .map(|(ticket, _)| *ticket)
            .collect();
        if !open.is_empty() {
            let ticket = *request.get(&open);
            self.asked.remove(&ticket);
            self.order(Command::Withdraw { ticket });
        }
    }

    fn end_load(&mut self, load: Index, succeeds: bool) {
        if self.loads.is_empty() {
            return;
        }
        let (load, found) = self.loads.remove(load.index(self.loads.len()));
        let command =
            if succeeds { Command::Loaded { load, found } } else { Command::LoadFailed { load } };
        self.order(command);
    }

    /// The clock runs to `time`, and stops at every deadline.
    fn pass_until(&mut self, time: Timestamp) {
        while let Some(due) = self.coordinator.next_deadline().filter(|due| *due <= time) {
            self.now = due.max(self.now);
            self.swept = self.now;
            let at = self.at();
            let step = self.coordinator.tick(at);
            self.see(&step);
        }
        (self.now, self.swept) = (time, time);
    }

    fn restart(&mut self) {
        self.pass_until(self.now);
        let before = (self.coordinator.load(), self.explanations());
        self.asked.clear();
        self.loads.clear();
        self.model.restart(self.now);
        self.doubtful = self.model.leases().into_iter().collect();
        let live: Vec<_> = self.model.kept.live().cloned().collect();
        let at = self.at();
        self.coordinator = Coordinator::restore(shard(), self.model.kept.next_number(), live, at);
        self.pass_until(self.now);
        let after = (self.coordinator.load(), self.explanations());
        assert_eq!(before, after, "a restart changes nothing");
    }

    /// Where every live task stands, by the coordinator's word.
    fn explanations(&mut self) -> Vec<(TaskId, StateWord, u32)> {
        let tasks: Vec<TaskId> = self.model.kept.live().map(|record| record.id).collect();
        let mut explanations = Vec::new();
        for task in tasks {
            let at = self.at();
            let step =
                self.coordinator.handle(at, Command::Ask(Ticket(0), Question::Explain { task }));
            match step.effects.as_slice() {
                [Effect::Answer { answer: Answer::Explained(why), .. }] => {
                    explanations.push((task, why.state, why.attempt));
                }
                effects => panic!("{task} is live: {effects:?}"),
            }
        }
        explanations
    }

    // ----- looking at what came of it

    fn see(&mut self, step: &Step) {
        self.coordinator.check_invariants();
        let mut answers = Vec::new();
        for effect in &step.effects {
            match effect {
                Effect::Answer { ticket, answer } => {
                    let question = self.asked.remove(ticket).expect("a question is answered once");
                    answers.push((question, answer));
                }
                Effect::Load { load, keys } => self.loads.push((*load, self.model.kept.find(keys))),
                Effect::Prepare { .. } => panic!("there is no schedule"),
            }
        }
        // Verdicts are given on what was true before the step.
        for (question, answer) in &answers {
            self.check_verdicts(question, answer);
        }
        for change in &step.changes {
            self.check_grant(change, &answers);
            self.model.learn(change, self.now, &self.returned);
        }
        for (question, answer) in &answers {
            self.check_answer(question, answer, step);
        }
        self.model.check_dependencies(self.swept);
        self.check_waiting();
    }

    /// Nobody waits for work while there is work for him.
    fn check_waiting(&self) {
        for command in self.asked.values() {
            if let Command::Ask(_, Question::RequestLeases { request, .. }) = command
                && request.max > 0
            {
                let left = self.model.best_for(&request.offer, self.swept);
                assert_eq!(left, None, "ready, while {} waits", request.worker);
            }
        }
    }

    fn check_verdicts(&mut self, question: &Command, answer: &Answer) {
        match (question, answer) {
            (Command::Ask(_, Question::Report { reports, .. }), Answer::Judgements(judgements)) => {
                assert_eq!(reports.len(), judgements.len());
                for (report, judgement) in reports.iter().zip(judgements) {
                    let expected = self.model.judge(report, self.now);
                    assert_eq!(judgement.verdict, expected, "{report:?}");
                }
            }
            (
                Command::Ask(_, Question::Heartbeat { worker, leases, .. }),
                Answer::Heartbeats { verdicts, .. },
            ) => {
                let mut certain = self.model.held_by(worker);
                certain.retain(|lease| !self.doubtful.contains(lease));
                let (leases, is_listed) = match leases {
                    Renewal::Listed(leases) => (leases, true),
                    Renewal::Unlisted { .. } => (&certain, false),
                };
                assert_eq!(leases.len(), verdicts.len());
                for (lease, verdict) in leases.iter().zip(verdicts) {
                    let expected = self.model.beat(*lease, worker, self.now);
                    assert_eq!(*verdict, expected, "{lease} by {worker}");
                    if is_listed && matches!(verdict, HeartbeatVerdict::Extended { .. }) {
                        self.doubtful.remove(lease);
                    }
                }
            }
            _ => {} // Every other answer is checked against the facts of its step.
        }
    }

    /// A grant goes to the best task for its request.
    fn check_grant(&self, change: &Change, answers: &[(Command, &Answer)]) {
        let Change::LeaseGranted { task, progress, .. } = change else { return };
        let TaskState::Leased(lease) = &progress.state else { panic!("{progress:?}") };
        let request = answers
            .iter()
            .find_map(|(question, answer)| match (question, answer) {
                (
                    Command::Ask(_, Question::RequestLeases { request, .. }),
                    Answer::Leases(grants),
                ) => {
                    let is_in = grants.iter().any(|grant| grant.lease.task == *task);
                    is_in.then_some(request)
                }
                _ => None, // Only a request is answered with grants.
            })
            .expect("whoever is granted a lease hears of it");
        assert_eq!(lease.holder, request.worker);
        let confirm_by = request.confirm_within.map(|within| self.now.after(within));
        assert_eq!(lease.confirm_by, confirm_by);
        let offer: &Offer = &request.offer;
        assert_eq!(self.model.best_for(offer, self.swept), Some(*task), "priority, then age");
    }

    fn check_answer(&self, question: &Command, answer: &Answer, step: &Step) {
        let is_fact = |task: TaskId| step.changes.iter().any(|change| change.task() == task);
        match (question, answer) {
            (Command::Ask(_, Question::Submit { tasks, .. }), Answer::Submitted(made)) => {
                self.check_submitted(tasks, made, step);
            }
            (Command::Ask(_, Question::RequestLeases { request, .. }), Answer::Leases(grants)) => {
                assert!(grants.len() <= request.max as usize);
                assert!(grants.iter().all(|grant| is_fact(grant.lease.task)));
            }
            (Command::Ask(_, Question::Report { reports, .. }), Answer::Judgements(judgements)) => {
                reports.iter().zip(judgements).for_each(check_word);
            }
            (Command::Ask(_, Question::Stop { task, .. }), Answer::Stopped)
            | (Command::Ask(_, Question::Requeue { task, .. }), Answer::Requeued) => {
                assert!(is_fact(*task));
            }
            (
                Command::Ask(
                    _,
                    Question::Stop { task }
                    | Question::Watch { task, .. }
                    | Question::Explain { task },
                ),
                Answer::NotLive,
            ) => assert!(!self.model.kept.live().any(|record| record.id == *task)),
            (_, Answer::Refused(refusal)) => {
                assert_eq!(step.changes, Vec::new(), "a refusal changes nothing");
                check_refusal(question, refusal);
            }
            (Command::Ask(_, Question::Heartbeat { .. }), Answer::Heartbeats { .. })
            | (Command::Ask(_, Question::Watch { .. }), Answer::WatchEnded)
            | (Command::Ask(_, Question::Explain { .. }), Answer::Explained(_)) => {}
            (question, answer) => panic!("{answer:?} is no answer to {question:?}"),
        }
    }

    /// Each key names one task, whoever submits it and how often.
    fn check_submitted(&self, tasks: &[NewTask], made: &[SubmittedTask], step: &Step) {
        assert_eq!(tasks.len(), made.len());
        let is_new = |change: &&Change| matches!(change, Change::TaskSubmitted(_));
        let n_new = step.changes.iter().filter(is_new).count();
        assert_eq!(n_new, made.iter().filter(|made| !made.existed).count());
        for (task, made) in tasks.iter().zip(made) {
            let record = self.model.kept.get(made.task).expect("it was submitted");
            assert_eq!(record.idempotency, task.idempotency);
            if let Some(mark) = &task.idempotency {
                let key = |record: &&TaskRecord| {
                    record.idempotency.as_ref().is_some_and(|other| other.key == mark.key)
                };
                assert_eq!(self.model.kept.all().filter(key).count(), 1, "one task per key");
            }
        }
    }

    // ----- picking

    fn pick_task(&self, task: Index) -> TaskId {
        // One more than there are: sometimes a task that nobody submitted.
        let n_tasks = usize::try_from(self.model.kept.next_number()).expect("few");
        TaskId::of(shard(), task.index(n_tasks + 1) as u64)
    }

    fn pick_after(&self, AfterPick { task: pick, is_near }: &AfterPick) -> TaskId {
        let n_tasks = usize::try_from(self.model.kept.next_number()).expect("few");
        if n_tasks == 0 {
            return TaskId::of(shard(), 0);
        }
        if *is_near {
            return TaskId::of(shard(), (n_tasks - 1 - pick.index(n_tasks.min(4))) as u64);
        }
        // Rarely one that nobody submitted: the whole submit is refused for it.
        let number = pick.index(n_tasks * 20);
        TaskId::of(shard(), (number % n_tasks + number / (n_tasks * 20 - 1)) as u64)
    }

    fn pick_lease(&self, pick: &LeasePick) -> LeaseId {
        let leases = self.model.leases();
        let mut lease = if leases.is_empty() {
            LeaseId { task: self.pick_task(pick.lease), epoch: 1 }
        } else {
            *pick.lease.get(&leases)
        };
        lease.epoch += pick.epochs_later;
        if pick.is_foreign {
            let elsewhere = ShardId::new(shard().get() + 1).expect("a small number");
            lease.task = TaskId::of(elsewhere, lease.task.number());
        }
        lease
    }
}

fn worker_id(number: u8) -> WorkerId {
    format!("w{number}").parse().expect("a worker")
}

fn outcome(what: What) -> ReportedOutcome {
    let failure = Failure::new("E.TEST", "boom");
    match what {
        What::Completed => {
            ReportedOutcome::Completed { result: Bytes::from_static(b"1"), extra: None }
        }
        What::Failed => ReportedOutcome::Failed { failure, retryable: true },
        What::FailedForGood => ReportedOutcome::Failed { failure, retryable: false },
    }
}

/// What a committed report says of its task: an end, or that it is tried again.
fn check_word((report, judgement): (&Report, &Judgement)) {
    if judgement.verdict != Verdict::Committed {
        return;
    }
    let word = judgement.task_state.expect("it exists");
    let ends = [StateWord::Completed, StateWord::Failed, StateWord::Dead, StateWord::Retrying];
    assert!(ends.contains(&word), "{report:?}: {word:?}");
}

fn check_refusal(question: &Command, refusal: &Refusal) {
    let is_right = match refusal {
        Refusal::StoreUnavailable => true,
        Refusal::IdempotencyConflict { .. } | Refusal::UnknownDependency { .. } => {
            matches!(question, Command::Ask(_, Question::Submit { .. }))
        }
        Refusal::UnknownTask | Refusal::NotRequeueable { .. } => {
            matches!(question, Command::Ask(_, Question::Requeue { .. }))
        }
        Refusal::LiveTasksFull
        | Refusal::LiveBytesFull
        | Refusal::DemandsFull
        | Refusal::WorkersFull
        | Refusal::PausesFull
        | Refusal::VerifiedToolsFull
        | Refusal::TooManyDependencies { .. }
        | Refusal::PartOfRun { .. }
        | Refusal::UnknownRun
        | Refusal::RunsFull
        | Refusal::SchedulesFull
        | Refusal::UnknownSchedule
        | Refusal::BackfillFull
        | Refusal::RunConflict { .. }
        | Refusal::NotWaiting { .. }
        | Refusal::UnknownWorker { .. }
        | Refusal::WorkerNameTaken
        | Refusal::NotBound
        | Refusal::RunDrainsFull
        | Refusal::RequestsFull => false,
    };
    assert!(is_right, "{refusal:?} to {question:?}");
}
