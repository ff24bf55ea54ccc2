//! Nodes that wait for each other in a circle would wait for ever.

use crate::compile::{Context, Links};
use crate::problem::{Problems, Quoted, code};

/// So many nodes of a circle are named; the middle of a longer one is left out.
const NAMED_MAX: usize = 20;

/// Tells the circles of a graph; each node is told in one of them at most.
pub(crate) fn check(context: &Context<'_>, links: &[Links], problems: &mut Problems) {
    let stuck = stuck(links);
    let mut walk_of = vec![0_u32; links.len()];
    for start in 0..links.len() {
        if !stuck[start] || walk_of[start] != 0 {
            continue;
        }
        if let Some(cycle) = walk(start, links, &stuck, &mut walk_of) {
            tell(context, &cycle, problems);
        }
    }
}

/// The nodes that never get their turn: what is left when those whose turn comes are taken away.
fn stuck(links: &[Links]) -> Vec<bool> {
    let mut waits: Vec<usize> = links.iter().map(|links| links.waits_for.len()).collect();
    let mut free: Vec<usize> = (0..links.len()).filter(|node| waits[*node] == 0).collect();
    while let Some(node) = free.pop() {
        for follower in &links[node].followers {
            let follower = *follower as usize;
            waits[follower] -= 1;
            if waits[follower] == 0 {
                free.push(follower);
            }
        }
    }
    waits.into_iter().map(|waits| waits > 0).collect()
}

/// Goes from a node to one that it waits for, and on, until a node comes again. A walk that meets
/// an earlier one ends there: its circle is told already.
fn walk(start: usize, links: &[Links], stuck: &[bool], walk_of: &mut [u32]) -> Option<Vec<usize>> {
    let mark = u32::try_from(start).ok()? + 1;
    let mut way = vec![start];
    let mut at = start;
    walk_of[at] = mark;
    loop {
        let before = links[at].waits_for.iter().map(|node| *node as usize);
        at = before.into_iter().find(|node| stuck[*node])?;
        if walk_of[at] == mark {
            let begin = way.iter().position(|node| *node == at)?;
            let mut cycle = way.split_off(begin);
            cycle.reverse();
            return Some(cycle);
        }
        if walk_of[at] != 0 {
            return None;
        }
        walk_of[at] = mark;
        way.push(at);
    }
}

fn tell(context: &Context<'_>, cycle: &[usize], problems: &mut Problems) {
    let source = context.source();
    // Begins with the node that was authored first.
    let first = cycle.iter().enumerate().min_by_key(|(_, node)| **node);
    let first = first.map_or(0, |(position, _)| position);
    let nodes = cycle.iter().cycle().skip(first).take(cycle.len() + 1);
    let mut names: Vec<String> =
        nodes.map(|node| Quoted(source.name_of(*node)).to_string()).collect();
    if names.len() > NAMED_MAX {
        let n_hidden = names.len() - NAMED_MAX;
        let half = NAMED_MAX / 2;
        names.splice(half..half + n_hidden, [format!("({n_hidden} more)")]);
    }
    let names = names.join(" -> ");
    let root = source.place();
    let nodes = root.key("nodes");
    let node = cycle[first];
    let id = source.node(node).map_or("", |node| node.id.text());
    let message = format_args!(
        "these nodes wait for each other: {names}; remove one of the edges or expressions \
         between them"
    );
    problems.error(code::CYCLE, &nodes.index(node).about(id), message);
}
