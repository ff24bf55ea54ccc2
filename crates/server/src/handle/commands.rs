//! What can be asked of a shard: one method for each command, with the answer that it has.
//!
//! Every answer is durable when it comes. When the caller goes away while it waits, the coordinator
//! is told to forget the question.

use std::collections::BTreeSet;
use std::sync::Arc;

use coordinator::{
    Answer, BindingView, Drain, DrainOrder, Explanation, Grant, HeartbeatVerdict, Judgement,
    LeaseRequest, NewRun, Pause, Question, QueueView, Rebind, Renewal, ScheduleEdit, ScheduleId,
    ScheduleRecord, ScheduleSpec, Signal, SilenceLimits, SubmittedTask, Underway, WorkerView,
};
use futures_util::future::{AbortRegistration, Abortable};
use model::{
    NewTask, Offer, QueueName, Report, RunId, TaskId, Timestamp, ToolName, TypeName, WorkerId,
};
use shard::sessions::MemberMessage;
use shard::worker_link::Unanswered;

use super::{AskError, ShardHandle};

/// What a worker hears when it says that it lives.
pub(crate) struct Heartbeats {
    /// One verdict per listed lease, in order.
    pub(crate) verdicts: Vec<HeartbeatVerdict>,
    /// What a person's drain asks of the worker, if it is drained.
    pub(crate) drain: Option<DrainOrder>,
}

/// A worker that says what it can do.
pub(crate) struct WorkerRegistration {
    pub(crate) worker: WorkerId,
    pub(crate) offer: Arc<Offer>,
    /// How long it may be silent, from here on.
    pub(crate) silence_limits: SilenceLimits,
    /// Whether its process may be a new one.
    pub(crate) anew: bool,
}

