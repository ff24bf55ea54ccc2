//! Why a task does not run, in sentences.

use coordinator::{Explanation, Lack, Outcome, Reason, Settlement, TaskRecord, TaskState};
use model::{RunId, TaskId, Timestamp};
use protocol::rest::tasks as wire;

use crate::runs::view;

/// A live task, as the coordinator explains it.
pub(super) fn explain_live(
    task: TaskId,
    explanation: &Explanation,
    now: Timestamp,
) -> wire::Explanation {
    let state = explanation.state;
    let reasons: Vec<_> = explanation.reasons.iter().map(|one| reason(one, now)).collect();
    let summary = match reasons.first() {
        Some(first) => format!("{}: {}", state.word(), first.message),
        None => format!("{}: the next free worker takes it", state.word()),
    };
    wire::Explanation {
        task_id: task.to_string(),
        state,
        age_ms: millis_between(explanation.created_at, now),
        attempt: explanation.attempt,
        summary,
        reasons,
    }
}

/// A task that came to its end, as the store has it.
pub(super) fn explain_settled(record: &TaskRecord, now: Timestamp) -> wire::Explanation {
    let state = record.progress.state.word();
    let (message, hint) = match &record.progress.state {
        TaskState::Settled(settlement) => settled_words(settlement),
        // It was requeued between two looks; the next look explains it.
        TaskState::Waiting { .. } | TaskState::Ready | TaskState::Leased(_) => {
            ("it has just been requeued".to_owned(), Some("ask again".to_owned()))
        }
    };
    wire::Explanation {
        task_id: record.id.to_string(),
        state,
        age_ms: millis_between(record.created_at, now),
        attempt: record.progress.attempt,
        summary: format!("{}: {message}", state.word()),
        reasons: vec![wire::Reason { hint, ..wire::Reason::new("settled", message) }],
    }
}

fn settled_words(settlement: &Settlement) -> (String, Option<String>) {
    let at = settlement.at;
    let why = settlement
        .failure
        .as_ref()
        .map_or_else(String::new, |failure| format!(": {} ({})", failure.reason, failure.code));
    let by = settlement.holder.as_ref().map_or_else(String::new, |worker| format!(" by {worker}"));
    let requeue = Some("bring it back with `astra task requeue`".to_owned());
    match settlement.outcome {
        Outcome::Completed => (format!("completed{by} at {at}"), None),
        Outcome::Failed => (format!("failed for good at {at}{why}"), requeue),
        Outcome::Dead => (format!("given up at {at}{why}"), requeue),
        Outcome::Stopped => (format!("stopped by a person at {at}"), requeue),
    }
}

