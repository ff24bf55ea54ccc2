//! Ready tasks that not everyone may have: each group of them stands in a lane of its own.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use model::{Demand, RunId, TaskId, TypeName, WorkerId};

use super::{DemandIdx, OfferIdx, Placement, Room};
use crate::command::{LeaseRequest, Ticket};

/// Names a lane: who may have what stands in it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum LaneKey {
    /// This worker alone.
    Worker(WorkerId),
    /// All but the workers that this run is kept from.
    Run(RunId),
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
        let own = self.lanes.get(&LaneKey::Worker(worker.clone()));
        let runs = self.drained_runs.iter().filter(|(_, kept_from)| !kept_from.contains(worker));
        let runs = runs.filter_map(|(run, _)| self.lanes.get(&LaneKey::Run(*run)));
        own.into_iter().chain(runs).filter_map(|lane| self.best_in(lane, offer, room)).min()
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

    // ----- runs that are kept from workers

    pub(crate) fn drained_runs(&self) -> usize {
        self.drained_runs.len()
    }

    pub(crate) fn run_kept_from(&self, run: RunId) -> Option<&BTreeSet<WorkerId>> {
        self.drained_runs.get(&run)
    }

    /// Keeps a run from these workers; none of its ready tasks stands in a lane right now.
    pub(crate) fn keep_run_from(&mut self, run: RunId, workers: Option<BTreeSet<WorkerId>>) {
        match workers {
            Some(workers) => drop(self.drained_runs.insert(run, workers)),
            None => drop(self.drained_runs.remove(&run)),
        }
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

    /// A worker waits that was not offered what stands in lanes.
    pub(crate) fn serve_lanes_for(&mut self, worker: &WorkerId) {
        let runs = self.drained_runs.keys().map(|run| LaneKey::Run(*run));
        let keys = runs.chain([LaneKey::Worker(worker.clone())]);
        self.unserved_lanes.extend(keys.filter(|key| self.lanes.contains_key(key)));
    }

    /// A waiting request that may have the first task of one of the demands in a run's lane.
    pub(crate) fn asker_in_lane(
        &self,
        run: RunId,
        has_room: impl Fn(&Self, &LeaseRequest, &TypeName) -> bool,
    ) -> Option<Ticket> {
        let (lane, kept_from) = self.lanes.get(&LaneKey::Run(run)).zip(self.run_kept_from(run))?;
        let demands = lane.ready.keys().map(|idx| &self.demands[idx.0 as usize]);
        demands.filter(|entry| !entry.is_paused).find_map(|entry| {
            let may_have = |ticket: &Ticket| {
                let request = &self.waiting[ticket].request;
                !kept_from.contains(&request.worker)
                    && has_room(self, request, &entry.demand.task_type)
            };
            entry.requests.iter().map(|(_, ticket)| *ticket).find(may_have)
        })
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
        let is_drained = |key: &LaneKey| match key {
            LaneKey::Run(run) => self.drained_runs.contains_key(run),
            LaneKey::Worker(_) => true,
        };
        assert!(self.lanes.keys().all(is_drained), "a lane of a run that anyone may have");
        assert!(self.unserved_lanes.iter().all(|key| self.lanes.contains_key(key)), "no lane");
    }
}

/// `explain` counts no further than this.
const TASKS_AHEAD_COUNTED: usize = 100_000;

/// The order of ready tasks: higher priority first, then the older one.
pub(crate) type ReadyRank = (Reverse<i16>, TaskId);

/// Ready tasks by their rank. Sets of one priority each stay small where most tasks come and go at
/// their ends.
#[derive(Debug, Default)]
pub(super) struct ReadySet {
    by_priority: BTreeMap<Reverse<i16>, BTreeSet<TaskId>>,
    len: u64,
}

impl ReadySet {
    pub(super) fn insert(&mut self, (priority, task): ReadyRank) {
        let is_new = self.by_priority.entry(priority).or_default().insert(task);
        assert!(is_new, "a task is ready once");
        self.len += 1;
    }

    pub(super) fn remove(&mut self, (priority, task): ReadyRank) {
        let same_priority = self.by_priority.get_mut(&priority).expect("the task is ready");
        let was_ready = same_priority.remove(&task);
        assert!(was_ready, "the task is ready");
        if same_priority.is_empty() {
            self.by_priority.remove(&priority);
        }
        self.len -= 1;
    }

    pub(super) fn contains(&self, (priority, task): ReadyRank) -> bool {
        self.by_priority.get(&priority).is_some_and(|tasks| tasks.contains(&task))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.by_priority.is_empty()
    }

    pub(super) fn len(&self) -> u64 {
        self.len
    }

    /// The one that is granted next.
    pub(super) fn first(&self) -> Option<ReadyRank> {
        let (priority, tasks) = self.by_priority.first_key_value()?;
        tasks.first().map(|task| (*priority, *task))
    }

    /// All of them, best first.
    pub(super) fn ranks(&self) -> impl Iterator<Item = ReadyRank> {
        let by_priority = self.by_priority.iter();
        by_priority.flat_map(|(priority, tasks)| tasks.iter().map(|task| (*priority, *task)))
    }

    /// How many go before this one.
    pub(super) fn ahead_of(&self, (priority, task): ReadyRank) -> usize {
        let higher = self.by_priority.range(..priority);
        let higher: usize = higher.map(|(_, tasks)| tasks.len()).sum();
        let equal = self.by_priority.get(&priority);
        let equal = equal.map_or(0, |tasks| tasks.range(..task).take(TASKS_AHEAD_COUNTED).count());
        higher + equal
    }

    /// The oldest of each priority.
    pub(super) fn oldest(&self) -> impl Iterator<Item = TaskId> {
        self.by_priority.values().filter_map(BTreeSet::first).copied()
    }

    /// # Panics
    /// When the count is wrong.
    pub(super) fn check(&self) {
        let len: usize = self.by_priority.values().map(BTreeSet::len).sum();
        assert_eq!(self.len, len as u64, "ready tasks of a demand");
        assert!(self.by_priority.values().all(|tasks| !tasks.is_empty()), "an empty priority");
    }
}
