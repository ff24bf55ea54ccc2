//! Runs of versions that did not number facts, at the first restart of a version that does. Their
//! facts are sorted by their moments and by what must have come first, get their numbers in that
//! order, and are replayed by their numbers from then on.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::{NodeLink, RunId, Timestamp};

use crate::change::TaskState;
use crate::coordinator::Decision;
use crate::run::apply::RunFact;
use crate::run::change::{FactNumber, ListRecord, RunNumbers, RunParts, SubgraphRecord};
use crate::run::restore::LiveTask;
use crate::run::run_state::{Due, Phase, Run};

/// A stored fact, by its place in what the store gave.
#[derive(Clone, Copy)]
enum Past {
    Opened(usize),
    Begun(TaskSource),
    Granted(TaskSource),
    Settled(usize),
    NodeEnded(usize),
    Closed(usize),
}

#[derive(Clone, Copy)]
enum TaskSource {
    Live(usize),
    Settled(usize),
}

/// Where something stands among all that happened: its moment, then beginnings before ends, then
/// what lies deeper before what lies around it, then a number.
type Order = (Timestamp, u8, u16, u32, u64);

const OPENED: u8 = 0;
const BEGUN: u8 = 1;
const ENDED: u8 = 2;

/// What cannot have happened yet, by the node that must become due first. Moments are told in
/// milliseconds, and much happens within one.
type Later = BTreeMap<(u32, u32), Vec<Past>>;

/// A run whose facts get their numbers.
struct Numbering<'a> {
    restored: &'a mut RunParts,
    live: &'a mut [LiveTask],
    /// The frame around each frame, and the node there.
    places: BTreeMap<u32, (u32, u32)>,
    lists: Vec<ListRecord>,
}

impl Decision<'_> {
    /// Replays the facts of a run in the order in which they must have become true, and numbers
    /// them.
    pub(crate) fn number_run(&mut self, id: RunId, restored: &mut RunParts, live: &mut [LiveTask]) {
        let mut run = self.state.runs.live.remove(&id).expect("just inserted");
        let place = |frame: &SubgraphRecord| (frame.number, (frame.parent, frame.node));
        let places = restored.frames.iter().map(place).collect();
        let mut numbering = Numbering { restored, live, places, lists: Vec::new() };
        numbering.replay(&mut run);
        let numbers = numbering.numbers();
        for task in live.iter() {
            let facts = self.state.tasks.get_mut(task.id).and_then(|task| task.facts_mut());
            *facts.expect("a live task of a run") = task.facts;
        }
        self.state.runs.live.insert(id, run);
        self.state.runs.numbered.push((id, Box::new(numbers)));
    }
}

