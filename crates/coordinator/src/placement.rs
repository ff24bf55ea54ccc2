//! Who can take what: ready tasks by what they demand, waiting requests by what they offer.
//!
//! Tasks with equal demands share one entry, and so do workers with equal offers. A grant looks
//! at the kinds of demand that an offer covers (few), never at all tasks or all workers.

mod lanes;
mod pauses;
mod requests;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use model::{Demand, Offer, QueueName, RunId, TaskId, TaskSpec, TypeName, WorkerId};
use slab::Slab;

use self::lanes::{Lane, ReadySet};
pub(crate) use self::lanes::{LaneKey, ReadyRank};
pub use self::pauses::PAUSES_MAX;
use self::requests::RequestRank;
pub(crate) use self::requests::WaitingRequest;
use crate::command::{LeaseRequest, Pause, Ticket};

/// Limit: different kinds of demand among the live tasks of a tenant.
pub const DEMANDS_MAX: usize = 10_000;

/// Entries that nothing uses are kept until there are so many more than used ones; dropping each
/// at once would make a queue that runs empty and fills again match all offers every time.
const IDLE_ENTRIES_KEPT: usize = 256;

/// An offer that covers no more kinds of demand than this looks at each of them; one that covers
/// more walks over the heads of all in order, and meets one that it covers soon.
const DEMANDS_LOOKED_AT: usize = 32;

/// An interned [`TaskSpec`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SpecIdx(u32);

/// An interned [`Demand`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct DemandIdx(u32);

/// An interned [`Offer`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct OfferIdx(u32);

#[derive(Debug)]
struct SpecEntry {
    spec: Arc<TaskSpec>,
    demand: DemandIdx,
    tasks: u64,
}

#[derive(Debug)]
struct DemandEntry {
    demand: Arc<Demand>,
    specs: u64,
    /// Its queue is paused: what is ready stays, and nobody is given it.
    is_paused: bool,
    ready: ReadySet,
    /// Requests whose offer covers this demand.
    requests: BTreeSet<RequestRank>,
}

#[derive(Debug)]
struct OfferEntry {
    offer: Arc<Offer>,
    users: u64,
    /// Demands that this offer covers.
    demands: BTreeSet<DemandIdx>,
    requests: BTreeSet<RequestRank>,
}

/// How many more tasks a worker takes, in all and of a type, where it has limits.
#[derive(Clone, Debug, Default)]
pub(crate) struct Room {
    pub(crate) slots: Option<u32>,
    pub(crate) of_type: BTreeMap<TypeName, u32>,
}

impl Room {
    pub(crate) fn has(&self, task_type: &TypeName) -> bool {
        self.slots != Some(0)
            && (self.of_type.is_empty() || self.of_type.get(task_type).is_none_or(|left| *left > 0))
    }

    pub(crate) fn take(&mut self, task_type: &TypeName) {
        self.slots = self.slots.map(|left| left.saturating_sub(1));
        if let Some(left) = self.of_type.get_mut(task_type) {
            *left = left.saturating_sub(1);
        }
    }
}

impl LeaseRequest {
    /// Whether the worker has limits of its own, beyond what it asks for.
    pub(crate) fn is_limited(&self) -> bool {
        self.slots.is_some() || !self.offer.limits.is_empty()
    }
}

