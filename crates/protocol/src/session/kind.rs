//! The kinds of frames with their payloads, and what frames and keys are called by peers of
//! different ages.
//!
//! Every name is understood, always. Answers are in the vocabulary of the peer's first frame.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::codec::{DecodeError, raw};
use super::payload::control::{Accept, Ack, Drain, Handshake, Heartbeat, Register, Reset, Resume};
use super::payload::exec::{
    Cancel, Dispatch, ExecError, ExecResult, Feedback, NextRequest, NextResponse, Rebind, Verdict,
};
use super::payload::package::{Catalog, Install, PackageEvent, Uninstall};
use super::payload::resource::{ReadRequest, Release, ResourceChunk};
use super::read::read;

/// The table of all frames: what a frame says, its payload, its prefixed name, its plain name, and
/// names that are understood and never sent.
macro_rules! frames {
    ($(
        $(#[$about:meta])*
        $kind:ident($payload:ty) = $prefixed:literal, $plain:literal $(, $other:literal)*;
    )+) => {
        /// What a frame says, whatever its peer calls it.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Kind {
            $( $(#[$about])* $kind, )+
        }

        /// In the order of [`Kind`], which is the index of its row.
        static FRAMES: [Row; [$(Kind::$kind),+].len()] = [$(
            Row { kind: Kind::$kind, prefixed: $prefixed, plain: $plain, others: &[$($other),*] },
        )+];

        /// What a frame says.
        #[derive(Clone, Debug)]
        pub enum Payload {
            $( $(#[$about])* $kind($payload), )+
        }

        impl Payload {
            /// The kind of frame that carries it.
            pub fn kind(&self) -> Kind {
                match self {
                    $( Self::$kind(_) => Kind::$kind, )+
                }
            }

            /// Reads the payload of a frame of this kind.
            ///
            /// Keys that are not known are passed over, older spellings are understood, and `null`
            /// is as good as a missing key. What is left must follow the schema.
            pub fn decode(kind: Kind, payload: &RawValue) -> Result<Self, DecodeError> {
                Ok(match kind {
                    $( Kind::$kind => Self::$kind(decode_as(payload)?), )+
                })
            }

            /// The kind of frame that carries it, and its text with exactly the keys of its schema:
            /// older peers drop frames with any other.
            pub fn encode(&self) -> (Kind, Box<RawValue>) {
                match self {
                    $( Self::$kind(payload) => (Kind::$kind, raw(payload)), )+
                }
            }
        }
    };
}

frames! {
    /// The worker names itself and shows its credential.
    Handshake(Handshake) = "control.handshake", "handshake";
    /// The worker says what it can do.
    Register(Register) = "control.register", "register";
    /// The server opens or continues a session.
    Accept(Accept) = "control.session.accept", "session.accept";
    /// The worker asks to go on with a session.
    Resume(Resume) = "control.resume", "resume", "session.resume";
    /// The server ends a session; the worker begins anew.
    Reset(Reset) = "control.reset", "reset", "session.reset";
    /// The server asks the worker to finish and take nothing new.
    Drain(Drain) = "control.drain", "cmd.drain";
    /// Either end confirms frames.
    Ack(Ack) = "control.ack", "ack";
    /// The worker says that it lives.
    Heartbeat(Heartbeat) = "control.heartbeat", "heartbeat";
    /// The server has work.
    ExecDispatch(Box<Dispatch>) = "biz.exec.dispatch", "cmd.dispatch", "task.dispatch";
    /// The worker is done with it.
    ExecResult(ExecResult) = "biz.exec.result", "result", "task.result";
    /// The worker says how it goes.
    ExecFeedback(Feedback) = "biz.exec.feedback", "feedback";
    /// The worker could not do it.
    ExecError(ExecError) = "biz.exec.error", "error", "command.error";
    /// The server wants work to be stopped.
    ExecCancel(Cancel) = "biz.exec.cancel", "cmd.cancel";
    /// The server says what became of a report.
    ExecVerdict(Verdict) = "biz.exec.verdict", "verdict";
    /// A middleware asks for the next link of its chain.
    NextRequest(NextRequest) = "biz.exec.next.request", "middleware.next_request";
    /// The server answers a middleware.
    NextResponse(NextResponse) = "biz.exec.next.response", "middleware.next_response";
    /// The server wants a part of a resource.
    ResourceReadRequest(ReadRequest) = "biz.resource.read.request", "resource.read.request";
    /// The worker sends a part of a resource.
    ResourceReadChunk(ResourceChunk) = "biz.resource.read.chunk", "resource.read.chunk";
    /// The server says that a run needs its resources no more.
    ResourceRelease(Release) = "biz.resource.release", "resource.release";
    /// The server says who has the work of a run from here on.
    RunRebind(Rebind) = "biz.run.rebind", "cmd.rebind";
    /// The server wants a package to be installed.
    PackageInstall(Install) = "biz.pkg.install", "pkg.install", "package.install";
    /// The server wants a package to be removed.
    PackageUninstall(Uninstall) = "biz.pkg.uninstall", "pkg.uninstall", "package.uninstall";
    /// The worker says what became of a package.
    PackageEvent(PackageEvent) = "biz.pkg.event", "pkg.event", "package.event";
    /// The packages that there are.
    PackageCatalog(Catalog) = "biz.pkg.catalog", "pkg.catalog", "package.catalog";
}

/// The names that a peer uses for frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Vocabulary {
    /// Seed 000: `control.handshake`, `biz.exec.dispatch`, `biz.exec.result`.
    #[default]
    Prefixed,
    /// Seed 001: `handshake`, `cmd.dispatch`, `result`.
    Plain,
}

impl Vocabulary {
    /// The vocabulary of a peer whose first frame has this `type`.
    ///
    /// A name that is in no vocabulary is taken for an extension, which only the prefixed one has.
    pub fn of_first_frame(name: &str) -> Self {
        match row_of(name) {
            Some(row) if row.prefixed != name => Self::Plain,
            _ => Self::Prefixed,
        }
    }
}

impl Kind {
    /// All kinds, in the order of their definition.
    pub fn all() -> impl ExactSizeIterator<Item = Self> {
        FRAMES.iter().map(|row| row.kind)
    }

    /// The kind that has this name in any vocabulary.
    pub fn from_name(name: &str) -> Option<Self> {
        row_of(name).map(|row| row.kind)
    }

    /// What it is called in a vocabulary.
    pub const fn name_in(self, vocabulary: Vocabulary) -> &'static str {
        let row = &FRAMES[self as usize];
        match vocabulary {
            Vocabulary::Prefixed => row.prefixed,
            Vocabulary::Plain => row.plain,
        }
    }

    /// Its name in the schemas and in documents.
    pub const fn name(self) -> &'static str {
        self.name_in(Vocabulary::Prefixed)
    }
}

/// Reads a payload whose type the caller knows, by the rules of [`Payload::decode`].
pub fn decode_as<'a, T: Deserialize<'a>>(payload: &'a RawValue) -> Result<T, DecodeError> {
    read("payload", payload)
}

impl Payload {
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

/// The names of one kind of frame.
struct Row {
    kind: Kind,
    prefixed: &'static str,
    plain: &'static str,
    // Understood, never sent.
    others: &'static [&'static str],
}

/// A name without a copy of its own, if it is in any vocabulary.
pub(super) fn shared_name(name: &str) -> Cow<'static, str> {
    let shared = row_of(name).and_then(|row| {
        [row.prefixed, row.plain]
            .into_iter()
            .chain(row.others.iter().copied())
            .find(|it| *it == name)
    });
    shared.map_or_else(|| Cow::Owned(name.to_owned()), Cow::Borrowed)
}