fn reason(reason: &Reason, now: Timestamp) -> wire::Reason {
    match reason {
        Reason::Paused { queue, by, since } => {
            wire::Reason::new("paused", format!("queue {queue} is paused by {by} since {since}"))
                .hint("resume the queue; what waits in it is granted at once")
        }
        Reason::HeldBy { worker, expires_at } => {
            let left = seconds_until(*expires_at, now);
            wire::Reason::new("held_by", format!("{worker} runs it; its lease lasts {left} more"))
        }
        Reason::NotBefore { until } => {
            let left = seconds_until(*until, now);
            wire::Reason::new("not_before", format!("it is not to start before {until}, in {left}"))
        }
        Reason::Delayed { until } => {
            let left = seconds_until(*until, now);
            wire::Reason::new("delayed", format!("it lets time pass until {until}, {left} more"))
        }
        Reason::NeedsSignal { until, event } => needs_signal(event.as_deref(), *until),
        Reason::BlockedBy { tasks, total } => blocked_by(tasks, *total),
        Reason::Backoff { until, attempt, max_attempts } => {
            let left = seconds_until(*until, now);
            let text =
                format!("attempt {attempt} of {max_attempts} failed; the next is due in {left}");
            wire::Reason::new("backoff", text)
        }
        Reason::KeyHeld { key, by } => wire::Reason::new(
            "key_held",
            format!("task {by} has the concurrency key `{key}` and goes first"),
        )
        .hint(format!("wait for it, or stop it with `astra task cancel {by}`")),
        Reason::PinnedAway { worker, because, until } => {
            let text = format!("it needs {because}, and worker {worker} is away");
            wire::Reason::new("pinned_away", give_up(text, *until, now))
                .hint(format!("bring worker {worker} back"))
        }
        Reason::PinnedBusy { worker, because, until } => {
            let text = format!("it needs {because}, and worker {worker} takes nothing right now");
            wire::Reason::new("pinned_busy", give_up(text, *until, now))
                .hint(format!("wait until {worker} asks for work, or give it more slots"))
        }
        Reason::NoWorkers => wire::Reason::new("no_workers", "no worker has asked for work yet")
            .hint("start one with `astra worker start`"),
        Reason::Lacking { what, workers } => lacking(what, *workers),
        Reason::Lost { workers } => {
            let text = format!("{} could take it, but went silent", counted(*workers, "worker"));
            wire::Reason::new("workers_lost", text)
                .count(*workers)
                .hint("look at their machines, or start other workers")
        }
        Reason::Drained { workers } => {
            let is = if *workers == 1 { "is" } else { "are" };
            let text = format!("{} could take it, but {is} drained", counted(*workers, "worker"));
            wire::Reason::new("workers_drained", text)
                .count(*workers)
                .hint("let one take work again with `astra worker undrain NAME`")
        }
        Reason::KeptAway { run, package, workers } => kept_away(*run, package, *workers),
        Reason::NoneAsking { workers } => none_asking(*workers),
        Reason::Behind { tasks } => {
            let verb = if *tasks == 1 { "goes" } else { "go" };
            let text = format!("{} of the same kind {verb} first", counted(*tasks, "task"));
            wire::Reason::new("behind", text)
                .count(*tasks)
                .hint("add workers, or give it a higher priority")
        }
    }
}

fn kept_away(run: RunId, package: &str, workers: u64) -> wire::Reason {
    let (counted, run) = (counted(workers, "worker"), run.number());
    let text = format!("{counted} could take it, but a person keeps run {run} away from there");
    let way_back = format!("astra run rebind {run} --package {package} --to NAME");
    wire::Reason::new("workers_kept_away", text)
        .count(workers)
        .hint(format!("start another worker, or let one have the work again: `{way_back}`"))
}

fn give_up(text: String, until: Option<Timestamp>, now: Timestamp) -> String {
    match until {
        Some(until) => format!("{text}; it gives up in {}", seconds_until(until, now)),
        None => text,
    }
}

fn needs_signal(event: Option<&str>, until: Timestamp) -> wire::Reason {
    let way = match event {
        Some(event) => format!("--event {event}"),
        None => "--approve".to_owned(),
    };
    wire::Reason::new("needs_signal", view::signal_words(event, until))
        .hint(format!("send it with `astra run signal RUN NODE {way}`"))
}

fn blocked_by(tasks: &[TaskId], total: u64) -> wire::Reason {
    let names: Vec<String> = tasks.iter().map(ToString::to_string).collect();
    let more = if total > tasks.len() as u64 { ", ..." } else { "" };
    let text = format!("it runs after {}: {}{more}", counted(total, "task"), names.join(", "));
    let first = names.first().map_or("ID", String::as_str);
    wire::Reason::new("blocked_by", text)
        .count(total)
        .hint(format!("see why with `astra explain {first}`"))
}

