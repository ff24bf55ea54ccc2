//! Every error code with its meaning: one enum, one table.

/// One kind of refusal. Doors derive their status lines from it; people look it up by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ErrorCode {
    /// No token, or one that is not known, expired or revoked.
    AuthInvalidToken,
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
    /// No task with this id.
    TaskNotFound,
    /// The task's state does not allow this.
    TaskConflict,
    /// The idempotency key was used before, for something else.
    TaskIdempotency,
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
    /// The tenant has as many tokens as it may have.
    LimitTokens,
    /// More requests than the coordinator can take right now.
    LimitOverloaded,
    /// The store cannot keep anything right now.
    StoreUnavailable,
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
    pub const ALL: [Self; 23] = [
        Self::AuthInvalidToken,
        Self::AuthForbidden,
        Self::AuthHost,
        Self::RequestMalformed,
        Self::RequestInvalid,
        Self::RequestTooLarge,
        Self::RequestTimeout,
        Self::RequestMediaType,
        Self::RequestNotFound,
        Self::RequestMethod,
        Self::TaskNotFound,
        Self::TaskConflict,
        Self::TaskIdempotency,
        Self::TokenNotFound,
        Self::LimitBatch,
        Self::LimitLiveTasks,
        Self::LimitDemands,
        Self::LimitWorkers,
        Self::LimitTokens,
        Self::LimitOverloaded,
        Self::StoreUnavailable,
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
            Self::TaskNotFound => row(
                "E.TASK.NOT_FOUND",
                404,
                "No task with this id.",
                "list tasks with `astra task list`",
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
