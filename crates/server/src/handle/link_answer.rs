//! What a worker's link asks of the coordinator. Only the link looks into the answer.

use coordinator::Answer;
use futures_util::future::{AbortRegistration, Abortable};
use model::Timestamp;
use shard::worker_link::{LinkCommand, RequestId, Unanswered, WorkerLink};

use super::{AskError, ShardHandle};

/// What the coordinator said to a link, or why it said nothing.
pub(crate) struct LinkAnswer(Result<Answer, AskError>);

impl ShardHandle {
    /// Asks for a link. A question that is taken back while it waits was granted nothing.
    pub(crate) async fn ask_for_link(
        &self,
        command: LinkCommand,
        stop: Option<AbortRegistration>,
    ) -> LinkAnswer {
        let asking = self.ask(|ticket| command.with_ticket(ticket));
        LinkAnswer(match stop {
            None => asking.await,
            Some(stop) => {
                let taken_back = |_| Ok(Answer::Leases(Vec::new()));
                Abortable::new(asking, stop).await.unwrap_or_else(taken_back)
            }
        })
    }
}

impl LinkAnswer {
    /// Gives the answer to the link that asked. A refusal is an answer that the link knows of.
    pub(crate) fn give_to(self, link: &mut WorkerLink, now: Timestamp, request: RequestId) {
        match self.0 {
            Ok(answer) => link.on_answer(now, request, answer),
            Err(AskError::Stopping) => link.on_unanswered(now, request, Unanswered::Stopping),
            Err(AskError::Overloaded | AskError::Unavailable | AskError::Refused(_)) => {
                link.on_unanswered(now, request, Unanswered::Unavailable);
            }
        }
    }
}
