//! Waits for the end of a task, as long as it takes.

use std::sync::Arc;
use std::time::Duration;

use coordinator::TaskState;
use model::TaskId;
use protocol::error_code::ErrorCode;

use super::load;
use crate::app::App;
use crate::handle::{AskError, ShardHandle};

/// The coordinator is asked again this often: it forgets nobody, but a restarted one would.
const WATCH_FOR: Duration = Duration::from_mins(1);
/// After a question that got no answer, or none that helps.
const LOOK_AGAIN_AFTER: Duration = Duration::from_millis(500);

/// Why a log is not followed any further.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LogEnd {
    /// The task has come to its end.
    Settled,
    /// The server is stopping, the task goes on.
    ServerStops,
}

/// Resolves when the task is settled, or when nobody can tell any more.
pub(super) async fn task_end(app: Arc<App>, handle: ShardHandle, task: TaskId) -> LogEnd {
    loop {
        let until = app.clock.now().after(WATCH_FOR);
        let watched = handle.watch(task, until).await;
        if watched == Err(AskError::Stopping) {
            return LogEnd::ServerStops;
        }
        match load(&app, task).await {
            Ok(record) if matches!(record.progress.state, TaskState::Settled(_)) => break,
            Err(error) if error.code == ErrorCode::TaskNotFound => break,
            Ok(_) | Err(_) => {}
        }
        if watched != Ok(true) {
            tokio::time::sleep(LOOK_AGAIN_AFTER).await;
        }
    }
    // Everything that was taken before the end is read before the log ends; a disk that is too
    // slow for that costs logs.
    let _ = app.feedback.settled(task).await;
    LogEnd::Settled
}
