//! Deliberate bugs around the coordinator; those inside it are its own.

/// A bug of the shell, the store or a client's library that can be planted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShellBug {
    /// Answers leave before the facts behind them are durable.
    AckBeforeFsync,
    /// Leases leave before they are durable; everything else waits.
    PopBeforeDurable,
    /// Who got no answer asks again under a new name.
    NewRequestIdAfterAmbiguousCommit,
    /// The store does not look at the epoch of a commit.
    StaleLeaderKeepsWriting,
    /// A sync that failed is tried again, and the second "done" is believed.
    FsyncErrorRetried,
    /// The shell's clock is the wall clock, jumps and all.
    WallClockForExpiry,
    /// A turn without facts is not fenced: a stale owner still answers.
    AnswersNotFenced,
}

impl ShellBug {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::AckBeforeFsync,
        Self::PopBeforeDurable,
        Self::NewRequestIdAfterAmbiguousCommit,
        Self::StaleLeaderKeepsWriting,
        Self::FsyncErrorRetried,
        Self::WallClockForExpiry,
        Self::AnswersNotFenced,
    ];
}

/// A bug by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Planted {
    /// Inside the coordinator.
    Coordinator(coordinator::planted::Bug),
    /// Around it.
    Shell(ShellBug),
}

impl Planted {
    /// Every bug there is.
    pub fn all() -> impl Iterator<Item = Self> {
        let inside = coordinator::planted::Bug::ALL.into_iter().map(Self::Coordinator);
        inside.chain(ShellBug::ALL.into_iter().map(Self::Shell))
    }

    /// Whether only runs of workflows can suffer from it.
    pub fn is_about_runs(self) -> bool {
        use coordinator::planted::Bug;
        matches!(self, Self::Coordinator(Bug::SkipNotPassedOn | Bug::LineForgotten))
    }

    /// How it is called on the command line.
    pub fn name(self) -> String {
        match self {
            Self::Coordinator(bug) => kebab(&format!("{bug:?}")),
            Self::Shell(bug) => kebab(&format!("{bug:?}")),
        }
    }
}

fn kebab(camel: &str) -> String {
    let mut name = String::new();
    for letter in camel.chars() {
        if letter.is_uppercase() && !name.is_empty() {
            name.push('-');
        }
        name.extend(letter.to_lowercase());
    }
    name
}
