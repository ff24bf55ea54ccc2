//! Facts of a tenant in the log, once they are durable.

use model::TenantId;
use shard::projection::LogLine;

/// Writes one fact of a durable turn.
pub(crate) fn write(tenant: &TenantId, line: LogLine) {
    match line {
        LogLine::SessionOpened { worker, instance_id, session_id, is_resumed } => tracing::info!(
            %tenant, worker, sender.id = instance_id, session_id, resumed = is_resumed,
            "session opened"
        ),
        LogLine::SessionEnded { instance_id } => {
            tracing::info!(%tenant, sender.id = instance_id, "session ended");
        }
        LogLine::WorkerDrained { worker, by } => {
            tracing::info!(%tenant, %worker, by, on = true, "worker drain");
        }
        LogLine::WorkerUndrained { worker } => {
            tracing::info!(%tenant, %worker, on = false, "worker drain");
        }
        LogLine::JobTimedOut { worker } => {
            tracing::warn!(%tenant, %worker, "a job went over its time; the worker may hang");
        }
    }
}
