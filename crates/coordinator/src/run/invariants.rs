//! What must be true of every live run after each step.

use std::collections::BTreeMap;

use crate::run::run_state::{Due, Frame, Many, Phase, RUN_TASKS_MAX, Run};
use crate::state::State;

impl State {
    /// # Panics
    /// When the state of a run contradicts itself or the tasks.
    pub(crate) fn check_runs(&self) {
        for (id, run) in &self.runs.live {
            run.check();
            for (task, link) in &run.tasks {
                let live = self.tasks.get(*task).and_then(|task| task.link());
                assert_eq!(live, Some(link), "tasks of run {id}");
            }
            let may_begin = !run.queue.is_empty() && run.busy < RUN_TASKS_MAX;
            assert!(run.is_due || !may_begin, "run {id} waits for nothing");
            let n_due = self.runs.due.iter().filter(|due| *due == id).count();
            assert_eq!(n_due, usize::from(run.is_due), "run {id} is due once");
        }
        for task in self.tasks.iter() {
            let run = task.link().and_then(|link| self.runs.live.get(&link.run));
            let facts = task.facts();
            assert!(run.is_none_or(|run| run.tasks.contains_key(&task.id)), "{task:?}");
            assert!(run.is_none_or(|run| facts.begun <= run.last_fact), "{task:?}");
            assert!(facts.begun.is_some() || run.is_none(), "a fact without a number: {task:?}");
            let was_granted = task.progress.epoch > 0 && run.is_some();
            assert_eq!(facts.granted.is_some(), was_granted, "numbers of grants: {task:?}");
        }
        let bytes: usize = self.runs.live.values().map(|run| run.program.source.len()).sum();
        assert_eq!(self.runs.definition_bytes, bytes, "bytes of definitions");
        self.runs.callers.check(self);
    }
}

impl Run {
    fn check(&self) {
        let mut queue = BTreeMap::new();
        for (number, frame) in &self.frames {
            frame.check(self.graph(frame));
            if let Some(place) = &frame.place {
                assert!(self.frames.contains_key(&place.frame), "frame {number} stands nowhere");
            }
            for (node, state) in (0..).zip(&frame.nodes) {
                match &state.phase {
                    Phase::Due(place) => {
                        queue.insert(*place, Due::Node { frame: *number, node });
                    }
                    Phase::Many(many) => {
                        many.check();
                        let due = Due::Items { frame: *number, node };
                        queue.extend(many.place.map(|place| (place, due)));
                    }
                    Phase::Waiting | Phase::One(_) | Phase::Ended(..) => {}
                }
            }
        }
        assert_eq!(self.queue, queue, "what is due stands in the queue");
        assert!(self.queue.keys().all(|place| *place < self.next_place));
        let busy = self.tasks.values().filter(|link| self.is_executed(link)).count();
        assert_eq!(self.busy as usize, busy, "tasks that workers execute");
        for link in self.tasks.values() {
            assert!(self.frames.contains_key(&link.frame), "a task in a closed frame");
        }
        for caller in self.calls.keys() {
            assert!(self.tasks.contains_key(caller), "calls of a task that ended");
        }
    }
}

impl Frame {
    fn check(&self, graph: &flow::Graph) {
        let has_ended = |node: u32| self.word(node).is_some();
        let ended = (0..).take(self.nodes.len()).filter(|node| has_ended(*node)).count();
        assert_eq!(self.ended as usize, ended, "ended nodes");
        assert_eq!((self.open + self.ended) as usize, self.nodes.len(), "open nodes");
        for (state, node) in self.nodes.iter().zip(&graph.nodes) {
            let unmet = node.waits_for.iter().filter(|earlier| !has_ended(**earlier)).count();
            assert_eq!(state.unmet as usize, unmet, "what a node waits for");
            match state.phase {
                Phase::Waiting => assert!(unmet > 0, "a node waits for nothing"),
                Phase::Due(_) | Phase::One(_) | Phase::Many(_) => assert_eq!(unmet, 0),
                // An earlier run may have done a node before those that it waits for.
                Phase::Ended(..) => {}
            }
        }
    }
}

impl Many {
    fn check(&self) {
        assert_eq!(self.items.len(), self.ends.len(), "ends of elements");
        let ended = self.ends.iter().filter(|end| end.is_some()).count();
        assert_eq!(self.ended as usize, ended, "ended elements");
        let has_begun =
            |item: u32| self.active.contains(&item) || self.ends[item as usize].is_some();
        assert!((0..self.next).all(has_begun), "elements before the next have begun");
        assert!(!self.has_more() || !has_begun(self.next), "the next element has not");
        assert!(self.active.iter().all(|item| self.ends[*item as usize].is_none()));
    }
}
