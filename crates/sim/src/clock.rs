//! Time: the world's own, the wall clock that people can set, and what a process sees of both.

use model::Timestamp;

/// What the wall showed when the world began.
const BEGINNING: u64 = 1_790_000_000_000;

/// True time and the wall clock, in milliseconds.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct WorldClock {
    /// Milliseconds since the world began. Nobody inside can see them.
    pub(crate) now: u64,
    /// By how much the wall clock has been set forward (or back) in all.
    ahead: i64,
}

impl WorldClock {
    /// What the wall shows.
    pub(crate) fn wall(self) -> u64 {
        (BEGINNING + self.now).saturating_add_signed(self.ahead)
    }

    /// Someone sets the wall clock.
    pub(crate) fn jump(&mut self, by: i64) {
        self.ahead += by;
    }
}

/// The clock of one process: it read the wall once, when it started, and counts from there.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ProcessClock {
    started_at: u64,
    wall_then: u64,
}

impl ProcessClock {
    pub(crate) fn start(world: WorldClock) -> Self {
        Self { started_at: world.now, wall_then: world.wall() }
    }

    pub(crate) fn now(self, world: WorldClock) -> Timestamp {
        Timestamp::from_millis(self.wall_then + (world.now - self.started_at))
    }

    /// The true time at which this clock will show `moment`; now, if it already has.
    pub(crate) fn true_time_of(self, moment: Timestamp, world: WorldClock) -> u64 {
        let left = moment.as_millis().saturating_sub(self.now(world).as_millis());
        world.now.saturating_add(left)
    }
}
