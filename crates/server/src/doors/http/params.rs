//! What stands in the path and behind the question mark.

use std::sync::Arc;

use axum::extract::{FromRequestParts, Path, Query};
use axum::http::request::Parts;
use model::{RunId, ShardId, TaskId};
use protocol::error_code::ErrorCode;
use uuid::Uuid;

use super::convert::{NumberRange, PAGE_LIMIT, PAGE_OFFSET};
use crate::app::App;
use crate::runs::start;
use crate::wire_words::problem::ApiError;

/// The one name in a path, as it was sent. Text that is not UTF-8 names nothing, as empty text.
pub(super) struct PathName(String);

impl FromRequestParts<Arc<App>> for PathName {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, ApiError> {
        let name = Path::<String>::from_request_parts(parts, app).await;
        Ok(Self(name.map(|Path(name)| name).unwrap_or_default()))
    }
}

impl PathName {
    pub(super) fn as_str(&self) -> &str {
        &self.0
    }

    /// The task of this shard that the path names.
    pub(super) fn task(&self, shard: ShardId) -> Result<TaskId, ApiError> {
        let task: TaskId = self.0.parse().map_err(|_| ApiError::no_such_task())?;
        if task.shard() == shard { Ok(task) } else { Err(ApiError::no_such_task()) }
    }

    /// The run of this shard that the path names, by its id or its number.
    pub(super) fn run(&self, shard: ShardId) -> Result<RunId, ApiError> {
        start::by_name(&self.0, shard).ok_or_else(ApiError::no_such_run)
    }
}

/// The two names in a path, as they were sent: a run and one of its nodes.
pub(super) struct RunNodePath(PathName, String);

impl FromRequestParts<Arc<App>> for RunNodePath {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, ApiError> {
        let names = Path::<(String, String)>::from_request_parts(parts, app).await;
        let (run, node) = names.map(|Path(names)| names).unwrap_or_default();
        Ok(Self(PathName(run), node))
    }
}

impl RunNodePath {
    /// The run, and the id of the node, which may still be none of its nodes.
    pub(super) fn run_and_node(&self, shard: ShardId) -> Result<(RunId, Uuid), ApiError> {
        let run = self.0.run(shard)?;
        let node = Uuid::try_parse(&self.1).map_err(|_| ApiError::no_such_node(&self.1))?;
        Ok((run, node))
    }
}

/// The pairs behind the question mark; each must be taken by name.
pub(super) struct QueryPairs(Vec<(String, String)>);

impl FromRequestParts<Arc<App>> for QueryPairs {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &Arc<App>) -> Result<Self, ApiError> {
        let pairs = Query::try_from_uri(&parts.uri).map_err(|_| {
            ApiError::new(ErrorCode::RequestInvalid, "the query is not `name=value&...`")
        })?;
        Ok(Self(pairs.0))
    }
}

impl QueryPairs {
    /// Refuses names that are not asked for: a typing error must not silently widen a list.
    pub(super) fn only(self, names: &[&str]) -> Result<Self, ApiError> {
        match self.0.iter().find(|(name, _)| !names.contains(&name.as_str())) {
            None => Ok(self),
            Some((stranger, _)) => Err(ApiError::invalid(
                format_args!("query parameter `{stranger}`"),
                format_args!("is not known here; known: {}", names.join(", ")),
            )),
        }
    }

    /// All of them, for whoever takes what comes.
    pub(super) fn pairs(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// Every value of this name; an empty one counts as absent.
    pub(super) fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        let of_name = move |pair: &&(String, String)| pair.0 == name && !pair.1.is_empty();
        self.0.iter().filter(of_name).map(|(_, value)| value.as_str())
    }

    pub(super) fn first(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|pair| pair.0 == name && !pair.1.is_empty()).map(|pair| pair.1.as_str())
    }

    /// How many are passed over, and how many are shown after them.
    pub(super) fn page(&self, limit_default: i64) -> Result<(usize, usize), ApiError> {
        let skip = self.number(PAGE_OFFSET)?.unwrap_or(0);
        let limit = self.number(PAGE_LIMIT)?.unwrap_or(limit_default);
        let whole = |number: i64| usize::try_from(number).unwrap_or(usize::MAX);
        Ok((whole(skip), whole(limit)))
    }

    /// A number of this name, if it is given.
    pub(super) fn number(&self, range: NumberRange) -> Result<Option<i64>, ApiError> {
        self.first(range.name()).map(|value| range.parse(value)).transpose()
    }
}
