//! Where a session stands, for both ends.

/// The states of seed 000 §2. `BACKOFF` is the worker's alone.
///
/// ```text
/// NEW         --> HANDSHAKING  a handshake or a resume is on its way
/// NEW         --> CLOSED       this end leaves
/// NEW         --> BACKOFF      no connection comes about
/// HANDSHAKING --> REGISTERED   the handshake is acknowledged, the register on its way
/// HANDSHAKING --> READY        the resume is accepted
/// HANDSHAKING --> NEW          refused by reset; the connection is still there
/// HANDSHAKING --> CLOSED       this end leaves
/// HANDSHAKING --> BACKOFF      the connection is lost or refused
/// REGISTERED  --> HANDSHAKING  a second handshake on the same connection
/// REGISTERED  --> READY        the session is accepted
/// REGISTERED  --> NEW          refused by reset
/// REGISTERED  --> CLOSED       this end leaves
/// REGISTERED  --> BACKOFF      the connection is lost or refused
/// READY       --> DRAINING     nothing new is taken
/// READY       --> HANDSHAKING  a second handshake on the same connection
/// READY       --> NEW          ended by reset
/// READY       --> CLOSED       this end leaves
/// READY       --> BACKOFF      the connection is lost
/// DRAINING    --> READY        the drain is taken back
/// DRAINING    --> HANDSHAKING  a second handshake on the same connection
/// DRAINING    --> NEW          ended by reset
/// DRAINING    --> CLOSED       all is finished
/// DRAINING    --> BACKOFF      the connection is lost
/// BACKOFF     --> NEW          the wait is over
/// BACKOFF     --> CLOSED       this end leaves
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum State {
    /// Nothing was said yet.
    New,
    /// The worker named itself, or asked to go on, and has no answer.
    Handshaking,
    /// The worker is known; its session is not open yet.
    Registered,
    /// Business frames flow.
    Ready,
    /// What is in flight is finished; nothing new is taken.
    Draining,
    /// Nothing leaves this state.
    Closed,
    /// The worker waits before it connects again.
    Backoff,
}

impl State {
    /// Which states may follow.
    pub const fn allowed_transitions(self) -> &'static [Self] {
        match self {
            Self::New => &[Self::Handshaking, Self::Closed, Self::Backoff],
            Self::Handshaking => {
                &[Self::Registered, Self::Ready, Self::New, Self::Closed, Self::Backoff]
            }
            Self::Registered => {
                &[Self::Handshaking, Self::Ready, Self::New, Self::Closed, Self::Backoff]
            }
            Self::Ready => {
                &[Self::Draining, Self::Handshaking, Self::New, Self::Closed, Self::Backoff]
            }
            Self::Draining => {
                &[Self::Ready, Self::Handshaking, Self::New, Self::Closed, Self::Backoff]
            }
            Self::Closed => &[],
            Self::Backoff => &[Self::New, Self::Closed],
        }
    }

    /// Steps on; panics if the diagram has no such arrow.
    pub(crate) fn step(&mut self, next: Self) {
        if *self == next {
            return;
        }
        let is_allowed = self.allowed_transitions().contains(&next);
        assert!(is_allowed, "no way from {self:?} to {next:?}");
        *self = next;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_diagram_shows_the_allowed_transitions() {
        let source = include_str!("state.rs");
        let drawn: Vec<(String, String)> = source
            .lines()
            .filter_map(|line| line.strip_prefix("/// "))
            .filter_map(|line| line.split_once(" --> "))
            .map(|(from, to)| (from.trim().into(), to.split(' ').next().unwrap().into()))
            .collect();
        let name = |state: &State| format!("{state:?}").to_uppercase();
        let states = [
            State::New,
            State::Handshaking,
            State::Registered,
            State::Ready,
            State::Draining,
            State::Closed,
            State::Backoff,
        ];
        let allowed: Vec<(String, String)> = states
            .iter()
            .flat_map(|from| from.allowed_transitions().iter().map(|to| (name(from), name(to))))
            .collect();
        assert_eq!(drawn, allowed);
    }
}
