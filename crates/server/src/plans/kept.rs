//! Plans that are kept, listed and forgotten; one goes only when its jobs are over.

use std::sync::Arc;

use bytes::Bytes;
use coordinator::StateWord;
use model::{ShardId, Timestamp};
use protocol::plan::{PLAN, PLAN_STEP, Plan};
use serde::Deserialize;
use shard::DocumentKind;
use shard::documents::{
    ActionHead, Entry, NewDocument, PLAN_BYTES_MAX, PLANS_MAX, PlanHead, Written, body_hash,
};
use store::{PageQuery, Store, StoreError};

use crate::app::App;
use crate::handle::{AskError, ShardHandle};

/// A plan that is kept.
#[derive(Clone, Debug)]
pub(crate) struct KeptPlan {
    pub(crate) plan: Plan,
    /// Milliseconds since 1970.
    pub(crate) created_ms: u64,
}

/// A plan's name and what lists show of it.
pub(crate) type ListedPlan = (String, Arc<Entry<PlanHead>>);
/// An action's name and what is remembered of it.
pub(crate) type ListedAction = (String, Arc<Entry<ActionHead>>);

/// Why a plan, an action or a job is not taken, not found or not forgotten.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum PlanError {
    /// A field breaks its rule; one sentence that names it.
    #[error("{0}")]
    Invalid(String),
    /// Another plan has the name.
    #[error("Plan already exists: {0}")]
    PlanExists(String),
    /// There are too many.
    #[error("{PLANS_MAX} plans are kept already; delete some")]
    PlansFull,
    /// It is too long.
    #[error("the plan has {0} bytes; at most {PLAN_BYTES_MAX} are taken")]
    PlanTooLarge(usize),
    /// There is no such plan.
    #[error("Plan not found: {0}")]
    NoPlan(String),
    /// Jobs of the plan are open, so it stays.
    #[error("Plan has active jobs: {0}")]
    PlanActive(String),
    /// Another action has the name.
    #[error("Action already exists: {0}")]
    ActionExists(String),
    /// Another job has the name.
    #[error("Job already exists: {0}")]
    JobExists(String),
    /// A job that another one waits for does not exist.
    #[error("Job not found: {0}")]
    NoJob(String),
    /// Nobody answered, or the coordinator refused the jobs.
    #[error(transparent)]
    Ask(#[from] AskError),
    /// The store does not answer.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl PlanError {
    pub(crate) fn invalid(text: impl Into<String>) -> Self {
        Self::Invalid(text.into())
    }
}

/// Keeps a new plan. The same plan again changes nothing: `false`.
pub(crate) async fn add_plan(
    handle: &ShardHandle,
    plan: &Plan,
    now: Timestamp,
) -> Result<bool, PlanError> {
    let body = Bytes::from(serde_json::to_vec(plan).expect("plans are JSON"));
    let new = NewDocument {
        hash: body_hash(&body),
        by: String::new(),
        at_ms: now.as_millis(),
        head: PlanHead {
            description: plan.plan_description.clone(),
            task_count: plan.tasks.len() as u64,
        },
        body,
    };
    let key = plan.plan_id.clone();
    match handle.change(move |documents| documents.plans.put(&key, Some(0), new)).await? {
        Written::Saved(_) => Ok(true),
        Written::Same(_) => Ok(false),
        Written::Conflict(_) => Err(PlanError::PlanExists(plan.plan_id.clone())),
        Written::Full => Err(PlanError::PlansFull),
        Written::TooLarge(bytes) => Err(PlanError::PlanTooLarge(bytes)),
    }
}

/// A plan with its steps. Those of a long one are read from the store.
pub(crate) async fn plan(
    store: &dyn Store,
    handle: &ShardHandle,
    plan_id: &str,
) -> Result<Option<KeptPlan>, PlanError> {
    let key = plan_id.to_owned();
    let found = handle.look(move |shard| shard.documents().plans.get(&key).cloned()).await?;
    let Some(entry) = found else { return Ok(None) };
    let (created_ms, body) = if let Some(body) = &entry.body {
        (entry.at_ms, body.clone())
    } else {
        let kind = DocumentKind::Plan;
        let read = store.document_version(handle.shard(), kind, plan_id.to_owned(), None);
        // It may have been removed, or replaced, since its entry was looked at.
        let Some(stored) = read.await? else { return Ok(None) };
        let entry = Entry::<PlanHead>::read(&stored.json).ok_or_else(|| damaged(plan_id))?;
        (entry.at_ms, stored.body)
    };
    let plan = serde_json::from_slice(&body).map_err(|_| damaged(plan_id))?;
    Ok(Some(KeptPlan { plan, created_ms }))
}

