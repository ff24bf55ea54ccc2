//! What the shell is told when a command ends: one table.

use clap::ValueEnum;

use crate::words;

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
    /// The number.
    pub(crate) const fn number(self) -> u8 {
        match self {
            Self::Success => 0,
            Self::Failed => 1,
            Self::Usage => 2,
            Self::NotFound => 3,
            Self::Auth => 4,
            Self::Unreachable => 5,
            Self::Conflict => 6,
            Self::Validation => 7,
            Self::WaitTimeout => 124,
            Self::Interrupted => 130,
            Self::Own(number) => number,
        }
    }

    /// What the number means, in a few words.
    pub(crate) const fn meaning(self) -> &'static str {
        match self {
            Self::Success => "done",
            Self::Failed => "failed, or what was waited for failed",
            Self::Usage => "the command line makes no sense",
            Self::NotFound => "not found",
            Self::Auth => "no token, or its role does not allow this",
            Self::Unreachable => "the server cannot be reached, or cannot serve right now",
            Self::Conflict => "the state of things does not allow this",
            Self::Validation => "the server refused the request as it stands",
            Self::WaitTimeout => "the wait ended before the task did",
            Self::Interrupted => "interrupted with Ctrl-C",
            Self::Own(_) => "what the command exited with",
        }
    }
}

impl From<ExitCode> for std::process::ExitCode {
    fn from(code: ExitCode) -> Self {
        Self::from(code.number())
    }
}

/// The table, as `--help` shows it.
pub(crate) fn help() -> String {
    let mut text = String::from("Exit codes:\n");
    for code in ExitCode::value_variants() {
        words::push(&mut text, format_args!("  {:>3}  {}\n", code.number(), code.meaning()));
    }
    text
}
