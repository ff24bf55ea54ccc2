//! Single jobs, in the words that `JOB.SUBMIT` takes.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use protocol::error_code::ErrorCode;
use protocol::rest::actions::SubmitJob;
use protocol::rest::problem::Problem;
use protocol::rest::tasks::Task;

use super::answers;
use super::body::JsonBytes;
use super::gate::Coordinator;
use super::tasks::load;
use crate::app::App;
use crate::plans::submit::{self, SubmitError};
use crate::wire_words::problem::{ApiError, json};

/// Submit a job
///
/// A job is a task that executes a plan, a command, or what its own worker makes of it.
#[utoipa::path(
    post, path = "/api/v1/jobs", tag = "plans",
    operation_id = "submit_job", request_body = SubmitJob,
    responses(
        (status = 201, body = Task, description = "The job's task exists."),
        (status = 200, body = Task, description = "It existed before."),
        (status = 404, body = Problem,
            description = "E.PLAN.NOT_FOUND, E.TASK.NOT_FOUND: a job in `after`."),
        (status = 409, body = Problem,
            description = "E.TASK.IDEMPOTENCY: another job has the name."),
        (status = 422, body = Problem, description = "E.REQUEST.INVALID"),
        (status = 429, body = Problem,
            description = "E.LIMIT.LIVE_TASKS, E.LIMIT.DEMANDS, E.LIMIT.OVERLOADED"),
        (status = 503, body = Problem, description = "E.STORE.UNAVAILABLE, E.SERVER.STOPPING")
    )
)]
pub(super) async fn submit(
    State(app): State<Arc<App>>,
    coordinator: Coordinator,
    body: JsonBytes,
) -> Result<Response, ApiError> {
    // Read once to name fields that are wrong; the job is made of the bytes.
    body.read::<SubmitJob>()?;
    let made = submit::submit(&app, &coordinator.handle, body.bytes()).await?;
    let status = if made.existed { StatusCode::OK } else { StatusCode::CREATED };
    Ok(json(status, &answers::task(&load(&app, made.task).await?)?))
}

impl From<SubmitError> for ApiError {
    fn from(error: SubmitError) -> Self {
        match error {
            SubmitError::Invalid(problem) => problem.into(),
            SubmitError::NoJob(name) => {
                Self::new(ErrorCode::TaskNotFound, format!("after: no job with the name {name}"))
            }
            SubmitError::Exists(name) => {
                let message = format!("the job {name} was submitted with other content");
                Self::new(ErrorCode::TaskIdempotency, message)
                    .with_hint("use a new job_id, or send the same job again")
            }
            SubmitError::Ask(error) => error.into(),
            SubmitError::Store(error) => error.into(),
        }
    }
}
