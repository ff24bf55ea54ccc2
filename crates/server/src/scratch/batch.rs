//! Changes that become durable together, and who waits for them.

use std::sync::{Arc, OnceLock};

use tokio::sync::Notify;

use crate::handle::AskError;

/// Changes that become durable together. Batches of one keyspace are kept in order: when one is,
/// so are all before it; when one is lost, so are all after it.
#[derive(Debug, Default)]
pub(super) struct Batch {
    /// Set once.
    is_kept: OnceLock<bool>,
    settled: Notify,
}

impl Batch {
    /// Tells everyone who waits whether it is durable.
    pub(super) fn settle(&self, is_kept: bool) {
        let first = self.is_kept.set(is_kept);
        assert!(first.is_ok(), "a batch is settled once");
        self.settled.notify_waiters();
    }

    pub(super) fn is_settled(&self) -> bool {
        self.is_kept.get().is_some()
    }

    async fn is_kept(&self) -> bool {
        loop {
            // Made before the look, so that it hears of a settlement that comes after it.
            let settled = self.settled.notified();
            if let Some(is_kept) = self.is_kept.get() {
                return *is_kept;
            }
            settled.await;
        }
    }
}

/// The last change that an answer may have seen. The answer is true once that is durable.
///
/// A mark stands for itself: who carries out several calls before it waits joins their marks with
/// [`Mark::join`].
#[derive(Clone, Debug, Default)]
pub struct Mark {
    batch: Option<Arc<Batch>>,
}

impl Mark {
    pub(super) fn of(batch: Option<Arc<Batch>>) -> Self {
        Self { batch }
    }

    /// Whether there is nothing to wait for.
    pub fn is_durable(&self) -> bool {
        self.batch.as_ref().is_none_or(|batch| batch.is_kept.get() == Some(&true))
    }

    pub(super) fn is_lost(&self) -> bool {
        self.batch.as_ref().is_some_and(|batch| batch.is_kept.get() == Some(&false))
    }

    /// Makes this stand for a later call of the same keyspace as well.
    pub fn join(&mut self, later: Self) {
        // A lost change stays lost, although the memory was rebuilt since. If it is not settled,
        // the later call was carried out on the same memory and its change comes after it.
        if !self.is_lost() {
            *self = later;
        }
    }

    pub(super) async fn durable(&self) -> Result<(), AskError> {
        match &self.batch {
            None => Ok(()),
            Some(batch) if batch.is_kept().await => Ok(()),
            Some(_) => Err(AskError::Unavailable),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_mark_is_durable_when_its_batch_is() {
        assert!(Mark::default().is_durable());
        let batch = Arc::new(Batch::default());
        let mark = Mark::of(Some(Arc::clone(&batch)));
        assert!(!mark.is_durable());
        let waiting = tokio::spawn({
            let mark = mark.clone();
            async move { mark.durable().await }
        });
        tokio::task::yield_now().await;
        batch.settle(true);
        assert_eq!(waiting.await.expect("ends"), Ok(()));
        assert!(mark.is_durable());
        assert_eq!(mark.durable().await, Ok(()));
    }

    #[tokio::test]
    async fn a_lost_mark_stays_lost_when_later_ones_join_it() {
        let batch = Arc::new(Batch::default());
        let mut mark = Mark::of(Some(Arc::clone(&batch)));
        batch.settle(false);
        mark.join(Mark::default());
        assert_eq!(mark.durable().await, Err(AskError::Unavailable));
    }

    #[test]
    fn the_later_of_two_open_marks_counts() {
        let (first, second) = (Arc::new(Batch::default()), Arc::new(Batch::default()));
        let mut mark = Mark::of(Some(Arc::clone(&first)));
        mark.join(Mark::of(Some(Arc::clone(&second))));
        first.settle(true);
        assert!(!mark.is_durable());
        second.settle(true);
        assert!(mark.is_durable());
    }
}
