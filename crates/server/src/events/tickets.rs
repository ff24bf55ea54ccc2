//! Tickets: a way to the events for a browser, whose `EventSource` can send no header.

use std::collections::HashMap;
use std::time::Duration;

use foldhash::fast::RandomState;
use model::Timestamp;
use parking_lot::Mutex;
use protocol::error_code::ErrorCode;

use crate::auth::{Caller, digest_of, random_hex};
use crate::wire_words::problem::ApiError;

/// Limit: how long a ticket may wait to be used.
pub const TICKET_LIFETIME: Duration = Duration::from_mins(1);
/// Limit: tickets that wait to be used, of all tenants.
const TICKETS_MAX: usize = 10_000;
const TICKET_BYTES: usize = 16;

/// Who a ticket stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Holder {
    pub(crate) caller: Caller,
    /// The token that it was made with: when that one ends, so does what the ticket opened.
    pub(crate) token_id: Option<String>,
}

/// The tickets that wait to be used; of each only a digest. A restart forgets them.
#[derive(Debug, Default)]
pub(crate) struct Tickets {
    waiting: Mutex<HashMap<[u8; 32], (Holder, Timestamp), RandomState>>,
}

impl Tickets {
    pub(crate) fn issue(&self, holder: Holder, now: Timestamp) -> Result<String, ApiError> {
        let ticket = random_hex::<TICKET_BYTES>()
            .ok_or_else(|| ApiError::internal("the system gives no random bytes"))?;
        let mut waiting = self.waiting.lock();
        if waiting.len() >= TICKETS_MAX {
            waiting.retain(|_, (_, until)| *until > now);
        }
        if waiting.len() >= TICKETS_MAX {
            let message = format!("{TICKETS_MAX} tickets wait to be used");
            return Err(ApiError::new(ErrorCode::LimitEvents, message));
        }
        waiting.insert(digest_of(&ticket), (holder, now.after(TICKET_LIFETIME)));
        Ok(ticket)
    }

    /// Who stands behind a ticket. It works once. The digest is looked up, not the ticket: how long
    /// that takes says nothing about a ticket.
    pub(crate) fn redeem(&self, ticket: &str, now: Timestamp) -> Option<Holder> {
        let (holder, until) = self.waiting.lock().remove(&digest_of(ticket))?;
        (until > now).then_some(holder)
    }
}

#[cfg(test)]
mod tests {
    use protocol::rest::tokens::Role;

    use super::*;

    fn holder(tenant: &str) -> Holder {
        let tenant = tenant.parse().expect("a name");
        let caller = Caller { tenant, role: Role::Viewer, worker: None };
        Holder { caller, token_id: Some("t1".to_owned()) }
    }

    #[test]
    fn a_ticket_works_once_and_for_its_holder_alone() {
        let (tickets, now) = (Tickets::default(), Timestamp::from_millis(1));
        let one = tickets.issue(holder("a"), now).expect("a ticket");
        let other = tickets.issue(holder("b"), now).expect("a ticket");
        assert_eq!(one.len(), 32);
        assert_ne!(one, other);
        assert_eq!(tickets.redeem("0".repeat(32).as_str(), now), None);
        assert_eq!(tickets.redeem(&one, now), Some(holder("a")));
        assert_eq!(tickets.redeem(&one, now), None, "once");
        assert_eq!(tickets.redeem(&other, now), Some(holder("b")));
    }

    #[test]
    fn a_ticket_ends_by_its_time_and_makes_room() {
        let (tickets, now) = (Tickets::default(), Timestamp::from_millis(1));
        let old = tickets.issue(holder("a"), now).expect("a ticket");
        for _ in 1..TICKETS_MAX {
            tickets.issue(holder("a"), now).expect("a ticket");
        }
        let refused = tickets.issue(holder("a"), now).expect_err("full");
        assert_eq!(refused.code, ErrorCode::LimitEvents);
        let later = now.after(TICKET_LIFETIME);
        assert!(tickets.issue(holder("a"), later).is_ok());
        assert_eq!(tickets.waiting.lock().len(), 1, "the old ones made room");
        let late = tickets.issue(holder("a"), now).expect("a ticket");
        for ticket in [old, late] {
            assert_eq!(tickets.redeem(&ticket, later), None, "too late");
        }
    }
}
