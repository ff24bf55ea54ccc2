//! The kinds of frames that are understood here.

/// What a frame says, whatever its peer calls it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// The worker names itself and shows its credential.
    Handshake,
    /// The worker says what it can do.
    Register,
    /// The server opens or continues a session.
    Accept,
    /// The worker asks to go on with a session.
    Resume,
    /// The server ends a session; the worker begins anew.
    Reset,
    /// The server asks the worker to finish and take nothing new.
    Drain,
    /// Either end confirms frames.
    Ack,
    /// The worker says that it lives.
    Heartbeat,
    /// The server has work.
    ExecDispatch,
    /// The worker is done with it.
    ExecResult,
    /// The worker says how it goes.
    ExecFeedback,
    /// The worker could not do it.
    ExecError,
    /// The server wants work to be stopped.
    ExecCancel,
    /// The server says what became of a report.
    ExecVerdict,
    /// A middleware asks for the next link of its chain.
    NextRequest,
    /// The server answers a middleware.
    NextResponse,
    /// The server wants a part of a resource.
    ResourceReadRequest,
    /// The worker sends a part of a resource.
    ResourceReadChunk,
    /// The server says that a run needs its resources no more.
    ResourceRelease,
    /// The server says who has the work of a run from here on.
    RunRebind,
    /// The server wants a package to be installed.
    PackageInstall,
    /// The server wants a package to be removed.
    PackageUninstall,
    /// The worker says what became of a package.
    PackageEvent,
    /// The packages that there are.
    PackageCatalog,
}

impl Kind {
    /// All kinds, in the order of their definition.
    pub const ALL: [Self; 24] = [
        Self::Handshake,
        Self::Register,
        Self::Accept,
        Self::Resume,
        Self::Reset,
        Self::Drain,
        Self::Ack,
        Self::Heartbeat,
        Self::ExecDispatch,
        Self::ExecResult,
        Self::ExecFeedback,
        Self::ExecError,
        Self::ExecCancel,
        Self::ExecVerdict,
        Self::NextRequest,
        Self::NextResponse,
        Self::ResourceReadRequest,
        Self::ResourceReadChunk,
        Self::ResourceRelease,
        Self::RunRebind,
        Self::PackageInstall,
        Self::PackageUninstall,
        Self::PackageEvent,
        Self::PackageCatalog,
    ];

    /// Whether it belongs to the session itself, and so carries no number.
    pub const fn is_control(self) -> bool {
        matches!(
            self,
            Self::Handshake
                | Self::Register
                | Self::Accept
                | Self::Resume
                | Self::Reset
                | Self::Drain
                | Self::Ack
                | Self::Heartbeat
        )
    }
}
