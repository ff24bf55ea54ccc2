//! Which worker has the work of a run, in words.

use std::collections::BTreeMap;

use coordinator::{BoundPackage, TaskRecord, TaskState};
use model::{Timestamp, WorkerId};
use protocol::rest::runs::Binding;

use super::board::Board;

/// The worker that a person named for each package, or that had a task of it since.
pub(super) fn bindings(board: &Board<'_>) -> Vec<Binding> {
    let said = board.rebound.map_or(&[][..], |rebound| &rebound.bound);
    let said = said.iter().map(|bound| (bound.package.as_str(), bound.clone()));
    let mut bound: BTreeMap<&str, BoundPackage> = said.collect();
    let tasks = board.frames.iter().flat_map(|frame| &frame.nodes).flat_map(|parts| &parts.tasks);
    let held = tasks.filter_map(|task| {
        let package = task.spec.demand.package.as_ref()?;
        holder(task).map(|(worker, since)| (since, package.name.as_str(), worker))
    });
    let mut held: Vec<(Timestamp, &str, &WorkerId)> = held.collect();
    held.sort_by_key(|(since, _, _)| *since);
    for (since, package, worker) in held {
        let known = bound.entry(package).or_insert_with(|| BoundPackage {
            package: package.to_owned(),
            worker: Some(worker.clone()),
            since,
            moved_from: None,
        });
        let is_same = known.worker.as_ref() == Some(worker);
        let is_left = known.moved_from.as_ref() == Some(worker);
        if !is_same && !is_left && since >= known.since {
            (known.worker, known.since) = (Some(worker.clone()), since);
        }
    }
    bound.into_values().filter_map(words).collect()
}

fn words(bound: BoundPackage) -> Option<Binding> {
    let BoundPackage { package, worker, since, .. } = bound;
    Some(Binding { package, worker: worker?.to_string(), bound_at: since.to_string() })
}

fn holder(task: &TaskRecord) -> Option<(&WorkerId, Timestamp)> {
    match &task.progress.state {
        TaskState::Leased(lease) => Some((&lease.holder, lease.granted_at)),
        TaskState::Settled(settlement) => {
            let worker = settlement.holder.as_ref()?;
            Some((worker, settlement.granted_at.unwrap_or(task.created_at)))
        }
        TaskState::Waiting { .. } | TaskState::Ready => None,
    }
}
