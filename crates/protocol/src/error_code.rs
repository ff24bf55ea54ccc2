//! Every error code with its meaning: one table.

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

/// Makes the enum and its rows; the meaning of a code is its documentation.
macro_rules! error_codes {
    ($(
        #[doc = $meaning:literal]
        $code:ident = $name:literal, $status:literal, $hint:literal;
    )+) => {
        /// One kind of refusal. Doors derive their status lines from it; people look it up by name.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum ErrorCode {
            $(#[doc = $meaning] $code,)+
        }

        impl ErrorCode {
            /// All codes, in the order of the table.
            pub const ALL: &[Self] = &[$(Self::$code,)+];

            /// The row of this code.
            pub const fn entry(self) -> ErrorEntry {
                match self {
                    $(Self::$code => ErrorEntry {
                        name: $name,
                        http_status: $status,
                        meaning: $meaning.trim_ascii(),
                        hint: $hint,
                    },)+
                }
            }
        }
    };
}

error_codes! {
    /// No token, or one that is not known, expired or revoked.
    AuthInvalidToken = "E.AUTH.INVALID_TOKEN", 401,
        "send `Authorization: Bearer <token>`; create one with `astra token create`";
    /// The handshake carries no token.
    AuthMissingToken = "E.AUTH.MISSING_TOKEN", 401,
        "give the worker a token; create one with `astra token create`";
    /// This server wants a client certificate.
    AuthMtlsRequired = "E.AUTH.MTLS_REQUIRED", 401,
        "start the worker with a certificate that the server trusts";
    /// The handshake offers a proof that this server does not take.
    AuthModeUnsupported = "E.AUTH.MODE_UNSUPPORTED", 401, "use the auth mode `token`";
    /// Something came before the handshake.
    AuthHandshakeRequired = "E.AUTH.HANDSHAKE_REQUIRED", 401,
        "begin each connection with `control.handshake` or `control.resume`";
    /// The connection has not proved who it is.
    AuthUnauthenticated = "E.AUTH.UNAUTHENTICATED", 401,
        "wait for the handshake's ack before the next frame";
    /// The token is good, but its role does not allow this.
    AuthForbidden = "E.AUTH.FORBIDDEN", 403, "use a token with the role that the message names";
    /// The request names a host or an origin that this server does not serve.
    AuthHost = "E.AUTH.HOST", 403, "in dev mode, ask 127.0.0.1 or localhost";
    /// The body is not JSON.
    RequestMalformed = "E.REQUEST.MALFORMED", 400, "the message names the line and the column";
    /// The body is JSON, but not what is asked for here.
    RequestInvalid = "E.REQUEST.INVALID", 422,
        "the message names the field; docs/reference/rest.md lists all of them";
    /// The body is larger than this server reads.
    RequestTooLarge = "E.REQUEST.TOO_LARGE", 413,
        "split the batch; docs/reference/limits.md has the number";
    /// The body did not arrive in time.
    RequestTimeout = "E.REQUEST.TIMEOUT", 408, "send it again; split the batch if the line is slow";
    /// The body is not declared as JSON.
    RequestMediaType = "E.REQUEST.MEDIA_TYPE", 415, "send `Content-Type: application/json`";
    /// No such path.
    RequestNotFound = "E.REQUEST.NOT_FOUND", 404, "docs/reference/rest.md lists all paths";
    /// The path exists, but not with this method.
    RequestMethod = "E.REQUEST.METHOD", 405, "the answer's `Allow` header lists the methods";
    /// No session with this id, or none that this token opens.
    SessionUnknown = "E.SESSION.UNKNOWN", 404, "begin anew with a handshake";
    /// The frame names another tenant than the connection's credential.
    SessionTenantMismatch = "E.SESSION.TENANT_MISMATCH", 403,
        "use the tenant that the token belongs to";
    /// The session was never registered, so there is nothing to go on with.
    SessionNotRegistered = "E.SESSION.NOT_REGISTERED", 409,
        "send `control.register` after the handshake";
    /// The worker has another session than the one it names.
    SessionMismatch = "E.SESSION.MISMATCH", 409, "begin anew with a handshake";
    /// The session token is wrong or has expired.
    SessionInvalidToken = "E.SESSION.INVALID_TOKEN", 401, "begin anew with a handshake";
    /// Another connection of the same worker has taken the session over.
    SessionStaleBinding = "E.SESSION.STALE_BINDING", 409,
        "give each worker process its own data folder, and so its own instance id";
    /// The server does not open a session for this worker.
    SessionDenied = "E.SESSION.DENIED", 403,
        "look at the server's log; the worker may be blocked or connect too often";
    /// The session's numbers are used up.
    SessionRotated = "E.SESSION.ROTATED", 409, "begin anew with a handshake; nothing is lost";
    /// No frame of this type is understood here.
    CommandUnknown = "E.CMD.UNKNOWN", 422,
        "docs/reference has the types; check the versions of both ends";
    /// A task with the same concurrency key already runs on this worker.
    CommandConcurrency = "E.CMD.CONCURRENCY_VIOLATION", 409,
        "wait for it to end; the first one goes on";
    /// No worker confirmed the task in time.
    DispatchUnavailable = "E.DISPATCH.UNAVAILABLE", 503,
        "look at the workers with `astra worker list`";
    /// A result for this attempt was taken before.
    ResultDuplicate = "E.RESULT.DUPLICATE", 409, "nothing to do: the first one counts";
    /// Frames are missing, and nobody has them any more.
    ResultSequenceGap = "E.RESULT.SEQ_GAP", 409,
        "send again from the last number that was confirmed, or begin anew";
    /// The package is damaged, or its manifest is wrong.
    PackageInvalid = "E.PKG.INVALID", 422,
        "check the archive and its digest, then publish it again";
    /// The package wants more than it may.
    PackagePermission = "E.PKG.PERMISSION", 403,
        "grant the permission that the message names, or use another package";
    /// No task with this id.
    TaskNotFound = "E.TASK.NOT_FOUND", 404, "list tasks with `astra task list`";
    /// No worker with this name.
    WorkerNotFound = "E.WORKER.NOT_FOUND", 404, "look at the workers with `astra worker list`";
    /// The task's state does not allow this.
    TaskConflict = "E.TASK.CONFLICT", 409, "look at it with `astra task show`";
    /// The idempotency key was used before, for something else.
    TaskIdempotency = "E.TASK.IDEMPOTENCY", 409, "use a new key, or send the same task again";
    /// No plan with this name.
    PlanNotFound = "E.PLAN.NOT_FOUND", 404, "list plans with `astra plan list`, or submit it first";
    /// Another plan has the name, or jobs of the plan are open.
    PlanConflict = "E.PLAN.CONFLICT", 409, "give the plan a new name, like `dedupe-2`";
    /// No action with this name.
    ActionNotFound = "E.ACTION.NOT_FOUND", 404, "list actions with `astra action list`";
    /// Another action has the name.
    ActionConflict = "E.ACTION.CONFLICT", 409, "use a new action_id, or send the same action again";
    /// A task that another is to run after is not known, or did not complete.
    TaskDependency = "E.TASK.DEPENDENCY", 409,
        "look at the task that the message names with `astra task show`";
    /// No run with this id.
    RunNotFound = "E.RUN.NOT_FOUND", 404, "list them with `astra run list`";
    /// The run's state does not allow this, or its key was used before for something else.
    RunConflict = "E.RUN.CONFLICT", 409, "look at it with `astra run show`";
    /// The node does not wait for that word.
    RunNotWaiting = "E.RUN.NOT_WAITING", 409, "look at its state with `astra run show`";
    /// The workflow cannot run as it stands.
    FlowInvalid = "E.FLOW.INVALID", 422,
        "every problem is listed; `astra flow validate FILE` shows them too";
    /// An expression cannot be evaluated.
    FlowExpression = "E.FLOW.EXPRESSION", 422,
        "the message names the path; `astra flow validate FILE` finds such errors before a run";
    /// No workflow with this id, or no such version.
    WorkflowNotFound = "E.WORKFLOW.NOT_FOUND", 404, "list them with `astra flow list`";
    /// Someone saved another version first.
    WorkflowConflict = "E.WORKFLOW.CONFLICT", 409, "read the newest version, and save on top of it";
    /// No schedule with this id.
    ScheduleNotFound = "E.SCHEDULE.NOT_FOUND", 404, "list them with `GET /api/v1/schedules`";
    /// No webhook with this secret.
    HookNotFound = "E.HOOK.NOT_FOUND", 404, "make one with `POST /api/v1/hooks`";
    /// No resource with this id.
    ResourceNotFound = "E.RESOURCE.NOT_FOUND", 404,
        "its worker may have dropped it; run its node again";
    /// The resources lie on different workers.
    ResourceConflict = "E.RESOURCE.CONFLICT", 409, "use resources of one worker in one task";
    /// The worker that has the resource is not connected.
    ResourceAway = "E.RESOURCE.AWAY", 503, "bring the worker back, or run the node again";
    /// Too many runs are live, or their definitions take too much room.
    LimitRuns = "E.LIMIT.RUNS", 429, "wait until some have ended";
    /// The tenant keeps as many schedules or webhooks as it may.
    LimitSchedules = "E.LIMIT.SCHEDULES", 429, "delete some";
    /// Too many connections read events, or too many tickets wait to be used.
    LimitEvents = "E.LIMIT.EVENTS", 429, "read the events of several runs over one connection";
    /// No token with this id.
    TokenNotFound = "E.TOKEN.NOT_FOUND", 404, "list tokens with `astra token list`";
    /// A batch holds more than one call may carry.
    LimitBatch = "E.LIMIT.BATCH", 422, "split the batch; docs/reference/limits.md has the number";
    /// Too many live tasks, or too many bytes in them.
    LimitLiveTasks = "E.LIMIT.LIVE_TASKS", 429,
        "wait until workers have taken some, then submit again";
    /// Too many different kinds of demand among live tasks.
    LimitDemands = "E.LIMIT.DEMANDS", 429,
        "put what varies into parameters rather than into type, queue or requires";
    /// Too many workers or waiting requests.
    LimitWorkers = "E.LIMIT.WORKERS", 429,
        "give each worker one stable worker_id and one request at a time";
    /// Too many paused queues.
    LimitPauses = "E.LIMIT.PAUSES", 429, "let queues that are no longer used go on";
    /// The tenant keeps as many plans as it may.
    LimitPlans = "E.LIMIT.PLANS", 429, "forget some with `astra plan rm`";
    /// The tenant keeps as many workflows as it may.
    LimitWorkflows = "E.LIMIT.WORKFLOWS", 429,
        "save a new version of one that is there, instead of another workflow";
    /// The tenant has as many tokens as it may have.
    LimitTokens = "E.LIMIT.TOKENS", 429, "give programs that do the same work the same token";
    /// More requests than the coordinator can take right now.
    LimitOverloaded = "E.LIMIT.OVERLOADED", 429, "try again in a moment, with backoff";
    /// The store cannot keep anything right now.
    StoreUnavailable = "E.STORE.UNAVAILABLE", 503,
        "look at the disk and at the server's log; the server comes back by itself";
    /// Something did not happen in time.
    Timeout = "E.TIMEOUT", 504, "the message says what; try again";
    /// The server is stopping.
    ServerStopping = "E.SERVER.STOPPING", 503, "try again when it is back";
    /// A bug on this side.
    Internal = "E.INTERNAL", 500, "please report it, with the server's log";
}

impl ErrorCode {
    /// The name on the wire.
    pub const fn name(self) -> &'static str {
        self.entry().name
    }

    /// The code with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|code| code.name() == name)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_code_is_in_the_table_once() {
        let names: BTreeSet<&str> = ErrorCode::ALL.iter().map(|code| code.name()).collect();
        assert_eq!(names.len(), ErrorCode::ALL.len());
        for code in ErrorCode::ALL {
            assert_eq!(ErrorCode::from_name(code.name()), Some(*code));
            assert!(code.name().starts_with("E."), "{}", code.name());
        }
    }

    #[test]
    fn a_meaning_is_a_sentence_and_a_hint_says_what_to_do() {
        for code in ErrorCode::ALL {
            let ErrorEntry { meaning, hint, http_status, .. } = code.entry();
            assert!(meaning.ends_with('.') && !meaning.starts_with(' '), "{meaning:?}");
            assert!(!hint.is_empty() && !hint.ends_with('.'), "{hint:?}");
            assert!((400..600).contains(&http_status));
        }
    }
}