impl Numbering<'_> {
    fn replay(&mut self, run: &mut Run) {
        let mut later = Later::new();
        for past in self.in_order() {
            self.take(run, past, &mut later);
        }
        // Whatever fits nowhere means nothing to the run, but gets its number.
        for past in later.into_values().flatten() {
            self.apply(run, past);
        }
    }

    /// Takes in what happened, and then whatever waited for that.
    fn take(&mut self, run: &mut Run, past: Past, later: &mut Later) {
        let mut stack = vec![past];
        while let Some(past) = stack.pop() {
            if let Some(node) = self.must_come_first(run, past) {
                later.entry(node).or_default().push(past);
                continue;
            }
            let seen = run.next_place;
            self.apply(run, past);
            for (_, due) in run.queue.range(seen..) {
                if let Due::Node { frame, node } = due {
                    let waiting = later.remove(&(*frame, *node)).unwrap_or_default();
                    stack.extend(waiting.into_iter().rev());
                }
            }
        }
    }

    fn apply(&mut self, run: &mut Run, past: Past) {
        if let Some((frame, node)) = self.list_of(past) {
            self.begin_list(run, frame, node);
        }
        let number = run.next_fact();
        let fact = Some(number);
        match past {
            Past::Opened(place) => {
                self.restored.frames[place].fact = fact;
                run.apply(number, RunFact::SubgraphOpened(&self.restored.frames[place]));
            }
            Past::Begun(TaskSource::Live(place)) => {
                self.live[place].facts.begun = fact;
                let LiveTask { id, link, parameters, .. } = &self.live[place];
                run.apply(number, RunFact::TaskBegun { task: *id, link, parameters });
            }
            Past::Begun(TaskSource::Settled(place)) => {
                let record = &mut self.restored.tasks[place];
                record.facts.begun = fact;
                let Some(link) = &record.link else { return };
                let (task, parameters) = (record.id, &record.parameters);
                run.apply(number, RunFact::TaskBegun { task, link, parameters });
            }
            Past::Granted(source) => self.apply_grant(run, number, source),
            Past::Settled(place) => {
                let record = &mut self.restored.tasks[place];
                record.facts.settled = fact;
                let TaskState::Settled(settlement) = &record.progress.state else { return };
                run.apply(number, RunFact::TaskSettled { task: record.id, settlement });
            }
            Past::NodeEnded(place) => {
                let (frame, node, end) = &mut self.restored.ended[place];
                end.fact = fact;
                run.apply(number, RunFact::NodeEnded { frame: *frame, node: *node, end });
            }
            Past::Closed(place) => {
                let (frame, end) = &mut self.restored.closed[place];
                end.fact = fact;
                run.apply(number, RunFact::SubgraphClosed { frame: *frame, end });
            }
        }
    }

    fn apply_grant(&mut self, run: &mut Run, number: FactNumber, source: TaskSource) {
        let (task, epoch) = match source {
            TaskSource::Live(place) => {
                let task = &mut self.live[place];
                task.facts.granted = Some(number);
                (task.id, task.epoch)
            }
            TaskSource::Settled(place) => {
                let record = &mut self.restored.tasks[place];
                record.facts.granted = Some(number);
                (record.id, record.progress.epoch)
            }
        };
        run.apply(number, RunFact::TaskGranted { task, epoch });
    }

    /// The node whose list must have begun before this could happen.
    fn list_of(&self, past: Past) -> Option<(u32, u32)> {
        match past {
            Past::Opened(place) => {
                let SubgraphRecord { parent, node, item, .. } = &self.restored.frames[place];
                item.map(|_| (*parent, *node))
            }
            Past::Begun(source) => {
                let link = self.link(source)?;
                link.item.map(|_| (link.frame, link.node))
            }
            Past::Granted(_) | Past::Settled(_) | Past::NodeEnded(_) | Past::Closed(_) => None,
        }
    }

    /// The older version did not store that a list began: its first element tells.
    fn begin_list(&mut self, run: &mut Run, frame: u32, node: u32) {
        let Some(state) = run.frames.get(&frame) else { return };
        if !matches!(state.nodes[node as usize].phase, Phase::Waiting | Phase::Due(_)) {
            return;
        }
        let Some(map) = &run.graph(state).nodes[node as usize].map else { return };
        let items = Arc::new(flow::list_of(map, &run.scope(state)).unwrap_or_default());
        let length = u32::try_from(items.len()).unwrap_or(u32::MAX);
        let number = run.next_fact();
        let list = ListRecord { frame, node, length, fact: Some(number) };
        run.apply(number, RunFact::ListBegun { list: &list, items: Some(&items) });
        self.lists.push(list);
    }

    fn link(&self, source: TaskSource) -> Option<&NodeLink> {
        match source {
            TaskSource::Live(place) => Some(&self.live[place].link),
            TaskSource::Settled(place) => self.restored.tasks[place].link.as_deref(),
        }
    }

    /// Everything that happened, by its moment. Within one, what began comes before what ended, and
    /// what was called before its caller: a frame is closed before the middleware around it ends.
    fn in_order(&self) -> Vec<Past> {
        let restored = &*self.restored;
        let depths = depths(&restored.frames);
        let depth = |frame: u32| u16::MAX - depths.get(&frame).copied().unwrap_or(0);
        let mut past: Vec<(Order, Past)> = Vec::new();
        for (place, frame) in restored.frames.iter().enumerate() {
            let order = (frame.opened_at, OPENED, 0, 0, u64::from(frame.number));
            past.push((order, Past::Opened(place)));
        }
        for (place, record) in restored.tasks.iter().enumerate() {
            let (Some(link), TaskState::Settled(end)) = (&record.link, &record.progress.state)
            else {
                continue;
            };
            let (source, number) = (TaskSource::Settled(place), record.id.number());
            let granted = (record.progress.epoch > 0).then(|| end.granted_at.unwrap_or(end.at));
            add_beginning(&mut past, (source, number), record.created_at, granted);
            let step = 1 + u32::from(u16::MAX - link.level);
            let order = (end.at, ENDED, depth(link.frame), step, number);
            past.push((order, Past::Settled(place)));
        }
        for (place, task) in self.live.iter().enumerate() {
            let source = (TaskSource::Live(place), task.id.number());
            let granted = (task.epoch > 0).then(|| task.held_at.unwrap_or(task.created_at));
            add_beginning(&mut past, source, task.created_at, granted);
        }
        for (place, (frame, node, end)) in restored.ended.iter().enumerate() {
            let order = (end.at, ENDED, depth(*frame), u32::MAX, u64::from(*node));
            past.push((order, Past::NodeEnded(place)));
        }
        for (place, (frame, end)) in restored.closed.iter().enumerate() {
            let Some((around, _)) = self.places.get(frame).copied() else { continue };
            let order = (end.at, ENDED, depth(around), 0, u64::from(*frame));
            past.push((order, Past::Closed(place)));
        }
        past.sort_by_key(|(order, _)| *order);
        past.into_iter().map(|(_, past)| past).collect()
    }

    /// The node that must become due before this can have happened, if it has not.
    fn must_come_first(&self, run: &Run, past: Past) -> Option<(u32, u32)> {
        let (frame, node) = match past {
            Past::Opened(place) => {
                let record = &self.restored.frames[place];
                (record.parent, record.node)
            }
            Past::Begun(source) | Past::Granted(source) => place_of_link(self.link(source)?),
            Past::Settled(place) => place_of_link(self.link(TaskSource::Settled(place))?),
            Past::NodeEnded(place) => {
                let (frame, node, _) = &self.restored.ended[place];
                return (!run.frames.contains_key(frame)).then_some((*frame, *node));
            }
            Past::Closed(place) => {
                let frame = self.restored.closed[place].0;
                if run.frames.contains_key(&frame) {
                    return None;
                }
                *self.places.get(&frame)?
            }
        };
        let phase = run.frames.get(&frame).map(|frame| &frame.nodes[node as usize].phase);
        matches!(phase, None | Some(Phase::Waiting)).then_some((frame, node))
    }

    fn numbers(self) -> RunNumbers {
        let settled = self.restored.tasks.iter().map(|record| (record.id, record.facts));
        let live = self.live.iter().map(|task| (task.id, task.facts));
        let opened = self.restored.frames.iter();
        let ended = self.restored.ended.iter();
        RunNumbers {
            tasks: settled.chain(live).collect(),
            opened: opened.filter_map(|frame| Some((frame.number, frame.fact?))).collect(),
            closed: self
                .restored
                .closed
                .iter()
                .filter_map(|(frame, end)| Some((*frame, end.fact?)))
                .collect(),
            ended: ended.filter_map(|(f, node, end)| Some((*f, *node, end.fact?))).collect(),
            lists: self.lists,
        }
    }
}

fn place_of_link(link: &NodeLink) -> (u32, u32) {
    (link.frame, link.node)
}

/// A task is granted after it began, and before tasks begin that it calls for.
fn add_beginning(
    past: &mut Vec<(Order, Past)>,
    (source, number): (TaskSource, u64),
    created_at: Timestamp,
    granted_at: Option<Timestamp>,
) {
    past.push(((created_at, BEGUN, 0, 0, 2 * number), Past::Begun(source)));
    let order = |at: Timestamp| (at.max(created_at), BEGUN, 0, 0, 2 * number + 1);
    past.extend(granted_at.map(|at| (order(at), Past::Granted(source))));
}

/// How deep each frame lies in the others.
fn depths(frames: &[SubgraphRecord]) -> BTreeMap<u32, u16> {
    let mut depths: BTreeMap<u32, u16> = BTreeMap::from([(0, 0)]);
    let mut frames: Vec<&SubgraphRecord> = frames.iter().collect();
    // Inner frames have higher numbers.
    frames.sort_by_key(|frame| frame.number);
    for frame in frames {
        let around = depths.get(&frame.parent).copied().unwrap_or(0);
        depths.insert(frame.number, around.saturating_add(1));
    }
    depths
}
