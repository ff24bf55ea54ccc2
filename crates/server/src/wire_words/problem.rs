//! How a refusal looks: one status, one code, a sentence, a hint.

use std::fmt::Display;
use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use coordinator::{BACKFILL_WAITING_MAX, Refusal, SCHEDULES_MAX};
use protocol::error_code::ErrorCode;
use protocol::rest::problem::{FlowProblem, Problem, ProblemDetail};
use serde::Serialize;
use store::StoreError;

use crate::handle::AskError;

/// A request that is not carried out. Nothing changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ApiError {
    pub(crate) code: ErrorCode,
    pub(crate) message: String,
    pub(crate) hint: Option<String>,
    /// Everything that is wrong with a workflow.
    pub(crate) problems: Vec<FlowProblem>,
    /// How long it takes until the same request may be carried out, where that is known.
    pub(crate) again_in: Option<Duration>,
}

/// When to come back, where nothing better is known.
const COME_BACK_AFTER: Duration = Duration::from_secs(1);

impl ApiError {
    pub(crate) fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), hint: None, problems: Vec::new(), again_in: None }
    }

    /// A hint that is closer to the case than the code's own.
    #[must_use]
    pub(crate) fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// A workflow that cannot run, with everything that is wrong with it.
    pub(crate) fn flow(problems: Vec<FlowProblem>) -> Self {
        let errors = problems.iter().filter(|problem| problem.severity == "error");
        let message = match errors.clone().next() {
            Some(first) if errors.count() == 1 => first.message.clone(),
            Some(first) => format!("{}; {} problems in all", first.message, problems.len()),
            None => "the workflow cannot run as it stands".to_owned(),
        };
        Self { problems, ..Self::new(ErrorCode::FlowInvalid, message) }
    }

    /// The same words for an id that is none, is unknown or belongs to another tenant.
    pub(crate) fn no_such_run() -> Self {
        Self::new(ErrorCode::RunNotFound, "no run with this id")
    }

    /// A node that the run's workflow does not have.
    pub(crate) fn no_such_node(node: impl Display) -> Self {
        Self::new(ErrorCode::RunNotFound, format!("the run has no node {node}"))
            .with_hint("list its nodes with `astra run show`")
    }

    /// A field that breaks its rule.
    pub(crate) fn invalid(field: impl Display, rule: impl Display) -> Self {
        Self::new(ErrorCode::RequestInvalid, format!("{field} {rule}"))
    }

    /// A list with more entries than one call may carry.
    pub(crate) fn batch(field: &str, count: usize, max: usize) -> Self {
        let message = format!("{field} has {count} entries, one call carries at most {max}");
        Self::new(ErrorCode::LimitBatch, message)
    }

    /// The same words for an id that is none, is unknown or belongs to another tenant: the answer
    /// must not tell which.
    pub(crate) fn no_such_task() -> Self {
        Self::new(ErrorCode::TaskNotFound, "no task with this id")
    }

    pub(crate) fn internal(message: impl Into<String>) -> Self {
        Self::new(ErrorCode::Internal, message)
    }
}

impl From<AskError> for ApiError {
    fn from(error: AskError) -> Self {
        let code = match error {
            AskError::Overloaded => ErrorCode::LimitOverloaded,
            AskError::Unavailable => ErrorCode::StoreUnavailable,
            AskError::Stopping => ErrorCode::ServerStopping,
            AskError::Refused(refusal) => return refusal.into(),
        };
        Self::new(code, error.to_string())
    }
}

impl From<StoreError> for ApiError {
    fn from(error: StoreError) -> Self {
        // The store's own words may name files; they are for the log.
        tracing::warn!(%error, "the store could not answer a request");
        Self::new(ErrorCode::StoreUnavailable, "the store cannot answer right now")
    }
}

