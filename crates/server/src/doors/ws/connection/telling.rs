//! What workers say of themselves, for those who watch.

use std::borrow::Cow;

use model::WorkerId;
use protocol::rest::events::{
    EventKind, HeartbeatMetrics, HeartbeatPackages, HeartbeatWords, WorkerHeartbeatData,
    WorkerPackageData,
};
use protocol::session::payload::heartbeat::Heartbeat;
use protocol::session::payload::package::{InstallOutcome, PackageEvent};
use serde::Deserialize;

use super::Connection;
use crate::sessions::SessionRecord;

impl Connection {
    pub(super) fn tell_heartbeat(&self, heartbeat: &Heartbeat) {
        let Some(desk) = &self.desk else { return };
        let events = self.app.events.of(&desk.tenant, desk.handle.shard());
        events.tell(EventKind::WorkerHeartbeat, &desk.worker, || {
            let view = self.app.sessions.view(&desk.tenant, &desk.worker);
            let record = view.and_then(|view| view.record);
            let at = self.now().to_string();
            heartbeat_data(&desk.worker, &desk.instance_id, at, (record, heartbeat))
        });
    }

    pub(super) fn tell_package(&self, event: &PackageEvent) {
        let Some(desk) = &self.desk else { return };
        let events = self.app.events.of(&desk.tenant, desk.handle.shard());
        events.tell(EventKind::WorkerPackage, &desk.worker, || {
            let status = match event.status {
                InstallOutcome::Installed => "installed",
                InstallOutcome::Failed => "failed",
            };
            WorkerPackageData {
                kind: EventKind::WorkerPackage.name().into(),
                worker_name: desk.worker.as_str().into(),
                package: event.name.as_str().into(),
                version: event.version.as_str().into(),
                status: status.into(),
                message: event.details.as_ref().and_then(|details| message(details.get())),
            }
        });
    }
}

fn heartbeat_data<'a>(
    worker: &'a WorkerId,
    instance_id: &'a str,
    at: String,
    (record, heartbeat): (Option<SessionRecord>, &'a Heartbeat),
) -> WorkerHeartbeatData<'a> {
    let metrics = &heartbeat.metrics;
    let drift = heartbeat.packages.and_then(|packages| packages.drift);
    let (hostname, version, queues) = record.map_or_else(Default::default, |record| {
        let queues = queues(record.register.get());
        (record.hostname, record.version, queues)
    });
    let registered = !version.is_empty();
    WorkerHeartbeatData {
        kind: EventKind::WorkerHeartbeat.name().into(),
        worker_name: worker.as_str().into(),
        at: at.into(),
        queues,
        instance_id: instance_id.into(),
        hostname: hostname.into(),
        version: version.into(),
        connected: true,
        registered,
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
        #[serde(default)]
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
