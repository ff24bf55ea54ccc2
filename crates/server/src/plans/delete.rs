//! Forgetting a plan: only one whose jobs are all over.

use coordinator::StateWord;
use model::ShardId;
use protocol::plan::{PLAN, PLAN_STEP};
use serde::Deserialize;
use store::{PageQuery, StoreError};

use super::kept::{self, KeepError};
use crate::app::App;
use crate::handle::ShardHandle;

/// Tasks that one read of the store takes.
const PAGE_TASKS: u32 = 500;
/// Where a job stands that is not over.
pub(crate) const OPEN: [StateWord; 4] =
    [StateWord::Waiting, StateWord::Queued, StateWord::Retrying, StateWord::Running];

/// Why a plan stays.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DeleteError {
    /// It cannot be forgotten.
    #[error(transparent)]
    Keep(#[from] KeepError),
    /// Somebody waits for its jobs.
    #[error("Plan has active jobs: {0}")]
    Active(String),
}

/// Forgets a plan, unless jobs of it are open.
pub(crate) async fn delete(
    app: &App,
    handle: &ShardHandle,
    plan_id: &str,
) -> Result<(), DeleteError> {
    if kept::plan(&*app.store, handle, plan_id).await?.is_none() {
        return Err(KeepError::NoPlan(plan_id.to_owned()).into());
    }
    for task_type in [PLAN, PLAN_STEP] {
        if is_open(app, handle.shard(), task_type, plan_id).await.map_err(KeepError::Store)? {
            return Err(DeleteError::Active(plan_id.to_owned()));
        }
    }
    // A job that is made of it meanwhile has its own copy.
    Ok(kept::remove_plan(handle, plan_id).await?)
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
