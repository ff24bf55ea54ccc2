//! From what people write to what is executed.
//!
//! Reading order: `sources` (the graphs of a definition, and the names in them), `ports` (edges, and
//! what flows), `draft`; then, once nothing is wrong, `assemble`.

mod assemble;
mod draft;
mod ports;
mod sources;

use std::collections::BTreeSet;

use bytes::Bytes;

use crate::check;
use crate::check::parameters::SchemaCheck;
use crate::definition::{self, Workflow};
use crate::problem::{Place, Problem, Problems};
use crate::program::{Graph, Program};

use assemble::Assembly;
use ports::Reached;

pub(crate) use assemble::{APPROVE, DELAY, PackageHints, WAIT_EVENT, hints};
pub(crate) use draft::{GraphDraft, Links, StepDraft, each_expression, inputs};
pub(crate) use ports::Bound;
pub(crate) use sources::{CONTAINER_KEY, Source, is_container, place_of, uuid};

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
    let problems = Problems::default();
    let graphs = match definition::decode(&source, &problems) {
        Some(workflow) => graphs(&workflow, &source, &problems),
        None => Vec::new(),
    };
    let warnings = problems.into_result()?;
    Ok(Compiled { program: Program { source, graphs }, warnings })
}

/// One graph among the others.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Context<'s> {
    /// All graphs as authored; the workflow itself stands first.
    pub(crate) sources: &'s [Source<'s>],
    graph: usize,
    problems: &'s Problems,
}

impl<'s> Context<'s> {
    /// The graph as authored.
    pub(crate) fn source(&self) -> &'s Source<'s> {
        &self.sources[self.graph]
    }

    /// Where it stands in the document.
    pub(crate) fn place(&self) -> Place<'s> {
        self.problems.at(&self.source().pointer)
    }
}

/// The graphs of the program; none when something is wrong.
fn graphs(workflow: &Workflow<'_>, bytes: &Bytes, problems: &Problems) -> Vec<Graph> {
    let sources = sources::sources(workflow, problems);
    check::cycle::check_nesting(&sources, problems);
    let graphs = 0..sources.len();
    let contexts: Vec<_> =
        graphs.map(|graph| Context { sources: &sources, graph, problems }).collect();
    let mut reached: Vec<_> = sources.iter().map(|_| Reached::default()).collect();
    let ports: Vec<_> =
        contexts.iter().map(|context| ports::container_ports(context, &mut reached)).collect();
    let drafts = drafts(&contexts, &reached);
    if problems.has_errors() {
        return Vec::new();
    }
    let mut assembly = Assembly::new(workflow, bytes);
    let each = contexts.iter().zip(drafts).zip(ports);
    each.map(|((context, draft), ports)| assembly.graph(context, draft, ports)).collect()
}

/// Reads all graphs, and says what is wrong with each of them.
fn drafts<'s>(contexts: &[Context<'s>], reached: &'s [Reached]) -> Vec<GraphDraft<'s>> {
    let mut told = BTreeSet::new();
    let mut check = SchemaCheck::default();
    let mut drafts = Vec::new();
    for (context, reached) in contexts.iter().zip(reached) {
        check::kinds::check(context, &mut told);
        let draft = draft::draft(context, reached);
        check::wire_type::check(context, &draft, &mut check.schemas);
        drafts.push(draft);
    }
    for (context, draft) in contexts.iter().zip(&drafts) {
        check.graph(context, draft);
    }
    drafts
}
