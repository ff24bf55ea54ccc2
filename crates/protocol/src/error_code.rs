//! Every error code with its meaning: one enum, one table.

/// One kind of refusal. Doors derive their status lines from it; people look it up by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ErrorCode {
    /// No token, or one that is not known, expired or revoked.
    AuthInvalidToken,
    /// The handshake carries no token.
    AuthMissingToken,
    /// This server wants a client certificate.
    AuthMtlsRequired,
    /// The handshake offers a proof that this server does not take.
    AuthModeUnsupported,
    /// Something came before the handshake.
    AuthHandshakeRequired,
    /// The connection has not proved who it is.
    AuthUnauthenticated,
    /// The token is good, but its role does not allow this.
    AuthForbidden,
    /// The request names a host or an origin that this server does not serve.
    AuthHost,
    /// The body is not JSON.
    RequestMalformed,
    /// The body is JSON, but not what is asked for here.
    RequestInvalid,
    /// The body is larger than this server reads.
    RequestTooLarge,
    /// The body did not arrive in time.
    RequestTimeout,
    /// The body is not declared as JSON.
    RequestMediaType,
    /// No such path.
    RequestNotFound,
    /// The path exists, but not with this method.
    RequestMethod,
    /// No session with this id, or none that this token opens.
    SessionUnknown,
    /// The frame names another tenant than the connection's credential.
    SessionTenantMismatch,
    /// The session was never registered, so there is nothing to go on with.
    SessionNotRegistered,
    /// The worker has another session than the one it names.
    SessionMismatch,
    /// The session token is wrong or has expired.
    SessionInvalidToken,
    /// Another connection of the same worker has taken the session over.
    SessionStaleBinding,
    /// The server does not open a session for this worker.
    SessionDenied,
    /// The session's numbers are used up.
    SessionRotated,
    /// No frame of this type is understood here.
    CommandUnknown,
    /// A task with the same concurrency key already runs on this worker.
    CommandConcurrency,
    /// No worker confirmed the task in time.
    DispatchUnavailable,
    /// A result for this attempt was taken before.
    ResultDuplicate,
    /// Frames are missing, and nobody has them any more.
    ResultSequenceGap,
    /// The package is damaged, or its manifest is wrong.
    PackageInvalid,
    /// The package wants more than it may.
    PackagePermission,
    /// No task with this id.
    TaskNotFound,
    /// No worker with this name.
    WorkerNotFound,
    /// The task's state does not allow this.
    TaskConflict,
    /// The idempotency key was used before, for something else.
    TaskIdempotency,
    /// No plan with this name.
    PlanNotFound,
    /// Another plan has the name, or jobs of the plan are open.
    PlanConflict,
    /// No action with this name.
    ActionNotFound,
    /// Another action has the name.
    ActionConflict,
    /// A task that another is to run after is not known, or did not complete.
    TaskDependency,
    /// No run with this id.
    RunNotFound,
    /// The run's state does not allow this, or its key was used before for something else.
    RunConflict,
    /// The node does not wait for that word.
    RunNotWaiting,
    /// The workflow cannot run as it stands.
    FlowInvalid,
    /// An expression cannot be evaluated.
    FlowExpression,
    /// No workflow with this id, or no such version.
    WorkflowNotFound,
    /// Someone saved another version first.
    WorkflowConflict,
    /// No schedule with this id.
    ScheduleNotFound,
    /// No webhook with this secret.
    HookNotFound,
    /// No resource with this id.
    ResourceNotFound,
    /// The resources lie on different workers.
    ResourceConflict,
    /// The worker that has the resource is not connected.
    ResourceAway,
    /// Too many runs are live, or their definitions take too much room.
    LimitRuns,
    /// The tenant keeps as many schedules or webhooks as it may.
    LimitSchedules,
    /// Too many connections read events, or too many tickets wait to be used.
    LimitEvents,
    /// No token with this id.
    TokenNotFound,
    /// A batch holds more than one call may carry.
    LimitBatch,
    /// Too many live tasks, or too many bytes in them.
    LimitLiveTasks,
    /// Too many different kinds of demand among live tasks.
    LimitDemands,
    /// Too many workers or waiting requests.
    LimitWorkers,
    /// Too many paused queues.
    LimitPauses,
    /// The tenant keeps as many plans as it may.
    LimitPlans,
    /// The tenant keeps as many workflows as it may.
    LimitWorkflows,
    /// The tenant has as many tokens as it may have.
    LimitTokens,
    /// More requests than the coordinator can take right now.
    LimitOverloaded,
    /// The store cannot keep anything right now.
    StoreUnavailable,
    /// Something did not happen in time.
    Timeout,
    /// The server is stopping.
    ServerStopping,
    /// A bug on this side.
    Internal,
}

