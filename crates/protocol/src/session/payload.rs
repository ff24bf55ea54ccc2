//! What frames say: one type for each kind, read by the rules of `schemas/`.
//!
//! Reading order: [`control`], [`exec`], [`resource`], [`package`].

pub mod control;
pub mod exec;
pub mod package;
pub mod resource;

use serde_json::value::RawValue;

use self::control::{Accept, Ack, Drain, Handshake, Heartbeat, Register, Reset, Resume};
use self::exec::{
    Cancel, Dispatch, ExecError, ExecResult, Feedback, NextRequest, NextResponse, Rebind, Verdict,
};
use self::package::{Catalog, Install, PackageEvent, Uninstall};
use self::resource::{ReadRequest, Release, ResourceChunk};
use super::codec::{DecodeError, raw};
use super::kind::{Kind, Vocabulary};
use super::read::read;

/// What a frame says.
#[derive(Clone, Debug)]
pub enum Payload {
    /// The worker names itself and shows its credential.
    Handshake(Handshake),
    /// The worker says what it can do.
    Register(Register),
    /// The server opens or continues a session.
    Accept(Accept),
    /// The worker asks to go on with a session.
    Resume(Resume),
    /// The server ends a session.
    Reset(Reset),
    /// The server asks the worker to finish.
    Drain(Drain),
    /// Either end confirms frames.
    Ack(Ack),
    /// The worker lives.
    Heartbeat(Heartbeat),
    /// The server has work.
    ExecDispatch(Box<Dispatch>),
    /// The worker is done with it.
    ExecResult(ExecResult),
    /// The worker says how it goes.
    ExecFeedback(Feedback),
    /// The worker could not do it.
    ExecError(ExecError),
    /// The server wants work to be stopped.
    ExecCancel(Cancel),
    /// The server says what became of a report.
    ExecVerdict(Verdict),
    /// A middleware asks for the next link of its chain.
    NextRequest(NextRequest),
    /// The server answers a middleware.
    NextResponse(NextResponse),
    /// The server wants a part of a resource.
    ResourceReadRequest(ReadRequest),
    /// The worker sends a part of a resource.
    ResourceReadChunk(ResourceChunk),
    /// The server says that a run needs its resources no more.
    ResourceRelease(Release),
    /// The server says who has the work of a run from here on.
    RunRebind(Rebind),
    /// The server wants a package to be installed.
    PackageInstall(Install),
    /// The server wants a package to be removed.
    PackageUninstall(Uninstall),
    /// The worker says what became of a package.
    PackageEvent(PackageEvent),
    /// The packages that there are.
    PackageCatalog(Catalog),
}

impl Payload {
    /// Reads the payload of a frame of this kind.
    ///
    /// Keys that are not known are passed over, older spellings are understood, and `null` is as
    /// good as a missing key. What is left must follow the schema.
    pub fn decode(kind: Kind, payload: &RawValue) -> Result<Self, DecodeError> {
        Ok(match kind {
            Kind::Handshake => Self::Handshake(read("payload", payload)?),
            Kind::Register => Self::Register(read("payload", payload)?),
            Kind::Accept => Self::Accept(read("payload", payload)?),
            Kind::Resume => Self::Resume(read("payload", payload)?),
            Kind::Reset => Self::Reset(read("payload", payload)?),
            Kind::Drain => Self::Drain(read("payload", payload)?),
            Kind::Ack => Self::Ack(read("payload", payload)?),
            Kind::Heartbeat => Self::Heartbeat(read("payload", payload)?),
            Kind::ExecDispatch => Self::ExecDispatch(read("payload", payload)?),
            Kind::ExecResult => Self::ExecResult(read("payload", payload)?),
            Kind::ExecFeedback => Self::ExecFeedback(read("payload", payload)?),
            Kind::ExecError => Self::ExecError(read("payload", payload)?),
            Kind::ExecCancel => Self::ExecCancel(read("payload", payload)?),
            Kind::ExecVerdict => Self::ExecVerdict(read("payload", payload)?),
            Kind::NextRequest => Self::NextRequest(read("payload", payload)?),
            Kind::NextResponse => Self::NextResponse(read("payload", payload)?),
            Kind::ResourceReadRequest => Self::ResourceReadRequest(read("payload", payload)?),
            Kind::ResourceReadChunk => Self::ResourceReadChunk(read("payload", payload)?),
            Kind::ResourceRelease => Self::ResourceRelease(read("payload", payload)?),
            Kind::RunRebind => Self::RunRebind(read("payload", payload)?),
            Kind::PackageInstall => Self::PackageInstall(read("payload", payload)?),
            Kind::PackageUninstall => Self::PackageUninstall(read("payload", payload)?),
            Kind::PackageEvent => Self::PackageEvent(read("payload", payload)?),
            Kind::PackageCatalog => Self::PackageCatalog(read("payload", payload)?),
        })
    }

