//! What must be true of every turn of a run that is kept.

use std::collections::{BTreeMap, BTreeSet};

use coordinator::{Change, RunChange, RunEnd, TaskState};
use flow::Program;
use model::{NodeLink, TaskId};

/// What the kept turns say of one run.
#[derive(Debug, Default)]
pub(super) struct Checks {
    graphs: BTreeMap<u32, u32>,
    links: BTreeMap<TaskId, NodeLink>,
    ended: BTreeSet<(u32, u32)>,
    started: BTreeSet<(u32, u32, Option<u32>, u16, String)>,
    pub(super) end: Option<RunEnd>,
}

impl Checks {
    /// A new task of the run.
    pub(super) fn take_link(&mut self, task: TaskId, link: &NodeLink) {
        self.links.insert(task, link.clone());
    }

    pub(super) fn take_run(&mut self, change: &RunChange) -> Result<(), String> {
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
    pub(super) fn take_end(&mut self, program: &Program, change: &Change) {
        let Change::TaskSettled { task, progress, .. } = change else { return };
        let TaskState::Settled(_) = &progress.state else { return };
        let Some(link) = self.links.get(task) else { return };
        let graph = self.graphs.get(&link.frame).copied().unwrap_or(0);
        let node = &program.graphs[graph as usize].nodes[link.node as usize];
        if node.middlewares.is_empty() && node.map.is_none() {
            self.ended.insert((link.frame, link.node));
        }
    }

    pub(super) fn check_start(&mut self, program: &Program, link: &NodeLink) -> Result<(), String> {
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
