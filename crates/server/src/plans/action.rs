//! Actions: one plan, many inputs, a job for each; and single jobs.

use std::borrow::Cow;
use std::collections::BTreeMap;

use bytes::Bytes;
use coordinator::{LoadKey, Refusal, StateWord, SubmittedTask, TaskRecord};
use model::{IdempotencyMark, NewTask, ShardId, TaskId};
use protocol::rest::actions::{ActionCounts, SubmittedAction};
use serde_json::value::{RawValue, to_raw_value};
use shard::documents::ActionHead;
use shard::report_key::fingerprint;
use store::{PageQuery, StoreError};

use super::job::{OrderDesk, check_name, name_key};
use super::kept::{self, OPEN, PlanError};
use crate::app::App;
use crate::bulk;
use crate::handle::{AskError, ShardHandle};

/// Limit: inputs of one action.
const INPUTS_MAX: usize = 1_000;
/// Tasks that one read of the store takes.
const PAGE_TASKS: u32 = 500;

/// An action's words: three of its own, and those that all its jobs share.
struct Words<'a> {
    action_id: String,
    plan_id: String,
    inputs: Vec<&'a RawValue>,
    shared: BTreeMap<Cow<'a, str>, &'a RawValue>,
}

/// Makes the jobs of an action. The same action again gives the same jobs, which existed: `true`.
pub(crate) async fn submit(
    app: &App,
    handle: &ShardHandle,
    json: &[u8],
) -> Result<(SubmittedAction, bool), PlanError> {
    let now = app.clock.now();
    let words = read(json)?;
    let kept = kept::plan(&*app.store, handle, &words.plan_id).await?;
    let kept = kept.ok_or_else(|| PlanError::NoPlan(words.plan_id.clone()))?;
    let tasks = jobs(app, handle, &words, json).await?;
    let jobs_created = tasks.len() as u64;
    let made = match handle.submit(tasks).await {
        Err(AskError::Refused(Refusal::IdempotencyConflict { .. })) => {
            return Err(PlanError::ActionExists(words.action_id));
        }
        made => made?,
    };
    let Words { action_id, plan_id, .. } = words;
    let head = ActionHead { plan_id: plan_id.clone(), jobs: jobs_created };
    kept::add_action(handle, &action_id, head, now).await?;
    let plan_description = kept.plan.plan_description;
    let job_ids = made.iter().map(|job| job.task.to_string()).collect();
    let existed = made.iter().all(|job| job.existed);
    Ok((SubmittedAction { action_id, plan_id, plan_description, jobs_created, job_ids }, existed))
}

fn read(json: &[u8]) -> Result<Words<'_>, PlanError> {
    let not_an_action = |error: serde_json::Error| {
        let like = r#"{"action_id":"a1","plan_id":"p1","inputs":[{"text":"..."}]}"#;
        PlanError::Invalid(format!("an action is a JSON object, like {like}: {error}"))
    };
    let mut shared: BTreeMap<Cow<'_, str>, &RawValue> =
        serde_json::from_slice(json).map_err(not_an_action)?;
    let mut name = |field: &str| {
        let given = shared.remove(field).map(|raw| serde_json::from_str::<String>(raw.get()));
        let name = given.and_then(Result::ok).unwrap_or_default();
        check_name(field, &name).map(|()| name)
    };
    let (action_id, plan_id) = (name("action_id")?, name("plan_id")?);
    let inputs: Vec<&RawValue> = match shared.remove("inputs") {
        Some(inputs) => serde_json::from_str(inputs.get()).map_err(|error| {
            PlanError::Invalid(format!(
                "inputs must be a list with one entry for each job: {error}"
            ))
        })?,
        None => Vec::new(),
    };
    if inputs.len() > INPUTS_MAX {
        let length = inputs.len();
        return Err(PlanError::Invalid(format!(
            "inputs has {length} entries; at most {INPUTS_MAX}"
        )));
    }
    Ok(Words { action_id, plan_id, inputs, shared })
}

async fn jobs(
    app: &App,
    handle: &ShardHandle,
    words: &Words<'_>,
    json: &[u8],
) -> Result<Vec<NewTask>, PlanError> {
    let fingerprint = fingerprint(b"astra.action.v1", &[json]);
    let none = vec![None];
    let inputs: Vec<Option<&RawValue>> = words.inputs.iter().copied().map(Some).collect();
    let inputs = if inputs.is_empty() { &none } else { &inputs };
    let mut desk = OrderDesk::new(app, handle);
    let mut tasks = Vec::with_capacity(inputs.len());
    for (index, input) in inputs.iter().enumerate() {
        let job = job_json(words, *input, index);
        let mut order = desk.read(&job, None).await?;
        if !order.after.is_empty() || order.job_id.is_some() {
            return Err(PlanError::invalid("job_id and after belong to single jobs"));
        }
        let key = format!("action:{}:{index}", words.action_id);
        let key = key.parse().expect("a checked name is a key");
        order.task.idempotency = Some(IdempotencyMark { key, fingerprint });
        tasks.push(order.task);
    }
    Ok(tasks)
}