/// A row of the table of codes.
#[derive(Clone, Copy, Debug)]
pub struct ErrorEntry {
    /// The name on the wire.
    pub name: &'static str,
    /// The HTTP status that goes with it.
    pub http_status: u16,
    /// What it means, in a sentence.
    pub meaning: &'static str,
    /// What to do, in a sentence, where nothing closer to the case is known.
    pub hint: &'static str,
}

impl ErrorCode {
    /// All codes, in the order of the table.
    pub const ALL: [Self; 68] = [
        Self::AuthInvalidToken,
        Self::AuthMissingToken,
        Self::AuthMtlsRequired,
        Self::AuthModeUnsupported,
        Self::AuthHandshakeRequired,
        Self::AuthUnauthenticated,
        Self::AuthForbidden,
        Self::AuthHost,
        Self::RequestMalformed,
        Self::RequestInvalid,
        Self::RequestTooLarge,
        Self::RequestTimeout,
        Self::RequestMediaType,
        Self::RequestNotFound,
        Self::RequestMethod,
        Self::SessionUnknown,
        Self::SessionTenantMismatch,
        Self::SessionNotRegistered,
        Self::SessionMismatch,
        Self::SessionInvalidToken,
        Self::SessionStaleBinding,
        Self::SessionDenied,
        Self::SessionRotated,
        Self::CommandUnknown,
        Self::CommandConcurrency,
        Self::DispatchUnavailable,
        Self::ResultDuplicate,
        Self::ResultSequenceGap,
        Self::PackageInvalid,
        Self::PackagePermission,
        Self::TaskNotFound,
        Self::WorkerNotFound,
        Self::TaskConflict,
        Self::TaskIdempotency,
        Self::PlanNotFound,
        Self::PlanConflict,
        Self::ActionNotFound,
        Self::ActionConflict,
        Self::TaskDependency,
        Self::RunNotFound,
        Self::RunConflict,
        Self::RunNotWaiting,
        Self::FlowInvalid,
        Self::FlowExpression,
        Self::WorkflowNotFound,
        Self::WorkflowConflict,
        Self::ScheduleNotFound,
        Self::HookNotFound,
        Self::ResourceNotFound,
        Self::ResourceConflict,
        Self::ResourceAway,
        Self::LimitRuns,
        Self::LimitSchedules,
        Self::LimitEvents,
        Self::TokenNotFound,
        Self::LimitBatch,
        Self::LimitLiveTasks,
        Self::LimitDemands,
        Self::LimitWorkers,
        Self::LimitPauses,
        Self::LimitPlans,
        Self::LimitWorkflows,
        Self::LimitTokens,
        Self::LimitOverloaded,
        Self::StoreUnavailable,
        Self::Timeout,
        Self::ServerStopping,
        Self::Internal,
    ];

