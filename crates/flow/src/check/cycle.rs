//! Nodes that wait for each other in a circle would wait for ever.

use crate::compile::{Context, Links};
use crate::problem::{Problems, Quoted, code};

/// So many nodes of a circle are named; the middle of a longer one is left out.
const NAMED_MAX: usize = 20;

/// Tells the circles of a graph; each node is told in one of them at most.
pub(crate) fn check(context: &Context<'_>, links: &[Links], problems: &mut Problems) {
    let order = order(links);
    if order.len() == links.len() {
        return;
    }
    for cycle in cycles(links, &order) {
        tell(context, &cycle, problems);
    }
}

/// The nodes in an order in which their turns can come. Those that are missing never get theirs.
pub(crate) fn order(links: &[Links]) -> Vec<usize> {
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

/// The circles among those that never get their turn. Each begins with its first node.
pub(crate) fn cycles(links: &[Links], order: &[usize]) -> Vec<Vec<usize>> {
    let mut walk_of = vec![0; links.len()];
    for node in order {
        walk_of[*node] = FREE;
    }
    let starts = 0..links.len();
    starts.filter_map(|start| walk(start, links, &mut walk_of)).collect()
}

/// The mark of nodes that are in no circle and wait for none.
const FREE: usize = usize::MAX;

/// Goes from a node to one that it waits for, and on, until a node comes again. A walk that meets
/// an earlier one ends there: its circle is known already.
fn walk(start: usize, links: &[Links], walk_of: &mut [usize]) -> Option<Vec<usize>> {
    let mark = start + 1;
    let mut way = Vec::new();
    let mut at = start;
    while walk_of[at] == 0 {
        walk_of[at] = mark;
        way.push(at);
        let mut before = links[at].waits_for.iter().map(|node| *node as usize);
        at = before.find(|node| walk_of[*node] != FREE)?;
    }
    if walk_of[at] != mark {
        return None;
    }
    let begin = way.iter().position(|node| *node == at)?;
    let mut cycle = way.split_off(begin);
    cycle.reverse();
    let first = cycle.iter().enumerate().min_by_key(|(_, node)| **node)?.0;
    cycle.rotate_left(first);
    Some(cycle)
}

/// `Open -> Click -> Open`.
pub(crate) fn path_of(mut names: Vec<String>) -> String {
    if names.len() > NAMED_MAX {
        let n_hidden = names.len() - NAMED_MAX;
        let half = NAMED_MAX / 2;
        names.splice(half..half + n_hidden, [format!("({n_hidden} more)")]);
    }
    names.join(" -> ")
}

fn tell(context: &Context<'_>, cycle: &[usize], problems: &mut Problems) {
    let source = context.source();
    let around = cycle.iter().chain(cycle.first());
    let names = around.map(|node| Quoted(source.name_of(*node)).to_string()).collect();
    let names = path_of(names);
    let root = source.place();
    let nodes = root.key("nodes");
    let id = source.node(cycle[0]).map_or("", |node| node.id.text());
    let message = format_args!(
        "these nodes wait for each other: {names}; remove one of the edges or expressions between \
         them"
    );
    problems.error(code::CYCLE, &nodes.index(cycle[0]).about(id), message);
}
