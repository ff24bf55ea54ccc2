//! What is told outside once it is durable: each projection observes a step in the turn, and what
//! it makes of it leaves with the turn's other effects. Nothing is rendered in a turn.
//!
//! Reading order: `publication` (what leaves together), `numbers` (metrics as data), `notices`
//! (what workers are told), `log_line`, `updates` (tasks that moved on), `event` and `events` (what becomes of
//! runs and nodes), `live_runs` (which task belongs to which node), `run_status`.

mod event;
mod events;
mod live_runs;
mod log_line;
mod notices;
mod numbers;
mod publication;
mod run_status;
mod updates;

pub use event::{
    ArtifactsNews, Content, ErrorNews, Event, News, RESULT_BYTES_MAX, ResultNews, RunNews,
    RunScope, StatusNews, Step,
};
pub use log_line::LogLine;
pub use notices::WorkerNotice;
pub use numbers::Numbers;
pub use publication::{Projections, Publication};
pub use run_status::of_end;
pub use updates::TaskUpdate;
