//! Everything that is known of a run, sorted to its nodes.

use std::collections::HashMap;

use coordinator::{
    ItemEnd, NodeEnd, NodeSeen, NodeStatus, RunBindings, RunParts, RunRecord, SubgraphRecord,
    TaskRecord, TaskState,
};
use flow::{Graph, Node, Program};
use uuid::Uuid;

/// A run with its nodes.
pub(crate) struct RunSnapshot<'a> {
    /// The run.
    pub(crate) record: &'a RunRecord,
    /// What it executes.
    pub(crate) program: &'a Program,
    /// What a person said last of the workers that have its work.
    pub(crate) rebound: Option<&'a RunBindings>,
    /// The workflow itself, then every subgraph that was entered, by number.
    pub(crate) frames: Vec<SubgraphSnapshot<'a>>,
}

/// The workflow itself, or a subgraph that was entered.
pub(crate) struct SubgraphSnapshot<'a> {
    /// Its number within the run.
    pub(crate) number: u32,
    /// What is executed in it.
    pub(crate) graph: &'a Graph,
    /// How it was entered, and the place of the frame around it; `None` is the workflow itself.
    pub(crate) entered: Option<(&'a SubgraphRecord, usize)>,
    /// Nothing begins in it any more.
    pub(crate) is_over: bool,
    /// By the places of the graph's nodes.
    pub(crate) nodes: Vec<NodeParts<'a>>,
}

/// What is known of one node.
pub(crate) struct NodeParts<'a> {
    /// Its end, where no single task tells it.
    pub(crate) end: Option<&'a NodeEnd>,
    /// How many elements it has, where it is executed once per element and has begun.
    pub(crate) length: Option<u32>,
    /// Elements that could not be begun.
    pub(crate) items: Vec<&'a ItemEnd>,
    /// Its tasks and those of its middlewares, oldest first.
    pub(crate) tasks: Vec<&'a TaskRecord>,
    /// Subgraphs that were entered through it, by their places among the frames.
    pub(crate) frames: Vec<usize>,
    /// Where it stands.
    pub(crate) status: NodeStatus,
}

/// A node or a middleware that an id names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Spot {
    /// The place of its frame.
    pub(crate) frame: usize,
    /// The place of the node.
    pub(crate) node: usize,
    /// The middleware of that node, if it is one.
    pub(crate) middleware: Option<usize>,
}

impl<'a> RunSnapshot<'a> {
    /// Sorts what the store holds. Parts that fit no node of the program are left out: they cannot
    /// be there, and a view must not fail for them.
    pub(crate) fn new(record: &'a RunRecord, parts: &'a RunParts, program: &'a Program) -> Self {
        let rebound = parts.rebound.as_deref();
        let mut snapshot = Self { record, program, rebound, frames: Vec::new() };
        let Some(workflow) = program.graphs.first() else { return snapshot };
        snapshot.frames.push(SubgraphSnapshot::new(0, workflow, None));
        let mut places = HashMap::from([(0, 0)]);
        for frame in &parts.frames {
            snapshot.enter(frame, &mut places);
        }
        for (frame, node, end) in &parts.ended {
            if let Some(parts) = snapshot.parts_of(&places, *frame, *node) {
                parts.end = Some(end);
            }
        }
        for list in &parts.lists {
            if let Some(parts) = snapshot.parts_of(&places, list.frame, list.node) {
                parts.length = Some(list.length);
            }
        }
        for item in &parts.items {
            if let Some(parts) = snapshot.parts_of(&places, item.frame, item.node) {
                parts.items.push(item);
            }
        }
        for task in &parts.tasks {
            let Some(link) = &task.link else { continue };
            if let Some(parts) = snapshot.parts_of(&places, link.frame, link.node) {
                parts.tasks.push(task);
            }
        }
        snapshot.close(parts, &places);
        snapshot.stand();
        snapshot
    }

    fn enter(&mut self, frame: &'a SubgraphRecord, places: &mut HashMap<u32, usize>) {
        let Some(graph) = self.program.graphs.get(frame.graph as usize) else { return };
        let place = self.frames.len();
        let Some(&around) = places.get(&frame.parent) else { return };
        if let Some(container) = self.parts_of(places, frame.parent, frame.node) {
            container.frames.push(place);
            self.frames.push(SubgraphSnapshot::new(frame.number, graph, Some((frame, around))));
            places.insert(frame.number, place);
        }
    }

