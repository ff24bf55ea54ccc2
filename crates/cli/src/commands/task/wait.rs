//! Waits until tasks have come to their end.

use std::time::{Duration, Instant};

use protocol::rest::tasks::{State, Task};

use crate::context::Context;
use crate::exit_code::ExitCode;
use crate::failure::{Failure, Result};
use crate::run::interrupted;

/// How long one question waits at the server.
const POLL: Duration = Duration::from_secs(20);
/// A server that is away for so long while a task is waited for is gone.
const AWAY_MAX: Duration = Duration::from_secs(15);
const AWAY_PAUSE: Duration = Duration::from_millis(200);

/// The tasks, in the order of `ids`, when all of them have ended.
pub(super) async fn until_ended(
    context: &Context,
    ids: &[String],
    timeout: Option<Duration>,
) -> Result<Vec<Task>> {
    let all = async {
        let mut tasks = Vec::with_capacity(ids.len());
        for id in ids {
            tasks.push(until_one_ended(context, id).await?);
        }
        Ok(tasks)
    };
    let first = ids.first().map_or("last", String::as_str);
    let deadline = async {
        match timeout {
            Some(timeout) => tokio::time::sleep(timeout).await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        tasks = all => tasks,
        () = deadline => Err(Failure::new(
            ExitCode::WaitTimeout,
            "the wait is over, the work is not",
            format!("it goes on; ask why with `astra explain {first}`"),
        )),
        Ok(()) = tokio::signal::ctrl_c() => Err(interrupted(&format!(
            "the work goes on; look with `astra task show {first}`, stop it with \
             `astra task cancel {first}`"
        ))),
    }
}

/// A server that restarts meanwhile is waited for: what it accepted is not lost.
async fn until_one_ended(context: &Context, id: &str) -> Result<Task> {
    let path = format!("/api/v1/tasks/{id}?wait_ms={}", POLL.as_millis());
    let mut answered = Instant::now();
    loop {
        match context.client.get_waiting::<Task>(&path, POLL).await {
            Ok(task) if task.state.is_terminal() => return Ok(task),
            Ok(_) => answered = Instant::now(),
            Err(error) if error.is_passing() && answered.elapsed() < AWAY_MAX => {
                tokio::time::sleep(AWAY_PAUSE).await;
            }
            Err(error) => return Err(context.explain(error)),
        }
    }
}

/// Success only if all succeeded.
pub(super) fn exit_code(tasks: &[Task]) -> ExitCode {
    let all_succeeded = tasks.iter().all(|task| task.state == State::Completed);
    if all_succeeded { ExitCode::Success } else { ExitCode::Failed }
}