fn row_of(name: &str) -> Option<&'static Row> {
    FRAMES
        .iter()
        .find(|row| row.prefixed == name || row.plain == name || row.others.contains(&name))
}

/// What the keys of a struct were called elsewhere, best first.
pub(super) fn aliases_of(name: &str, key: &str) -> &'static [&'static str] {
    match (name, key) {
        ("WorkerIdentity", "worker_name") => &["worker_id", "id"],
        ("ResourceRef" | "Artifact", "worker_name") => &["worker_id"],
        ("WorkerIdentity" | "Accept", "worker_instance_id") => &["instance_id"],
        ("Install" | "Uninstall" | "PackageEvent", "name") => &["package", "package_name"],
        _ => &[],
    }
}

/// The object in which others write a value of a struct, and its key there.
pub(super) fn object_of(name: &str, key: &str) -> Option<(&'static str, &'static str)> {
    // Seed 003 section 2 writes `"package": {"name", "version"}`.
    match (name, key) {
        ("Dispatch", "package_name") => Some(("package", "name")),
        ("Dispatch", "package_version") => Some(("package", "version")),
        _ => None,
    }
}

/// Whether a key is `name`, in snake case or in camel case: `run_id` and `runId` are the same.
pub(super) fn is_same_key(key: &str, name: &str) -> bool {
    // Most keys differ at once: no name begins with what the fold takes away.
    key == name || (key.bytes().next() == name.bytes().next() && camel(key).eq(camel(name)))
}

/// The letters of a key as camel case has them.
fn camel(key: &str) -> impl Iterator<Item = char> {
    let mut after_underscore = false;
    key.chars().filter_map(move |letter| {
        if letter == '_' {
            after_underscore = true;
            return None;
        }
        let raised = std::mem::take(&mut after_underscore);
        Some(if raised { letter.to_ascii_uppercase() } else { letter })
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_kind_has_its_row_and_every_name_is_one_kind() {
        let mut names = BTreeSet::new();
        for (row, kind) in FRAMES.iter().zip(Kind::all()) {
            assert_eq!(row.kind, kind);
            assert_eq!(FRAMES[kind as usize].kind, kind);
            for name in [row.prefixed, row.plain].iter().chain(row.others) {
                assert!(names.insert(*name), "{name} stands twice");
                assert_eq!(Kind::from_name(name), Some(kind));
            }
        }
        assert_eq!(Kind::from_name("ext.vendor.ping"), None);
        assert_eq!(Kind::from_name(""), None);
    }

    #[test]
    fn the_first_frame_decides_the_vocabulary() {
        for (first, dispatch) in [
            ("control.handshake", "biz.exec.dispatch"),
            ("control.resume", "biz.exec.dispatch"),
            ("ext.vendor.hello", "biz.exec.dispatch"),
            ("handshake", "cmd.dispatch"),
            ("session.resume", "cmd.dispatch"),
            ("task.result", "cmd.dispatch"),
        ] {
            let vocabulary = Vocabulary::of_first_frame(first);
            assert_eq!(Kind::ExecDispatch.name_in(vocabulary), dispatch, "after {first}");
        }
    }

    #[test]
    fn keys_are_the_same_in_both_cases() {
        for (key, name) in [("runId", "run_id"), ("run_id", "runId"), ("sha256", "sha256")] {
            assert!(is_same_key(key, name), "{key} {name}");
        }
        for (key, name) in [("runid", "run_id"), ("run_ids", "run_id"), ("RunId", "run_id")] {
            assert!(!is_same_key(key, name), "{key} {name}");
        }
    }
}
