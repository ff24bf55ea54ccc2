//! What frames and keys are called by peers of different ages.
//!
//! Every name is understood, always. Answers are in the vocabulary of the peer's first frame.

use std::borrow::Cow;

use super::kind::Kind;

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

/// In the order of [`Kind::ALL`].
static FRAMES: [Row; Kind::ALL.len()] = [
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
    let known = row_of(name).and_then(|row| {
        let mut names = [row.prefixed, row.plain].into_iter().chain(row.others.iter().copied());
        names.find(|known| *known == name)
    });
    known.map_or_else(|| Cow::Owned(name.to_owned()), Cow::Borrowed)
}

fn row_of(name: &str) -> Option<&'static Row> {
    FRAMES
        .iter()
        .find(|row| row.prefixed == name || row.plain == name || row.others.contains(&name))
}

/// What older workers call their own name.
pub(super) const WORKER_NAME: (&str, &[&str]) = ("worker_name", &["worker_id", "id"]);

/// What older workers call the identity that survives reconnects.
pub(super) const INSTANCE_ID: (&str, &[&str]) = ("worker_instance_id", &["instance_id"]);

/// What older peers call the worker that has a resource.
pub(super) const OWNER: (&str, &[&str]) = ("worker_name", &["worker_id"]);

/// What older peers call the name of a package, in frames about packages.
pub(super) const PACKAGE: (&str, &[&str]) = ("name", &["package", "package_name"]);

/// Whether a key is `name`, in snake case or in camel case: `run_id` and `runId` are the same.
pub(super) fn is_same_key(key: &str, name: &str) -> bool {
    key == name || camel(key).eq(camel(name))
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
        for (row, kind) in FRAMES.iter().zip(Kind::ALL) {
            assert_eq!(row.kind, kind);
            assert_eq!(Kind::ALL[kind as usize], kind);
            assert_eq!(kind.is_control(), row.prefixed.starts_with("control."));
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
