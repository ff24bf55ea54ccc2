//! Commands of strings.

use bytes::Bytes;
use model::Timestamp;

use crate::call::{Answer, Call, Failure, NOT_AN_INTEGER, OVERFLOW, Outcome, SYNTAX, integer, own};
use crate::keyspace::Keyspace;
use crate::value::Value;

/// `GET key`
pub fn get(space: &mut Keyspace, call: &Call<'_>) -> Outcome {
    Ok(Answer::bulk_or_null(space.string(call, call.argument(1))?))
}

/// `MGET key [key ...]`
pub fn mget(space: &mut Keyspace, call: &Call<'_>) -> Outcome {
    for key in call.from(1) {
        space.find(call, key);
    }
    let value = |key: &Bytes| match space.keys.get(key).map(|entry| &entry.value) {
        Some(Value::String(value)) => Some(value),
        // Redis gives nothing for a key that holds no string.
        Some(Value::List(_) | Value::Hash(_) | Value::SortedSet(_)) | None => None,
    };
    Ok(Answer::Array(space.limits.collect(call.from(1).iter().map(value))?))
}

/// The words that may follow the value of `SET`.
#[derive(Debug, Default)]
struct SetOptions<'a> {
    only_if_absent: bool,
    only_if_present: bool,
    expiry: Option<(ExpiryForm, &'a Bytes)>,
}

/// How `SET` writes the moment at which a string ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ExpiryForm {
    is_absolute: bool,
    unit_millis: i64,
}

impl ExpiryForm {
    fn read(call: &Call<'_>, position: usize) -> Option<Self> {
        let forms =
            [("ex", false, 1_000), ("px", false, 1), ("exat", true, 1_000), ("pxat", true, 1)];
        let found = forms.iter().find(|(word, _, _)| call.is(position, word));
        found.map(|&(_, is_absolute, unit_millis)| Self { is_absolute, unit_millis })
    }

    /// The moment that an argument names. It may be past.
    fn moment(self, call: &Call<'_>, argument: &[u8]) -> Result<Timestamp, Failure> {
        let amount = integer(argument).ok_or(NOT_AN_INTEGER)?;
        let start = if self.is_absolute { 0 } else { call.now.to_integer() };
        let millis = Some(amount).filter(|amount| *amount > 0);
        let millis = millis.and_then(|amount| amount.checked_mul(self.unit_millis));
        let millis = millis.and_then(|millis| millis.checked_add(start));
        let invalid = Failure::new("ERR invalid expire time in 'set' command");
        millis.map(Timestamp::from_integer).ok_or(invalid)
    }
}

impl<'a> SetOptions<'a> {
    fn read(call: &Call<'a>) -> Result<Self, Failure> {
        let mut options = Self::default();
        let mut position = 3;
        while position < call.len() {
            if let Some(form) = ExpiryForm::read(call, position) {
                let is_other = options.expiry.is_some_and(|(before, _)| before != form);
                let amount = call.arguments.get(position + 1).filter(|_| !is_other);
                options.expiry = Some((form, amount.ok_or(SYNTAX)?));
                position += 1;
            } else if call.is(position, "nx") && !options.only_if_present {
                options.only_if_absent = true;
            } else if call.is(position, "xx") && !options.only_if_absent {
                options.only_if_present = true;
            } else {
                return Err(SYNTAX);
            }
            position += 1;
        }
        Ok(options)
    }
}

/// `SET key value [NX|XX] [EX seconds|PX milliseconds|EXAT time|PXAT time]`
pub fn set(space: &mut Keyspace, call: &Call<'_>) -> Outcome {
    let (key, value) = (call.argument(1), call.argument(2));
    let options = SetOptions::read(call)?;
    let expires_at = options.expiry.map(|(form, amount)| form.moment(call, amount)).transpose()?;
    if value.len() > space.limits.string_bytes_max {
        return Err(space.limits.refuse_string());
    }
    space.admit(call, key)?;
    let found = space.find(call, key);
    let is_wrong = if found.is_some() { options.only_if_absent } else { options.only_if_present };
    if is_wrong {
        return Ok(Answer::Null);
    }
    if let Some(index) = found {
        space.check_changeable(index)?;
    }
    if expires_at.is_none_or(|end| end > call.now) {
        space.put_string(found, key, own(value), expires_at);
    } else if let Some(index) = found {
        space.remove_at(index);
    }
    Ok(Answer::Ok)
}

/// `INCR key`
pub fn incr(space: &mut Keyspace, call: &Call<'_>) -> Outcome {
    add(space, call, 1)
}

/// `INCRBY key increment`, which clients send for an `incr` of their own.
pub fn incrby(space: &mut Keyspace, call: &Call<'_>) -> Outcome {
    add(space, call, call.integer(2)?)
}

fn add(space: &mut Keyspace, call: &Call<'_>, increment: i64) -> Outcome {
    let key = call.argument(1);
    space.admit(call, key)?;
    let found = space.find(call, key);
    if let Some(index) = found {
        space.check_changeable(index)?;
    }
    let before = match space.string(call, key)? {
        Some(value) => integer(value).ok_or(NOT_AN_INTEGER)?,
        None => 0,
    };
    let sum = before.checked_add(increment).ok_or(OVERFLOW)?;
    let expires_at = found.and_then(|index| space.keys[index].expires_at);
    space.put_string(found, key, sum.to_string().into(), expires_at);
    Ok(Answer::Integer(sum))
}
