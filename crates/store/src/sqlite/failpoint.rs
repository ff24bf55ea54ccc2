//! Ends the process at a chosen commit, for tests of real processes.

use std::str::FromStr;

/// What a shell shows for a process that was killed by signal 9.
const EXIT_CODE: i32 = 137;

/// Where the process may end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    BeforeCommit,
    AfterCommitBeforeAnswer,
}

/// A commit at which the process ends. As text `before_commit:3`, just before the third commit, or
/// `after_commit_before_answer:3`, just after it, before anyone hears of it.
#[derive(Clone, Debug)]
pub struct Failpoint {
    place: Place,
    commits_left: u64,
}

impl Failpoint {
    /// Called at each place of each commit.
    pub(super) fn reach(&mut self, place: Place) {
        if self.place != place {
            return;
        }
        self.commits_left = self.commits_left.saturating_sub(1);
        if self.commits_left == 0 {
            std::process::exit(EXIT_CODE);
        }
    }
}

impl FromStr for Failpoint {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (name, count) = text.split_once(':').ok_or("expected PLACE:COMMITS")?;
        let place = match name {
            "before_commit" => Place::BeforeCommit,
            "after_commit_before_answer" => Place::AfterCommitBeforeAnswer,
            _ => return Err("the place is before_commit or after_commit_before_answer"),
        };
        let commits_left = count.parse().map_err(|_| "the number of commits is a whole number")?;
        Ok(Self { place, commits_left })
    }
}
