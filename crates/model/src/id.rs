//! Numbers that name things, and how they look outside.

use std::fmt;
use std::str::FromStr;

use uuid::Uuid;

const NUMBER_BITS: u32 = 40;
const NUMBER_MAX: u64 = (1 << NUMBER_BITS) - 1;

/// One tenant's share of the system: its tasks, its lease table, its coordinator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ShardId(u32);

impl ShardId {
    /// Shard numbers fit in 23 bits, so that a task id fits in a signed 64-bit column.
    pub const MAX: u32 = (1 << 23) - 1;

    /// `None` for a number that does not fit.
    pub fn new(number: u32) -> Option<Self> {
        (number <= Self::MAX).then_some(Self(number))
    }

    /// The bare number, as stores keep it.
    pub fn get(self) -> u32 {
        self.0
    }

    /// Task ids of this shard lie between its first and its last.
    pub fn first_task(self) -> TaskId {
        TaskId::of(self, 0)
    }

    /// See [`ShardId::first_task`].
    pub fn last_task(self) -> TaskId {
        TaskId::of(self, NUMBER_MAX)
    }
}

macro_rules! number_of_shard {
    ($(#[$doc:meta])* $name:ident, $salt:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(u64);

        impl $name {
            /// The one with this number in `shard`.
            pub fn of(shard: ShardId, number: u64) -> Self {
                assert!(number <= NUMBER_MAX, "a shard counts to 2^40");
                Self((u64::from(shard.0) << NUMBER_BITS) | number)
            }

            /// `None` for an integer that no store could hold.
            pub fn from_integer(integer: i64) -> Option<Self> {
                u64::try_from(integer).ok().map(Self)
            }

            /// The integer that stores keep.
            pub fn to_integer(self) -> i64 {
                i64::try_from(self.0).expect("shard and number fill 63 bits")
            }

            /// The shard that it belongs to.
            pub fn shard(self) -> ShardId {
                ShardId(u32::try_from(self.0 >> NUMBER_BITS).expect("23 bits"))
            }

            /// The counter within the shard.
            pub fn number(self) -> u64 {
                self.0 & NUMBER_MAX
            }

            /// The public form. No UUID names both a task and a run.
            pub fn to_uuid(self) -> Uuid {
                uuid_of(self.0, $salt)
            }

            /// `None` for a UUID that names nothing of this kind.
            pub fn from_uuid(uuid: Uuid) -> Option<Self> {
                number_in(uuid, $salt).map(Self)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.to_uuid().hyphenated().fmt(f)
            }
        }

        impl FromStr for $name {
            type Err = InvalidId;

            fn from_str(text: &str) -> Result<Self, InvalidId> {
                let uuid = Uuid::try_parse(text).map_err(|_| InvalidId)?;
                Self::from_uuid(uuid).ok_or(InvalidId)
            }
        }
    };
}

number_of_shard!(
    /// A task's number: the shard in the upper bits, a counter in the lower ones.
    ///
    /// Inside and in the store it is an integer, so that rows lie in the order of submission.
    /// Outside it is a UUID which encodes the same number; there is no table between the two.
    TaskId,
    TASK_SALT
);
number_of_shard!(
    /// A run's number: the shard in the upper bits, a counter from 1 in the lower ones, which
    /// people say; outside it is a UUID, as with tasks.
    RunId,
    RUN_SALT
);

/// The number is scattered over the first 64 bits, so that two neighbours differ in their first
/// letters and a short prefix is enough for a person; the rest is a check that makes a UUID from
/// elsewhere name nothing here.
fn uuid_of(number: u64, salt: u64) -> Uuid {
    let scattered = scatter(number);
    let check = scatter(scattered ^ salt) & CHECK_MASK;
    let high = (scattered & !0xffff) | 0x8000 | ((scattered >> 4) & 0x0fff);
    let low = (0b10 << 62) | ((scattered & 0xf) << 58) | check;
    Uuid::from_u64_pair(high, low)
}

fn number_in(uuid: Uuid, salt: u64) -> Option<u64> {
    let (high, low) = uuid.as_u64_pair();
    let scattered = (high & !0xffff) | ((high & 0x0fff) << 4) | ((low >> 58) & 0xf);
    let number = gather(scattered);
    (number >> 63 == 0 && uuid_of(number, salt) == uuid).then_some(number)
}

const TASK_SALT: u64 = 0x5851_f42d_4c95_7f2d;
const RUN_SALT: u64 = 0x2545_f491_4f6c_dd1d;
const CHECK_MASK: u64 = (1 << 58) - 1;

/// A bijection on 64 bits (the finaliser of splitmix64).
fn scatter(mut x: u64) -> u64 {
    x ^= x >> 30;
    x = x.wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x ^= x >> 27;
    x = x.wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// The inverse of [`scatter`].
fn gather(mut x: u64) -> u64 {
    x ^= (x >> 31) ^ (x >> 62);
    x = x.wrapping_mul(0x3196_42b2_d24d_8ec3);
    x ^= (x >> 27) ^ (x >> 54);
    x = x.wrapping_mul(0x96de_1b17_3f11_9089);
    x ^ (x >> 30) ^ (x >> 60)
}

/// Text that names no task, no run and no lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not an id of this system")]
pub struct InvalidId;

/// The right to decide one attempt of a task: `<task_id>-<epoch>`.
///
/// The epoch rises by one with each grant of that task; it is the fencing token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LeaseId {
    /// What the lease is for.
    pub task: TaskId,
    /// Which grant of that task.
    pub epoch: u32,
}

impl fmt::Display for LeaseId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.task, self.epoch)
    }
}

