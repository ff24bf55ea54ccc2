//! One pop that may wait: nothing is lost, whenever its asker goes away.

use std::time::Duration;

use bytes::Bytes;
use keyspace::Answer;
use tokio::sync::oneshot;

use super::give_back::undoing;
use super::memory::Begun;
use super::tenant::TenantScratch;
use super::waiters::{Served, WaiterId};
use crate::handle::AskError;

/// A pop on its way to an answer. When it is dropped before that, the pop is undone.
pub(super) struct Turn<'a> {
    scratch: &'a TenantScratch,
    command: &'a [Bytes],
    state: State,
}

enum State {
    /// In line.
    Waits { id: WaiterId, served: oneshot::Receiver<Served>, timeout: Option<Duration> },
    /// Popped, perhaps not durable yet.
    Served(Served),
    /// The answer is with the asker.
    Answered,
}

impl<'a> Turn<'a> {
    pub(super) fn begin(
        scratch: &'a TenantScratch,
        command: &'a [Bytes],
    ) -> Result<Self, AskError> {
        let now = scratch.clock.now();
        let state = match scratch.change(|memory| memory.begin_turn(now, command))? {
            Begun::Served(served) => State::Served(served),
            Begun::Waits { id, served, timeout } => State::Waits { id, served, timeout },
        };
        Ok(Self { scratch, command, state })
    }

    pub(super) async fn answer(mut self) -> Result<Answer, AskError> {
        if let State::Waits { id, served, timeout } = &mut self.state {
            let waited = match timeout {
                Some(timeout) => tokio::time::timeout(*timeout, &mut *served).await,
                None => Ok((&mut *served).await),
            };
            self.state = match waited {
                Ok(Ok(served)) => State::Served(served),
                // The keyspace has ended.
                Ok(Err(_)) => return Err(self.scratch.memory.lock().why_ended()),
                Err(_) => match self.scratch.leave(*id, served) {
                    // It was served at the last moment.
                    Some(served) => State::Served(served),
                    None => State::Answered,
                },
            };
        }
        let State::Served(served) = &self.state else { return Ok(Answer::NullArray) };
        served.mark.durable().await?;
        // No step lies between this and the asker, so the answer cannot be lost on the way.
        match std::mem::replace(&mut self.state, State::Answered) {
            State::Served(served) => Ok(served.answer),
            State::Waits { .. } | State::Answered => unreachable!("it was just looked at"),
        }
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let served = match std::mem::replace(&mut self.state, State::Answered) {
            State::Waits { id, mut served, .. } => self.scratch.leave(id, &mut served),
            State::Served(served) => Some(served),
            State::Answered => None,
        };
        let Some(Served { answer, mark }) = served else { return };
        if let Some(undoing) = undoing(self.command, &answer) {
            let now = self.scratch.clock.now();
            self.scratch.change(|memory| memory.give_back(now, undoing, &mark));
        }
    }
}

impl TenantScratch {
    /// Leaves the line. Who was served before that gets what it was served.
    fn leave(&self, id: WaiterId, served: &mut oneshot::Receiver<Served>) -> Option<Served> {
        // Serving happens under the same lock: either it came before, or it never comes.
        let has_left = self.memory.lock().end_wait(id);
        if has_left { None } else { served.try_recv().ok() }
    }
}
