//! Nodes that nobody executes: they let time pass, or wait for a word from outside.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use flow::Work;
use model::{Demand, Failure, LEASE_TTL_DEFAULT, RetryPolicy, TaskId, TaskSpec, Timestamp};
use serde_json::{Value, json};

use crate::change::{Outcome, Settlement, TaskState, WaitReason};
use crate::command::Signal;
use crate::coordinator::Decision;
use crate::effect::{Answer, Refusal};
use crate::run::run_state::{UnitEnd, bytes_of, parsed};

/// The longest that a node may let pass.
const DELAY_MAX: Duration = Duration::from_hours(10 * 365 * 24);

/// The spec of a task that the coordinator itself carries out.
pub(crate) fn own_spec(work: &Work) -> Arc<TaskSpec> {
    let task_type = match work {
        Work::Delay => "core.delay",
        Work::WaitEvent { .. } => "core.wait_event",
        Work::Approve { .. } => "core.approve",
        Work::Task { .. } | Work::Container { .. } => panic!("workers and subgraphs carry it out"),
    };
    let demand = Demand {
        queue: "default".parse().expect("a name that fits"),
        task_type: task_type.parse().expect("a name that fits"),
        tools: BTreeSet::new(),
        tags: BTreeMap::new(),
        package: None,
    };
    Arc::new(TaskSpec {
        demand,
        priority: 0,
        lease_ttl: LEASE_TTL_DEFAULT,
        timeout: None,
        retry: RetryPolicy::default(),
    })
}

impl Decision<'_> {
    /// How such a node begins.
    pub(crate) fn first_wait(&self, work: &Work, given: &Bytes) -> Result<TaskState, UnitEnd> {
        let now = self.now();
        let given = parsed(given);
        let (until, why) = match work {
            Work::Delay => (delay_end(&given, now)?, WaitReason::Delay),
            Work::WaitEvent { timeout } | Work::Approve { timeout } => {
                let own = given.get("timeoutMs").and_then(Value::as_u64).map(Duration::from_millis);
                let timeout = own.or(*timeout);
                (timeout.map_or(Timestamp::MAX, |timeout| now.after(timeout)), WaitReason::Signal)
            }
            Work::Task { .. } | Work::Container { .. } => return Ok(TaskState::Ready),
        };
        Ok(TaskState::Waiting { until, why })
    }

    /// The moment of such a task has come.
    pub(crate) fn end_own_wait(&mut self, id: TaskId, why: WaitReason) {
        let mut settlement = Settlement::unexecuted(Outcome::Completed, self.now());
        if why == WaitReason::Delay {
            settlement.result = Some(Bytes::from_static(b"{\"done\":true}"));
        } else {
            settlement.outcome = Outcome::Failed;
            let reason = "nobody said the word that it waited for in time";
            settlement.failure = Some(Failure::new("E.TIMEOUT", reason));
        }
        self.settle_as(id, None, settlement);
    }

    pub(crate) fn on_signal(&mut self, signal: &Signal) -> Result<Answer, Refusal> {
        let run = self.state.runs.live.get(&signal.run).ok_or(Refusal::UnknownRun)?;
        let mut found: Option<TaskId> = None;
        let mut instead = String::from("no such node is under way");
        for id in run.tasks.keys() {
            let task = self.state.tasks.get(*id).expect("tasks of a run are live");
            let link = task.link().expect("tasks of a run are linked");
            let is_meant =
                link.step_id == signal.node && signal.frame.is_none_or(|frame| frame == link.frame);
            if !is_meant {
                continue;
            }
            match &task.progress.state {
                TaskState::Waiting { why: WaitReason::Signal, .. } => {
                    let wanted = wanted_event(&task.parameters);
                    match (&signal.event, wanted) {
                        (Some(sent), Some(wanted)) if *sent != wanted => {
                            instead = format!("it waits for the event `{wanted}`");
                        }
                        _ => found = found.or(Some(*id)),
                    }
                }
                state => instead = format!("it is {:?}", state.word()).to_lowercase(),
            }
        }
        let task = found.ok_or(Refusal::NotWaiting { instead })?;
        let settlement = self.answered(task, signal);
        self.settle_as(task, None, settlement);
        Ok(Answer::Signalled)
    }

    /// What the word means to the node.
    fn answered(&self, id: TaskId, signal: &Signal) -> Settlement {
        let task = self.state.tasks.get(id).expect("just found");
        let spec = self.state.placement.spec(task.spec);
        let is_approval = spec.demand.task_type.as_str() == "core.approve";
        let payload = parsed(&signal.payload);
        let mut settlement = Settlement::unexecuted(Outcome::Completed, self.now());
        if is_approval && signal.approved == Some(false) {
            settlement.outcome = Outcome::Failed;
            let comment = payload.get("comment").and_then(Value::as_str);
            let comment = comment.map_or_else(String::new, |comment| format!(": {comment}"));
            let reason = format!("{} said no{comment}", signal.by);
            settlement.failure = Some(Failure::new("E.NODE.DENIED", reason));
            return settlement;
        }
        let result = if is_approval {
            json!({ "approved": true, "by": signal.by, "payload": payload })
        } else {
            let event = signal.event.clone().or_else(|| wanted_event(&task.parameters));
            json!({ "event": event, "by": signal.by, "payload": payload })
        };
        settlement.result = Some(bytes_of(&result));
        settlement
    }
}

/// The event that such a task waits for.
pub(crate) fn wanted_event(parameters: &Bytes) -> Option<String> {
    parsed(parameters).get("event").and_then(Value::as_str).map(str::to_owned)
}

/// The latest moment at which a delay that is under way can end, whatever the wall clock showed
/// when it began.
pub(crate) fn latest_delay_end(given: &Bytes, now: Timestamp) -> Timestamp {
    delay_end(&parsed(given), now).unwrap_or(Timestamp::MAX)
}

fn delay_end(given: &Value, now: Timestamp) -> Result<Timestamp, UnitEnd> {
    let wrong = |reason: &str| UnitEnd::failed("E.FLOW.EXPRESSION", reason);
    if let Some(until) = given.get("until") {
        let until = until.as_str().and_then(|text| text.parse::<Timestamp>().ok());
        return until
            .ok_or_else(|| wrong("parameters.until must be a moment like 2026-01-31T12:00:00Z"));
    }
    let number = |key: &str| given.get(key).map(|value| value.as_f64().filter(|n| *n >= 0.0));
    let millis = match (number("ms"), number("seconds")) {
        (Some(Some(ms)), _) => ms,
        (None, Some(Some(seconds))) => seconds * 1_000.0,
        (None, None) => return Err(wrong("a delay wants parameters.ms, .seconds or .until")),
        _ => return Err(wrong("parameters.ms and .seconds must be numbers from 0 on")),
    };
    let pause = Duration::try_from_secs_f64(millis / 1_000.0).unwrap_or(DELAY_MAX);
    Ok(now.after(pause.min(DELAY_MAX)))
}