fn damaged(plan_id: &str) -> StoreError {
    StoreError::Damaged(format!("plan {plan_id}"))
}

/// Every plan, by name.
pub(crate) async fn plans(handle: &ShardHandle) -> Result<Vec<ListedPlan>, AskError> {
    let look = |shard: &shard::Shard| {
        let plans = shard.documents().plans.by_name("");
        plans.map(|(name, entry)| (name.clone(), Arc::clone(entry))).collect()
    };
    handle.look(look).await
}

/// Remembers an action once its jobs are made. One that is remembered stays as it is: its jobs are
/// the same, so it was sent again.
pub(crate) async fn add_action(
    handle: &ShardHandle,
    action_id: &str,
    head: ActionHead,
    now: Timestamp,
) -> Result<(), AskError> {
    let (hash, by, at_ms) = (String::new(), String::new(), now.as_millis());
    let new = NewDocument { hash, by, at_ms, head, body: Bytes::new() };
    let key = action_id.to_owned();
    handle.change(move |documents| documents.actions.put(&key, Some(0), new)).await.map(drop)
}

/// What is remembered of an action.
pub(crate) async fn action(
    handle: &ShardHandle,
    action_id: &str,
) -> Result<Option<Arc<Entry<ActionHead>>>, AskError> {
    let key = action_id.to_owned();
    handle.look(move |shard| shard.documents().actions.get(&key).cloned()).await
}

/// A page of actions, newest first, and how many are remembered.
pub(crate) async fn actions(
    handle: &ShardHandle,
    skip: usize,
    limit: usize,
) -> Result<(Vec<ListedAction>, usize), AskError> {
    let look = move |shard: &shard::Shard| {
        let actions = &shard.documents().actions;
        let page = actions.newest_first().skip(skip).take(limit);
        let page = page.map(|(name, entry)| (name.clone(), Arc::clone(entry))).collect();
        (page, actions.len())
    };
    handle.look(look).await
}

/// Tasks that one read of the store takes.
const PAGE_TASKS: u32 = 500;
/// Where a job stands that is not over.
pub(crate) const OPEN: [StateWord; 4] =
    [StateWord::Waiting, StateWord::Queued, StateWord::Retrying, StateWord::Running];

/// Forgets a plan, unless jobs of it are open.
pub(crate) async fn delete(
    app: &App,
    handle: &ShardHandle,
    plan_id: &str,
) -> Result<(), PlanError> {
    let key = plan_id.to_owned();
    if plan(&*app.store, handle, plan_id).await?.is_none() {
        return Err(PlanError::NoPlan(key));
    }
    for task_type in [PLAN, PLAN_STEP] {
        if is_open(app, handle.shard(), task_type, plan_id).await? {
            return Err(PlanError::PlanActive(key));
        }
    }
    // A job that is made of it meanwhile has its own copy.
    let is_gone = handle.change(move |documents| documents.plans.remove(&key)).await?;
    is_gone.then_some(()).ok_or_else(|| PlanError::NoPlan(plan_id.to_owned()))
}

/// The name of the plan in a job's parameters.
#[derive(Deserialize)]
struct OfPlan {
    plan_id: String,
}

/// Whether any open task of this type executes the plan. Every open one is looked at: there are
/// no more than live tasks.
async fn is_open(
    app: &App,
    shard: ShardId,
    task_type: &str,
    plan_id: &str,
) -> Result<bool, StoreError> {
    let mut query = PageQuery {
        states: OPEN.to_vec(),
        task_types: vec![task_type.parse().expect("our own word")],
        limit: PAGE_TASKS,
        ..PageQuery::default()
    };
    loop {
        let page = app.store.list(shard, query.clone()).await?;
        let is_its = |parameters: &[u8]| {
            serde_json::from_slice::<OfPlan>(parameters).is_ok_and(|job| job.plan_id == plan_id)
        };
        if page.tasks.iter().any(|record| is_its(&record.parameters)) {
            return Ok(true);
        }
        match page.next_before {
            Some(next) => query.before = Some(next),
            None => return Ok(false),
        }
    }
}
