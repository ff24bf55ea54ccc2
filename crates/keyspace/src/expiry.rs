//! Commands that ask or say when a key ends. Nothing ends after [`Timestamp::MAX`], the year 9999.

#![expect(clippy::unnecessary_wraps, reason = "the table of commands has one type of function")]

use model::Timestamp;

use crate::answer::Answer;
use crate::call::Call;
use crate::failure::{Failure, Outcome};
use crate::keyspace::Keyspace;
use crate::number;

const MILLIS_PER_SECOND: i64 = 1_000;

/// What a duration is counted in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    Seconds,
    Millis,
}

impl Unit {
    pub(crate) fn to_millis(self, amount: i64) -> Option<i64> {
        match self {
            Self::Seconds => amount.checked_mul(MILLIS_PER_SECOND),
            Self::Millis => Some(amount),
        }
    }

    /// Rounded to the nearest, as Redis does.
    fn of_millis(self, millis: i64) -> i64 {
        match self {
            Self::Seconds => (millis + MILLIS_PER_SECOND / 2) / MILLIS_PER_SECOND,
            Self::Millis => millis,
        }
    }
}

/// When a new moment is taken.
#[derive(Clone, Copy, Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a word that a client may say")]
struct Condition {
    if_none: bool,
    if_any: bool,
    if_later: bool,
    if_earlier: bool,
}

impl Condition {
    fn read(call: &Call<'_>) -> Result<Self, Failure> {
        let mut condition = Self::default();
        for position in 3..call.len() {
            let is = |word: &str| call.is(position, word);
            match () {
                () if is("nx") => condition.if_none = true,
                () if is("xx") => condition.if_any = true,
                () if is("gt") => condition.if_later = true,
                () if is("lt") => condition.if_earlier = true,
                () => {
                    let option = number::until_zero(call.argument(position));
                    let option = String::from_utf8_lossy(option);
                    return Err(Failure::with(format!("ERR Unsupported option {option}")));
                }
            }
        }
        let with_none = condition.if_any || condition.if_later || condition.if_earlier;
        if condition.if_none && with_none {
            return Err(Failure::new(
                "ERR NX and XX, GT or LT options at the same time are not compatible",
            ));
        }
        if condition.if_later && condition.if_earlier {
            return Err(Failure::new("ERR GT and LT options at the same time are not compatible"));
        }
        Ok(condition)
    }

    /// A key that never ends counts as one that ends after all others.
    fn holds(self, before: Option<i64>, end: i64) -> bool {
        !(self.if_none && before.is_some()
            || self.if_any && before.is_none()
            || self.if_later && before.is_none_or(|before| end <= before)
            || self.if_earlier && before.is_some_and(|before| end >= before))
    }
}

pub(crate) fn expire(space: &mut Keyspace, call: &Call<'_>) -> Outcome {
    end_at(space, call, Unit::Seconds, call.now().to_integer())
}

pub(crate) fn pexpire(space: &mut Keyspace, call: &Call<'_>) -> Outcome {
    end_at(space, call, Unit::Millis, call.now().to_integer())
}

pub(crate) fn expireat(space: &mut Keyspace, call: &Call<'_>) -> Outcome {
    end_at(space, call, Unit::Seconds, 0)
}

pub(crate) fn pexpireat(space: &mut Keyspace, call: &Call<'_>) -> Outcome {
    end_at(space, call, Unit::Millis, 0)
}

fn end_at(space: &mut Keyspace, call: &Call<'_>, unit: Unit, start: i64) -> Outcome {
    let condition = Condition::read(call)?;
    let end = unit.to_millis(call.integer(2)?).and_then(|millis| millis.checked_add(start));
    let end = end.ok_or_else(|| Failure::invalid_expiry(call.name))?;
    let Some(index) = space.find(call, call.argument(1)) else {
        return Ok(Answer::Integer(0));
    };
    let before = space.keys[index].expires_at.map(Timestamp::to_integer);
    if !condition.holds(before, end) {
        return Ok(Answer::Integer(0));
    }
    if end <= call.now().to_integer() {
        space.remove_at(index);
    } else {
        space.set_expiry(index, Some(Timestamp::from_integer(end)));
    }
    Ok(Answer::Integer(1))
}

pub(crate) fn persist(space: &mut Keyspace, call: &Call<'_>) -> Outcome {
    match space.find(call, call.argument(1)) {
        Some(index) if space.keys[index].expires_at.is_some() => {
            space.set_expiry(index, None);
            Ok(Answer::Integer(1))
        }
        _ => Ok(Answer::Integer(0)), // Nothing to persist.
    }
}

pub(crate) fn ttl(space: &mut Keyspace, call: &Call<'_>) -> Outcome {
    Ok(left(space, call, Unit::Seconds, call.now()))
}

pub(crate) fn pttl(space: &mut Keyspace, call: &Call<'_>) -> Outcome {
    Ok(left(space, call, Unit::Millis, call.now()))
}

pub(crate) fn expiretime(space: &mut Keyspace, call: &Call<'_>) -> Outcome {
    Ok(left(space, call, Unit::Seconds, Timestamp::default()))
}

pub(crate) fn pexpiretime(space: &mut Keyspace, call: &Call<'_>) -> Outcome {
    Ok(left(space, call, Unit::Millis, Timestamp::default()))
}

/// How long after `start` a key ends; below zero if it does not, or is not there.
fn left(space: &mut Keyspace, call: &Call<'_>, unit: Unit, start: Timestamp) -> Answer {
    match space.entry(call, call.argument(1)) {
        None => Answer::Integer(-2),
        Some(entry) => match entry.expires_at {
            None => Answer::Integer(-1),
            Some(end) => Answer::Integer(unit.of_millis(end.to_integer() - start.to_integer())),
        },
    }
}
