//! Facts and answers as sentences.

use coordinator::{
    Answer, Change, DrainOrder, EndedAttempt, Ending, Explanation, Grant, HeartbeatVerdict,
    Judgement, Lack, LoadKey, LostAuthority, Progress, QueueView, Reason, Refusal, Settlement,
    StateWord, TaskState, Verdict, VerifiedTool, Violation, WaitReason, WorkerView,
};
use model::{LeaseId, TaskId, Timestamp};

use super::texts::{START, time_text};
use super::{Question, World, shard};

impl World {
    // ----- facts

    pub(crate) fn fact(&self, change: &Change) -> String {
        let name = self.name(change.task());
        let progress = change.progress();
        let ended = change.ended_attempt().map(|attempt| self.ended(change.task(), attempt));
        match change {
            Change::TaskSubmitted(_) | Change::TaskReleased { .. } => {
                format!("{name} is {}", state_text(&progress.state))
            }
            Change::LeaseGranted { task, progress, .. } => self.granted(*task, progress),
            Change::TaskRequeued(_) => format!("{name} is {} again", state_text(&progress.state)),
            Change::AttemptEnded { .. } => {
                let ended = ended.expect("an attempt ended");
                format!("{ended}; {name} is {}{}", state_text(&progress.state), tried(progress))
            }
            Change::LossForgiven { .. } => format!("a worker of {name} was slow, not lost"),
            Change::TaskSettled { .. } => {
                let ended = ended.map(|ended| format!("{ended}; ")).unwrap_or_default();
                format!("{ended}{name} is {}", state_text(&progress.state)) + &tried(progress)
            }
        }
    }

    fn granted(&self, task: TaskId, progress: &Progress) -> String {
        let TaskState::Leased(lease) = &progress.state else { panic!("granted: {progress:?}") };
        let id = self.lease_name(LeaseId { task, epoch: progress.epoch });
        let (name, worker) = (self.name(task), &lease.holder);
        let until = time_text(lease.expires_at);
        let confirm = lease.confirm_by.map(|by| format!(", to confirm by {}", time_text(by)));
        let attempt = (progress.attempt > 1).then(|| format!(", attempt {}", progress.attempt));
        let (confirm, attempt) = (confirm.unwrap_or_default(), attempt.unwrap_or_default());
        format!("{id} of {name} to {worker} until {until}{confirm}{attempt}")
    }

    fn ended(&self, task: TaskId, attempt: &EndedAttempt) -> String {
        let lease = self.lease_name(LeaseId { task, epoch: attempt.epoch });
        let how = match &attempt.ending {
            Ending::Failed { failure, .. } => format!("failed ({})", failure.reason),
            Ending::Expired => "expired".into(),
            Ending::TimedOut => "timed out".into(),
            Ending::Undelivered => "was not delivered".into(),
            Ending::Stopped => "was stopped".into(),
        };
        format!("{lease} of {} {how}", self.name(task))
    }

    // ----- answers

    pub(crate) fn answer(
        &self,
        question: &Question,
        answer: &Answer,
        facts: &[Change],
    ) -> Vec<String> {
        match (question, answer) {
            (Question::Submit { names }, Answer::Submitted(tasks)) => {
                assert_eq!(names.len(), tasks.len(), "one answer per task");
                let found = tasks.iter().zip(names).filter(|(task, _)| task.existed);
                let sentence = |(task, name): (&coordinator::SubmittedTask, &String)| {
                    let (found, state) = (self.name(task.task), word(task.state));
                    format!("{name} is {found}, which exists: {state}")
                };
                found.map(sentence).collect()
            }
            (Question::Submit { .. }, answer) => vec![format!("submit: {}", self.plain(answer))],
            (Question::Take { worker }, Answer::Leases(grants)) => {
                for grant in grants {
                    check_grant(grant, facts);
                }
                let nothing = grants.is_empty().then(|| format!("{worker} gets nothing"));
                nothing.into_iter().collect()
            }
            (Question::Heartbeat { worker, leases }, Answer::Heartbeats { verdicts, drain }) => {
                let order = drain.map(|order| format!("{worker}: {}", order_text(order)));
                let verdicts = self.heartbeats(worker.as_str(), leases, verdicts);
                verdicts.into_iter().chain(order).collect()
            }
            (Question::Report { worker, leases }, Answer::Judgements(judgements)) => {
                assert_eq!(leases.len(), judgements.len(), "one judgement per report");
                let judged = leases.iter().zip(judgements);
                judged
                    .map(|(lease, verdict)| self.judged(worker.as_str(), *lease, *verdict))
                    .collect()
            }
            (Question::About { .. }, Answer::Workers(workers)) => {
                workers.iter().map(worker_text).collect()
            }
            (Question::About { .. }, Answer::Queues(queues)) => {
                queues.iter().map(queue_text).collect()
            }
            (Question::About { deed }, answer) => vec![format!("{deed}: {}", self.plain(answer))],
            (
                Question::Take { worker }
                | Question::Heartbeat { worker, .. }
                | Question::Report { worker, .. },
                answer,
            ) => {
                vec![format!("{worker}: {}", self.plain(answer))]
            }
        }
    }

