//! What frames say: one type for each kind, read by the rules of `schemas/`.
//!
//! Reading order: [`control`], [`register`], [`heartbeat`], [`exec`], [`feedback`], [`resource`], [`resource_read`],
//! [`resource_release`], [`run_rebind`], [`next`], [`package`].

pub mod control;
pub mod exec;
pub mod feedback;
pub mod heartbeat;
pub mod next;
pub mod package;
pub mod register;
pub mod resource;
pub mod resource_read;
pub mod resource_release;
pub mod run_rebind;

use serde_json::value::RawValue;

use self::control::{Accept, Ack, Drain, Handshake, Reset, Resume};
use self::exec::{Cancel, Dispatch, ExecError, ExecResult, Verdict};
use self::feedback::Feedback;
use self::heartbeat::Heartbeat;
use self::next::{NextRequest, NextResponse};
use self::package::{Catalog, Install, PackageEvent, Uninstall};
use self::register::Register;
use self::resource_read::{Chunk, ReadRequest};
use self::resource_release::Release;
use self::run_rebind::Rebind;
use super::alias::Vocabulary;
use super::decode::DecodeError;
use super::encode::raw;
use super::kind::Kind;
use super::read::{Path, Value};

/// What a frame says.
#[derive(Clone, Debug, PartialEq)]
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
    ResourceReadChunk(Chunk),
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
        let value = &Value::new(payload, Path::root("payload"));
        Ok(match kind {
            Kind::Handshake => Self::Handshake(Handshake::read(value)?),
            Kind::Register => Self::Register(Register::read(value)?),
            Kind::Accept => Self::Accept(Accept::read(value)?),
            Kind::Resume => Self::Resume(Resume::read(value)?),
            Kind::Reset => Self::Reset(Reset::read(value)?),
            Kind::Drain => Self::Drain(Drain::read(value)?),
            Kind::Ack => Self::Ack(Ack::read(value)?),
            Kind::Heartbeat => Self::Heartbeat(Heartbeat::read(value)?),
            Kind::ExecDispatch => Self::ExecDispatch(Box::new(Dispatch::read(value)?)),
            Kind::ExecResult => Self::ExecResult(ExecResult::read(value)?),
            Kind::ExecFeedback => Self::ExecFeedback(Feedback::read(value)?),
            Kind::ExecError => Self::ExecError(ExecError::read(value)?),
            Kind::ExecCancel => Self::ExecCancel(Cancel::read(value)?),
            Kind::ExecVerdict => Self::ExecVerdict(Verdict::read(value)?),
            Kind::NextRequest => Self::NextRequest(NextRequest::read(value)?),
            Kind::NextResponse => Self::NextResponse(NextResponse::read(value)?),
            Kind::ResourceReadRequest => Self::ResourceReadRequest(ReadRequest::read(value)?),
            Kind::ResourceReadChunk => Self::ResourceReadChunk(Chunk::read(value)?),
            Kind::ResourceRelease => Self::ResourceRelease(Release::read(value)?),
            Kind::RunRebind => Self::RunRebind(Rebind::read(value)?),
            Kind::PackageInstall => Self::PackageInstall(Install::read(value)?),
            Kind::PackageUninstall => Self::PackageUninstall(Uninstall::read(value)?),
            Kind::PackageEvent => Self::PackageEvent(PackageEvent::read(value)?),
            Kind::PackageCatalog => Self::PackageCatalog(Catalog::read(value)?),
        })
    }

    /// The kind of frame that carries it.
    pub fn kind(&self) -> Kind {
        match self {
            Self::Handshake(_) => Kind::Handshake,
            Self::Register(_) => Kind::Register,
            Self::Accept(_) => Kind::Accept,
            Self::Resume(_) => Kind::Resume,
            Self::Reset(_) => Kind::Reset,
            Self::Drain(_) => Kind::Drain,
            Self::Ack(_) => Kind::Ack,
            Self::Heartbeat(_) => Kind::Heartbeat,
            Self::ExecDispatch(_) => Kind::ExecDispatch,
            Self::ExecResult(_) => Kind::ExecResult,
            Self::ExecFeedback(_) => Kind::ExecFeedback,
            Self::ExecError(_) => Kind::ExecError,
            Self::ExecCancel(_) => Kind::ExecCancel,
            Self::ExecVerdict(_) => Kind::ExecVerdict,
            Self::NextRequest(_) => Kind::NextRequest,
            Self::NextResponse(_) => Kind::NextResponse,
            Self::ResourceReadRequest(_) => Kind::ResourceReadRequest,
            Self::ResourceReadChunk(_) => Kind::ResourceReadChunk,
            Self::ResourceRelease(_) => Kind::ResourceRelease,
            Self::RunRebind(_) => Kind::RunRebind,
            Self::PackageInstall(_) => Kind::PackageInstall,
            Self::PackageUninstall(_) => Kind::PackageUninstall,
            Self::PackageEvent(_) => Kind::PackageEvent,
            Self::PackageCatalog(_) => Kind::PackageCatalog,
        }
    }

    /// Writes it with exactly the keys of its schema: older peers drop frames with any other.
    pub fn encode(&self) -> Box<RawValue> {
        match self {
            Self::Handshake(payload) => raw(payload),
            Self::Register(payload) => raw(payload),
            Self::Accept(payload) => raw(payload),
            Self::Resume(payload) => raw(payload),
            Self::Reset(payload) => raw(payload),
            Self::Drain(payload) => raw(payload),
            Self::Ack(payload) => raw(payload),
            Self::Heartbeat(payload) => raw(payload),
            Self::ExecDispatch(payload) => raw(payload),
            Self::ExecResult(payload) => raw(payload),
            Self::ExecFeedback(payload) => raw(payload),
            Self::ExecError(payload) => raw(payload),
            Self::ExecCancel(payload) => raw(payload),
            Self::ExecVerdict(payload) => raw(payload),
            Self::NextRequest(payload) => raw(payload),
            Self::NextResponse(payload) => raw(payload),
            Self::ResourceReadRequest(payload) => raw(payload),
            Self::ResourceReadChunk(payload) => raw(payload),
            Self::ResourceRelease(payload) => raw(payload),
            Self::RunRebind(payload) => raw(payload),
            Self::PackageInstall(payload) => raw(payload),
            Self::PackageUninstall(payload) => raw(payload),
            Self::PackageEvent(payload) => raw(payload),
            Self::PackageCatalog(payload) => raw(payload),
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
                (self.kind().name_in(vocabulary), dispatch.encode_plain())
            }
            (Vocabulary::Plain | Vocabulary::Prefixed, _) => {
                (self.kind().name_in(vocabulary), self.encode())
            }
        }
    }
}