    fn parts_of(
        &mut self,
        places: &HashMap<u32, usize>,
        frame: u32,
        node: u32,
    ) -> Option<&mut NodeParts<'a>> {
        let place = *places.get(&frame)?;
        self.frames.get_mut(place)?.nodes.get_mut(node as usize)
    }

    /// A frame is over with its run, with the frame around it, and with its container.
    fn close(&mut self, parts: &RunParts, places: &HashMap<u32, usize>) {
        let has_ended = self.record.end.is_some();
        for (number, _) in &parts.closed {
            if let Some(place) = places.get(number) {
                self.frames[*place].is_over = true;
            }
        }
        for place in 0..self.frames.len() {
            let is_over = self.frames[place].entered.is_some_and(|(record, around)| {
                let around = &self.frames[around];
                around.is_over || around.nodes[record.node as usize].end.is_some()
            });
            self.frames[place].is_over |= has_ended || is_over;
        }
    }

    /// Inner frames first: a container looks at what is inside of it.
    fn stand(&mut self) {
        for place in (0..self.frames.len()).rev() {
            for node in 0..self.frames[place].nodes.len() {
                let status = NodeStatus::of_node(&self.frames[place].seen(node));
                self.frames[place].nodes[node].status = status;
            }
        }
    }

    /// Whether a task of the run left something behind.
    pub(crate) fn has_artifacts(&self) -> bool {
        let parts = self.frames.iter().flat_map(|frame| &frame.nodes);
        parts.flat_map(|parts| &parts.tasks).any(|task| match &task.progress.state {
            TaskState::Settled(settlement) => settlement.extra.is_some(),
            TaskState::Waiting { .. } | TaskState::Ready | TaskState::Leased(_) => false,
        })
    }

    /// The node or middleware with this id: in this frame, or in the first that has it.
    pub(crate) fn find(&self, id: Uuid, frame: Option<u32>) -> Option<Spot> {
        let wanted =
            |snapshot: &SubgraphSnapshot<'_>| frame.is_none_or(|number| snapshot.number == number);
        let frames = self.frames.iter().enumerate().filter(|(_, snapshot)| wanted(snapshot));
        let mut spots = frames.filter_map(|(place, snapshot)| {
            let (node, middleware) = place_of(snapshot.graph, id)?;
            Some(Spot { frame: place, node, middleware })
        });
        spots.next()
    }
}

impl<'a> SubgraphSnapshot<'a> {
    fn new(number: u32, graph: &'a Graph, entered: Option<(&'a SubgraphRecord, usize)>) -> Self {
        let nothing = || NodeParts {
            end: None,
            length: None,
            items: Vec::new(),
            tasks: Vec::new(),
            frames: Vec::new(),
            status: NodeStatus::Waiting,
        };
        let nodes = graph.nodes.iter().map(|_| nothing()).collect();
        Self { number, graph, entered, is_over: false, nodes }
    }

    fn seen(&self, place: usize) -> NodeSeen<'_> {
        let (node, parts) = self.node(place);
        NodeSeen {
            node,
            end: parts.end.map(|end| end.word),
            tasks: &parts.tasks,
            has_subgraph: !parts.frames.is_empty(),
            is_over: self.is_over,
        }
    }

    /// A node and what is known of it.
    pub(crate) fn node(&self, place: usize) -> (&'a Node, &NodeParts<'a>) {
        (&self.graph.nodes[place], &self.nodes[place])
    }

    /// Nodes that must come to their end before this one, and have not, by their names.
    pub(crate) fn blockers(&self, place: usize) -> Vec<&'a Node> {
        let waits_for = self.graph.nodes[place].waits_for.iter().map(|other| *other as usize);
        let open = waits_for.filter(|other| !self.nodes[*other].status.is_terminal());
        open.map(|other| &self.graph.nodes[other]).collect()
    }
}

impl<'a> NodeParts<'a> {
    /// The newest task of a step: of a middleware by its place, or of the node itself behind them.
    pub(crate) fn newest(&self, level: usize) -> Option<&'a TaskRecord> {
        self.of_level(level).next_back()
    }

    /// Every task of a step, oldest first.
    pub(crate) fn of_level(&self, level: usize) -> impl DoubleEndedIterator<Item = &'a TaskRecord> {
        let is_it = move |task: &&&TaskRecord| {
            task.link.as_ref().is_some_and(|link| usize::from(link.level) == level)
        };
        self.tasks.iter().filter(is_it).copied()
    }
}

/// The place of a node, or of a node and its middleware, in a graph.
pub(crate) fn place_of(graph: &Graph, id: Uuid) -> Option<(usize, Option<usize>)> {
    graph.nodes.iter().enumerate().find_map(|(place, node)| {
        if node.id == id {
            return Some((place, None));
        }
        let middleware = node.middlewares.iter().position(|step| step.id == id)?;
        Some((place, Some(middleware)))
    })
}
