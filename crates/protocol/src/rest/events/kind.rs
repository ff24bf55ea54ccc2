//! The types of events.

/// What an event tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EventKind {
    /// A run began or came to its end.
    RunStatus,
    /// A run as a whole, with its nodes.
    RunSnapshot,
    /// How a node fares, in its worker's words.
    NodeState,
    /// A node moved on.
    NodeStatus,
    /// An attempt of a node failed.
    NodeError,
    /// What a node gave.
    NodeResultSnapshot,
    /// A piece of what a node gives, while it runs.
    NodeResultDelta,
    /// A node left something behind.
    ArtifactReady,
    /// A worker lives.
    WorkerHeartbeat,
    /// A package was installed on a worker, or was not.
    WorkerPackage,
    /// A command to a worker is carried out.
    CommandAck,
    /// A command to a worker is not carried out.
    CommandError,
}

impl EventKind {
    /// Every type.
    pub const ALL: [Self; 12] = [
        Self::RunStatus,
        Self::RunSnapshot,
        Self::NodeState,
        Self::NodeStatus,
        Self::NodeError,
        Self::NodeResultSnapshot,
        Self::NodeResultDelta,
        Self::ArtifactReady,
        Self::WorkerHeartbeat,
        Self::WorkerPackage,
        Self::CommandAck,
        Self::CommandError,
    ];

    /// Its name on the wire.
    pub const fn name(self) -> &'static str {
        match self {
            Self::RunStatus => "run.status",
            Self::RunSnapshot => "run.snapshot",
            Self::NodeState => "node.state",
            Self::NodeStatus => "node.status",
            Self::NodeError => "node.error",
            Self::NodeResultSnapshot => "node.result.snapshot",
            Self::NodeResultDelta => "node.result.delta",
            Self::ArtifactReady => "artifact.ready",
            Self::WorkerHeartbeat => "worker.heartbeat",
            Self::WorkerPackage => "worker.package",
            Self::CommandAck => "command.ack",
            Self::CommandError => "command.error",
        }
    }

    /// The type with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// Its place in [`EventKind::ALL`], as one bit.
    pub const fn bit(self) -> u16 {
        1 << self as u16
    }
}
