//! What is observed of workers: logs, metrics, events, and what never enters the coordinator.

use std::borrow::Cow;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use model::WorkerId;
use protocol::rest::events::{
    EventKind, HeartbeatMetrics, HeartbeatPackages, HeartbeatWords, WorkerHeartbeatData,
    WorkerPackageData,
};
use protocol::rest::workers::KeptResources;
use protocol::session::payload::control::{Heartbeat, Metrics, ResourceMetrics};
use protocol::session::payload::package::{InstallOutcome, PackageEvent};
use protocol::session::payload::resource::ResourceChunk;
use serde::Deserialize;
use shard::sessions::{HeartbeatFacts, LinkMessage, SessionRecord};
use shard::worker_link::{LinkEvent, read_number};

use super::driver::{Done, Driver};
use crate::directory::Tenant;
use crate::resources::ReadFailure;

/// The worker no longer keeps the resource.
const MISSING: &str = "E.RESOURCE.MISSING";

impl Driver {
    pub(super) fn observe(&mut self, event: LinkEvent) {
        match event {
            LinkEvent::Opened { .. } | LinkEvent::Closed | LinkEvent::MissedHeartbeat => {
                self.count(&event);
            }
            LinkEvent::PingDue => self.is_ping_due = true,
            LinkEvent::Heartbeat(heartbeat) => self.on_heartbeat(&heartbeat),
            LinkEvent::Package(package) => self.on_package(&package),
            LinkEvent::Chunk(chunk) => self.on_chunk(*chunk),
            LinkEvent::ReportRefused => {
                if let Some(tenant) = &self.tenant {
                    self.app.metrics.observe_refused_reports(tenant, 1);
                }
            }
            LinkEvent::Artifacts(artifacts) => {
                if let Some((tenant, worker)) = self.served() {
                    tenant.resources.note_artifacts(worker, &artifacts, self.now());
                }
            }
            LinkEvent::Feedback { request, lease, feedback } => {
                let (hub, handle) = (Arc::clone(&self.app.feedback), self.handle.clone());
                self.work.later(async move {
                    let _ = hub.take(lease, *feedback, handle.as_ref()).await;
                    Done::Stored { request }
                });
            }
            other => self.log(&other),
        }
    }

    fn count(&mut self, event: &LinkEvent) {
        let Some(metrics) = &self.metrics else { return };
        match (event, self.link.worker()) {
            (LinkEvent::Opened { .. }, _) => metrics.connected(),
            (LinkEvent::Closed, _) => {
                metrics.disconnected();
                // Readers hear of it, and ask again.
                self.reads.clear();
            }
            (_, Some(worker)) => metrics.missed_heartbeat(worker.as_str()),
            (_, None) => {}
        }
    }