    fn plain(&self, answer: &Answer) -> String {
        match answer {
            Answer::Stopped
            | Answer::Requeued
            | Answer::DrainSet
            | Answer::PauseSet
            | Answer::Verified
            | Answer::Registered => "done".into(),
            Answer::Peeked { tasks, total } => {
                let names: Vec<_> = tasks.iter().map(|task| self.name(*task)).collect();
                format!("[{}] of {total}", names.join(", "))
            }
            Answer::Unregistered { was_known: true } => "it is forgotten".into(),
            Answer::Unregistered { was_known: false } => "it was not known".into(),
            Answer::WatchEnded => "ended".into(),
            Answer::NotLive => "not live".into(),
            Answer::Refused(refusal) => format!("refused, {}", refused(refusal)),
            Answer::Explained(explanation) => self.explained(explanation),
            Answer::RunStarted { .. }
            | Answer::Next(_)
            | Answer::Signalled
            | Answer::Underway(_)
            | Answer::Bindings(_)
            | Answer::Submitted(_)
            | Answer::Leases(_)
            | Answer::Heartbeats { .. }
            | Answer::Judgements(_)
            | Answer::Workers(_)
            | Answer::Schedules(_)
            | Answer::Schedule(_)
            | Answer::ScheduleRemoved
            | Answer::Queues(_) => panic!("an answer to another question: {answer:?}"),
        }
    }

    fn heartbeats(
        &self,
        worker: &str,
        leases: &[LeaseId],
        verdicts: &[HeartbeatVerdict],
    ) -> Vec<String> {
        if leases.is_empty() {
            // The peer listed none, so the answer is for all that it holds.
            let all = verdicts.iter().map(heartbeat_text);
            return vec![format!("{worker}: [{}]", all.collect::<Vec<_>>().join(", "))];
        }
        assert_eq!(leases.len(), verdicts.len(), "one verdict per lease");
        let sentence = |(lease, verdict): (&LeaseId, &HeartbeatVerdict)| {
            format!("{worker}: {} {}", self.lease_name(*lease), heartbeat_text(verdict))
        };
        leases.iter().zip(verdicts).map(sentence).collect()
    }

    fn judged(&self, worker: &str, lease: LeaseId, judgement: Judgement) -> String {
        let verdict = match judgement.verdict {
            Verdict::Committed => "COMMITTED".into(),
            Verdict::Cancelled(lost) => format!("CANCELLED ({})", lost_text(lost)),
            Verdict::Rejected(wrong) => format!("REJECTED ({})", wrong_text(wrong)),
        };
        let lease_name = self.lease_name(lease);
        let state = judgement.task_state.map_or("no such task".into(), word);
        format!("{worker}: {lease_name} {verdict}; {state}")
    }

    fn explained(&self, explanation: &Explanation) -> String {
        let Explanation { state, created_at, attempt, reasons } = explanation;
        assert!(*created_at <= self.now, "it exists");
        let reasons: Vec<_> = reasons.iter().map(|reason| self.reason(reason)).collect();
        format!("{}, attempts {attempt}: {}", word(*state), reasons.join("; "))
    }