    /// The row of this code.
    pub const fn entry(self) -> ErrorEntry {
        match self {
            Self::AuthInvalidToken => row(
                "E.AUTH.INVALID_TOKEN",
                401,
                "No token, or one that is not known, expired or revoked.",
                "send `Authorization: Bearer <token>`; create one with `astra token create`",
            ),
            Self::AuthMissingToken => row(
                "E.AUTH.MISSING_TOKEN",
                401,
                "The handshake carries no token.",
                "give the worker a token; create one with `astra token create`",
            ),
            Self::AuthMtlsRequired => row(
                "E.AUTH.MTLS_REQUIRED",
                401,
                "This server wants a client certificate.",
                "start the worker with a certificate that the server trusts",
            ),
            Self::AuthModeUnsupported => row(
                "E.AUTH.MODE_UNSUPPORTED",
                401,
                "The handshake offers a proof that this server does not take.",
                "use the auth mode `token`",
            ),
            Self::AuthHandshakeRequired => row(
                "E.AUTH.HANDSHAKE_REQUIRED",
                401,
                "Something came before the handshake.",
                "begin each connection with `control.handshake` or `control.resume`",
            ),
            Self::AuthUnauthenticated => row(
                "E.AUTH.UNAUTHENTICATED",
                401,
                "The connection has not proved who it is.",
                "wait for the handshake's ack before the next frame",
            ),
            Self::AuthForbidden => row(
                "E.AUTH.FORBIDDEN",
                403,
                "The token is good, but its role does not allow this.",
                "use a token with the role that the message names",
            ),
            Self::AuthHost => row(
                "E.AUTH.HOST",
                403,
                "The request names a host or an origin that this server does not serve.",
                "in dev mode, ask 127.0.0.1 or localhost",
            ),
            Self::RequestMalformed => row(
                "E.REQUEST.MALFORMED",
                400,
                "The body is not JSON.",
                "the message names the line and the column",
            ),
            Self::RequestInvalid => row(
                "E.REQUEST.INVALID",
                422,
                "The body is JSON, but not what is asked for here.",
                "the message names the field; docs/reference/rest.md lists all of them",
            ),
            Self::RequestTooLarge => row(
                "E.REQUEST.TOO_LARGE",
                413,
                "The body is larger than this server reads.",
                "split the batch; docs/reference/limits.md has the number",
            ),
            Self::RequestTimeout => row(
                "E.REQUEST.TIMEOUT",
                408,
                "The body did not arrive in time.",
                "send it again; split the batch if the line is slow",
            ),
            Self::RequestMediaType => row(
                "E.REQUEST.MEDIA_TYPE",
                415,
                "The body is not declared as JSON.",
                "send `Content-Type: application/json`",
            ),
            Self::RequestNotFound => row(
                "E.REQUEST.NOT_FOUND",
                404,
                "No such path.",
                "docs/reference/rest.md lists all paths",
            ),
            Self::RequestMethod => row(
                "E.REQUEST.METHOD",
                405,
                "The path exists, but not with this method.",
                "the answer's `Allow` header lists the methods",
            ),
            Self::SessionUnknown => row(
                "E.SESSION.UNKNOWN",
                404,
                "No session with this id, or none that this token opens.",
                "begin anew with a handshake",
            ),
            Self::SessionTenantMismatch => row(
                "E.SESSION.TENANT_MISMATCH",
                403,
                "The frame names another tenant than the connection's credential.",
                "use the tenant that the token belongs to",
            ),
            Self::SessionNotRegistered => row(
                "E.SESSION.NOT_REGISTERED",
                409,
                "The session was never registered, so there is nothing to go on with.",
                "send `control.register` after the handshake",
            ),
            Self::SessionMismatch => row(
                "E.SESSION.MISMATCH",
                409,
                "The worker has another session than the one it names.",
                "begin anew with a handshake",
            ),
            Self::SessionInvalidToken => row(
                "E.SESSION.INVALID_TOKEN",
                401,
                "The session token is wrong or has expired.",
                "begin anew with a handshake",
            ),
            Self::SessionStaleBinding => row(
                "E.SESSION.STALE_BINDING",
                409,
                "Another connection of the same worker has taken the session over.",
                "give each worker process its own data folder, and so its own instance id",
            ),
            Self::SessionDenied => row(
                "E.SESSION.DENIED",
                403,
                "The server does not open a session for this worker.",
                "look at the server's log; the worker may be blocked or connect too often",
            ),
            Self::SessionRotated => row(
                "E.SESSION.ROTATED",
                409,
                "The session's numbers are used up.",
                "begin anew with a handshake; nothing is lost",
            ),
            Self::CommandUnknown => row(
                "E.CMD.UNKNOWN",
                422,
                "No frame of this type is understood here.",
                "docs/reference has the types; check the versions of both ends",
            ),
            Self::CommandConcurrency => row(
                "E.CMD.CONCURRENCY_VIOLATION",
                409,
                "A task with the same concurrency key already runs on this worker.",
                "wait for it to end; the first one goes on",
            ),
            Self::DispatchUnavailable => row(
                "E.DISPATCH.UNAVAILABLE",
                503,
                "No worker confirmed the task in time.",
                "look at the workers with `astra worker list`",
            ),
            Self::ResultDuplicate => row(
                "E.RESULT.DUPLICATE",
                409,
                "A result for this attempt was taken before.",
                "nothing to do: the first one counts",
            ),
            Self::ResultSequenceGap => row(
                "E.RESULT.SEQ_GAP",
                409,
                "Frames are missing, and nobody has them any more.",
                "send again from the last number that was confirmed, or begin anew",
            ),
            Self::PackageInvalid => row(
                "E.PKG.INVALID",
                422,
                "The package is damaged, or its manifest is wrong.",
                "check the archive and its digest, then publish it again",
            ),
            Self::PackagePermission => row(
                "E.PKG.PERMISSION",
                403,
                "The package wants more than it may.",
                "grant the permission that the message names, or use another package",
            ),
            Self::TaskNotFound => row(
                "E.TASK.NOT_FOUND",
                404,
                "No task with this id.",
                "list tasks with `astra task list`",
            ),
            Self::WorkerNotFound => row(
                "E.WORKER.NOT_FOUND",
                404,
                "No worker with this name.",
                "look at the workers with `astra worker list`",
            ),
            Self::TaskConflict => row(
                "E.TASK.CONFLICT",
                409,
                "The task's state does not allow this.",
                "look at it with `astra task show`",
            ),
            Self::TaskIdempotency => row(
                "E.TASK.IDEMPOTENCY",
                409,
                "The idempotency key was used before, for something else.",
                "use a new key, or send the same task again",
            ),
            Self::PlanNotFound => row(
                "E.PLAN.NOT_FOUND",
                404,
                "No plan with this name.",
                "list plans with `astra plan list`, or submit it first",
            ),
            Self::PlanConflict => row(
                "E.PLAN.CONFLICT",
                409,
                "Another plan has the name, or jobs of the plan are open.",
                "give the plan a new name, like `dedupe-2`",
            ),
            Self::ActionNotFound => row(
                "E.ACTION.NOT_FOUND",
                404,
                "No action with this name.",
                "list actions with `astra action list`",
            ),
            Self::ActionConflict => row(
                "E.ACTION.CONFLICT",
                409,
                "Another action has the name.",
                "use a new action_id, or send the same action again",
            ),
            Self::TaskDependency => row(
                "E.TASK.DEPENDENCY",
                409,
                "A task that another is to run after is not known, or did not complete.",
                "look at the task that the message names with `astra task show`",
            ),
            Self::RunNotFound => row(
                "E.RUN.NOT_FOUND",
                404,
                "No run with this id.",
                "list them with `astra run list`",
            ),
            Self::RunConflict => row(
                "E.RUN.CONFLICT",
                409,
                "The run's state does not allow this, or its key was used before for something else.",
                "look at it with `astra run show`",
            ),
            Self::RunNotWaiting => row(
                "E.RUN.NOT_WAITING",
                409,
                "The node does not wait for that word.",
                "look at its state with `astra run show`",
            ),
            Self::FlowInvalid => row(
                "E.FLOW.INVALID",
                422,
                "The workflow cannot run as it stands.",
                "every problem is listed; `astra flow validate FILE` shows them too",
            ),
            Self::FlowExpression => row(
                "E.FLOW.EXPRESSION",
                422,
                "An expression cannot be evaluated.",
                "the message names the path; `astra flow validate FILE` finds such errors before a run",
            ),
            Self::WorkflowNotFound => row(
                "E.WORKFLOW.NOT_FOUND",
                404,
                "No workflow with this id, or no such version.",
                "list them with `astra flow list`",
            ),
            Self::WorkflowConflict => row(
                "E.WORKFLOW.CONFLICT",
                409,
                "Someone saved another version first.",
                "read the newest version, and save on top of it",
            ),
            Self::ScheduleNotFound => row(
                "E.SCHEDULE.NOT_FOUND",
                404,
                "No schedule with this id.",
                "list them with `astra schedule list`",
            ),
            Self::HookNotFound => row(
                "E.HOOK.NOT_FOUND",
                404,
                "No webhook with this secret.",
                "make one with `POST /api/v1/hooks`",
            ),
            Self::ResourceNotFound => row(
                "E.RESOURCE.NOT_FOUND",
                404,
                "No resource with this id.",
                "its worker may have dropped it; run its node again",
            ),
            Self::ResourceConflict => row(
                "E.RESOURCE.CONFLICT",
                409,
                "The resources lie on different workers.",
                "use resources of one worker in one task",
            ),
            Self::ResourceAway => row(
                "E.RESOURCE.AWAY",
                503,
                "The worker that has the resource is not connected.",
                "bring the worker back, or run the node again",
            ),
            Self::LimitRuns => row(
                "E.LIMIT.RUNS",
                429,
                "Too many runs are live, or their definitions take too much room.",
                "wait until some have ended",
            ),
            Self::LimitSchedules => row(
                "E.LIMIT.SCHEDULES",
                429,
                "The tenant keeps as many schedules or webhooks as it may.",
                "delete some",
            ),
            Self::LimitEvents => row(
                "E.LIMIT.EVENTS",
                429,
                "Too many connections read events, or too many tickets wait to be used.",
                "read the events of several runs over one connection",
            ),
            Self::TokenNotFound => row(
                "E.TOKEN.NOT_FOUND",
                404,
                "No token with this id.",
                "list tokens with `astra token list`",
            ),
            Self::LimitBatch => row(
                "E.LIMIT.BATCH",
                422,
                "A batch holds more than one call may carry.",
                "split the batch; docs/reference/limits.md has the number",
            ),
            Self::LimitLiveTasks => row(
                "E.LIMIT.LIVE_TASKS",
                429,
                "Too many live tasks, or too many bytes in them.",
                "wait until workers have taken some, then submit again",
            ),
            Self::LimitDemands => row(
                "E.LIMIT.DEMANDS",
                429,
                "Too many different kinds of demand among live tasks.",
                "put what varies into parameters rather than into type, queue or requires",
            ),
            Self::LimitWorkers => row(
                "E.LIMIT.WORKERS",
                429,
                "Too many workers or waiting requests.",
                "give each worker one stable worker_id and one request at a time",
            ),
            Self::LimitPauses => row(
                "E.LIMIT.PAUSES",
                429,
                "Too many paused queues.",
                "let queues that are no longer used go on",
            ),
            Self::LimitPlans => row(
                "E.LIMIT.PLANS",
                429,
                "The tenant keeps as many plans as it may.",
                "forget some with `astra plan rm`",
            ),
            Self::LimitWorkflows => row(
                "E.LIMIT.WORKFLOWS",
                429,
                "The tenant keeps as many workflows as it may.",
                "save a new version of one that is there, instead of another workflow",
            ),
            Self::LimitTokens => row(
                "E.LIMIT.TOKENS",
                429,
                "The tenant has as many tokens as it may have.",
                "give programs that do the same work the same token",
            ),
            Self::LimitOverloaded => row(
                "E.LIMIT.OVERLOADED",
                429,
                "More requests than the coordinator can take right now.",
                "try again in a moment, with backoff",
            ),
            Self::StoreUnavailable => row(
                "E.STORE.UNAVAILABLE",
                503,
                "The store cannot keep anything right now.",
                "look at the disk and at the server's log; the server comes back by itself",
            ),
            Self::Timeout => row(
                "E.TIMEOUT",
                504,
                "Something did not happen in time.",
                "the message says what; try again",
            ),
            Self::ServerStopping => row(
                "E.SERVER.STOPPING",
                503,
                "The server is stopping.",
                "try again when it is back",
            ),
            Self::Internal => row(
                "E.INTERNAL",
                500,
                "A bug on this side.",
                "please report it, with the server's log",
            ),
        }
    }

    /// The name on the wire.
    pub const fn name(self) -> &'static str {
        self.entry().name
    }

    /// The code with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|code| code.name() == name)
    }
}

const fn row(
    name: &'static str,
    http_status: u16,
    meaning: &'static str,
    hint: &'static str,
) -> ErrorEntry {
    ErrorEntry { name, http_status, meaning, hint }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_is_in_the_table_once() {
        for (index, code) in ErrorCode::ALL.into_iter().enumerate() {
            assert_eq!(code as usize, index, "{code:?} stands at its place");
            assert_eq!(ErrorCode::from_name(code.name()), Some(code));
        }
        assert_eq!(ErrorCode::ALL.len(), ErrorCode::Internal as usize + 1);
    }
}
