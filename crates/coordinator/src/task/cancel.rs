//! What people do to tasks: stop them, put them back, watch them.

use model::{TaskId, Timestamp};

use super::load::WATCHES_MAX;
use super::record::live_bytes;
use crate::change::{
    Change, EndedAttempt, Ending, Outcome, Progress, Settlement, TaskRecord, TaskState,
};
use crate::command::Ticket;
use crate::coordinator::Decision;
use crate::effect::{Answer, Refusal};
use crate::state::Deadline;

impl Decision<'_> {
    pub(crate) fn on_stop(&mut self, id: TaskId) -> Answer {
        if self.stop_task(id) { Answer::Stopped } else { Answer::NotLive }
    }

    pub(crate) fn on_requeue(&mut self, id: TaskId) -> Result<Answer, Refusal> {
        let record = self.requeued(id)?;
        self.change(Change::TaskRequeued(Box::new(record)));
        Ok(Answer::Requeued)
    }

    /// The task as it is when it is back: fresh attempts, but epochs only rise.
    fn requeued(&mut self, id: TaskId) -> Result<TaskRecord, Refusal> {
        if let Some(task) = self.state.tasks.get(id) {
            return Err(Refusal::NotRequeueable { state: task.progress.state.word() });
        }
        let settled = self.state.settled(id, &self.facts).ok_or(Refusal::UnknownTask)?;
        let mut record = settled.clone();
        if let Some(link) = &record.link {
            return Err(Refusal::PartOfRun { run: link.run });
        }
        let TaskState::Settled(settlement) = &record.progress.state else {
            return Err(Refusal::NotRequeueable { state: record.progress.state.word() });
        };
        if settlement.outcome == Outcome::Completed {
            return Err(Refusal::NotRequeueable { state: record.progress.state.word() });
        }
        let bytes = live_bytes(&record.parameters, record.after.len());
        self.check_room(1, bytes, std::iter::once(&record.spec))?;
        if let Some(last) = reported_failure(settlement, record.progress.epoch) {
            record.ended_attempts.push(last);
        }
        let epoch = record.progress.epoch;
        record.progress = Progress { state: TaskState::Ready, attempt: 0, epoch, losses: 0 };
        Ok(record)
    }

    pub(crate) fn on_watch(&mut self, ticket: Ticket, task: TaskId, until: Timestamp) {
        if self.state.tasks.get(task).is_none() {
            return self.answer(ticket, Answer::NotLive);
        }
        if until <= self.now() {
            return self.answer(ticket, Answer::WatchEnded);
        }
        if self.state.watches.len() >= WATCHES_MAX {
            return self.answer(ticket, Answer::Refused(Refusal::RequestsFull));
        }
        self.state.watches.add(ticket, task, until);
        self.state.deadlines.insert(until, Deadline::Watch(ticket));
    }

    pub(crate) fn on_watch_due(&mut self, ticket: Ticket) {
        if self.state.watches.remove(ticket).is_none() {
            self.state.runs.watches.remove(ticket);
        }
        self.answer(ticket, Answer::WatchEnded);
    }
}

/// The failed attempt that settled a task, as history keeps it once the task lives again: its
/// report must still be recognised.
fn reported_failure(settlement: &Settlement, epoch: u32) -> Option<EndedAttempt> {
    let (report, failure) = (settlement.report?, settlement.failure.clone()?);
    let worker = settlement.holder.clone()?;
    Some(EndedAttempt {
        epoch,
        worker,
        at: settlement.at,
        ending: Ending::Failed { report, failure },
    })
}
