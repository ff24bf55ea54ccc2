//! The leases that this process has reported or given up, so that none is executed twice.

use std::collections::{HashMap, VecDeque};

/// How many leases are remembered.
const REMEMBERED_MAX: usize = 10_000;

/// The last leases that ended here, and whether anything was said about them.
#[derive(Debug, Default)]
pub(crate) struct History {
    ends: HashMap<String, End>,
    order: VecDeque<String>,
    n_unjudged: usize,
}

/// How a lease ended here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// It was reported and no verdict came yet.
    Reported,
    /// A verdict came, or none will.
    Settled,
}

impl History {
    /// Remembers a lease; of too many the oldest is forgotten.
    pub(crate) fn add(&mut self, lease_id: &str, end: End) {
        if self.ends.contains_key(lease_id) {
            return;
        }
        if self.order.len() >= REMEMBERED_MAX
            && let Some(oldest) = self.order.pop_front()
            && self.ends.remove(&oldest) == Some(End::Reported)
        {
            self.n_unjudged -= 1;
        }
        self.n_unjudged += usize::from(end == End::Reported);
        self.ends.insert(lease_id.to_owned(), end);
        self.order.push_back(lease_id.to_owned());
    }

    pub(crate) fn knows(&self, lease_id: &str) -> bool {
        self.ends.contains_key(lease_id)
    }

    /// A verdict came. `true` for the first one about a report of ours.
    pub(crate) fn settle(&mut self, lease_id: &str) -> bool {
        match self.ends.get_mut(lease_id) {
            Some(end @ End::Reported) => {
                *end = End::Settled;
                self.n_unjudged -= 1;
                true
            }
            Some(End::Settled) | None => false,
        }
    }

    /// Whether a verdict about this lease came.
    pub(crate) fn is_settled(&self, lease_id: &str) -> bool {
        self.ends.get(lease_id) == Some(&End::Settled)
    }

    /// Reports without a verdict.
    pub(crate) fn n_unjudged(&self) -> usize {
        self.n_unjudged
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verdict_counts_once() {
        let mut history = History::default();
        history.add("a", End::Reported);
        assert!(history.knows("a") && !history.is_settled("a"));
        assert!(history.settle("a") && !history.settle("a") && !history.settle("b"));
        assert!(history.is_settled("a"));
        assert_eq!(history.n_unjudged(), 0);
    }

    #[test]
    fn the_last_ten_thousand_are_remembered() {
        let mut history = History::default();
        for n in 0..=REMEMBERED_MAX {
            history.add(&n.to_string(), End::Reported);
        }
        assert!(!history.knows("0") && history.knows("1"));
        assert_eq!(history.n_unjudged(), REMEMBERED_MAX);
    }
}
