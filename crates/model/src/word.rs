//! Where things stand, in one word each: the same word in the coordinator, on the wire and in the
//! tables.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Defines an enum whose variants are words. It derives `Serialize`, `Deserialize` and `ToSchema`,
/// which must be in scope.
#[macro_export]
macro_rules! words {
    (
        $(#[$about:meta])* $name:ident
        { $( $(#[$variant_about:meta])* $variant:ident = $word:tt, )+ }
    ) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[derive(Serialize, Deserialize, ToSchema)]
        $(#[$about])*
        pub enum $name {
            $( $(#[$variant_about])* #[serde(rename = $word)] $variant, )+
        }

        impl $name {
            /// All of them, in the order in which they can follow each other.
            pub const ALL: [Self; [$(Self::$variant),+].len()] = [$(Self::$variant),+];

            /// The word.
            pub const fn word(self) -> &'static str {
                match self {
                    $( Self::$variant => $word, )+
                }
            }

            /// The one with this word, in any case.
            pub fn from_word(word: &str) -> Option<Self> {
                Self::ALL.into_iter().find(|one| one.word().eq_ignore_ascii_case(word))
            }
        }
    };
}

words! {
    /// Where a task stands.
    #[schema(as = State)]
    StateWord {
        /// Not before a moment that its submitter chose, or not before other tasks.
        Waiting = "WAITING",
        /// May run; no worker holds it.
        Queued = "QUEUED",
        /// An attempt failed; the next one is due later.
        Retrying = "RETRYING",
        /// A worker holds it.
        Running = "RUNNING",
        /// Done; the result counts.
        Completed = "COMPLETED",
        /// Failed for good.
        Failed = "FAILED",
        /// Out of attempts, or lost too many workers. `requeue` brings it back.
        Dead = "DEAD",
        /// Stopped by a person.
        Stopped = "STOPPED",
    }
}

impl StateWord {
    /// Whether nothing but a requeue leaves this state.
    pub const fn is_terminal(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Dead | Self::Stopped)
    }
}

words! {
    /// How a worker does, in a word.
    ///
    /// ```text
    ///  Healthy -> Warn -> Degraded -> Lost
    ///     ^________|_________|_________|   any sign of life
    /// ```
    #[schema(description = "How a worker does, in a word.")]
    WorkerHealth {
        /// Heard of in time.
        Healthy = "HEALTHY",
        /// One heartbeat missed.
        Warn = "WARN",
        /// Two heartbeats missed.
        Degraded = "DEGRADED",
        /// Three heartbeats missed.
        Lost = "LOST",
    }
}

words! {
    /// What happens when a run is due and the one before still goes on.
    #[derive(Default)]
    Overlap {
        /// The time passes without a run.
        #[default]
        Skip = "skip",
        /// It starts as soon as the one before has ended.
        Queue = "queue",
        /// It starts beside the one before.
        Allow = "allow",
        /// The one before is stopped.
        Cancel = "cancel",
    }
}

words! {
    /// How a run ended.
    RunWord {
        /// Every node came to a good end, or to a bad one that its author provided for.
        Succeeded = "SUCCEEDED",
        /// A node failed.
        Failed = "FAILED",
        /// A person stopped it, or a worker gave a node up.
        Cancelled = "CANCELLED",
    }
}

words! {
    /// How a node ended.
    NodeWord {
        /// Done.
        Succeeded = "SUCCEEDED",
        /// Failed for good.
        Failed = "FAILED",
        /// Its turn came, and there was nothing to do.
        Skipped = "SKIPPED",
        /// Its turn came, and nodes before it had failed in a way that leaves it without sense.
        Blocked = "BLOCKED",
        /// A person stopped it, or its worker gave it up.
        Cancelled = "CANCELLED",
    }
}

impl NodeWord {
    /// The word that people and expressions know it by.
    pub const fn text(self) -> &'static str {
        match self {
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::Skipped | Self::Blocked => "skipped",
            Self::Cancelled => "cancelled",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_leads_back_in_any_case() {
        for state in StateWord::ALL {
            assert_eq!(StateWord::from_word(&state.word().to_lowercase()), Some(state));
        }
        assert_eq!(StateWord::from_word("LEASED"), None);
    }

    #[test]
    fn terminal_states_are_the_ends() {
        let ends = StateWord::ALL.into_iter().filter(|state| state.is_terminal());
        let words: Vec<_> = ends.map(StateWord::word).collect();
        assert_eq!(words, ["COMPLETED", "FAILED", "DEAD", "STOPPED"]);
    }
}
