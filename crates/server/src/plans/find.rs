//! Jobs by name.

use coordinator::{LoadKey, TaskRecord};
use model::{ShardId, TaskId};
use store::StoreError;

use super::job::{check_name, name_key};
use crate::app::App;

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