    /// The kind of frame that carries it, and its text with exactly the keys of its schema: older
    /// peers drop frames with any other.
    pub fn encode(&self) -> (Kind, Box<RawValue>) {
        match self {
            Self::Handshake(payload) => (Kind::Handshake, raw(payload)),
            Self::Register(payload) => (Kind::Register, raw(payload)),
            Self::Accept(payload) => (Kind::Accept, raw(payload)),
            Self::Resume(payload) => (Kind::Resume, raw(payload)),
            Self::Reset(payload) => (Kind::Reset, raw(payload)),
            Self::Drain(payload) => (Kind::Drain, raw(payload)),
            Self::Ack(payload) => (Kind::Ack, raw(payload)),
            Self::Heartbeat(payload) => (Kind::Heartbeat, raw(payload)),
            Self::ExecDispatch(payload) => (Kind::ExecDispatch, raw(payload)),
            Self::ExecResult(payload) => (Kind::ExecResult, raw(payload)),
            Self::ExecFeedback(payload) => (Kind::ExecFeedback, raw(payload)),
            Self::ExecError(payload) => (Kind::ExecError, raw(payload)),
            Self::ExecCancel(payload) => (Kind::ExecCancel, raw(payload)),
            Self::ExecVerdict(payload) => (Kind::ExecVerdict, raw(payload)),
            Self::NextRequest(payload) => (Kind::NextRequest, raw(payload)),
            Self::NextResponse(payload) => (Kind::NextResponse, raw(payload)),
            Self::ResourceReadRequest(payload) => (Kind::ResourceReadRequest, raw(payload)),
            Self::ResourceReadChunk(payload) => (Kind::ResourceReadChunk, raw(payload)),
            Self::ResourceRelease(payload) => (Kind::ResourceRelease, raw(payload)),
            Self::RunRebind(payload) => (Kind::RunRebind, raw(payload)),
            Self::PackageInstall(payload) => (Kind::PackageInstall, raw(payload)),
            Self::PackageUninstall(payload) => (Kind::PackageUninstall, raw(payload)),
            Self::PackageEvent(payload) => (Kind::PackageEvent, raw(payload)),
            Self::PackageCatalog(payload) => (Kind::PackageCatalog, raw(payload)),
        }
    }

    /// The `type` and the payload of the frame that says this to a peer of that vocabulary.
    pub fn encode_for(&self, vocabulary: Vocabulary) -> (&'static str, Box<RawValue>) {
        match (vocabulary, self) {
            // Seed 001 section 2 knows no reset: a worker is turned away by an `error`.
            (Vocabulary::Plain, Self::Reset(reset)) => {
                (Kind::ExecError.name_in(vocabulary), raw(&reset.as_error()))
            }
            (Vocabulary::Plain, Self::ExecDispatch(dispatch)) => {
                (Kind::ExecDispatch.name_in(vocabulary), dispatch.encode_plain())
            }
            (Vocabulary::Plain | Vocabulary::Prefixed, _) => {
                let (kind, payload) = self.encode();
                (kind.name_in(vocabulary), payload)
            }
        }
    }
}