fn lacking(what: &Lack, workers: u64) -> wire::Reason {
    let who = counted(workers, "worker");
    let one = workers == 1;
    let (lack, lacks) = if one { ("lacks", "does not") } else { ("lack", "do not") };
    let (text, hint) = match what {
        Lack::Type => (
            format!("{who} {lacks} execute its type"),
            "start a worker that offers the type".to_owned(),
        ),
        Lack::Queue => (
            format!("{who} {lacks} serve its queue"),
            "start a worker that serves the queue".to_owned(),
        ),
        Lack::Tool(tool) => {
            (format!("{who} {lack} tool {tool}"), format!("install {tool} on a worker's machine"))
        }
        Lack::Tag(tag) => (
            format!("{who} {lack} tag {tag}"),
            format!("give a worker the tag {tag}, or submit without requiring it"),
        ),
        Lack::Package(package) => {
            (format!("{who} {lack} package {package}"), format!("install {package} on a worker"))
        }
    };
    wire::Reason::new("lacking", text).count(workers).hint(hint)
}

fn none_asking(workers: u64) -> wire::Reason {
    let text =
        format!("{} can take it, and none asks for work right now", counted(workers, "worker"));
    wire::Reason::new("none_asking", text)
        .count(workers)
        .hint("wait until one asks for work, or add workers")
}

fn counted(number: u64, noun: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {noun}{plural}")
}

fn seconds_until(moment: Timestamp, now: Timestamp) -> String {
    format!("{:.1} s", moment.since(now).as_secs_f64())
}

fn millis_between(earlier: Timestamp, later: Timestamp) -> u64 {
    u64::try_from(later.since(earlier).as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_is_a_sentence_with_a_way_out() {
        let lacks_tag = Reason::Lacking { what: Lack::Tag("gpu=true".to_owned()), workers: 2 };
        check(&lacks_tag, "lacking", "2 workers lack tag gpu=true");
        let one = Reason::Lacking { what: Lack::Type, workers: 1 };
        check(&one, "lacking", "1 worker does not execute its type");
        let paused = Reason::Paused {
            queue: "nightly".parse().expect("valid"),
            by: "ada".to_owned(),
            since: Timestamp::from_millis(0),
        };
        check(&paused, "paused", "queue nightly is paused by ada since 1970-01-01T00:00:00.000Z");
        let task = model::ShardId::new(1).expect("fits").first_task();
        let blocked = Reason::BlockedBy { tasks: vec![task], total: 7 };
        check(&blocked, "blocked_by", &format!("it runs after 7 tasks: {task}, ..."));
        let (worker, because) = ("w1".parse().expect("valid"), "resource r7".to_owned());
        let until = Some(Timestamp::from_millis(90_000));
        let text = "it needs resource r7, and worker w1 is away; it gives up in 90.0 s";
        check(&Reason::PinnedAway { worker, because, until }, "pinned_away", text);
        let (worker, because) = ("w1".parse().expect("valid"), "affinity `k`".to_owned());
        let text = "it needs affinity `k`, and worker w1 takes nothing right now";
        check(&Reason::PinnedBusy { worker, because, until: None }, "pinned_busy", text);
        check(&Reason::NoWorkers, "no_workers", "no worker has asked for work yet");
        let asking = Reason::NoneAsking { workers: 3 };
        check(&asking, "none_asking", "3 workers can take it, and none asks for work right now");
        check(&Reason::Behind { tasks: 1 }, "behind", "1 task of the same kind goes first");
        check(
            &Reason::Lost { workers: 1 },
            "workers_lost",
            "1 worker could take it, but went silent",
        );
    }

    fn check(given: &Reason, code: &str, message: &str) {
        let made = reason(given, Timestamp::from_millis(0));
        assert_eq!((made.code.as_str(), made.message.as_str()), (code, message));
        assert!(made.hint.is_some(), "{code} says what to do");
    }

    #[test]
    fn times_are_told_from_now() {
        let until = Timestamp::from_millis(12_500);
        let made = reason(
            &Reason::Backoff { until, attempt: 1, max_attempts: 3 },
            Timestamp::from_millis(10_000),
        );
        assert_eq!(made.message, "attempt 1 of 3 failed; the next is due in 2.5 s");
    }
}