impl From<Refusal> for ApiError {
    #[expect(clippy::too_many_lines, reason = "one arm for each refusal")]
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::LiveTasksFull => {
                Self::new(ErrorCode::LimitLiveTasks, "as many live tasks as the server holds")
            }
            Refusal::LiveBytesFull => Self::new(
                ErrorCode::LimitLiveTasks,
                "the parameters of live tasks take as much memory as the server gives them",
            ),
            Refusal::DemandsFull => Self::new(
                ErrorCode::LimitDemands,
                "as many different demands (type, queue, requires) as the server holds",
            ),
            Refusal::WorkersFull => {
                Self::new(ErrorCode::LimitWorkers, "as many workers as the server knows")
            }
            Refusal::RequestsFull => {
                Self::new(ErrorCode::LimitWorkers, "as many waiting requests as the server holds")
            }
            Refusal::PausesFull => {
                Self::new(ErrorCode::LimitPauses, "as many paused queues as the server remembers")
            }
            Refusal::VerifiedToolsFull => {
                Self::new(ErrorCode::LimitWorkers, "as many verified tools as the server remembers")
            }
            Refusal::SchedulesFull => Self::new(
                ErrorCode::LimitSchedules,
                format!("{SCHEDULES_MAX} schedules are kept already"),
            ),
            Refusal::UnknownSchedule => {
                Self::new(ErrorCode::ScheduleNotFound, "no schedule with this id")
            }
            Refusal::BackfillFull => Self::new(
                ErrorCode::LimitRuns,
                format!("more than {BACKFILL_WAITING_MAX} times would wait for their runs"),
            ),
            Refusal::UnknownDependency { after } => Self::new(
                ErrorCode::TaskDependency,
                format!("after: task {after} is not known; nothing was submitted"),
            ),
            Refusal::TooManyDependencies { count } => Self::batch("after", count, model::AFTER_MAX),
            Refusal::IdempotencyConflict { key } => Self::new(
                ErrorCode::TaskIdempotency,
                format!("idempotency_key `{key}` belongs to a task with other content"),
            ),
            Refusal::PartOfRun { run } => Self::new(
                ErrorCode::RunConflict,
                format!("the task belongs to run {} and cannot be put back alone", run.number()),
            )
            .with_hint("retry the run: `astra run retry --from-failed`"),
            Refusal::UnknownRun => Self::new(ErrorCode::RunNotFound, "there is no such run"),
            Refusal::RunsFull => Self::new(
                ErrorCode::LimitRuns,
                "as many live runs, or bytes of their definitions, as the server holds",
            ),
            Refusal::RunConflict { key } => Self::new(
                ErrorCode::RunConflict,
                format!("Idempotency-Key `{key}` belongs to a run with other content"),
            )
            .with_hint("use a new key, or send the same request again"),
            Refusal::UnknownWorker { worker } => {
                Self::new(ErrorCode::WorkerNotFound, format!("no worker {worker} was heard of"))
            }
            Refusal::WorkerNameTaken => {
                Self::new(ErrorCode::AuthForbidden, "another credential registered this worker")
            }
            Refusal::NotBound => {
                Self::new(ErrorCode::RunConflict, "no worker has that work of the run yet")
                    .with_hint("look at `bindings` of the run")
            }
            Refusal::RunDrainsFull => Self::new(
                ErrorCode::LimitRuns,
                "as many runs are kept from workers as the server allows",
            ),
            Refusal::NotWaiting { instead } => Self::new(
                ErrorCode::RunNotWaiting,
                format!("the node does not wait for that: {instead}"),
            ),
            Refusal::UnknownTask => Self::no_such_task(),
            Refusal::StoreUnavailable => AskError::Unavailable.into(),
            Refusal::NotRequeueable { state } => Self::new(
                ErrorCode::TaskConflict,
                format!("the task is {}; it cannot be requeued", state.word()),
            )
            .with_hint("a FAILED, DEAD or STOPPED task can be requeued"),
        }
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let entry = self.code.entry();
        let status = StatusCode::from_u16(entry.http_status).expect("the table has real statuses");
        let detail = ProblemDetail {
            code: entry.name.to_owned(),
            message: self.message,
            hint: self.hint.unwrap_or_else(|| entry.hint.to_owned()),
            problems: self.problems,
        };
        let mut response = json(status, &Problem { error: detail });
        let headers = response.headers_mut();
        if self.code == ErrorCode::AuthInvalidToken {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        if matches!(status, StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE) {
            // Rounded up: who comes back a moment early is refused again.
            let wait = self.again_in.unwrap_or(COME_BACK_AFTER).as_millis().div_ceil(1_000);
            let seconds = u64::try_from(wait).unwrap_or(u64::MAX);
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        response
    }
}

/// What a request of the HTTP door is answered with.
pub(crate) type Answer = Result<Response, ApiError>;

/// `200` with this answer.
#[expect(clippy::unnecessary_wraps, reason = "what every handler ends with")]
pub(crate) fn ok(answer: &impl Serialize) -> Answer {
    Ok(json(StatusCode::OK, answer))
}

/// An answer as JSON.
pub(crate) fn json(status: StatusCode, answer: &impl Serialize) -> Response {
    match serde_json::to_vec(answer) {
        Ok(bytes) => json_bytes(status, bytes),
        Err(error) => {
            tracing::error!(%error, "an answer could not be written as JSON");
            StatusCode::INTERNAL_SERVER_ERROR.into_response()
        }
    }
}

/// An answer that is JSON already.
pub(crate) fn json_bytes(status: StatusCode, bytes: Vec<u8>) -> Response {
    let mut response = Response::new(Body::from(bytes));
    *response.status_mut() = status;
    let json = HeaderValue::from_static("application/json");
    response.headers_mut().insert(header::CONTENT_TYPE, json);
    response
}
