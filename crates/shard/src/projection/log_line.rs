//! What stands in the log, as data: the server writes it when it is durable.

use coordinator::{Change, Ending, TenantChange};
use model::WorkerId;

use crate::sessions::SessionRecord;

/// A fact that people look for in the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogLine {
    /// A worker's session began, or goes on over a new connection.
    SessionOpened { worker: String, instance_id: String, session_id: String, is_resumed: bool },
    /// Nobody can go on with the session of this instance.
    SessionEnded { instance_id: String },
    /// A person drained a worker.
    WorkerDrained { worker: WorkerId, by: String },
    /// A person lets a worker take work again.
    WorkerUndrained { worker: WorkerId },
    /// An attempt went over its time.
    JobTimedOut { worker: WorkerId },
}

impl LogLine {
    pub(crate) fn opened(record: &SessionRecord, is_resumed: bool) -> Self {
        let SessionRecord { worker, instance_id, session_id, .. } = record.clone();
        Self::SessionOpened { worker, instance_id, session_id, is_resumed }
    }

    pub(super) fn of_task(change: &Change) -> Option<Self> {
        let attempt = change.ended_attempt()?;
        let is_late = attempt.ending == Ending::TimedOut;
        is_late.then(|| Self::JobTimedOut { worker: attempt.worker.clone() })
    }

    pub(super) fn of_tenant(change: &TenantChange) -> Option<Self> {
        match change {
            TenantChange::WorkerDrained { worker, drain } => {
                Some(Self::WorkerDrained { worker: worker.clone(), by: drain.by.clone() })
            }
            TenantChange::WorkerUndrained { worker } => {
                Some(Self::WorkerUndrained { worker: worker.clone() })
            }
            // The others are seen where they are asked for: queues, tools and schedules.
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use coordinator::{Command, Drain, Moment, Question, Ticket};
    use model::{ShardId, Timestamp};

    use super::*;
    use crate::{ClaimedShard, Effect, Limits, Restored, Shard};

    #[test]
    fn nothing_stands_in_the_log_before_it_is_durable() {
        let now = Timestamp::from_millis(1);
        let at = Moment { now, wall: now, entropy: 1 };
        let claim = ClaimedShard { shard: ShardId::new(1).expect("fits"), epoch: 1 };
        let mut shard = Shard::restore(claim, Restored::default(), Limits::default(), (at, ()));
        let worker: WorkerId = "w".parse().expect("a name");
        let drain = Drain { by: "ada".into(), at: now, gone_by: None, reason: None };
        for drain in [Some(drain), None] {
            let worker = worker.clone();
            shard.on_message(at, Command::Ask(Ticket(1), Question::Drain { worker, drain }));
        }
        let turn = shard.poll_commit().expect("facts");
        assert!(shard.poll_effect().is_none(), "the turn may still be lost");
        shard.on_committed(turn.number);
        let effects = std::iter::from_fn(|| shard.poll_effect());
        let log = effects.filter_map(|effect| match effect {
            Effect::Publish(publication) => Some(publication.log),
            _ => None,
        });
        let drained = LogLine::WorkerDrained { worker: worker.clone(), by: "ada".into() };
        let expected = [drained, LogLine::WorkerUndrained { worker }];
        assert_eq!(log.flatten().collect::<Vec<_>>(), expected);
    }
}