/// One job of an action, in the words of a job.
fn job_json(words: &Words<'_>, input: Option<&RawValue>, index: usize) -> Bytes {
    let text = |text: &str| to_raw_value(text).expect("text is JSON");
    let (action_id, plan_id) = (text(&words.action_id), text(&words.plan_id));
    let mut job: BTreeMap<&str, &RawValue> =
        words.shared.iter().map(|(field, value)| (field.as_ref(), *value)).collect();
    job.insert("action_id", &action_id);
    job.insert("plan_id", &plan_id);
    let index = to_raw_value(&index).expect("a number is JSON");
    job.insert("input_index", &index);
    if let Some(input) = input {
        job.insert("input", input);
    }
    Bytes::from(serde_json::to_vec(&job).expect("an action's own words are JSON"))
}

/// How many jobs of an action stand where.
pub(crate) fn counts(records: &[TaskRecord]) -> ActionCounts {
    let mut counts = ActionCounts { total: records.len() as u64, ..ActionCounts::default() };
    for record in records {
        let count = match record.progress.state.word() {
            StateWord::Waiting => &mut counts.waiting,
            StateWord::Queued | StateWord::Retrying => &mut counts.queued,
            StateWord::Running => &mut counts.running,
            StateWord::Completed => &mut counts.completed,
            StateWord::Failed => &mut counts.failed,
            StateWord::Dead => &mut counts.dead,
            StateWord::Stopped => &mut counts.stopped,
        };
        *count += 1;
    }
    counts
}

/// One state for all jobs of an action.
pub(crate) fn state(counts: &ActionCounts) -> StateWord {
    let open = counts.waiting + counts.queued + counts.running;
    if open == counts.total && counts.running == 0 {
        StateWord::Queued
    } else if open > 0 {
        StateWord::Running
    } else if counts.failed + counts.dead > 0 {
        StateWord::Failed
    } else if counts.stopped > 0 {
        StateWord::Stopped
    } else {
        StateWord::Completed
    }
}

/// The same state, as seed 004 has it.
pub(crate) fn status(counts: &ActionCounts) -> &'static str {
    match state(counts) {
        StateWord::Running => "running",
        StateWord::Failed => "failed",
        StateWord::Stopped => "cancelled",
        StateWord::Completed => "completed",
        _ => "pending",
    }
}

/// The jobs of an action, in the order of its inputs.
pub(crate) async fn records(
    app: &App,
    handle: &ShardHandle,
    action_id: &str,
) -> Result<Vec<TaskRecord>, StoreError> {
    let Ok(run) = action_id.parse() else { return Ok(Vec::new()) };
    let mut query = PageQuery { run: Some(run), limit: PAGE_TASKS, ..PageQuery::default() };
    let mut records: Vec<TaskRecord> = Vec::new();
    loop {
        let page = app.store.list(handle.shard(), query.clone()).await?;
        records.extend(page.tasks);
        let next: Option<TaskId> = page.next_before;
        match next {
            Some(next) if records.len() < 2 * INPUTS_MAX => query.before = Some(next),
            Some(_) | None => break,
        }
    }
    records.reverse();
    Ok(records)
}

/// Stops every open job of an action; gives how many.
pub(crate) async fn stop(
    app: &App,
    handle: &ShardHandle,
    action_id: &str,
) -> Result<usize, PlanError> {
    let records = records(app, handle, action_id).await?;
    let open = records.iter().filter(|record| OPEN.contains(&record.progress.state.word()));
    // Those that run go last: to stop them first would only make room for the others.
    let (running, waiting): (Vec<&TaskRecord>, Vec<&TaskRecord>) =
        open.partition(|record| record.progress.state.word() == StateWord::Running);
    let mut stopped = 0;
    for tasks in [waiting, running] {
        let tasks = tasks.iter().map(|record| record.id).collect();
        stopped += bulk::stop(handle, tasks).await?;
    }
    Ok(stopped)
}

/// Makes the task of a job. The same job again is the same task.
pub(crate) async fn submit_job(
    app: &App,
    handle: &ShardHandle,
    json: &Bytes,
) -> Result<SubmittedTask, PlanError> {
    let order = OrderDesk::new(app, handle).read(json, None).await?;
    let mut task = order.task;
    wait_for(&mut task, tasks_of(app, handle.shard(), &order.after).await?);
    match handle.submit(vec![task]).await {
        Ok(made) => made.first().copied().ok_or_else(|| AskError::Unavailable.into()),
        Err(AskError::Refused(Refusal::IdempotencyConflict { .. })) => {
            Err(PlanError::JobExists(order.job_id.unwrap_or_default()))
        }
        Err(error) => Err(error.into()),
    }
}

async fn tasks_of(app: &App, shard: ShardId, names: &[String]) -> Result<Vec<TaskId>, PlanError> {
    let mut tasks = Vec::with_capacity(names.len());
    for name in names {
        let found = job(app, shard, name).await?;
        tasks.push(found.ok_or_else(|| PlanError::NoJob(name.clone()))?.id);
    }
    Ok(tasks)
}

/// The task of a job: by the job's own name, or by the task's id.
pub(crate) async fn job(
    app: &App,
    shard: ShardId,
    name: &str,
) -> Result<Option<TaskRecord>, StoreError> {
    let key = match name.parse::<TaskId>() {
        Ok(task) if task.shard() == shard => LoadKey::Task(task),
        Ok(_) => return Ok(None),
        Err(_) if check_name("job_id", name).is_err() => return Ok(None),
        Err(_) => LoadKey::Idempotency(name_key(name)),
    };
    let mut found = app.store.load(shard, vec![key]).await?;
    Ok(found.pop().map(|(_, record)| record))
}

/// Makes a task wait for others.
pub(crate) fn wait_for(task: &mut NewTask, others: Vec<TaskId>) {
    task.after = others;
}
