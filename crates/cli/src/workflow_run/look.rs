//! A run as the server sees it.

use protocol::rest::runs::Run;

pub(crate) use super::row::name_of;
use crate::context::Context;
use crate::failure::Result;
use crate::words;

/// Where a run is found; its id or its number.
pub(crate) fn path(run: &str) -> String {
    format!("/api/v1/runs/{}", words::percent_encoded(run))
}

/// The run with its nodes.
pub(crate) async fn look(context: &Context, run: &str) -> Result<Run> {
    context.ask(context.client.get(&path(run))).await
}
