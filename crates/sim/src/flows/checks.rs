//! What must be true of every turn that is kept.

use std::collections::{BTreeMap, BTreeSet};

use coordinator::{Change, RunChange, RunEnd, TaskState};
use flow::Program;
use model::{NodeLink, TaskId};
use shard::Turn;

/// What the kept turns say.
#[derive(Default)]
pub(super) struct Checks {
    graphs: BTreeMap<u32, u32>,
    links: BTreeMap<TaskId, NodeLink>,
    ended: BTreeSet<(u32, u32)>,
    started: BTreeSet<(u32, u32, Option<u32>, u16, String)>,
    pub(super) end: Option<RunEnd>,
}

impl Checks {
    /// Takes a kept turn in; gives what is wrong with it.
    pub(super) fn take(&mut self, program: &Program, turn: &Turn) -> Result<(), String> {
        for change in &turn.runs {
            self.take_run(change)?;
        }
        for change in &turn.changes {
            if let Change::TaskSubmitted(record) = change
                && let Some(link) = &record.link
            {
                self.links.insert(record.id, (**link).clone());
            }
        }
        for change in &turn.changes {
            self.take_end(program, change);
        }
        for change in &turn.changes {
            if let Change::TaskSubmitted(record) = change
                && let Some(link) = &record.link
            {
                self.check_start(program, link)?;
            }
        }
        Ok(())
    }

    fn take_run(&mut self, change: &RunChange) -> Result<(), String> {
        match change {
            RunChange::SubgraphOpened { frame, .. } => {
                self.graphs.insert(frame.number, frame.graph);
            }
            RunChange::RunStarted(_)
            | RunChange::RunBegan { .. }
            | RunChange::SubgraphClosed { .. }
            | RunChange::ListBegun { .. }
            | RunChange::ItemEnded { .. }
            | RunChange::CallEnded { .. }
            | RunChange::Rebound { .. } => {}
            RunChange::Numbered { .. } => return Err("facts without numbers".into()),
            RunChange::NodeEnded { frame, node, .. } => {
                if !self.ended.insert((*frame, *node)) {
                    return Err(format!("node {node} of frame {frame} ended twice"));
                }
            }
            RunChange::RunSettled { end, .. } => {
                if self.end.replace((**end).clone()).is_some() {
                    return Err("the run ended twice".into());
                }
            }
        }
        Ok(())
    }

    /// A plain node ends with its one task.
    fn take_end(&mut self, program: &Program, change: &Change) {
        let Change::TaskSettled { task, progress, .. } = change else { return };
        let TaskState::Settled(_) = &progress.state else { return };
        let Some(link) = self.links.get(task) else { return };
        let graph = self.graphs.get(&link.frame).copied().unwrap_or(0);
        let node = &program.graphs[graph as usize].nodes[link.node as usize];
        if node.middlewares.is_empty() && node.map.is_none() {
            self.ended.insert((link.frame, link.node));
        }
    }

    fn check_start(&mut self, program: &Program, link: &NodeLink) -> Result<(), String> {
        let graph = self.graphs.get(&link.frame).copied().unwrap_or(0);
        let node = &program.graphs[graph as usize].nodes[link.node as usize];
        for earlier in &node.waits_for {
            if !self.ended.contains(&(link.frame, *earlier)) {
                return Err(format!("{link:?} started before node {earlier} had ended"));
            }
        }
        let call = link.call.as_ref().map(|call| format!("{}#{}", call.caller, call.request));
        let key = (link.frame, link.node, link.item, link.level, call.unwrap_or_default());
        if self.started.insert(key.clone()) {
            Ok(())
        } else {
            Err(format!("{key:?} started twice"))
        }
    }
}