impl FromStr for LeaseId {
    type Err = InvalidId;

    fn from_str(text: &str) -> Result<Self, InvalidId> {
        let (task, epoch) = text.rsplit_once('-').ok_or(InvalidId)?;
        let plain = !epoch.is_empty() && epoch.bytes().all(|b| b.is_ascii_digit());
        if !plain {
            return Err(InvalidId);
        }
        let epoch = epoch.parse().map_err(|_| InvalidId)?;
        Ok(Self { task: task.parse()?, epoch })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shard() -> ShardId {
        ShardId::new(ShardId::MAX).expect("fits")
    }

    #[test]
    fn a_task_id_comes_back_from_its_uuid() {
        for number in (0..10_000).chain([NUMBER_MAX - 1, NUMBER_MAX]) {
            let task = TaskId::of(shard(), number);
            assert_eq!(task.to_string().parse(), Ok(task));
            assert_eq!(TaskId::from_integer(task.to_integer()), Some(task));
            assert_eq!((task.shard(), task.number()), (shard(), number));
            assert_eq!(task.to_uuid().get_version_num(), 8);
        }
    }

    #[test]
    fn a_run_id_comes_back_from_its_uuid_and_names_no_task() {
        for number in (0..10_000).chain([NUMBER_MAX - 1, NUMBER_MAX]) {
            let run = RunId::of(shard(), number);
            assert_eq!(run.to_string().parse(), Ok(run));
            assert_eq!(RunId::from_integer(run.to_integer()), Some(run));
            assert_eq!((run.shard(), run.number()), (shard(), number));
            assert_eq!(run.to_string().parse::<TaskId>(), Err(InvalidId));
        }
    }

    #[test]
    fn a_uuid_from_elsewhere_names_no_task() {
        let task = TaskId::of(shard(), 7).to_uuid().as_u128();
        for bit in 0..128 {
            let stranger = Uuid::from_u128(task ^ (1 << bit));
            assert_ne!(TaskId::from_uuid(stranger), Some(TaskId::of(shard(), 7)), "bit {bit}");
        }
        assert_eq!("not-a-uuid".parse::<TaskId>(), Err(InvalidId));
        assert_eq!(Uuid::nil().to_string().parse::<TaskId>(), Err(InvalidId));
    }

    #[test]
    fn a_lease_id_is_the_task_and_its_epoch() {
        let lease = LeaseId { task: TaskId::of(shard(), 3), epoch: 12 };
        assert_eq!(lease.to_string().parse(), Ok(lease));
        for wrong in ["", "-1", "x-1", &format!("{}-", lease.task), &format!("{}-+1", lease.task)] {
            assert_eq!(wrong.parse::<LeaseId>(), Err(InvalidId), "{wrong}");
        }
    }
}
