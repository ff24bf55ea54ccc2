//! What must be true of the indexes behind every grant.

use std::collections::BTreeSet;

use super::{DemandIdx, Placement, index};

impl Placement {
    /// Checks that the heads, and what is to be served, follow from the demands; for tests.
    ///
    /// # Panics
    /// When an index lies.
    pub(crate) fn check_invariants(&self) {
        let mut heads = BTreeSet::new();
        for (key, entry) in &self.demands {
            let idx = DemandIdx(index(key));
            assert_eq!(entry.is_paused, self.pauses.contains_key(&entry.demand.queue), "pauses");
            assert!(!(entry.is_paused && self.unserved.contains(&idx)), "paused and to be served");
            heads.extend(self.head(idx).map(|rank| (rank, idx)));
        }
        self.check_lanes();
        self.ready_sets().for_each(|(_, ready)| ready.check());
        let n_ready: u64 = self.ready_sets().map(|(_, ready)| ready.len()).sum();
        assert_eq!(self.ready_len as u64, n_ready, "ready tasks");
        assert_eq!(self.heads, heads, "heads");
    }
}
