//! What can happen in a random history.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use model::{IdempotencyMark, NewTask, Offer, RetryPolicy, TaskSpec, Timestamp};
use proptest::collection::vec;
use proptest::option::weighted;
use proptest::prelude::*;
use proptest::sample::Index;

use crate::story::{plain_spec, plain_task};

/// One thing that happens.
#[derive(Clone, Debug)]
pub(super) enum Deed {
    Submit(Vec<Wish>),
    Ask {
        worker: u8,
        offer: u8,
        max: u32,
        wait_s: u64,
        confirm: bool,
    },
    Beat {
        worker: u8,
        leases: Vec<LeasePick>,
    },
    Report {
        worker: Option<u8>,
        leases: Vec<LeasePick>,
        what: What,
        key: u8,
    },
    Stop(Index),
    Requeue(Index),
    Watch(Index, u64),
    Explain(Index),
    /// The asker of one of the open requests goes away.
    Withdraw(Index),
    /// A grant could not be delivered.
    Return(LeasePick),
    Pass(u64),
    /// Time passes and the sweep is late.
    Oversleep(u64),
    /// One of the loads under way comes back, or fails.
    Load(Index, bool),
    Restart,
}

/// A task to submit.
#[derive(Clone, Debug)]
pub(super) struct Wish {
    spec: u8,
    delay_s: Option<u64>,
    concurrency_key: Option<u8>,
    idempotency_key: Option<(u8, u64)>,
    pub(super) after: Vec<AfterPick>,
}

/// A task to wait for: one of the newest, or any.
#[derive(Clone, Debug)]
pub(super) struct AfterPick {
    pub(super) task: Index,
    pub(super) is_near: bool,
}

/// Mostly a lease that was granted; sometimes one that never was, or of another tenant.
#[derive(Clone, Debug)]
pub(super) struct LeasePick {
    pub(super) lease: Index,
    pub(super) epochs_later: u32,
    pub(super) is_foreign: bool,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum What {
    Completed,
    Failed,
    FailedForGood,
}

pub(super) fn any_history() -> impl Strategy<Value = Vec<Deed>> {
    vec(any_deed(), 1..150)
}

fn any_deed() -> impl Strategy<Value = Deed> {
    let what = prop_oneof![Just(What::Completed), Just(What::Failed), Just(What::FailedForGood)];
    let report = (weighted(0.1, 0..4_u8), vec(any_lease(), 1..4), what, 0..3_u8);
    prop_oneof![
        6 => vec(any_wish(), 1..5).prop_map(Deed::Submit),
        8 => any_request(),
        3 => (0..4_u8, vec(any_lease(), 0..3))
            .prop_map(|(worker, leases)| Deed::Beat { worker, leases }),
        8 => report.prop_map(|(worker, leases, what, key)| {
            Deed::Report { worker, leases, what, key }
        }),
        1 => any::<Index>().prop_map(Deed::Stop),
        2 => any::<Index>().prop_map(Deed::Requeue),
        1 => (any::<Index>(), 0..20_u64).prop_map(|(task, wait_s)| Deed::Watch(task, wait_s)),
        1 => any::<Index>().prop_map(Deed::Explain),
        1 => any::<Index>().prop_map(Deed::Withdraw),
        1 => any_lease().prop_map(Deed::Return),
        6 => prop_oneof![0..100_u64, 0..12_000_u64].prop_map(Deed::Pass),
        2 => (0..12_000_u64).prop_map(Deed::Oversleep),
        4 => (any::<Index>(), prop::bool::weighted(0.9))
            .prop_map(|(load, succeeds)| Deed::Load(load, succeeds)),
        1 => Just(Deed::Restart),
    ]
}

fn any_request() -> impl Strategy<Value = Deed> {
    let wait_s = prop_oneof![Just(0), 0..30_u64];
    let parts = (0..4_u8, 0..3_u8, 0..4_u32, wait_s, prop::bool::weighted(0.2));
    parts.prop_map(|(worker, offer, max, wait_s, confirm)| Deed::Ask {
        worker,
        offer,
        max,
        wait_s,
        confirm,
    })
}

fn any_wish() -> impl Strategy<Value = Wish> {
    let key = weighted(0.3, (0..4_u8, prop_oneof![9 => Just(1_u64), 1 => Just(2_u64)]));
    let pick = (any::<Index>(), any::<bool>());
    let pick = pick.prop_map(|(task, is_near)| AfterPick { task, is_near });
    let after = prop_oneof![2 => Just(Vec::new()), 1 => vec(pick, 1..4)];
    let parts = (0..4_u8, weighted(0.2, 0..20_u64), weighted(0.3, 0..2_u8), key, after);
    parts.prop_map(|(spec, delay_s, concurrency_key, idempotency_key, after)| Wish {
        spec,
        delay_s,
        concurrency_key,
        idempotency_key,
        after,
    })
}

fn any_lease() -> impl Strategy<Value = LeasePick> {
    let epochs_later = prop_oneof![20 => Just(0), 1 => 1..3_u32];
    let parts = (any::<Index>(), epochs_later, prop::bool::weighted(0.02));
    parts.prop_map(|(lease, epochs_later, is_foreign)| LeasePick {
        lease,
        epochs_later,
        is_foreign,
    })
}

impl Wish {
    pub(super) fn to_task(&self, now: Timestamp) -> NewTask {
        let key = |number: u8| format!("key-{number}").parse().expect("a key");
        NewTask {
            spec: Arc::new(spec(self.spec)),
            not_before: self.delay_s.map(|delay_s| now.after(Duration::from_secs(delay_s))),
            concurrency_key: self
                .concurrency_key
                .map(|number| format!("flight-{number}").parse().expect("a key")),
            idempotency: self
                .idempotency_key
                .map(|(number, fingerprint)| IdempotencyMark { key: key(number), fingerprint }),
            ..plain_task()
        }
    }
}

/// Four kinds of tasks: plain; urgent with one try; with a tool and a timeout; of another type.
fn spec(number: u8) -> TaskSpec {
    let mut spec = TaskSpec { lease_ttl: Duration::from_secs(10), ..plain_spec() };
    match number {
        0 => {}
        1 => {
            spec.priority = 5;
            spec.retry.max_attempts = 1;
        }
        2 => {
            spec.demand.tools = BTreeSet::from(["x".parse().expect("a tool")]);
            spec.timeout = Some(Duration::from_secs(9));
            spec.retry = RetryPolicy { max_attempts: 5, ..spec.retry };
        }
        _ => {
            spec.demand.task_type = "other".parse().expect("a type");
            spec.priority = -1;
            spec.retry.backoff = Duration::ZERO;
        }
    }
    spec
}

/// Three kinds of workers: one with the tool, one without, one for the other type alone.
pub(super) fn offer(number: u8) -> Offer {
    match number {
        0 => Offer { tools: BTreeSet::from(["x".parse().expect("a tool")]), ..Offer::default() },
        1 => Offer::default(),
        _ => {
            let types = BTreeSet::from(["other".parse().expect("a type")]);
            Offer { types: Some(types), ..Offer::default() }
        }
    }
}
