//! A worker's journal of verdicts: one line per verdict, appended when it is heard.
//!
//! Demo and chaos read the journals of all workers to find out whether something counted twice.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::{Arc, PoisonError};

use model::LeaseId;
use protocol::rest::leases::VerdictWord;
use worker::attempt::{Judgement, Listener};

/// One line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) lease: LeaseId,
    pub(crate) verdict: VerdictWord,
    /// Why, or `-`.
    pub(crate) reason: String,
}

/// A listener that appends to the journal at `path`.
pub(crate) fn listener(path: &Path) -> io::Result<Listener> {
    let file = OpenOptions::new().create(true).append(true).open(path)?;
    let file = Mutex::new(file);
    Ok(Arc::new(move |judgement: &Judgement| {
        let reason = judgement.reason.as_deref().unwrap_or("-");
        let line = format!("{} {} {reason}\n", judgement.lease_id, word(judgement.verdict));
        let mut file = file.lock().unwrap_or_else(PoisonError::into_inner);
        // One write per line: a killed worker leaves whole lines, and at most one piece.
        if let Err(error) = file.write_all(line.as_bytes()) {
            tracing::error!(%error, "cannot write the journal");
        }
    }))
}

/// What all journals of a folder say. A piece of a line was written by nobody alive.
pub(crate) fn read_all(folder: &Path) -> io::Result<Vec<Entry>> {
    let mut entries = Vec::new();
    for path in journals(folder)? {
        let text = fs::read_to_string(path)?;
        entries.extend(text.split_inclusive('\n').filter_map(parse));
    }
    Ok(entries)
}

fn journals(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut paths = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "journal") {
            paths.push(path);
        }
    }
    paths.sort();
    Ok(paths)
}

fn parse(line: &str) -> Option<Entry> {
    let mut words = line.strip_suffix('\n')?.split(' ');
    let lease = words.next()?.parse().ok()?;
    let verdict = match words.next()? {
        "COMMITTED" => VerdictWord::Committed,
        "CANCELLED" => VerdictWord::Cancelled,
        "REJECTED" => VerdictWord::Rejected,
        _ => return None,
    };
    Some(Entry { lease, verdict, reason: words.next()?.to_owned() })
}

const fn word(verdict: VerdictWord) -> &'static str {
    match verdict {
        VerdictWord::Committed => "COMMITTED",
        VerdictWord::Cancelled => "CANCELLED",
        VerdictWord::Rejected => "REJECTED",
    }
}

#[cfg(test)]
mod tests {
    use model::{ShardId, TaskId};

    use super::*;

    #[test]
    fn a_journal_comes_back_without_the_piece_of_a_killed_worker() {
        let folder = tempfile::tempdir().expect("folder");
        let path = folder.path().join("w1.journal");
        let task = TaskId::of(ShardId::new(1).expect("fits"), 7);
        let lease = LeaseId { task, epoch: 2 };
        let tell = listener(&path).expect("opens");
        tell(&Judgement {
            lease_id: lease.to_string(),
            verdict: VerdictWord::Cancelled,
            reason: Some("expired".into()),
        });
        let mut file = OpenOptions::new().append(true).open(&path).expect("opens");
        file.write_all(lease.to_string().as_bytes()).expect("written");
        let expected = Entry { lease, verdict: VerdictWord::Cancelled, reason: "expired".into() };
        assert_eq!(read_all(folder.path()).expect("reads"), [expected]);
    }
}