    fn log(&self, event: &LinkEvent) {
        let worker = self.link.worker().map_or("?", WorkerId::as_str);
        match event {
            LinkEvent::Ended { session_id, code } => {
                tracing::info!(session_id, code = code.name(), "session reset");
            }
            LinkEvent::Refused { code, reason } => {
                tracing::info!(code = code.name(), reason, "worker refused");
            }
            LinkEvent::Unreadable { why } => {
                tracing::debug!(worker, why, "frame cannot be read");
            }
            LinkEvent::FrameRefused { kind, id, corr, why } => {
                tracing::info!(worker, r#type = kind, id, corr, why, "frame refused");
            }
            LinkEvent::GaveUp { id } => tracing::warn!(id, "frame was never confirmed"),
            LinkEvent::Misread { what, why } => {
                tracing::info!(worker, why, "{what} refused");
            }
            LinkEvent::HeartbeatRejected { lease, violation } => {
                tracing::warn!(worker, %lease, ?violation, "heartbeat rejected");
            }
            LinkEvent::Pressure { on } => {
                tracing::warn!(worker, on, "worker reports that memory or disk is almost full");
            }
            // The others are not for the log.
            _ => {}
        }
    }

    /// The worker of this connection and what the server holds of its tenant. What a worker says
    /// while its shard is lost is said again in the next heartbeat.
    fn served(&self) -> Option<(Arc<Tenant>, &WorkerId)> {
        Some((self.handle.as_ref()?.tenant().ok()?, self.link.worker()?))
    }

    fn on_heartbeat(&self, heartbeat: &Heartbeat) {
        let Some((tenant, worker)) = self.served() else { return };
        let now = self.now();
        tenant.events.tell(EventKind::WorkerHeartbeat, worker, || {
            heartbeat_data(worker, now.to_string(), self.record.as_deref(), heartbeat)
        });
        let metrics = &heartbeat.metrics;
        let told = told_resources(metrics);
        let facts = HeartbeatFacts {
            at: now,
            healthy: heartbeat.healthy,
            cpu_pct: metrics.cpu_pct,
            mem_pct: metrics.mem_pct,
            disk_pct: metrics.disk_pct,
            inflight: metrics.inflight,
            resources: told.as_ref().map(kept_resources),
        };
        if let Some(handle) = &self.handle {
            handle.tell_link(self.id, LinkMessage::Heartbeat(Box::new(facts)));
        }
        if let Some(told) = told {
            tenant.resources.note_heartbeat(worker, told, now);
        }
    }

    fn on_package(&self, event: &PackageEvent) {
        let Some((tenant, worker)) = self.served() else { return };
        tracing::info!(%worker, ?event, "package event");
        tenant.events.tell(EventKind::WorkerPackage, worker, || {
            let status = match event.status {
                InstallOutcome::Installed => "installed",
                InstallOutcome::Failed => "failed",
            };
            WorkerPackageData {
                kind: EventKind::WorkerPackage.word().into(),
                worker_name: worker.as_str().into(),
                package: event.name.as_str().into(),
                version: event.version.as_str().into(),
                status: status.into(),
                message: event.details.as_ref().and_then(|details| message(details.get())),
            }
        });
    }

    /// A part of a resource goes to whoever waits for it. A reader that has gone misses nothing.
    fn on_chunk(&mut self, chunk: ResourceChunk) {
        let number = read_number(&chunk.request_id);
        let reply = number.and_then(|number| self.reads.remove(&number));
        let Some(reply) = reply else { return };
        let answer = match chunk.error {
            Some(error) if error.code == MISSING => Err(ReadFailure::Missing),
            Some(error) => Err(ReadFailure::Unreadable(error.message)),
            None => match STANDARD.decode(chunk.data) {
                Ok(bytes) => Ok(Bytes::from(bytes)),
                Err(error) => Err(ReadFailure::Unreadable(error.to_string())),
            },
        };
        let _ = reply.send(answer);
    }
}

/// What a worker says that it keeps.
fn told_resources(metrics: &Metrics) -> Option<ResourceMetrics> {
    serde_json::from_str(metrics.others.get("resources")?.get()).ok()
}

/// How much that is, for people.
fn kept_resources(told: &ResourceMetrics) -> KeptResources {
    let ResourceMetrics { count, disk_bytes, mem_bytes, in_use, .. } = *told;
    KeptResources { count, in_use, disk_bytes, mem_bytes }
}

fn heartbeat_data<'a>(
    worker: &'a WorkerId,
    at: String,
    record: Option<&'a SessionRecord>,
    heartbeat: &'a Heartbeat,
) -> WorkerHeartbeatData<'a> {
    let metrics = &heartbeat.metrics;
    let drift = heartbeat.packages.and_then(|packages| packages.drift);
    let text = |pick: fn(&SessionRecord) -> &str| Cow::from(record.map_or("", pick));
    WorkerHeartbeatData {
        kind: EventKind::WorkerHeartbeat.word().into(),
        worker_name: worker.as_str().into(),
        at: at.into(),
        queues: record.map(|record| queues(record.register.get())).unwrap_or_default(),
        instance_id: text(|record| &record.instance_id),
        hostname: text(|record| &record.hostname),
        version: text(|record| &record.version),
        connected: true,
        registered: record.is_some_and(|record| !record.version.is_empty()),
        heartbeat: HeartbeatWords {
            healthy: heartbeat.healthy,
            metrics: HeartbeatMetrics {
                inflight: metrics.inflight,
                cpu_pct: metrics.cpu_pct,
                mem_pct: metrics.mem_pct,
                disk_pct: metrics.disk_pct,
                latency_ms: metrics.latency_ms,
            },
            packages: drift.map(|drift| HeartbeatPackages { drift }),
        },
    }
}

/// The queues of a worker: what it registered as its channels.
fn queues<'a>(register: &str) -> Vec<Cow<'a, str>> {
    #[derive(Deserialize)]
    struct Channels {
        channels: Option<Vec<String>>,
    }
    let channels = serde_json::from_str::<Channels>(register).ok();
    let channels = channels.and_then(|registered| registered.channels).unwrap_or_default();
    channels.into_iter().map(Cow::from).collect()
}

/// What happened, where a worker says so in words.
fn message<'a>(details: &str) -> Option<Cow<'a, str>> {
    #[derive(Deserialize)]
    struct Details {
        message: Option<String>,
    }
    let details = serde_json::from_str::<Details>(details).ok()?;
    details.message.map(Cow::from)
}
