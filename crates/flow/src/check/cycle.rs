//! Nodes that wait for each other in a circle would wait for ever.

use crate::compile::{Context, Links};
use crate::problem::{Problems, Quoted, code};

/// So many nodes of a circle are named; the middle of a longer one is left out.
const NAMED_MAX: usize = 20;

/// Tells the circles of a graph.
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

/// Circles among those that never get their turn, at least one of each knot. Each begins with its
/// first node.
pub(crate) fn cycles(links: &[Links], order: &[usize]) -> Vec<Vec<usize>> {
    let mut walker = Walker {
        links,
        seen: vec![Seen::Not; links.len()],
        way: Vec::new(),
        told: vec![false; links.len()],
        cycles: Vec::new(),
    };
    for node in order {
        walker.seen[*node] = Seen::Left;
    }
    for start in 0..links.len() {
        walker.walk(start);
    }
    walker.cycles
}

/// More circles than this would not be read.
const CYCLES_MAX: usize = 100;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Seen {
    Not,
    /// It is on the way, at this place.
    At(usize),
    Left,
}

/// Goes from nodes to those that they wait for, and back where all of those are known.
struct Walker<'l> {
    links: &'l [Links],
    seen: Vec<Seen>,
    /// Where the walker is and how it came here: nodes, and which of those that they wait for
    /// is next.
    way: Vec<(usize, usize)>,
    told: Vec<bool>,
    cycles: Vec<Vec<usize>>,
}

impl Walker<'_> {
    fn walk(&mut self, start: usize) {
        self.enter(start);
        while let Some((node, next)) = self.way.last_mut() {
            let node = *node;
            let Some(before) = self.links[node].waits_for.get(*next) else {
                self.seen[node] = Seen::Left;
                self.way.pop();
                continue;
            };
            *next += 1;
            let before = *before as usize;
            match self.seen[before] {
                Seen::At(begin) => self.note(begin),
                Seen::Not | Seen::Left => self.enter(before),
            }
        }
    }

    fn enter(&mut self, node: usize) {
        if self.seen[node] == Seen::Not {
            self.seen[node] = Seen::At(self.way.len());
            self.way.push((node, 0));
        }
    }

    /// The way from here on is a circle. One that shares its ends with another is not noted.
    fn note(&mut self, begin: usize) {
        let ends = [self.way.get(begin), self.way.last()];
        let is_told = ends.into_iter().flatten().any(|(node, _)| self.told[*node]);
        if is_told || self.cycles.len() >= CYCLES_MAX {
            return;
        }
        let mut cycle: Vec<usize> = self.way[begin..].iter().map(|(node, _)| *node).collect();
        for node in &cycle {
            self.told[*node] = true;
        }
        cycle.reverse();
        let first = cycle.iter().enumerate().min_by_key(|(_, node)| **node);
        let first = first.map_or(0, |(position, _)| position);
        cycle.rotate_left(first);
        self.cycles.push(cycle);
    }
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
