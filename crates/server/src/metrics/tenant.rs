//! What is counted for one tenant.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use coordinator::{Grant, Judgement, Load};
use model::{TaskId, TenantId, Timestamp, TypeName};
use parking_lot::Mutex;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use shard::projection::Publication;

use super::{CommitMetrics, Families, TenantLabel, TypeLabels, VerdictLabels, verdict_of};

/// Limit: distinct values of `node_type` per tenant; further types count as `other`.
pub const NODE_TYPES_PER_TENANT_MAX: usize = 500;
/// Limit: leases whose latency is measured at the same time; further ones are only counted.
const TRACKED_LEASES_PER_TENANT_MAX: usize = 1_000_000;
const OTHER: &str = "other";

/// The three verdicts, as a position in an array.
#[derive(Clone, Copy, Debug)]
pub(super) enum TenantVerdict {
    Committed,
    Cancelled,
    Rejected,
}

impl TenantVerdict {
    pub(super) const ALL: [Self; 3] = [Self::Committed, Self::Cancelled, Self::Rejected];

    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Committed => "COMMITTED",
            Self::Cancelled => "CANCELLED",
            Self::Rejected => "REJECTED",
        }
    }
}

/// The numbers of one tenant, kept at hand.
pub struct TenantMetrics {
    tenant: String,
    families: Families,
    commits: CommitMetrics,
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
    pub(super) fn new(tenant: &TenantId, families: &Families, commits: &CommitMetrics) -> Self {
        let tenant = tenant.to_string();
        let label = TenantLabel { tenant: tenant.clone() };
        let verdicts = TenantVerdict::ALL.map(|verdict| {
            let labels = VerdictLabels { tenant: tenant.clone(), verdict: verdict.word() };
            families.reports.get_or_create_owned(&labels)
        });
        Self {
            submitted: families.submitted.get_or_create_owned(&label),
            live: families.live.get_or_create_owned(&label),
            ready: families.ready.get_or_create_owned(&label),
            in_flight: families.in_flight.get_or_create_owned(&label),
            verdicts,
            leases: Mutex::default(),
            families: families.clone(),
            commits: commits.clone(),
            tenant,
        }
    }

    /// Counts what became true in one durable turn, and how long its transaction took.
    pub fn observe_turn(&self, turn: &Publication, took: Duration) {
        let CommitMetrics { retries, took_ms, changes } = &self.commits;
        self.submitted.inc_by(turn.numbers.submitted);
        retries.count(&turn.numbers);
        self.forget_ended(&turn.numbers.ended, turn.at);
        self.set_load(turn.load);
        if turn.n_facts > 0 {
            took_ms.observe(took.as_secs_f64() * 1e3);
            changes.observe(u32::try_from(turn.n_facts).unwrap_or(u32::MAX).into());
        }
    }

    /// Counts verdicts.
    pub fn observe_verdicts(&self, judgements: &[Judgement]) {
        let mut counts = [0_u64; 3];
        for judgement in judgements {
            counts[verdict_of(judgement.verdict) as usize] += 1;
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
            dispatched: families.dispatch.get_or_create_owned(&labels),
            latency_ms: families.result_latency_ms.get_or_create_owned(&labels),
        });
        if has_room {
            self.types.insert(name.clone(), Arc::clone(&made));
        }
        made
    }
}
