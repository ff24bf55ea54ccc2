//! How a job is reported to a server that only knows keys and lists.

use std::time::Duration;

use bytes::Bytes;
use protocol::plan::PlanResult;
use protocol::resp::reply::Reply;
use protocol::rest::leases::VerdictWord;
use tokio::time::{sleep, timeout};

use super::connection::{Request, request};
use super::line::{Line, Unanswered};
use super::pace::Pace;
use crate::attempt::Judgement;
use crate::executor::Outcome;

/// The list of what is worked on.
pub(super) const PROCESSING: &str = "queue:processing";
/// The pauses between the tries of a report that is answered with an error.
const PAUSES: [Duration; 2] = [Duration::from_millis(100), Duration::from_millis(200)];
/// The most output that is told. Such a server takes messages of 1 MiB, and hangs up on others
/// without a word.
const OUTPUT_BYTES_MAX: usize = 1000 * 1024;

/// A report in keys.
#[derive(Debug)]
pub(super) struct KeyReport {
    id: String,
    outputs: [Request; 2],
    status: Request,
    remove: Request,
}

impl KeyReport {
    pub(super) fn new(id: &str, value: &Bytes, outcome: &Outcome) -> Self {
        let (status, stdout, stderr) = told(outcome);
        let set = |field: &str, text: String| {
            let key = format!("job:{id}:{field}");
            vec![Bytes::from_static(b"SET"), key.into(), cut(text).into()]
        };
        let outputs = [set("stdout", stdout), set("stderr", stderr)];
        let status = set("status", status.into());
        Self { id: id.to_owned(), outputs, status, remove: remove(value) }
    }

    /// Sends it until it is answered. `None` if nobody did within the time that it is worth.
    pub(super) async fn send(&self, line: &Line, pace: &Pace) -> Option<Judgement> {
        let id = &self.id;
        let sending = async {
            if let Err(text) = self.set_keys(line).await? {
                // It stays among what is worked on, where somebody may find it.
                return Some(self.judged(VerdictWord::Rejected, Some(text)));
            }
            ask_until_heard(line, vec![self.remove.clone()]).await?;
            Some(self.judged(VerdictWord::Committed, None))
        };
        timeout(pace.report_patience, sending).await.unwrap_or_else(|_| {
            tracing::error!(id, "no answer to the report; it is given up");
            None
        })
    }

    /// `None` if the line is over.
    async fn set_keys(&self, line: &Line) -> Option<Result<(), String>> {
        let mut pauses = PAUSES.iter();
        loop {
            let mut error = error_in(ask_until_heard(line, self.outputs.to_vec()).await?);
            // The status comes last: whoever sees it finds the output.
            if error.is_none() {
                error = error_in(ask_until_heard(line, vec![self.status.clone()]).await?);
            }
            match (error, pauses.next()) {
                (None, _) => return Some(Ok(())),
                (Some(_), Some(pause)) => sleep(*pause).await,
                (Some(text), None) => return Some(Err(text)),
            }
        }
    }

    fn judged(&self, verdict: VerdictWord, reason: Option<String>) -> Judgement {
        Judgement { lease_id: self.id.clone(), verdict, reason }
    }
}

/// Gives a job back that cannot be finished here: first it is there again, then it is no longer
/// worked on.
pub(super) async fn give_back(line: &Line, queue: &str, value: &Bytes) {
    let push = vec![Bytes::from_static(b"LPUSH"), Bytes::from(queue.to_owned()), value.clone()];
    if ask_until_heard(line, vec![push, remove(value)]).await.is_none() {
        tracing::warn!(queue, "a job could not be given back; it stays in {PROCESSING}");
    }
}

fn error_in(replies: Vec<Reply>) -> Option<String> {
    replies.into_iter().find_map(|reply| match reply {
        Reply::Error(text) => Some(text.into_owned()),
        _ => None,
    })
}

fn remove(value: &Bytes) -> Request {
    let mut words = request(&["LREM", PROCESSING, "1"]);
    words.push(value.clone());
    words
}

/// Sends the same again on each new connection. `None` if the line is over.
async fn ask_until_heard(line: &Line, requests: Vec<Request>) -> Option<Vec<Reply>> {
    loop {
        match line.ask_all(requests.clone()).await {
            Ok(replies) => return Some(replies),
            Err(Unanswered::Lost) => {}
            Err(Unanswered::Closed) => return None,
        }
    }
}

/// The status, and what all steps wrote.
fn told(outcome: &Outcome) -> (&'static str, String, String) {
    let (status, json, reason) = match outcome {
        Outcome::Completed { result, .. } => ("completed", Some(result), None),
        Outcome::Failed { reason, details, .. } => ("failed", details.as_ref(), Some(reason)),
    };
    let steps: PlanResult =
        json.and_then(|json| serde_json::from_str(json.get()).ok()).unwrap_or_default();
    let (mut stdout, mut stderr) = (String::new(), String::new());
    for step in steps.task_results {
        stdout.push_str(&step.stdout);
        stderr.push_str(&step.stderr);
    }
    // There is no other place that could say why.
    if let Some(reason) = reason {
        if !stderr.is_empty() && !stderr.ends_with('\n') {
            stderr.push('\n');
        }
        stderr.push_str(reason);
        stderr.push('\n');
    }
    (status, stdout, stderr)
}

/// The end of a text says more than its beginning.
fn cut(text: String) -> String {
    if text.len() <= OUTPUT_BYTES_MAX {
        return text;
    }
    let start = text.ceil_char_boundary(text.len() - OUTPUT_BYTES_MAX);
    text[start..].to_owned()
}

#[cfg(test)]
mod tests {
    use protocol::plan::TaskResult;
    use serde_json::value::to_raw_value;

    use super::*;

    #[test]
    fn outputs_of_all_steps_stand_one_after_the_other() {
        let result = to_raw_value(&steps(&[("a\n", ""), ("b\n", "odd")])).expect("JSON");
        let done = Outcome::done(result.clone());
        assert_eq!(told(&done), ("completed", "a\nb\n".into(), "odd".into()));
        let failed = Outcome::Failed {
            code: "E".into(),
            reason: "task 2 (b) exited with 1".into(),
            retryable: false,
            details: Some(result),
        };
        let stderr = "odd\ntask 2 (b) exited with 1\n";
        assert_eq!(told(&failed), ("failed", "a\nb\n".into(), stderr.into()));
        let never = Outcome::hopeless("E", "no such plan");
        assert_eq!(told(&never), ("failed", String::new(), "no such plan\n".into()));
    }

    #[test]
    fn output_that_such_a_server_would_hang_up_on_is_cut() {
        let long = "é".repeat(OUTPUT_BYTES_MAX);
        let told = cut(format!("x{long}"));
        assert!(told.len() <= OUTPUT_BYTES_MAX && told.starts_with('é') && told.ends_with('é'));
        assert_eq!(cut("short".into()), "short");
    }

    fn steps(outputs: &[(&str, &str)]) -> PlanResult {
        let step = |(number, (stdout, stderr)): (u32, &(&str, &str))| TaskResult {
            task_number: number,
            command: "x".into(),
            exit_code: 0,
            stdout: (*stdout).into(),
            stderr: (*stderr).into(),
            duration_ms: 0,
            truncated: false,
        };
        PlanResult { task_results: (1..).zip(outputs).map(step).collect() }
    }
}
