//! Runs that the clock starts: each moment once, whatever crashes, and as the overlap says.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use coordinator::{
    Overlap, Preparation, PrepareTicket, RunChange, ScheduleId, ScheduleSpec, TenantChange,
};
use model::{RunId, Timestamp};
use shard::Turn;
use store::RunKey;
use uuid::Uuid;

use super::book::{RunBook, SavedWorkflow};
use crate::agenda::Event;
use crate::consequence::Consequence;
use crate::oracle::Notes;
use crate::server::ShardAt;
use crate::workload::key_text;
use crate::world::{World, shard_of, tenant_of_shard};

/// The workflow that a schedule starts, by its number among those of the seed.
const SCHEDULED: u64 = 1_000;
const OVERLAPS: [Overlap; 4] = [Overlap::Skip, Overlap::Queue, Overlap::Allow, Overlap::Cancel];

/// The schedule of a tenant.
pub(crate) fn schedule_id(tenant: usize) -> ScheduleId {
    ScheduleId(Uuid::from_u128(0x5c4e_0000 + tenant as u128))
}

/// What the author of a tenant's schedule wrote.
pub(crate) fn schedule_spec(seed: u64, tenant: usize, wall: Timestamp) -> ScheduleSpec {
    ScheduleSpec {
        name: None,
        workflow_id: "scheduled".to_owned(),
        version: None,
        cron: format!("*/{} * * * * *", [4, 7][tenant % 2]),
        timezone: "UTC".to_owned(),
        inputs: Bytes::from_static(b"{}"),
        overlap: overlap_of(seed, tenant),
        paused: false,
        created_at: wall,
        created_by: "someone".to_owned(),
    }
}

fn overlap_of(seed: u64, tenant: usize) -> Overlap {
    let place = usize::try_from(seed / 3).unwrap_or(0).wrapping_add(tenant);
    OVERLAPS[place % OVERLAPS.len()]
}

/// What the facts say of schedules, for all tenants.
#[derive(Debug, Default)]
pub(crate) struct ScheduleBook {
    seed: u64,
    /// Moments whose runs are being prepared, and whether their server was lost meanwhile.
    preparing: BTreeMap<(usize, Timestamp), bool>,
    runs: BTreeMap<usize, BTreeSet<RunId>>,
}

impl ScheduleBook {
    /// A server took over: what the one before prepared is prepared anew.
    pub(crate) fn interrupted(&mut self, tenant: usize) {
        let own = self.preparing.iter_mut().filter(|((one, _), _)| *one == tenant);
        own.for_each(|(_, was_lost)| *was_lost = true);
    }

    /// A turn became durable.
    pub(crate) fn take(&mut self, turn: &Turn, runs: &RunBook, notes: &mut Notes) {
        let tenant = tenant_of_shard(turn.claim.shard);
        let mut started = BTreeSet::new();
        for change in &turn.runs {
            if let RunChange::RunStarted(record) = change
                && record.idempotency.as_ref().is_some_and(|mark| is_of_schedule(mark.key.as_str()))
            {
                started.insert(record.id);
            }
        }
        let mut fired = BTreeSet::new();
        for change in &turn.tenant {
            match change {
                TenantChange::ScheduleFired { progress, .. } => {
                    let Some(last) = &progress.last else { continue };
                    match last.outcome {
                        Ok(run) => drop(fired.insert(run)),
                        Err(_) => notes.happened(Consequence::ScheduleOverlapped),
                    }
                    if self.preparing.remove(&(tenant, last.due)) == Some(true) {
                        notes.happened(Consequence::ScheduleFiredAroundCrash);
                    }
                }
                TenantChange::ScheduleWaits { .. } => {
                    notes.happened(Consequence::ScheduleOverlapped);
                }
                _ => {}
            }
        }
        for run in &started {
            notes.happened(Consequence::ScheduleFired);
            notes.demand(fired.contains(run), "P2", || {
                format!("run {run} of a schedule is durable, but not that its moment is dealt with")
            });
        }
        let own = self.runs.entry(tenant).or_default();
        own.extend(started);
        let live = own.iter().filter(|run| runs.is_live(**run)).count();
        let is_alone = live <= 1 || overlap_of(self.seed, tenant) == Overlap::Allow;
        notes.demand(is_alone, "P2", || format!("{live} runs of one schedule go on at once"));
    }
}

fn is_of_schedule(key: &str) -> bool {
    key.starts_with("schedule/")
}

impl World {
    pub(crate) fn set_schedule_seed(&mut self) {
        self.schedules.seed = self.seed;
    }

    /// Compiles the run of a moment, beside the turn.
    pub(crate) fn begin_prepare(
        &mut self,
        at: ShardAt,
        prepare: PrepareTicket,
        moment: (ScheduleId, Timestamp),
    ) {
        let it = &mut self.servers[at.server];
        let Some(live) = &it.served[at.tenant].live else { return };
        self.schedules.preparing.entry((at.tenant, moment.1)).or_insert(false);
        let event = Event::Prepared { at, life: live.life, prepare, moment };
        self.agenda.plan(self.clock.now + it.dice.heavy_tail(30, 6), event);
    }

    pub(crate) fn prepared(
        &mut self,
        at: ShardAt,
        life: u64,
        (prepare, (schedule, due)): (PrepareTicket, (ScheduleId, Timestamp)),
    ) {
        if self.served(at).live.as_ref().is_none_or(|live| live.life != life) {
            return;
        }
        let key = format!("schedule/{schedule}/{due}");
        let found =
            self.store.tables().run(shard_of(at.tenant), &RunKey::Idempotency(key_text(&key)));
        let is_later = self.has_faults && self.servers[at.server].dice.chance(50);
        let preparation = match found {
            _ if is_later => Preparation::Later,
            Some(record) => Preparation::Existing(record.id),
            None => {
                let workflow = SavedWorkflow::of(self.seed, SCHEDULED + at.tenant as u64);
                let run = workflow.new_run(&key);
                self.runs.want(&key, workflow);
                Preparation::Run(Box::new(run))
            }
        };
        let now = self.clock.now;
        self.with_shard(at, now, |shard, at| shard.on_prepared(at, prepare, preparation));
        self.plan_turn(at);
    }
}