/// The indexes behind every grant.
#[derive(Debug, Default)]
pub(crate) struct Placement {
    specs: Slab<SpecEntry>,
    spec_by_value: BTreeMap<Arc<TaskSpec>, SpecIdx>,
    demands: Slab<DemandEntry>,
    demand_by_value: BTreeMap<Arc<Demand>, DemandIdx>,
    offers: Slab<OfferEntry>,
    offer_by_value: BTreeMap<Arc<Offer>, OfferIdx>,
    waiting: BTreeMap<Ticket, WaitingRequest>,
    /// Waiting requests that were given nothing, perhaps because of their worker's own limits.
    held_back: BTreeSet<Ticket>,
    pauses: BTreeMap<QueueName, Pause>,
    /// Ready tasks that not everyone may have.
    lanes: BTreeMap<LaneKey, Lane>,
    /// Runs that are kept from some workers.
    drained_runs: BTreeMap<RunId, BTreeSet<WorkerId>>,
    /// Lanes that gained a ready task, or someone who may have it.
    unserved_lanes: BTreeSet<LaneKey>,
    /// The best ready task of each demand that has one and is not paused.
    heads: BTreeSet<(ReadyRank, DemandIdx)>,
    /// Demands that gained a ready task while requests wait for it.
    unserved: BTreeSet<DemandIdx>,
    ready_len: usize,
    specs_used: usize,
    offers_used: usize,
}

fn index(key: usize) -> u32 {
    u32::try_from(key).expect("fewer entries than 2^32")
}

impl Placement {
    // ----- specs: what tasks have in common

    pub(crate) fn spec(&self, spec: SpecIdx) -> &Arc<TaskSpec> {
        &self.specs[spec.0 as usize].spec
    }

