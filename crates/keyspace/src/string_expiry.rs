//! Commands that put or read a string together with the moment at which it ends.

use bytes::Bytes;
use model::Timestamp;

use crate::answer::Answer;
use crate::call::Call;
use crate::expiry::Unit;
use crate::failure::{Failure, NOT_AN_INTEGER, Outcome, SYNTAX};
use crate::keyspace::{Expiry, Keyspace};
use crate::number;
use crate::strings::bulk_or_null;

/// How a moment is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Clock {
    /// From now on.
    Relative(Unit),
    /// Since 1970.
    Absolute(Unit),
}

impl Clock {
    fn of(call: &Call<'_>, position: usize) -> Option<Self> {
        let is = |word: &str| call.is(position, word);
        match () {
            () if is("ex") => Some(Self::Relative(Unit::Seconds)),
            () if is("px") => Some(Self::Relative(Unit::Millis)),
            () if is("exat") => Some(Self::Absolute(Unit::Seconds)),
            () if is("pxat") => Some(Self::Absolute(Unit::Millis)),
            () => None,
        }
    }

    /// The moment that an argument names. It may be past.
    fn moment(self, call: &Call<'_>, argument: &[u8]) -> Result<Timestamp, Failure> {
        let amount = number::integer(argument).ok_or(NOT_AN_INTEGER)?;
        let (unit, start) = match self {
            Self::Relative(unit) => (unit, call.now().to_integer()),
            Self::Absolute(unit) => (unit, 0),
        };
        let millis = Some(amount).filter(|amount| *amount > 0);
        let millis = millis.and_then(|amount| unit.to_millis(amount));
        let millis = millis.and_then(|millis| millis.checked_add(start));
        millis.map(Timestamp::from_integer).ok_or_else(|| Failure::invalid_expiry(call.name))
    }
}

/// What follows the key and the value.
#[derive(Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a word that a client may say")]
struct Options<'a> {
    only_if_absent: bool,
    only_if_present: bool,
    get: bool,
    keep: bool,
    persist: bool,
    clock: Option<(Clock, &'a Bytes)>,
}

/// Which command the options belong to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Owner {
    Set,
    Getex,
}

impl<'a> Options<'a> {
    fn read(call: &Call<'a>, first: usize, owner: Owner) -> Result<Self, Failure> {
        let mut options = Self::default();
        let mut position = first;
        while position < call.len() {
            position += options.take(call, position, owner)?;
        }
        Ok(options)
    }

    /// Reads one option, and says how many arguments it took.
    fn take(&mut self, call: &Call<'a>, at: usize, owner: Owner) -> Result<usize, Failure> {
        let is_set = owner == Owner::Set;
        if let Some(clock) = Clock::of(call, at) {
            let other = self.clock.is_some_and(|(before, _)| before != clock);
            let moment = call.arguments.get(at + 1);
            let moment = moment.filter(|_| !self.keep && !self.persist && !other);
            self.clock = Some((clock, moment.ok_or(SYNTAX)?));
            return Ok(2);
        }
        if call.is(at, "nx") && is_set && !self.only_if_present {
            self.only_if_absent = true;
        } else if call.is(at, "xx") && is_set && !self.only_if_absent {
            self.only_if_present = true;
        } else if call.is(at, "get") && is_set {
            self.get = true;
        } else if call.is(at, "keepttl") && is_set && self.clock.is_none() {
            self.keep = true;
        } else if call.is(at, "persist") && !is_set && self.clock.is_none() {
            self.persist = true;
        } else {
            return Err(SYNTAX);
        }
        Ok(1)
    }

    fn moment(&self, call: &Call<'_>) -> Result<Option<Timestamp>, Failure> {
        self.clock.map(|(clock, argument)| clock.moment(call, argument)).transpose()
    }
}

pub(crate) fn set(space: &mut Keyspace, call: &Call<'_>) -> Outcome {
    let key = call.argument(1);
    if call.len() == 3 {
        space.put_string(call, key, call.value(2), Expiry::Never);
        return Ok(Answer::Ok);
    }
    let options = Options::read(call, 3, Owner::Set)?;
    let expiry = match options.moment(call)? {
        Some(end) => Expiry::At(end),
        None if options.keep => Expiry::Keep,
        None => Expiry::Never,
    };
    let before = options.get.then(|| space.string(call, key).map(bulk_or_null)).transpose()?;
    let is_there = space.find(call, key).is_some();
    let is_wrong = if is_there { options.only_if_absent } else { options.only_if_present };
    if is_wrong {
        return Ok(before.unwrap_or(Answer::Null));
    }
    space.put_string(call, key, call.value(2), expiry);
    Ok(before.unwrap_or(Answer::Ok))
}

pub(crate) fn setex(space: &mut Keyspace, call: &Call<'_>) -> Outcome {
    set_for(space, call, Unit::Seconds)
}

pub(crate) fn psetex(space: &mut Keyspace, call: &Call<'_>) -> Outcome {
    set_for(space, call, Unit::Millis)
}

fn set_for(space: &mut Keyspace, call: &Call<'_>, unit: Unit) -> Outcome {
    let end = Clock::Relative(unit).moment(call, call.argument(2))?;
    space.put_string(call, call.argument(1), call.value(3), Expiry::At(end));
    Ok(Answer::Ok)
}

pub(crate) fn getex(space: &mut Keyspace, call: &Call<'_>) -> Outcome {
    let key = call.argument(1);
    let options = Options::read(call, 2, Owner::Getex)?;
    let Some(value) = space.string(call, key)?.cloned() else {
        return Ok(Answer::Null);
    };
    let end = options.moment(call)?;
    let index = space.find(call, key).expect("it was just there");
    match end {
        Some(end) if end <= call.now() => space.remove_found(Some(index)),
        Some(end) => space.set_expiry(index, Some(end)),
        None if options.persist && space.keys[index].expires_at.is_some() => {
            space.set_expiry(index, None);
        }
        None => {}
    }
    Ok(Answer::Bulk(value))
}
