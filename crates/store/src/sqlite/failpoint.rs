//! Ends the process at a chosen moment, for tests of real processes.

/// `ASTRA_FAILPOINT=before_commit:3` ends the process just before its third commit,
/// `after_commit_before_answer:3` just after it, before anyone hears of it.
const VARIABLE: &str = "ASTRA_FAILPOINT";

/// What a shell shows for a process that was killed by signal 9.
const EXIT_CODE: i32 = 137;

/// Where the process may end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    BeforeCommit,
    AfterCommitBeforeAnswer,
}

/// Read once when the store opens.
#[derive(Debug, Default)]
pub(super) struct Failpoint {
    armed: Option<Armed>,
}

#[derive(Debug)]
struct Armed {
    place: Place,
    commits_left: u64,
}

impl Failpoint {
    pub(super) fn from_environment() -> Self {
        Self { armed: std::env::var(VARIABLE).ok().as_deref().and_then(parse) }
    }

    /// Called at each place of each commit.
    pub(super) fn reach(&mut self, place: Place) {
        let Some(armed) = self.armed.as_mut().filter(|armed| armed.place == place) else { return };
        armed.commits_left = armed.commits_left.saturating_sub(1);
        if armed.commits_left == 0 {
            std::process::exit(EXIT_CODE);
        }
    }
}

fn parse(text: &str) -> Option<Armed> {
    let (name, count) = text.split_once(':')?;
    let place = match name {
        "before_commit" => Place::BeforeCommit,
        "after_commit_before_answer" => Place::AfterCommitBeforeAnswer,
        // Other parts of the program have places of their own.
        _ => return None,
    };
    let commits_left = if count == "exit" { 1 } else { count.parse().ok()? };
    Some(Armed { place, commits_left })
}
