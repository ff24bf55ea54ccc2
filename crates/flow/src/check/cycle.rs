//! Circles would wait, or go on, for ever: nodes that wait for each other, and graphs in graphs.
//! Those stay within bounds, too.

use std::collections::BTreeSet;

use crate::compile::{Context, Links, Source, place_of};
use crate::problem::{Problems, code, quoted};

/// Limit: subgraphs within subgraphs.
const NESTING_MAX: usize = 16;
/// Limit: nodes of the workflow and of everything that its containers stand for, each as often as
/// it is executed.
const NODES_EXECUTED_MAX: u64 = 1_000_000;
/// So many nodes of a circle are named; the middle of a longer one is left out.
const NAMED_MAX: usize = 20;
/// More circles than this would not be read.
const CYCLES_MAX: usize = 100;

/// Tells the circles of a graph.
pub(crate) fn check(context: &Context<'_>, links: &[Links]) {
    let source = context.source();
    let root = context.place();
    let nodes = root.key("nodes");
    let order = order(links);
    if order.len() == links.len() {
        return;
    }
    for cycle in cycles(links, &order) {
        let around = cycle.iter().chain(cycle.first());
        let names = around.map(|node| quoted(source.name_of(*node)).to_string()).collect();
        let names = path_of(names);
        let id = source.node(cycle[0]).map_or("", |node| node.id.text());
        let message = format_args!(
            "these nodes wait for each other: {names}; remove one of the edges or expressions \
             between them"
        );
        nodes.index(cycle[0]).about(id).error(code::CYCLE, message);
    }
}

/// Tells subgraphs that contain themselves, and what nests too deep or multiplies too much.
pub(crate) fn check_nesting(sources: &[Source<'_>], problems: &Problems) {
    let links = nesting_links(sources);
    let order = order(&links);
    for cycle in cycles(&links, &order) {
        tell_nested_in_itself(sources, &cycle, problems);
    }
    let mut depth = vec![0; sources.len()];
    let mut n_executed = vec![0_u64; sources.len()];
    // Those inside come first.
    for graph in order {
        let inside = sources[graph].inner.values().map(|inside| *inside as usize);
        depth[graph] = inside.clone().map(|inside| depth[inside] + 1).max().unwrap_or(0);
        let own = sources[graph].workflow.nodes.items().len() as u64;
        n_executed[graph] =
            inside.fold(own, |sum: u64, inside| sum.saturating_add(n_executed[inside]));
    }
    let (depth, n) = (depth[0], n_executed[0]);
    let root = problems.at("");
    let at = root.key("nodes");
    if depth > NESTING_MAX {
        let message = format_args!(
            "containers nest {depth} levels deep; at most {NESTING_MAX} are taken, so flatten some"
        );
        at.error(code::SUBGRAPH, message);
    }
    if n > NODES_EXECUTED_MAX {
        let message = format_args!(
            "with all that its containers stand for the workflow has {n} nodes; at most \
             {NODES_EXECUTED_MAX} are taken"
        );
        at.error(code::LIMIT, message);
    }
}

/// A graph can be measured when all graphs inside it are.
fn nesting_links(sources: &[Source<'_>]) -> Vec<Links> {
    let mut links = vec![Links::default(); sources.len()];
    for (graph, source) in sources.iter().enumerate() {
        let inside: BTreeSet<u32> = source.inner.values().copied().collect();
        for inside in inside {
            links[inside as usize].followers.push(place_of(graph));
            links[graph].waits_for.push(inside);
        }
    }
    links
}

fn tell_nested_in_itself(sources: &[Source<'_>], cycle: &[usize], problems: &Problems) {
    let name = |graph: &usize| {
        let source = &sources[*graph];
        let name = if source.name.is_empty() { source.id } else { source.name };
        quoted(name).to_string()
    };
    // From the outside in; the circle of those who wait runs the other way.
    let names = cycle.first().into_iter().chain(cycle.iter().rev()).map(name).collect();
    let names = path_of(names);
    let source = &sources[cycle[0]];
    let inside = cycle[cycle.len() - 1];
    let container = source.inner.iter().find(|(_, found)| **found as usize == inside);
    let container = container.map_or(0, |(node, _)| *node as usize);
    let id = source.node(container).map_or("", |node| node.id.text());
    let message = format_args!(
        "a subgraph contains itself: {names}; it would never end, so let this container stand for \
         another subgraph"
    );
    let root = problems.at(&source.pointer);
    root.key("nodes").index(container).about(id).error(code::SUBGRAPH, message);
}

/// The nodes in an order in which their turns can come. Those that are missing never get theirs.
fn order(links: &[Links]) -> Vec<usize> {
    let mut waits: Vec<usize> = links.iter().map(|links| links.waits_for.len()).collect();
    let mut order: Vec<usize> = (0..links.len()).filter(|node| waits[*node] == 0).collect();
    let mut next = 0;
    while let Some(node) = order.get(next) {
        next += 1;
        for follower in links[*node].followers.iter().map(|follower| *follower as usize) {
            waits[follower] -= 1;
            if waits[follower] == 0 {
                order.push(follower);
            }
        }
    }
    order
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Seen {
    Not,
    /// It is on the way, at this place.
    At(usize),
    Left,
}

/// Circles among those that never get their turn, at least one of each knot. Each begins with its
/// first node.
fn cycles(links: &[Links], order: &[usize]) -> Vec<Vec<usize>> {
    let mut cycles = Vec::new();
    let mut told = vec![false; links.len()];
    let mut seen = vec![Seen::Not; links.len()];
    for node in order {
        seen[*node] = Seen::Left;
    }
    // Where we are and how we came here: nodes, and which of those that they wait for is next.
    let mut way: Vec<(usize, usize)> = Vec::new();
    for start in 0..links.len() {
        let mut entered = Some(start);
        loop {
            if let Some(node) = entered.take().filter(|node| seen[*node] == Seen::Not) {
                seen[node] = Seen::At(way.len());
                way.push((node, 0));
            }
            let Some((node, next)) = way.last_mut() else { break };
            let Some(before) = links[*node].waits_for.get(*next) else {
                seen[*node] = Seen::Left;
                way.pop();
                continue;
            };
            *next += 1;
            match seen[*before as usize] {
                Seen::At(begin) => note(&way[begin..], &mut told, &mut cycles),
                Seen::Not | Seen::Left => entered = Some(*before as usize),
            }
        }
    }
    cycles
}

/// This way is a circle. One that shares its ends with another is not noted.
fn note(way: &[(usize, usize)], told: &mut [bool], cycles: &mut Vec<Vec<usize>>) {
    let mut ends = [way.first(), way.last()].into_iter().flatten();
    if ends.any(|(node, _)| told[*node]) || cycles.len() >= CYCLES_MAX {
        return;
    }
    let mut cycle: Vec<usize> = way.iter().rev().map(|(node, _)| *node).collect();
    for node in &cycle {
        told[*node] = true;
    }
    let first = cycle.iter().enumerate().min_by_key(|(_, node)| **node);
    let first = first.map_or(0, |(position, _)| position);
    cycle.rotate_left(first);
    cycles.push(cycle);
}

/// `Open -> Click -> Open`.
fn path_of(mut names: Vec<String>) -> String {
    if names.len() > NAMED_MAX {
        let n_hidden = names.len() - NAMED_MAX;
        let half = NAMED_MAX / 2;
        names.splice(half..half + n_hidden, [format!("({n_hidden} more)")]);
    }
    names.join(" -> ")
}
