//! Why nobody runs a task, in sentences.

use protocol::rest::tasks::{Explanation, Reason};

use crate::context::Context;

/// The most telling come first.
const REASONS_MAX: usize = 3;

/// Reasons, and what to do about them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Why {
    reasons: Vec<String>,
    hints: Vec<String>,
    /// The same as long as only numbers change, which they do from moment to moment.
    kind: String,
}

impl Why {
    /// What the server says; `None` if it says nothing.
    pub(super) async fn ask(context: &Context, task_id: &str) -> Option<Self> {
        let path = format!("/api/v1/tasks/{task_id}/explain");
        let explanation: Explanation = context.client.get(&path).await.ok()?;
        Self::of(&explanation.reasons)
    }

    fn of(reasons: &[Reason]) -> Option<Self> {
        let told = reasons.get(..reasons.len().min(REASONS_MAX)).filter(|told| !told.is_empty())?;
        Some(Self {
            reasons: told.iter().map(|reason| reason.message.clone()).collect(),
            hints: told.iter().filter_map(way_out).collect(),
            kind: told.iter().map(kind).collect(),
        })
    }

    pub(super) fn is_like(&self, other: Option<&Self>) -> bool {
        other.is_some_and(|other| self.kind == other.kind)
    }

    pub(super) fn lines(&self) -> impl Iterator<Item = String> + '_ {
        let reasons = self.reasons.iter().map(|reason| format!("  waiting: {reason}"));
        reasons.chain(self.hints.iter().map(|hint| format!("  → {hint}")))
    }
}

fn kind(reason: &Reason) -> String {
    let words = reason.message.chars().filter(|letter| !letter.is_ascii_digit());
    format!("{} {}\n", reason.code, words.collect::<String>())
}

fn way_out(reason: &Reason) -> Option<String> {
    let hint = reason.hint.clone()?;
    let is_tool = reason.code == "lacking" && reason.message.contains(" tool ");
    Some(if is_tool { format!("{hint}, or run with --no-tool-check") } else { hint })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_are_the_same_while_only_their_numbers_change() {
        let few = why("behind", "3 tasks go first");
        assert!(why("behind", "12 tasks go first").is_like(Some(&few)));
        assert!(!why("no_workers", "no worker has asked").is_like(Some(&few)));
        assert!(!few.is_like(None));
        assert_eq!(Why::of(&[]), None);
    }

    #[test]
    fn a_missing_tool_can_be_ignored() {
        let lines: Vec<_> = why("lacking", "1 worker lacks tool ffmpeg").lines().collect();
        assert_eq!(lines[0], "  waiting: 1 worker lacks tool ffmpeg");
        assert_eq!(lines[1], "  → install it, or run with --no-tool-check");
    }

    fn why(code: &str, message: &str) -> Why {
        let hint = Some("install it".to_owned());
        let reason = Reason { code: code.into(), message: message.into(), hint, count: None };
        Why::of(&[reason]).expect("a reason")
    }
}