    fn reason(&self, reason: &Reason) -> String {
        match reason {
            Reason::Paused { queue, by, since } => {
                format!("{queue} is paused by {by} since {}", time_text(*since))
            }
            Reason::HeldBy { worker, expires_at } => {
                format!("{worker} holds it until {}", time_text(*expires_at))
            }
            Reason::Delayed { until } => format!("it lets time pass until {}", time_text(*until)),
            Reason::NeedsSignal { .. } => "it waits for a word".into(),
            Reason::BlockedBy { tasks, total } => {
                let names: Vec<_> = tasks.iter().map(|task| self.name(*task)).collect();
                format!("{total} must complete first: {}", names.join(", "))
            }
            Reason::NotBefore { until } => format!("not before {}", time_text(*until)),
            Reason::Backoff { until, attempt, max_attempts } => {
                let until = time_text(*until);
                format!("attempt {attempt} of {max_attempts} failed, next at {until}")
            }
            Reason::KeyHeld { key, by } => format!("{} has the key {key}", self.name(*by)),
            Reason::PinnedAway { worker, because, until } => {
                format!("it needs {because} of {worker}, which is away{}", until_text(*until))
            }
            Reason::PinnedBusy { worker, because, until } => {
                format!("it needs {because} of {worker}, which is busy{}", until_text(*until))
            }
            Reason::NoWorkers => "no worker is known".into(),
            Reason::Lacking { what, workers } => format!("{workers} lack {}", lack(what)),
            Reason::Lost { workers } => format!("{workers} could take it and are lost"),
            Reason::Drained { workers } => format!("{workers} could take it and are drained"),
            Reason::KeptAway { workers, .. } => {
                format!("{workers} could take it and are kept from its run")
            }
            Reason::NoneAsking { workers } => format!("{workers} could take it, none asks"),
            Reason::Behind { tasks } => format!("{tasks} go first"),
        }
    }

    // ----- names

    fn name(&self, task: TaskId) -> String {
        if task.shard() != shard() {
            let here = TaskId::of(shard(), task.number());
            return format!("foreign:{}", self.name(here));
        }
        self.names.get(&task).map_or_else(|| "nobody".into(), String::clone)
    }

    fn lease_name(&self, lease: LeaseId) -> String {
        let granted = self.leases.iter().position(|other| *other == lease);
        granted.map_or_else(
            || format!("{}#{}", self.name(lease.task), lease.epoch),
            |at| format!("L{}", at + 1),
        )
    }

    pub(crate) fn load_key(&self, key: &LoadKey) -> String {
        match key {
            LoadKey::Task(task) => self.name(*task),
            LoadKey::Idempotency(key) => format!("key {key}"),
        }
    }
}

/// What an end that nobody wished for cost so far.
fn tried(progress: &Progress) -> String {
    let Progress { state, attempt, losses, .. } = progress;
    match state.word() {
        StateWord::Completed | StateWord::Stopped => String::new(),
        StateWord::Waiting
        | StateWord::Queued
        | StateWord::Retrying
        | StateWord::Running
        | StateWord::Failed
        | StateWord::Dead => format!(" (attempts {attempt}, losses {losses})"),
    }
}

/// A grant says what the fact behind it says.
fn check_grant(grant: &Grant, facts: &[Change]) {
    let fact = facts.iter().find_map(|change| match change {
        Change::LeaseGranted { task, progress, .. } if *task == grant.lease.task => Some(progress),
        _ => None, // Every other fact is about something else.
    });
    let progress = fact.expect("a grant is a fact");
    let TaskState::Leased(lease) = &progress.state else { panic!("granted: {progress:?}") };
    assert_eq!((grant.lease.epoch, grant.attempt), (progress.epoch, progress.attempt));
    assert_eq!(grant.expires_at, lease.expires_at);
    // A worker is heard three times within its lease, and within its attempt.
    let spec = &grant.spec;
    let shortest = spec.timeout.map_or(spec.lease_ttl, |timeout| timeout.min(spec.lease_ttl));
    assert_eq!(grant.heartbeat_every, shortest / 3);
}

fn state_text(state: &TaskState) -> String {
    let word = word(state.word());
    match state {
        TaskState::Waiting { until, why: WaitReason::After } => {
            let until = Some(until).filter(|until| **until > START);
            let until = until.map(|until| format!(", until {}", time_text(*until)));
            format!("{word} for others{}", until.unwrap_or_default())
        }
        TaskState::Waiting { until, .. } => format!("{word} until {}", time_text(*until)),
        TaskState::Ready | TaskState::Leased(_) => word,
        TaskState::Settled(settlement) => format!("{word}{}", end(settlement)),
    }
}

fn until_text(until: Option<Timestamp>) -> String {
    until.map_or_else(String::new, |until| format!(", until {}", time_text(until)))
}

fn heartbeat_text(verdict: &HeartbeatVerdict) -> String {
    match verdict {
        HeartbeatVerdict::Extended { expires_at } => {
            format!("EXTENDED until {}", time_text(*expires_at))
        }
        HeartbeatVerdict::Cancelled(lost) => format!("CANCELLED ({})", lost_text(*lost)),
        HeartbeatVerdict::Rejected(wrong) => format!("REJECTED ({})", wrong_text(*wrong)),
    }
}

fn order_text(order: DrainOrder) -> &'static str {
    match order {
        DrainOrder::Finish => "finish and take nothing new",
        DrainOrder::Leave => "leave",
    }
}

