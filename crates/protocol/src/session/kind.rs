//! The kinds of frames, and what frames and keys are called by peers of different ages.
//!
//! Every name is understood, always. Answers are in the vocabulary of the peer's first frame.

use std::borrow::Cow;

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

    /// Whether it belongs to the session itself, and so carries no number.
    pub fn is_control(self) -> bool {
        self.name().starts_with("control.")
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

/// The names of one kind of frame.
struct Row {
    kind: Kind,
    prefixed: &'static str,
    plain: &'static str,
    // Understood, never sent.
    others: &'static [&'static str],
}

const fn row(
    kind: Kind,
    prefixed: &'static str,
    plain: &'static str,
    others: &'static [&'static str],
) -> Row {
    Row { kind, prefixed, plain, others }
}

/// In the order of [`Kind`], which is the index of its row.
static FRAMES: [Row; 24] = [
    row(Kind::Handshake, "control.handshake", "handshake", &[]),
    row(Kind::Register, "control.register", "register", &[]),
    row(Kind::Accept, "control.session.accept", "session.accept", &[]),
    row(Kind::Resume, "control.resume", "resume", &["session.resume"]),
    row(Kind::Reset, "control.reset", "reset", &["session.reset"]),
    row(Kind::Drain, "control.drain", "cmd.drain", &[]),
    row(Kind::Ack, "control.ack", "ack", &[]),
    row(Kind::Heartbeat, "control.heartbeat", "heartbeat", &[]),
    row(Kind::ExecDispatch, "biz.exec.dispatch", "cmd.dispatch", &["task.dispatch"]),
    row(Kind::ExecResult, "biz.exec.result", "result", &["task.result"]),
    row(Kind::ExecFeedback, "biz.exec.feedback", "feedback", &[]),
    row(Kind::ExecError, "biz.exec.error", "error", &["command.error"]),
    row(Kind::ExecCancel, "biz.exec.cancel", "cmd.cancel", &[]),
    row(Kind::ExecVerdict, "biz.exec.verdict", "verdict", &[]),
    row(Kind::NextRequest, "biz.exec.next.request", "middleware.next_request", &[]),
    row(Kind::NextResponse, "biz.exec.next.response", "middleware.next_response", &[]),
    row(Kind::ResourceReadRequest, "biz.resource.read.request", "resource.read.request", &[]),
    row(Kind::ResourceReadChunk, "biz.resource.read.chunk", "resource.read.chunk", &[]),
    row(Kind::ResourceRelease, "biz.resource.release", "resource.release", &[]),
    row(Kind::RunRebind, "biz.run.rebind", "cmd.rebind", &[]),
    row(Kind::PackageInstall, "biz.pkg.install", "pkg.install", &["package.install"]),
    row(Kind::PackageUninstall, "biz.pkg.uninstall", "pkg.uninstall", &["package.uninstall"]),
    row(Kind::PackageEvent, "biz.pkg.event", "pkg.event", &["package.event"]),
    row(Kind::PackageCatalog, "biz.pkg.catalog", "pkg.catalog", &["package.catalog"]),
];

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
