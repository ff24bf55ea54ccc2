//! The verdicts that workers were told, as their logs tell them: one line of JSON for each.

use std::fs;
use std::path::Path;

use anyhow::Result;
use model::LeaseId;
use protocol::rest::leases::VerdictWord;
use serde::Deserialize;

/// What a worker was told about a lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Verdict {
    pub(crate) lease: LeaseId,
    pub(crate) word: VerdictWord,
    pub(crate) reason: Option<String>,
}

/// A line of a log that is about a verdict.
#[derive(Deserialize)]
struct Line {
    lease_id: String,
    verdict: VerdictWord,
    reason: Option<String>,
}

/// The verdicts in all logs of a folder.
pub(crate) fn read_all(folder: &Path) -> Result<Vec<Verdict>> {
    let mut verdicts = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "log") {
            verdicts.extend(read(&path)?);
        }
    }
    Ok(verdicts)
}

/// The verdicts in one log. Most lines say something else, and a killed worker may leave a piece
/// of one.
pub(crate) fn read(log: &Path) -> Result<Vec<Verdict>> {
    let text = String::from_utf8_lossy(&fs::read(log)?).into_owned();
    Ok(text.lines().filter_map(parse).collect())
}

fn parse(line: &str) -> Option<Verdict> {
    let Line { lease_id, verdict, reason } = serde_json::from_str(line).ok()?;
    Some(Verdict { lease: lease_id.parse().ok()?, word: verdict, reason })
}

/// How many verdicts say so.
pub(crate) fn count(verdicts: &[Verdict], word: VerdictWord) -> usize {
    verdicts.iter().filter(|verdict| verdict.word == word).count()
}

#[cfg(test)]
mod tests {
    use model::{ShardId, TaskId};

    use super::*;

    #[test]
    fn verdicts_come_back_without_the_piece_of_a_killed_worker() {
        let folder = tempfile::tempdir().expect("folder");
        let lease = LeaseId { task: TaskId::of(ShardId::new(1).expect("fits"), 7), epoch: 2 };
        let line = format!(
            r#"{{"level":"INFO","lease_id":"{lease}","verdict":"CANCELLED","reason":"expired"}}"#
        );
        let log = format!("plain text\n{{\"message\":\"ready\"}}\n{line}\n{}", &line[..40]);
        fs::write(folder.path().join("w1.log"), log).expect("written");
        let (word, reason) = (VerdictWord::Cancelled, Some("expired".to_owned()));
        let expected = [Verdict { lease, word, reason }];
        assert_eq!(read_all(folder.path()).expect("reads"), expected);
    }
}