fn worker_text(view: &WorkerView) -> String {
    let health = format!("{:?}", view.health).to_uppercase();
    let asks = if view.is_asking { "asks" } else { "does not ask" };
    let drained = view.drain.as_ref().map(|drain| {
        let until = until_text(drain.gone_by);
        format!(", drained by {} since {}{until}", drain.by, time_text(drain.at))
    });
    let shown = |(tool, said): (_, &VerifiedTool)| {
        format!(", showed {tool} {} at {}", said.output, time_text(said.at))
    };
    let verified: String = view.verified.iter().map(shown).collect();
    format!(
        "{} is {health}, seen at {}, {} in flight of {} granted, {asks}{}",
        view.worker,
        time_text(view.last_seen),
        view.in_flight,
        view.granted,
        drained.unwrap_or_default() + &verified,
    )
}

fn queue_text(view: &QueueView) -> String {
    let oldest = view.oldest_since.map(|since| format!(" since {}", time_text(since)));
    let blocked = (view.blocked > 0).then(|| format!(", {} blocked", view.blocked));
    let paused = view.paused.as_ref().map(|pause| format!(", paused by {}", pause.by));
    format!(
        "queue {}: {} queued{}, {} in flight, {} retrying, {} scheduled{}{}",
        view.queue,
        view.depth,
        oldest.unwrap_or_default(),
        view.in_flight,
        view.retries_due,
        view.scheduled,
        blocked.unwrap_or_default(),
        paused.unwrap_or_default(),
    )
}

fn end(settlement: &Settlement) -> String {
    let Settlement { result, failure, .. } = settlement;
    let result = result.as_ref().map(|result| format!(" with {}", String::from_utf8_lossy(result)));
    let failure = failure.as_ref().map(|failure| format!(": {} {}", failure.code, failure.reason));
    format!("{}{}", result.unwrap_or_default(), failure.unwrap_or_default())
}

fn word(state: StateWord) -> String {
    format!("{state:?}").to_uppercase()
}

fn lost_text(lost: LostAuthority) -> &'static str {
    match lost {
        LostAuthority::Expired => "expired",
        LostAuthority::Superseded => "superseded",
        LostAuthority::TaskCancelled => "task_cancelled",
        LostAuthority::Reported => "reported",
    }
}

fn wrong_text(wrong: Violation) -> &'static str {
    match wrong {
        Violation::UnknownTask => "unknown_task",
        Violation::UnknownLease => "unknown_lease",
        Violation::NotHolder => "not_holder",
        Violation::DuplicateReport => "duplicate_report",
    }
}

fn refused(refusal: &Refusal) -> String {
    match refusal {
        Refusal::LiveTasksFull => "too many live tasks".into(),
        Refusal::LiveBytesFull => "too many live bytes".into(),
        Refusal::DemandsFull => "too many kinds of demand".into(),
        Refusal::PausesFull => "too many pauses".into(),
        Refusal::VerifiedToolsFull => "too many verified tools".into(),
        Refusal::WorkersFull => "too many workers".into(),
        Refusal::RequestsFull => "too many requests".into(),
        Refusal::IdempotencyConflict { key } => format!("key {key} names another task"),
        Refusal::UnknownDependency { after } => format!("unknown dependency {after}"),
        Refusal::TooManyDependencies { count } => format!("{count} dependencies are too many"),
        Refusal::StoreUnavailable => "the store is away".into(),
        Refusal::UnknownTask => "unknown task".into(),
        Refusal::PartOfRun { .. } => "it belongs to a run".into(),
        Refusal::UnknownRun => "unknown run".into(),
        Refusal::RunsFull => "too many runs".into(),
        Refusal::SchedulesFull => "too many schedules".into(),
        Refusal::UnknownSchedule => "unknown schedule".into(),
        Refusal::BackfillFull => "too many moments of the past".into(),
        Refusal::RunConflict { key } => format!("key {key} names another run"),
        Refusal::UnknownWorker { worker } => format!("there is no worker {worker}"),
        Refusal::WorkerNameTaken => "the name is another worker's".into(),
        Refusal::NotBound => "nobody has that".into(),
        Refusal::RunDrainsFull => "too many runs are kept from workers".into(),
        Refusal::NotWaiting { instead } => format!("it does not wait: {instead}"),
        Refusal::NotRequeueable { state } => format!("it is {}", word(*state)),
    }
}

fn lack(what: &Lack) -> String {
    match what {
        Lack::Type => "the type".into(),
        Lack::Queue => "the queue".into(),
        Lack::Tool(tool) => format!("tool {tool}"),
        Lack::Tag(tag) => format!("tag {tag}"),
        Lack::Package(package) => format!("package {package}"),
    }
}