    /// Whether `specs` can be interned without passing [`DEMANDS_MAX`].
    pub(crate) fn has_room_for<'a>(
        &mut self,
        specs: impl Iterator<Item = &'a Arc<TaskSpec>>,
    ) -> bool {
        let mut new_demands = BTreeSet::new();
        for spec in specs {
            let is_known = self.demand_by_value.contains_key(&spec.demand);
            if !is_known && !new_demands.contains(&spec.demand) {
                new_demands.insert(&spec.demand);
            }
        }
        if new_demands.is_empty() {
            return true;
        }
        if self.demands.len() + new_demands.len() > DEMANDS_MAX {
            self.sweep_specs();
        }
        self.demands.len() + new_demands.len() <= DEMANDS_MAX
    }

    /// Interns a spec for one more task.
    pub(crate) fn add_task(&mut self, spec: &Arc<TaskSpec>) -> SpecIdx {
        let idx = match self.spec_by_value.get(spec) {
            Some(idx) => *idx,
            None => self.intern_spec(spec),
        };
        let entry = &mut self.specs[idx.0 as usize];
        entry.tasks += 1;
        self.specs_used += usize::from(entry.tasks == 1);
        idx
    }

    pub(crate) fn remove_task(&mut self, spec: SpecIdx) {
        let entry = &mut self.specs[spec.0 as usize];
        entry.tasks -= 1;
        self.specs_used -= usize::from(entry.tasks == 0);
    }

    fn intern_spec(&mut self, spec: &Arc<TaskSpec>) -> SpecIdx {
        if self.specs.len() > 2 * self.specs_used + IDLE_ENTRIES_KEPT {
            self.sweep_specs();
        }
        let demand = match self.demand_by_value.get(&spec.demand) {
            Some(idx) => *idx,
            None => self.intern_demand(&spec.demand),
        };
        self.demands[demand.0 as usize].specs += 1;
        let entry = SpecEntry { spec: Arc::clone(spec), demand, tasks: 0 };
        let idx = SpecIdx(index(self.specs.insert(entry)));
        self.spec_by_value.insert(Arc::clone(spec), idx);
        idx
    }

    fn intern_demand(&mut self, demand: &Demand) -> DemandIdx {
        let demand = Arc::new(demand.clone());
        let mut requests = BTreeSet::new();
        let mut coverers = Vec::new();
        for (key, offer) in &self.offers {
            if offer.offer.covers(&demand) {
                requests.extend(offer.requests.iter().copied());
                coverers.push(key);
            }
        }
        let entry = DemandEntry {
            demand: Arc::clone(&demand),
            specs: 0,
            is_paused: self.pauses.contains_key(&demand.queue),
            ready: ReadySet::default(),
            requests,
        };
        let idx = DemandIdx(index(self.demands.insert(entry)));
        for key in coverers {
            self.offers[key].demands.insert(idx);
        }
        self.demand_by_value.insert(demand, idx);
        idx
    }

    fn sweep_specs(&mut self) {
        let idle: Vec<usize> =
            self.specs.iter().filter(|(_, entry)| entry.tasks == 0).map(|(key, _)| key).collect();
        for key in idle {
            let entry = self.specs.remove(key);
            self.spec_by_value.remove(&entry.spec);
            self.release_demand(entry.demand);
        }
    }

    fn release_demand(&mut self, idx: DemandIdx) {
        let key = idx.0 as usize;
        self.demands[key].specs -= 1;
        if self.demands[key].specs > 0 {
            return;
        }
        let entry = self.demands.remove(key);
        self.demand_by_value.remove(&entry.demand);
        self.unserved.remove(&idx);
        for (_, offer) in &mut self.offers {
            offer.demands.remove(&idx);
        }
    }

    // ----- ready tasks

    fn rank(&self, spec: SpecIdx, task: TaskId) -> (DemandIdx, ReadyRank) {
        let SpecEntry { spec, demand, .. } = &self.specs[spec.0 as usize];
        (*demand, (Reverse(spec.priority), task))
    }

    /// Shows a ready task to everyone, or to those whom its lane is open to.
    pub(crate) fn add_ready(&mut self, spec: SpecIdx, task: TaskId, lane: Option<&LaneKey>) {
        let (demand, rank) = self.rank(spec, task);
        self.ready_len += 1;
        if let Some(lane) = lane {
            return self.add_to_lane(lane, demand, rank);
        }
        let before = self.head(demand);
        let entry = &mut self.demands[demand.0 as usize];
        entry.ready.insert(rank);
        if !entry.requests.is_empty() && !entry.is_paused {
            self.unserved.insert(demand);
        }
        self.move_head(demand, before);
    }

    pub(crate) fn remove_ready(&mut self, spec: SpecIdx, task: TaskId, lane: Option<&LaneKey>) {
        let (demand, rank) = self.rank(spec, task);
        self.ready_len -= 1;
        if let Some(lane) = lane {
            return self.remove_from_lane(lane, demand, rank);
        }
        let before = self.head(demand);
        self.demands[demand.0 as usize].ready.remove(rank);
        self.move_head(demand, before);
    }

    fn move_head(&mut self, demand: DemandIdx, before: Option<ReadyRank>) {
        let after = self.head(demand);
        if before == after {
            return;
        }
        if let Some(before) = before {
            self.heads.remove(&(before, demand));
        }
        if let Some(after) = after {
            self.heads.insert((after, demand));
        }
    }

    fn ready_set(&self, demand: DemandIdx, lane: Option<&LaneKey>) -> Option<&ReadySet> {
        match lane {
            Some(lane) => self.lane(lane, demand),
            None => Some(&self.demands[demand.0 as usize].ready),
        }
    }

    pub(crate) fn is_ready(&self, spec: SpecIdx, task: TaskId, lane: Option<&LaneKey>) -> bool {
        let (demand, rank) = self.rank(spec, task);
        self.ready_set(demand, lane).is_some_and(|ready| ready.contains(rank))
    }

    pub(crate) fn ready_len(&self) -> usize {
        self.ready_len
    }

    /// How many ready tasks with the same demand, and in the same lane, go before this one.
    pub(crate) fn tasks_ahead(&self, spec: SpecIdx, task: TaskId, lane: Option<&LaneKey>) -> usize {
        let (demand, rank) = self.rank(spec, task);
        self.ready_set(demand, lane).map_or(0, |ready| ready.ahead_of(rank))
    }

    fn ready_sets(&self) -> impl Iterator<Item = (&Demand, &ReadySet)> {
        let common = self.demands.iter().map(|(_, entry)| (entry.demand.as_ref(), &entry.ready));
        common.chain(self.lane_sets())
    }

    /// The oldest ready task of each demand and priority, for the age of a queue.
    pub(crate) fn oldest_ready(&self) -> impl Iterator<Item = (&Demand, TaskId)> {
        self.ready_sets().flat_map(|(demand, ready)| ready.oldest().map(move |task| (demand, task)))
    }

    /// The ready tasks of each demand and lane, how many and which, best first.
    pub(crate) fn ready_lists(
        &self,
    ) -> impl Iterator<Item = (&Demand, u64, impl Iterator<Item = ReadyRank>)> {
        self.ready_sets().map(|(demand, ready)| (demand, ready.len(), ready.ranks()))
    }

    /// The ready task that a worker with this offer, and this room, should get next.
    pub(crate) fn best_for(
        &self,
        worker: &WorkerId,
        offer: OfferIdx,
        room: &Room,
    ) -> Option<TaskId> {
        let covered = &self.offers[offer.0 as usize].demands;
        let has_room = |idx: DemandIdx| room.has(&self.demands[idx.0 as usize].demand.task_type);
        let best = if covered.len() <= DEMANDS_LOOKED_AT {
            covered.iter().filter(|idx| has_room(**idx)).filter_map(|idx| self.head(*idx)).min()
        } else {
            let mut heads = self.heads.iter();
            let fits = |demand: &DemandIdx| covered.contains(demand) && has_room(*demand);
            heads.find(|(_, demand)| fits(demand)).map(|(rank, _)| *rank)
        };
        let best = if self.lanes.is_empty() {
            best
        } else {
            best.into_iter().chain(self.best_in_lanes(worker, offer, room)).min()
        };
        best.map(|(_, task)| task)
    }

    /// The task of this demand that is granted next.
    fn head(&self, demand: DemandIdx) -> Option<ReadyRank> {
        let entry = &self.demands[demand.0 as usize];
        if entry.is_paused {
            return None;
        }
        entry.ready.first()
    }

    // ----- offers

    pub(crate) fn offer(&self, offer: OfferIdx) -> &Arc<Offer> {
        &self.offers[offer.0 as usize].offer
    }

    /// Interns an offer for one more user (a worker, or a request).
    pub(crate) fn add_offer_user(&mut self, offer: &Arc<Offer>) -> OfferIdx {
        let idx = match self.offer_by_value.get(offer) {
            Some(idx) => *idx,
            None => self.intern_offer(offer),
        };
        let entry = &mut self.offers[idx.0 as usize];
        entry.users += 1;
        self.offers_used += usize::from(entry.users == 1);
        idx
    }

    pub(crate) fn remove_offer_user(&mut self, offer: OfferIdx) {
        let entry = &mut self.offers[offer.0 as usize];
        entry.users -= 1;
        self.offers_used -= usize::from(entry.users == 0);
    }

    fn intern_offer(&mut self, offer: &Arc<Offer>) -> OfferIdx {
        if self.offers.len() > 2 * self.offers_used + IDLE_ENTRIES_KEPT {
            self.sweep_offers();
        }
        let covered = self.demands.iter().filter(|(_, entry)| offer.covers(&entry.demand));
        let demands = covered.map(|(key, _)| DemandIdx(index(key))).collect();
        let entry =
            OfferEntry { offer: Arc::clone(offer), users: 0, demands, requests: BTreeSet::new() };
        let idx = OfferIdx(index(self.offers.insert(entry)));
        self.offer_by_value.insert(Arc::clone(offer), idx);
        idx
    }

    fn sweep_offers(&mut self) {
        let idle: Vec<usize> =
            self.offers.iter().filter(|(_, entry)| entry.users == 0).map(|(key, _)| key).collect();
        for key in idle {
            let entry = self.offers.remove(key);
            self.offer_by_value.remove(&entry.offer);
        }
    }
}