/// Makes a method of each command: it asks, and takes the answer apart. A refusal is an error, and
/// so is an answer that the command cannot have.
macro_rules! commands {
    ($($(#[$doc:meta])* $vis:vis $method:ident($($argument:ident: $type:ty),*) -> $answer:ty:
        $command:ident { $($field:ident $(: $value:expr)?),* } => {
            $($said:pat => $given:expr),+
        };)*
    ) => {
        impl ShardHandle {
            $($(#[$doc])*
            $vis async fn $method(&self, $($argument: $type),*) -> Result<$answer, AskError> {
                match self.ask(Question::$command { $($field $(: $value)?),* }).await? {
                    $($said => Ok($given),)+
                    other => Err(not_given(other)),
                }
            })*
        }
    };
}

commands! {
    /// Makes tasks, all or none.
    pub(crate) submit(tasks: Vec<NewTask>) -> Vec<SubmittedTask>:
        Submit { tasks } => { Answer::Submitted(made) => made };
    /// Stops a task. `false` if it is not live: settled, or never known; the store knows which.
    pub(crate) stop(task: TaskId) -> bool:
        Stop { task } => { Answer::Stopped => true, Answer::NotLive => false };
    /// Puts a failed, dead or stopped task back into its queue.
    pub(crate) requeue(task: TaskId) -> ():
        Requeue { task } => { Answer::Requeued => () };
    /// Waits until a task is settled or the time is over. `false` at once if it is not live.
    pub(crate) watch(task: TaskId, until: Timestamp) -> bool:
        Watch { task, until } => { Answer::WatchEnded => true, Answer::NotLive => false };
    /// Why a task does not run; nothing if it is not live.
    pub(crate) explain(task: TaskId) -> Option<Box<Explanation>>:
        Explain { task } => { Answer::Explained(why) => Some(why), Answer::NotLive => None };
    /// The tasks that would be granted next, and how many are ready in all. Nothing is granted.
    pub(crate) peek(
        queues: Vec<QueueName>, types: Option<BTreeSet<TypeName>>, skip: u32, limit: u32
    ) -> (Vec<TaskId>, u64):
        Peek { queues, types, skip, limit } => {
            Answer::Peeked { tasks, total } => (tasks, total)
        };
    /// The queues, by name.
    pub(crate) list_queues() -> Vec<QueueView>:
        ListQueues {} => { Answer::Queues(queues) => queues };
    /// Pauses a queue, or lets it go on (`None`).
    pub(crate) set_pause(queue: QueueName, pause: Option<Pause>) -> ():
        SetPause { queue, pause } => { Answer::PauseSet => () };

    /// Leases for a worker, best first; none when the wait is over. What is granted while the
    /// caller goes away is taken back.
    pub request_leases(request: LeaseRequest) -> Vec<Grant>:
        RequestLeases { request } => { Answer::Leases(grants) => grants };
    /// One judgement per report, in order.
    pub report(reports: Vec<Report>) -> Vec<Judgement>:
        Report { reports } => { Answer::Judgements(judgements) => judgements };
    /// A worker lives and still works on these leases.
    pub(crate) heartbeat(worker: WorkerId, leases: Renewal) -> Heartbeats:
        Heartbeat { worker, leases } => {
            Answer::Heartbeats { verdicts, drain } => Heartbeats { verdicts, drain }
        };
    /// A worker executed a tool that it claims to have.
    pub(crate) note_verified(worker: WorkerId, tool: ToolName, output: String) -> ():
        NoteVerified { worker, tool, output } => { Answer::Verified => () };
    /// Drains a worker, or lets it take work again (`None`).
    pub(crate) drain(worker: WorkerId, drain: Option<Drain>) -> ():
        Drain { worker, drain } => { Answer::DrainSet => () };
    /// The workers, by name.
    pub(crate) list_workers() -> Vec<WorkerView>:
        ListWorkers {} => { Answer::Workers(workers) => workers };

    /// Starts a run. Gives its id, and whether an earlier start with the same key made it.
    pub(crate) start_run(run: NewRun) -> (RunId, bool):
        StartRun { run: Box::new(run) } => {
            Answer::RunStarted { run, existed } => (run, existed)
        };
    /// Stops a run and everything in it. One that is not live stays as it is.
    pub(crate) cancel_run(run: RunId, by: String) -> ():
        CancelRun { run, by } => { Answer::Stopped | Answer::NotLive => () };
    /// Waits until a run has ended or the time is over.
    pub(crate) watch_run(run: RunId, until: Timestamp) -> ():
        WatchRun { run, until } => { Answer::WatchEnded | Answer::NotLive => () };
    /// What of a run is under way and stands in no fact.
    pub(crate) underway(run: RunId) -> Underway:
        Underway { run } => { Answer::Underway(underway) => *underway };
    /// Says the word that a node waits for.
    pub(crate) signal(signal: Signal) -> ():
        Signal { signal: Box::new(signal) } => { Answer::Signalled => () };
    /// Gives the work of a run to another worker, and tells who has it from here on.
    pub(crate) rebind(rebind: Rebind) -> Vec<BindingView>:
        Rebind { rebind: Box::new(rebind) } => { Answer::Bindings(bindings) => bindings };

    /// The schedules, by id.
    pub(crate) list_schedules() -> Vec<ScheduleRecord>:
        ListSchedules {} => { Answer::Schedules(schedules) => schedules };
    /// One schedule.
    pub(crate) show_schedule(schedule: ScheduleId) -> ScheduleRecord:
        ShowSchedule { schedule } => { Answer::Schedule(kept) => *kept };
    /// Keeps a new schedule, under a fresh id.
    pub(crate) add_schedule(schedule: ScheduleId, spec: ScheduleSpec) -> ScheduleRecord:
        AddSchedule { schedule, spec: Box::new(spec) } => { Answer::Schedule(kept) => *kept };
    /// Changes a schedule, and gives it as it is from here on.
    pub(crate) edit_schedule(schedule: ScheduleId, edit: ScheduleEdit) -> ScheduleRecord:
        EditSchedule { schedule, edit: Box::new(edit) } => { Answer::Schedule(kept) => *kept };
    /// Forgets a schedule; its runs go on.
    pub(crate) remove_schedule(schedule: ScheduleId) -> ():
        RemoveSchedule { schedule } => { Answer::ScheduleRemoved => () };
    /// Starts runs for moments of the past, one after another.
    pub(crate) backfill(schedule: ScheduleId, moments: Vec<Timestamp>) -> ():
        Backfill { schedule, moments } => { Answer::Schedule(_) => () };
}

impl ShardHandle {
    /// A worker says what it can do. One without a session says with it who it is, and is refused
    /// if it cannot be that.
    pub(crate) async fn register(
        &self,
        own: WorkerRegistration,
        member: Option<MemberMessage>,
    ) -> Result<(), AskError> {
        let WorkerRegistration { worker, offer, silence_limits, anew } = own;
        let member = member.map(|message| (worker.clone(), message));
        let ask = Question::Register { worker, offer, silence_limits, anew };
        let answer = match member {
            Some(member) => self.ask_as_member(member, ask).await?,
            None => self.ask(ask).await?,
        };
        if answer == Answer::Registered { Ok(()) } else { Err(not_given(answer)) }
    }

    /// A worker without a session leaves; refused if it cannot be who it says.
    pub(crate) async fn unregister(
        &self,
        worker: WorkerId,
        message: MemberMessage,
    ) -> Result<(), AskError> {
        let member = (worker.clone(), message);
        match self.ask_as_member(member, Question::Unregister { worker }).await? {
            Answer::Unregistered { .. } => Ok(()),
            other => Err(not_given(other)),
        }
    }
}

/// Why a command was not given its answer: it was refused. An answer to another question is a bug:
/// the log is told of it, and not the caller.
fn not_given(answer: Answer) -> AskError {
    if let Answer::Refused(refusal) = answer {
        return AskError::Refused(refusal);
    }
    // The name alone: what is inside may be a tenant's payload.
    let whole = format!("{answer:?}");
    let answer = whole.split(['(', '{']).next().unwrap_or_default().trim();
    tracing::error!(answer, "the coordinator gave an answer to another question");
    AskError::Unavailable
}

/// What the coordinator said to a link, or why it said nothing. A refusal is an answer that the
/// link knows of.
pub(crate) type LinkAnswer = Result<Answer, Unanswered>;

impl ShardHandle {
    /// Asks for a link. A question that is taken back while it waits was granted nothing.
    pub(crate) async fn ask_for_link(
        &self,
        question: Question,
        stop: Option<AbortRegistration>,
    ) -> LinkAnswer {
        let asking = self.ask(question);
        let answer = match stop {
            None => asking.await,
            Some(stop) => {
                let taken_back = |_| Ok(Answer::Leases(Vec::new()));
                Abortable::new(asking, stop).await.unwrap_or_else(taken_back)
            }
        };
        answer.map_err(|error| match error {
            AskError::Stopping => Unanswered::Stopping,
            AskError::Overloaded | AskError::Unavailable | AskError::Refused(_) => {
                Unanswered::Unavailable
            }
        })
    }
}
