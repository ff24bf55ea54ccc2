//! The coordinator alone decides what is true: who holds a task, whether a report counts, what
//! runs next. It is pure: no clock, no dice, no I/O.
//!
//! Reading order: [`Command`] (everything that can be asked), [`Change`] (every fact that can
//! become true), [`Effect`] (everything the shell may be told to do), `coordinator` (the one way
//! in), then one file per rule: `submit`, `after`, `lease`, `report`, `retry`, `cancel`, `worker`,
//! `ladder`, `pause`, `drain`, `verify`, `pin`, `affinity`, `peek`, `explain`, `load`; for runs the
//! folder `run`, and `binding`; for runs that the clock starts the folder `schedule`. Underneath: `state` (the tables), `apply`, `run/apply` and
//! `tenant_change` (the only code that writes tasks, runs, and what is set about queues and
//! workers or belongs to schedules), `placement`, `table`, `deadline`, `watch`.

// Tests may read files and measure time; what they test may not.
#![cfg_attr(not(test), deny(clippy::disallowed_types, clippy::disallowed_methods))]

mod affinity;
mod after;
mod apply;
mod binding;
mod cancel;
mod change;
mod command;
mod coordinator;
mod deadline;
mod drain;
mod effect;
mod explain;
mod ladder;
mod lease;
mod load;
mod pause;
mod peek;
mod pin;
mod placement;
mod report;
mod retry;
mod run;
mod schedule;
mod state;
mod submit;
mod table;
mod task;
mod tenant_change;
mod verify;
mod watch;
mod worker;

pub use affinity::IDLE_KEYS_MAX;
pub use binding::{DRAINED_RUNS_MAX, RUN_BINDINGS_MAX, RUN_DRAINS_MAX};
pub use change::{
    Change, EndedAttempt, Ending, Lease, Outcome, Progress, Settlement, TaskFacts, TaskRecord,
    TaskState, WaitReason,
};
pub use command::{
    Command, Drain, DrainCause, LeaseRequest, Moment, NewRun, NextCall, Pause, Rebind, Renewal,
    Reused, Signal, Ticket,
};
pub use coordinator::{Coordinator, Load};
pub use effect::{
    Answer, BindingView, Chain, DrainOrder, Effect, Grant, HeartbeatVerdict, Judgement, LoadKey,
    LoadTicket, LostAuthority, NextEnd, QueueView, Refusal, StateWord, Step, SubmittedTask,
    Underway, Verdict, Violation, WorkerHealth, WorkerView,
};
pub use explain::{Explanation, Lack, Reason};
pub use ladder::{Ladder, WORKER_FORGOTTEN_AFTER, WORKER_HEARTBEAT_EVERY};
pub use lease::{LOSSES_MAX, REQUESTS_MAX};
pub use pause::PAUSES_MAX;
pub use peek::PEEK_MAX;
pub use placement::DEMANDS_MAX;
pub use run::change::{
    BoundPackage, EndedCall, FactNumber, ItemEnd, ListRecord, NodeEnd, NodeWord, RestoredRun,
    RunAbout, RunBindings, RunChange, RunEnd, RunNumbers, RunRecord, RunWord, SubgraphRecord,
};
pub use run::middleware::CALLS_MAX;
pub use run::node_status::{NodeSeen, NodeStatus, has_begun, is_plain};
pub use run::run_state::{LIVE_DEFINITION_BYTES_MAX, LIVE_RUNS_MAX, RUN_TASKS_MAX};
pub use schedule::{
    BACKFILL_WAITING_MAX, CRON_CHARS_MAX, Calendar, CalendarError, FiredMoment,
    LOOK_AT_LEAST_EVERY, Overlap, PREPARE_AGAIN_AFTER, Preparation, PrepareTicket, SCHEDULES_MAX,
    ScheduleEdit, ScheduleId, ScheduleProgress, ScheduleRecord, ScheduleSpec, WAITING_MOMENTS_MAX,
};
pub use submit::{LIVE_BYTES_MAX, LIVE_TASKS_MAX};
pub use tenant_change::{TenantChange, TenantSettings};
pub use verify::{VERIFIED_TOOLS_MAX, VerifiedTool, VerifiedTools};
pub use watch::WATCHES_MAX;
pub use worker::WORKERS_MAX;
