//! A run by what people call it.

use coordinator::RunRecord;
use model::{RunId, ShardId};
use store::{RunQuery, StoreError};

use crate::app::App;

/// The run of this shard that a text names: its UUID, or its number.
pub(crate) fn by_name(name: &str, shard: ShardId) -> Option<RunId> {
    if !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_digit()) {
        let number: u64 = name.parse().ok()?;
        let fits = number <= shard.last_task().number();
        return fits.then(|| RunId::of(shard, number));
    }
    name.parse().ok().filter(|run: &RunId| run.shard() == shard)
}

/// A run as it is durable, without its definition, which may be large.
pub(crate) async fn row(app: &App, run: RunId) -> Result<Option<RunRecord>, StoreError> {
    let shard = run.shard();
    let after = RunId::of(shard, run.number().saturating_add(1).min(shard.last_task().number()));
    let query = RunQuery { before: Some(after), limit: 1, ..RunQuery::default() };
    let page = app.store.runs(shard, query).await?;
    Ok(page.runs.into_iter().next().filter(|record| record.id == run))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_has_two_names_and_only_in_its_own_shard() {
        let shard = ShardId::new(3).expect("fits");
        let run = RunId::of(shard, 41);
        assert_eq!(by_name("41", shard), Some(run));
        assert_eq!(by_name(&run.to_string(), shard), Some(run));
        assert_eq!(by_name(&run.to_string(), ShardId::new(4).expect("fits")), None);
        for wrong in ["", "x", "-1", "+1", "1099511627776", "99999999999999999999999"] {
            assert_eq!(by_name(wrong, shard), None, "{wrong}");
        }
    }
}
