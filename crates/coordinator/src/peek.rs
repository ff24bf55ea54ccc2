//! A look at what would be granted next, without granting it.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};

use model::{Demand, QueueName, TaskId, TypeName};

use crate::command::Ticket;
use crate::coordinator::Decision;
use crate::effect::Answer;
use crate::placement::Placement;

/// How far into the ready tasks one call may look, those that it passes over included.
pub const PEEK_MAX: usize = 10_000;

/// Which ready tasks are asked for.
#[derive(Debug)]
pub(crate) struct Wanted {
    /// Empty means all.
    pub(crate) queues: BTreeSet<QueueName>,
    pub(crate) types: Option<BTreeSet<TypeName>>,
}

impl Wanted {
    fn has(&self, demand: &Demand) -> bool {
        (self.queues.is_empty() || self.queues.contains(&demand.queue))
            && self.types.as_ref().is_none_or(|types| types.contains(&demand.task_type))
    }
}

impl Decision<'_> {
    pub(crate) fn on_peek(&mut self, ticket: Ticket, wanted: &Wanted, skip: u32, limit: u32) {
        let (skip, limit) = (skip as usize, limit as usize);
        let reach = skip.saturating_add(limit).min(PEEK_MAX);
        let (mut tasks, total) = self.state.placement.peek(wanted, reach);
        tasks.drain(..skip.min(tasks.len()));
        self.answer(ticket, Answer::Peeked { tasks, total });
    }
}

impl Placement {
    /// The first `reach` of the wanted tasks that no worker holds and no key holds back, in the
    /// order in which they would be granted, and how many there are in all. Those of a paused
    /// queue count: they are granted when it goes on.
    ///
    /// Each kind of demand has its tasks in order, so this merges as many lists as there are kinds.
    fn peek(&self, wanted: &Wanted, reach: usize) -> (Vec<TaskId>, u64) {
        let mut total = 0;
        let mut lists = Vec::new();
        for (demand, n_ready, list) in self.ready_lists() {
            if n_ready > 0 && wanted.has(demand) {
                total += n_ready;
                lists.push(list);
            }
        }
        let mut heads: BinaryHeap<_> = lists
            .iter_mut()
            .enumerate()
            .filter_map(|(number, list)| Some(Reverse((list.next()?, number))))
            .collect();
        let mut tasks = Vec::with_capacity(reach.min(usize::try_from(total).unwrap_or(reach)));
        while tasks.len() < reach
            && let Some(Reverse(((_, task), number))) = heads.pop()
        {
            tasks.push(task);
            heads.extend(lists[number].next().map(|next| Reverse((next, number))));
        }
        (tasks, total)
    }
}
