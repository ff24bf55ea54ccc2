//! Ready tasks that not everyone may have: each group of them stands in a lane of its own.

use std::collections::BTreeMap;

use model::{Demand, WorkerId};

use super::{DemandIdx, OfferIdx, Placement, ReadyRank, ReadySet, Room};

/// Names a lane: who may have what stands in it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum LaneKey {
    /// This worker alone.
    Worker(WorkerId),
}

/// The ready tasks of a lane, by what they demand.
#[derive(Debug, Default)]
pub(super) struct Lane {
    ready: BTreeMap<DemandIdx, ReadySet>,
}

impl Placement {
    pub(super) fn add_to_lane(&mut self, key: &LaneKey, demand: DemandIdx, rank: ReadyRank) {
        if !self.lanes.contains_key(key) {
            self.lanes.insert(key.clone(), Lane::default());
        }
        let lane = self.lanes.get_mut(key).expect("just made sure of");
        lane.ready.entry(demand).or_default().insert(rank);
        if !self.demands[demand.0 as usize].is_paused {
            self.unserved_lanes.insert(key.clone());
        }
    }

    pub(super) fn remove_from_lane(&mut self, key: &LaneKey, demand: DemandIdx, rank: ReadyRank) {
        let lane = self.lanes.get_mut(key).expect("the task is ready");
        let same_demand = lane.ready.get_mut(&demand).expect("the task is ready");
        same_demand.remove(rank);
        if same_demand.is_empty() {
            lane.ready.remove(&demand);
        }
        if lane.ready.is_empty() {
            self.lanes.remove(key);
            self.unserved_lanes.remove(key);
        }
    }

    pub(super) fn lane(&self, key: &LaneKey, demand: DemandIdx) -> Option<&ReadySet> {
        self.lanes.get(key)?.ready.get(&demand)
    }

    /// The best task of all lanes that are open to this worker.
    pub(super) fn best_in_lanes(
        &self,
        worker: &WorkerId,
        offer: OfferIdx,
        room: &Room,
    ) -> Option<ReadyRank> {
        let own = self.lanes.get(&LaneKey::Worker(worker.clone()))?;
        self.best_in(own, offer, room)
    }

    /// The best task of a lane. Looks at each kind of demand in it: few, as a lane is the work of
    /// one worker.
    fn best_in(&self, lane: &Lane, offer: OfferIdx, room: &Room) -> Option<ReadyRank> {
        let covered = &self.offers[offer.0 as usize].demands;
        let fits = |idx: &DemandIdx| {
            let entry = &self.demands[idx.0 as usize];
            covered.contains(idx) && !entry.is_paused && room.has(&entry.demand.task_type)
        };
        let fitting = lane.ready.iter().filter(|(idx, _)| fits(idx));
        fitting.filter_map(|(_, ready)| ready.first()).min()
    }

    // ----- serving

    /// A lane in which something may be found for a request that waits.
    pub(crate) fn first_unserved_lane(&self) -> Option<&LaneKey> {
        self.unserved_lanes.first()
    }

    /// Nobody who waits can have anything of this lane.
    pub(crate) fn lane_is_served(&mut self, key: &LaneKey) {
        self.unserved_lanes.remove(key);
    }

    /// Someone waits who was not offered what stands in this lane.
    pub(crate) fn serve_lane(&mut self, key: LaneKey) {
        if self.lanes.contains_key(&key) {
            self.unserved_lanes.insert(key);
        }
    }

    /// The queue of this demand goes on: lanes may hold tasks that were passed over.
    pub(super) fn serve_lanes_of(&mut self, demand: DemandIdx) {
        let holding = self.lanes.iter().filter(|(_, lane)| lane.ready.contains_key(&demand));
        self.unserved_lanes.extend(holding.map(|(key, _)| key.clone()));
    }

    /// Whether there is something in this lane for a request with this offer and this room.
    pub(crate) fn lane_has(&self, key: &LaneKey, offer: OfferIdx, room: &Room) -> bool {
        self.lanes.get(key).is_some_and(|lane| self.best_in(lane, offer, room).is_some())
    }

    // ----- views

    pub(super) fn lane_sets(&self) -> impl Iterator<Item = (&Demand, &ReadySet)> {
        let sets = self.lanes.values().flat_map(|lane| &lane.ready);
        sets.map(|(demand, ready)| (self.demands[demand.0 as usize].demand.as_ref(), ready))
    }

    /// # Panics
    /// When something is kept of a lane in which nothing stands.
    pub(super) fn check_lanes(&self) {
        assert!(self.lanes.values().all(|lane| !lane.ready.is_empty()), "an empty lane");
        assert!(self.lane_sets().all(|(_, ready)| !ready.is_empty()), "an empty demand");
        assert!(self.unserved_lanes.iter().all(|key| self.lanes.contains_key(key)), "no lane");
    }
}
