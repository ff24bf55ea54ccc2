//! Why a command could not do what was asked: a sentence, what to do next, and what the shell is
//! told.

use std::fmt::Display;

use clap::ValueEnum;
use client::ClientError;
use protocol::rest::problem::FlowProblem;

use crate::format;

/// How a command ended, for scripts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ExitCode {
    /// It did what was asked.
    Success,
    /// It did not, or what it waited for failed.
    Failed,
    /// The command line makes no sense.
    Usage,
    /// No such task, token or path.
    NotFound,
    /// No token, or not the role.
    Auth,
    /// No server, or one that cannot serve right now.
    Unreachable,
    /// The state of things does not allow it.
    Conflict,
    /// The server refused the request as it stands.
    Validation,
    /// The wait was over before the task.
    WaitTimeout,
    /// Ctrl-C.
    Interrupted,
    /// What the command exited with that was run, with `--propagate`.
    #[value(skip)]
    Own(u8),
}

impl ExitCode {
    /// Its number, our own code for programs, and what it means in a few words.
    const fn entry(self) -> (u8, &'static str, &'static str) {
        match self {
            Self::Success => (0, "E.CLI.FAILED", "done"),
            Self::Failed => (1, "E.CLI.FAILED", "failed, or what was waited for failed"),
            Self::Usage => (2, "E.CLI.USAGE", "the command line is not valid"),
            Self::NotFound => (3, "E.CLI.NOT_FOUND", "not found"),
            Self::Auth => (4, "E.CLI.AUTH", "no token, or its role does not allow this"),
            Self::Unreachable => {
                let meaning = "the server cannot be reached, or cannot serve right now";
                (5, "E.CLI.UNREACHABLE", meaning)
            }
            Self::Conflict => (6, "E.CLI.CONFLICT", "the current state does not allow this"),
            Self::Validation => (7, "E.CLI.REFUSED", "the server refused the request as invalid"),
            Self::WaitTimeout => (124, "E.CLI.WAIT_TIMEOUT", "the wait ended before the task did"),
            Self::Interrupted => (130, "E.CLI.INTERRUPTED", "interrupted with Ctrl-C"),
            Self::Own(number) => (number, "E.CLI.FAILED", "what the command exited with"),
        }
    }

    pub(crate) const fn number(self) -> u8 {
        self.entry().0
    }

    pub(crate) const fn meaning(self) -> &'static str {
        self.entry().2
    }
}

impl From<ExitCode> for std::process::ExitCode {
    fn from(code: ExitCode) -> Self {
        Self::from(code.number())
    }
}

/// The table, as `--help` shows it.
pub(crate) fn exit_codes() -> String {
    let mut text = String::from("Exit codes:\n");
    for code in ExitCode::value_variants() {
        format::push(&mut text, format_args!("  {:>3}  {}\n", code.number(), code.meaning()));
    }
    text
}

/// A command that ended badly.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) exit: ExitCode,
    /// For programs: the server's own code, or one of ours.
    pub(crate) code: String,
    /// What happened.
    pub(crate) message: String,
    /// What to do next.
    pub(crate) hint: String,
    /// Everything that is wrong with a workflow, where one was refused.
    pub(crate) problems: Vec<FlowProblem>,
}

pub(crate) type Result<T> = std::result::Result<T, Failure>;

impl Failure {
    pub(crate) fn new(exit: ExitCode, message: impl Display, hint: impl Display) -> Self {
        let (message, hint) = (message.to_string(), hint.to_string());
        Self { exit, code: exit.entry().1.into(), message, hint, problems: Vec::new() }
    }

    pub(crate) fn usage(message: impl Display, hint: impl Display) -> Self {
        Self::new(ExitCode::Usage, message, hint)
    }

    pub(crate) fn with_hint(self, hint: impl Display) -> Self {
        Self { hint: hint.to_string(), ..self }
    }
}

/// Which exit code goes with a refusal of the server, by its HTTP status.
fn exit_of(status: u16) -> ExitCode {
    match status {
        401 | 403 => ExitCode::Auth,
        404 => ExitCode::NotFound,
        409 => ExitCode::Conflict,
        400 | 405 | 413 | 415 | 422 => ExitCode::Validation,
        503 => ExitCode::Unreachable,
        _ => ExitCode::Failed,
    }
}

/// A problem of a workflow: which node, what is wrong with it, and where.
pub(crate) fn problem_line(problem: &FlowProblem, name: Option<&str>) -> String {
    let mark = if problem.severity == "error" { "✗" } else { "!" };
    let about = match (name, &problem.node) {
        (Some(name), _) => format!("{name}: "),
        (None, Some(node)) => format!("node {node}: "),
        (None, None) => String::new(),
    };
    let place = if problem.path.is_empty() { "/" } else { &problem.path };
    format!("  {mark} {about}{}  ({place}, {})", problem.message, problem.code)
}

impl From<ClientError> for Failure {
    fn from(error: ClientError) -> Self {
        let message = error.to_string();
        match error {
            ClientError::Refused { status, detail } => Self {
                exit: exit_of(status),
                code: detail.code,
                message: detail.message,
                hint: detail.hint,
                problems: detail.problems,
            },
            ClientError::Unreachable { .. } => Self::new(
                ExitCode::Unreachable,
                message,
                "start one with `astra dev`, or name another with --server URL",
            ),
            ClientError::Interrupted { .. } | ClientError::TimedOut { .. } => Self::new(
                ExitCode::Unreachable,
                message,
                "what was asked may have been done; look before you ask again",
            ),
            ClientError::Unintelligible { .. } => Self::new(
                ExitCode::Failed,
                message,
                "another program listens there, or a server of another version; check --server",
            ),
            ClientError::InvalidToken => {
                Self::new(ExitCode::Auth, message, "copy the token again, without line breaks")
            }
        }
    }
}

impl From<anyhow::Error> for Failure {
    fn from(error: anyhow::Error) -> Self {
        Self::new(ExitCode::Failed, format!("{error:#}"), "")
    }
}

#[cfg(test)]
mod tests {
    use protocol::error_code::ErrorCode;

    use super::*;

    #[test]
    fn refusals_have_the_exit_codes_of_the_table() {
        for (code, exit) in [
            (ErrorCode::AuthForbidden, 4),
            (ErrorCode::TaskNotFound, 3),
            (ErrorCode::RunNotWaiting, 6),
            (ErrorCode::FlowInvalid, 7),
            (ErrorCode::LimitBatch, 7),
            (ErrorCode::StoreUnavailable, 5),
            (ErrorCode::LimitPlans, 1),
            (ErrorCode::Internal, 1),
        ] {
            assert_eq!(exit_of(code.entry().http_status).number(), exit, "{}", code.name());
        }
    }
}
