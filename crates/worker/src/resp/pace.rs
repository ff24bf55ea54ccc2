//! How fast things go.

use std::time::Duration;

/// The time between two heartbeats, unless the server says another (seed 004 section 3.2).
pub(super) const HEARTBEAT_EVERY: Duration = Duration::from_secs(30);

/// The longest that a server may ask for; it gives a worker up after three.
const HEARTBEAT_EVERY_MAX: Duration = Duration::from_mins(5);

/// Times that tests shorten.
#[derive(Clone, Debug)]
pub(super) struct Pace {
    /// How long a pop waits at the server.
    pub(super) pop_wait: Duration,
    /// How long it waits where only one of several queues can be asked at a time.
    pub(super) pop_wait_shared: Duration,
    /// The pause between two rounds of pops that do not wait.
    pub(super) poll_every: Duration,
    /// How long a reply may take beyond the wait that was asked for.
    pub(super) reply_within: Duration,
    /// The pause before the first reconnection; it doubles.
    pub(super) reconnect_first: Duration,
    /// The longest pause.
    pub(super) reconnect_max: Duration,
    /// The longest time between two heartbeats; a server may ask for a shorter one.
    pub(super) heartbeat_every_max: Duration,
    /// How often a running job is heard of, and asked whether it is still wanted.
    pub(super) job_beat_every: Duration,
    /// How often a worker with one connection for all is heard of. Servers that know no other kind
    /// hang up after 30 s of silence.
    pub(super) ping_every: Duration,
    /// How long a report is sent again while nobody answers it.
    pub(super) report_patience: Duration,
    /// The pause after an error that may pass; it doubles.
    pub(super) retry_pause: Duration,
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            pop_wait: Duration::from_secs(5),
            pop_wait_shared: Duration::from_secs(1),
            poll_every: Duration::from_millis(200),
            reply_within: Duration::from_secs(30),
            reconnect_first: Duration::from_secs(1),
            reconnect_max: Duration::from_mins(1),
            heartbeat_every_max: HEARTBEAT_EVERY_MAX,
            job_beat_every: Duration::from_secs(5),
            ping_every: Duration::from_secs(15),
            report_patience: Duration::from_mins(10),
            retry_pause: Duration::from_secs(1),
        }
    }
}
