//! What is counted for one tenant.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use coordinator::{Grant, Judgement, Load, Verdict};
use model::{TaskId, TenantId, Timestamp, TypeName};
use parking_lot::Mutex;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use shard::projection::{Numbers, Publication};

use super::table::{Families, RetryLabel, TenantLabel, TypeLabels, VerdictLabels};

/// Limit: distinct values of `node_type` per tenant; further types count as `other`.
pub const NODE_TYPES_PER_TENANT_MAX: usize = 500;
/// Limit: leases whose latency is measured at the same time; further ones are only counted.
const TRACKED_LEASES_PER_TENANT_MAX: usize = 1_000_000;
const OTHER: &str = "other";

pub(super) const REJECTED: &str = "REJECTED";
/// In the order of [`verdict_idx`].
const VERDICTS: [&str; 3] = ["COMMITTED", "CANCELLED", REJECTED];

fn verdict_idx(verdict: Verdict) -> usize {
    match verdict {
        Verdict::Committed => 0,
        Verdict::Cancelled(_) => 1,
        Verdict::Rejected(_) => 2,
    }
}

/// Why an attempt is followed by another.
const RETRY_REASONS: [&str; 4] = ["failed", "expired", "timed_out", "undelivered"];

/// The numbers of one tenant, kept at hand.
pub struct TenantMetrics {
    tenant: String,
    families: Arc<Families>,
    /// In the order of [`RETRY_REASONS`].
    retries: [Counter; 4],
    submitted: Counter,
    live: Gauge,
    ready: Gauge,
    in_flight: Gauge,
    verdicts: [Counter; 3],
    leases: Mutex<Leases>,
}

/// The types of a tenant, and which of its leases are out.
#[derive(Default)]
struct Leases {
    types: HashMap<TypeName, Arc<TypeMetrics>, foldhash::fast::RandomState>,
    out: HashMap<TaskId, LeaseOut, foldhash::fast::RandomState>,
}

struct TypeMetrics {
    dispatched: Counter,
    latency_ms: Histogram,
}

struct LeaseOut {
    granted_at: Timestamp,
    of_type: Arc<TypeMetrics>,
}

impl TenantMetrics {
    pub(super) fn new(tenant: &TenantId, families: Arc<Families>) -> Self {
        let tenant = tenant.to_string();
        let label = TenantLabel { tenant: tenant.clone() };
        let verdicts = VERDICTS.map(|verdict| {
            let labels = VerdictLabels { tenant: tenant.clone(), verdict };
            families.reports_total.get_or_create_owned(&labels)
        });
        let retries = RETRY_REASONS
            .map(|reason| families.cmd_retry_total.get_or_create_owned(&RetryLabel { reason }));
        Self {
            submitted: families.tasks_submitted_total.get_or_create_owned(&label),
            live: families.tasks_live.get_or_create_owned(&label),
            ready: families.tasks_ready.get_or_create_owned(&label),
            in_flight: families.inflight_tasks.get_or_create_owned(&label),
            verdicts,
            leases: Mutex::default(),
            retries,
            families,
            tenant,
        }
    }

    /// Counts what became true in one durable turn, and how long its transaction took.
    pub fn observe_turn(&self, turn: &Publication, took: Duration) {
        let Numbers { failed, expired, timed_out_retried, undelivered, .. } = turn.numbers;
        self.submitted.inc_by(turn.numbers.submitted);
        for (retries, n) in
            self.retries.iter().zip([failed, expired, timed_out_retried, undelivered])
        {
            retries.inc_by(n);
        }
        self.forget_ended(&turn.numbers.ended, turn.at);
        self.set_load(turn.load);
        if turn.n_facts > 0 {
            self.families.store_commit_ms.observe(took.as_secs_f64() * 1e3);
            let n_facts = u32::try_from(turn.n_facts).unwrap_or(u32::MAX);
            self.families.store_commit_changes.observe(n_facts.into());
        }
    }

    /// Counts verdicts.
    pub fn observe_verdicts(&self, judgements: &[Judgement]) {
        let mut counts = [0_u64; 3];
        for judgement in judgements {
            counts[verdict_idx(judgement.verdict)] += 1;
        }
        for (verdict, count) in self.verdicts.iter().zip(counts).filter(|(_, count)| *count > 0) {
            verdict.inc_by(count);
        }
    }

    /// Says how many tasks the shard holds in memory.
    pub(crate) fn set_load(&self, load: Load) {
        self.live.set(load.live.cast_signed());
        self.ready.set(load.ready.cast_signed());
        self.in_flight.set(load.in_flight.cast_signed());
    }

    /// Counts leases that were handed to workers, and remembers when, until they end. A batch mostly
    /// shares one specification, so the type is looked up where it changes and not for each grant.
    pub fn observe_grants(&self, grants: &[Grant], now: Timestamp) {
        let mut leases = self.leases.lock();
        for alike in grants.chunk_by(|a, b| Arc::ptr_eq(&a.spec, &b.spec)) {
            let of_type =
                leases.of_type(&self.tenant, &self.families, &alike[0].spec.demand.task_type);
            of_type.dispatched.inc_by(alike.len() as u64);
            for grant in alike {
                if leases.out.len() >= TRACKED_LEASES_PER_TENANT_MAX {
                    break;
                }
                let out = LeaseOut { granted_at: now, of_type: Arc::clone(&of_type) };
                leases.out.insert(grant.lease.task, out);
            }
        }
    }

    /// Measures the leases that a committed report ended, and forgets all that ended.
    fn forget_ended(&self, ended: &[(TaskId, bool)], now: Timestamp) {
        if ended.is_empty() {
            return;
        }
        let mut leases = self.leases.lock();
        for (task, is_reported) in ended {
            let Some(out) = leases.out.remove(task) else { continue };
            if *is_reported {
                let millis = now.since(out.granted_at).as_secs_f64() * 1e3;
                out.of_type.latency_ms.observe(millis);
            }
        }
    }
}

impl Leases {
    fn of_type(&mut self, tenant: &str, families: &Families, name: &TypeName) -> Arc<TypeMetrics> {
        if let Some(found) = self.types.get(name) {
            return Arc::clone(found);
        }
        let has_room = self.types.len() < NODE_TYPES_PER_TENANT_MAX;
        let node_type = if has_room { name.as_str() } else { OTHER };
        let labels = TypeLabels { tenant: tenant.to_owned(), node_type: node_type.to_owned() };
        let made = Arc::new(TypeMetrics {
            dispatched: families.cmd_dispatch_total.get_or_create_owned(&labels),
            latency_ms: families.result_latency_ms.get_or_create_owned(&labels),
        });
        if has_room {
            self.types.insert(name.clone(), Arc::clone(&made));
        }
        made
    }
}
