//! From what people write to what is executed.
//!
//! Reading order: `sources` (the graphs of a definition), `names` (who is meant by a name),
//! `containers` and `reach` (graphs in graphs), `ports` and `edges`, `references`, `draft`,
//! `links`, `graph`; then, once nothing is wrong, `assemble` with `work` and `spec`.

mod assemble;
mod containers;
mod draft;
mod edges;
mod graph;
mod links;
mod names;
mod ports;
mod reach;
mod references;
mod sources;
mod spec;
mod work;

use std::collections::BTreeSet;

use bytes::Bytes;

use crate::check;
use crate::check::schema::Schemas;
use crate::definition::{self, Workflow};
use crate::problem::{Problem, Problems};
use crate::program::Program;

use assemble::Workshop;
use names::Names;
use reach::Reached;
use sources::Source;
use spec::Specs;

pub(crate) use containers::{CONTAINER_KEY, Inner, is_container};
pub(crate) use draft::StepDraft;
pub(crate) use edges::Flow;
pub(crate) use graph::GraphDraft;
pub(crate) use links::Links;
pub(crate) use names::uuid;
pub(crate) use ports::Bound;
pub(crate) use sources::{Sources, place_of};
pub(crate) use spec::{PackageHints, hints};
pub(crate) use work::{APPROVE, DELAY, WAIT_EVENT};

/// A program, and what is odd about it.
#[derive(Debug)]
pub struct Compiled {
    /// What is executed.
    pub program: Program,
    /// Nothing but warnings.
    pub warnings: Vec<Problem>,
}

/// Makes a program of a definition; or says everything that is wrong with it.
pub fn compile(source: Bytes) -> Result<Compiled, Vec<Problem>> {
    let mut problems = Problems::default();
    let graphs = match definition::decode(&source, &mut problems) {
        Some(workflow) => graphs(&workflow, &source, &mut problems),
        None => Vec::new(),
    };
    let warnings = problems.into_result()?;
    Ok(Compiled { program: Program { source, graphs }, warnings })
}

/// One graph among the others.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Context<'s> {
    sources: &'s Sources<'s>,
    names: &'s [Names<'s>],
    inner: &'s [Inner],
    graph: usize,
}

impl<'s> Context<'s> {
    /// The graph as authored.
    pub(crate) fn source(&self) -> &'s Source<'s> {
        &self.sources.0[self.graph]
    }

    /// Another graph as authored.
    pub(crate) fn other(&self, graph: u32) -> &'s Source<'s> {
        &self.sources.0[graph as usize]
    }

    /// The names of its nodes.
    pub(crate) fn names(&self) -> &'s Names<'s> {
        &self.names[self.graph]
    }

    /// The names of another graph's nodes.
    pub(crate) fn names_of(&self, graph: u32) -> &'s Names<'s> {
        &self.names[graph as usize]
    }

    /// The subgraphs of its containers.
    pub(crate) fn inner(&self) -> &'s Inner {
        &self.inner[self.graph]
    }
}

/// The graphs of the program; none when something is wrong.
fn graphs(workflow: &Workflow<'_>, bytes: &Bytes, problems: &mut Problems) -> Vec<crate::Graph> {
    check::shape::check(workflow, problems);
    let sources = Sources::of(workflow, problems);
    let n_graphs = sources.0.len();
    let names: Vec<_> = sources.0.iter().map(|source| Names::gather(source, problems)).collect();
    let inner: Vec<_> =
        (0..n_graphs).map(|graph| containers::inner(&sources, graph, problems)).collect();
    check::nesting::check(&sources, &inner, problems);
    let context = |graph| Context { sources: &sources, names: &names, inner: &inner, graph };
    let mut reached: Vec<_> = (0..n_graphs).map(|_| Reached::default()).collect();
    let ports: Vec<_> =
        (0..n_graphs).map(|graph| reach::ports(&context(graph), &mut reached)).collect();
    let drafts = drafts(&context, &reached, problems);
    if problems.has_errors() {
        return Vec::new();
    }
    let mut specs = Specs::new(workflow);
    let each = drafts.into_iter().zip(ports).zip(&reached).enumerate();
    each.map(|(graph, ((draft, ports), reached))| {
        Workshop::new(bytes, &mut specs, ports, &reached.fed).graph(&context(graph), draft)
    })
    .collect()
}

/// Reads all graphs, and says what is wrong with each of them.
fn drafts<'s>(
    context: &impl Fn(usize) -> Context<'s>,
    reached: &'s [Reached],
    problems: &mut Problems,
) -> Vec<GraphDraft<'s>> {
    let mut told = BTreeSet::new();
    let mut schemas = Schemas::default();
    let mut drafts = Vec::new();
    for (graph, reached) in reached.iter().enumerate() {
        let context = context(graph);
        check::kinds::check(&context, &mut told, problems);
        let draft = graph::draft(&context, reached, problems);
        check::wire_type::check(&context, &draft, &mut schemas, problems);
        drafts.push(draft);
    }
    let mut check = check::parameters::Check::new(&mut schemas);
    for (graph, draft) in drafts.iter().enumerate() {
        check.graph(&context(graph), draft, problems);
    }
    drafts
}
