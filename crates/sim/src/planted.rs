//! Deliberate bugs of clients; those of coordinator, shard and store are their own.

/// A bug of a client's library that can be planted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorldBug {
    /// Who got no answer asks again under a new name.
    NewRequestIdAfterAmbiguousCommit,
}

impl WorldBug {
    /// All of them.
    pub const ALL: [Self; 1] = [Self::NewRequestIdAfterAmbiguousCommit];
}

/// A bug by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Planted {
    /// Inside the coordinator.
    Coordinator(coordinator::planted::Bug),
    /// In the turn loop.
    Shard(shard::planted::Bug),
    /// In what every store does.
    Store(store::planted::Bug),
    /// Around both.
    World(WorldBug),
}

impl Planted {
    /// Every bug there is.
    pub fn all() -> impl Iterator<Item = Self> {
        let inside = coordinator::planted::Bug::ALL.into_iter().map(Self::Coordinator);
        let turns = shard::planted::Bug::ALL.into_iter().map(Self::Shard);
        let turns = turns.chain(store::planted::Bug::ALL.into_iter().map(Self::Store));
        inside.chain(turns).chain(WorldBug::ALL.into_iter().map(Self::World))
    }

    /// How it is called on the command line.
    pub fn name(self) -> String {
        match self {
            Self::Coordinator(bug) => kebab(&format!("{bug:?}")),
            Self::Shard(bug) => kebab(&format!("{bug:?}")),
            Self::Store(bug) => kebab(&format!("{bug:?}")),
            Self::World(bug) => kebab(&format!("{bug:?}")),
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
