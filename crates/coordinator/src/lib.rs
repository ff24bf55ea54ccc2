//! The coordinator alone decides what is true: who holds a task, whether a report counts, what
//! runs next. It is pure: no clock, no dice, no I/O.
//!
//! Reading order: [`Command`] (everything that can be asked), [`Change`] (every fact that can
//! become true), [`Effect`] (everything the shell may be told to do), `coordinator` (the one way
//! in), then one folder per noun, with one file per rule: `task`, `worker`, `run`, `schedule` (runs that
//! the clock starts). Underneath: `state` (the tables), `apply`, `run/apply` and `tenant_change` (the
//! only code that writes tasks, runs, and what is set about queues and workers or belongs to
//! schedules), `placement` (who can take what).

// Tests may read files and measure time; what they test may not.
#![cfg_attr(not(test), deny(clippy::disallowed_types, clippy::disallowed_methods))]

mod apply;
mod change;
mod command;
mod coordinator;
mod effect;
mod placement;
mod run;
mod schedule;
mod state;
mod task;
mod tenant_change;
mod worker;

pub use change::{
    Change, EndedAttempt, Ending, Lease, Outcome, Progress, Settlement, TaskFacts, TaskRecord,
    TaskState, WaitReason,
};
pub use command::{
    Command, Drain, DrainCause, LeaseRequest, Moment, NewRun, NextCall, Pause, Question, Rebind,
    Renewal, Reused, Signal, Ticket,
};
pub use coordinator::{Coordinator, Load};
pub use effect::{
    Answer, BindingView, Chain, DrainOrder, Effect, Grant, HeartbeatVerdict, Judgement, LoadKey,
    LoadTicket, LostAuthority, NextEnd, QueueView, Refusal, Step, SubmittedTask, Underway, Verdict,
    Violation, WorkerView,
};
pub use model::{NodeWord, Overlap, RunWord, StateWord, WorkerHealth};
pub use placement::DEMANDS_MAX;
pub use placement::PAUSES_MAX;
pub use run::change::{
    BoundPackage, EndedCall, FactNumber, ItemEnd, ListRecord, NodeEnd, RestoredRun, RunAbout,
    RunBindings, RunChange, RunEnd, RunNumbers, RunParts, RunRecord, SubgraphRecord,
};
pub use run::middleware::CALLS_MAX;
pub use run::node_status::{NodeSeen, NodeStatus, has_begun, is_plain};
pub use run::run_state::{LIVE_DEFINITION_BYTES_MAX, LIVE_RUNS_MAX, RUN_TASKS_MAX};
pub use schedule::{
    BACKFILL_WAITING_MAX, Calendar, CalendarError, FiredMoment, Preparation, PrepareTicket,
    SCHEDULES_MAX, ScheduleEdit, ScheduleId, ScheduleProgress, ScheduleRecord, ScheduleSpec,
    WAITING_MOMENTS_MAX,
};
pub use task::explain::PEEK_MAX;
pub use task::explain::{Explanation, Lack, Reason};
pub use task::lease::{LOSSES_MAX, REQUESTS_MAX};
pub use task::load::WATCHES_MAX;
pub use task::submit::LIVE_BYTES_MAX;
pub use tenant_change::{TenantChange, TenantSettings};
pub use worker::drain::{VerifiedTool, VerifiedTools};
pub use worker::presence::WORKERS_MAX;
pub use worker::presence::{SilenceLimits, WORKER_HEARTBEAT_EVERY};
