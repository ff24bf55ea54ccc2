//! How much more one reply may carry.

use bytes::Bytes;

use crate::failure::Failure;
use crate::limits::Limits;

/// What is left of the limits of one reply.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Budget {
    limits: Limits,
    n_elements: usize,
    n_bytes: usize,
}

impl Budget {
    pub(crate) fn new(limits: &Limits) -> Self {
        Self { limits: *limits, n_elements: 0, n_bytes: 0 }
    }

    /// Counts one element of this size.
    pub(crate) fn spend(&mut self, bytes: usize) -> Result<(), Failure> {
        self.n_elements += 1;
        self.n_bytes = self.n_bytes.saturating_add(bytes);
        if self.n_elements > self.limits.reply_elements_max {
            return Err(Failure::reply_too_large(self.limits.reply_elements_max, "elements"));
        }
        if self.n_bytes > self.limits.reply_bytes_max {
            return Err(Failure::reply_too_large(self.limits.reply_bytes_max, "bytes"));
        }
        Ok(())
    }

    /// Refuses more elements than fit, before any is looked at.
    pub(crate) fn check_elements(&self, n_elements: usize) -> Result<(), Failure> {
        if n_elements > self.limits.reply_elements_max {
            return Err(Failure::reply_too_large(self.limits.reply_elements_max, "elements"));
        }
        Ok(())
    }

    /// All of these, if they fit.
    pub(crate) fn collect<'a>(
        &mut self,
        elements: impl Iterator<Item = &'a Bytes>,
    ) -> Result<Vec<Bytes>, Failure> {
        elements.map(|one| self.spend(one.len()).map(|()| one.clone())).collect()
    }
}
