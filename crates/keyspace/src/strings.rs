//! Commands of strings.

#![expect(clippy::unnecessary_wraps, reason = "the table of commands has one type of function")]

use bytes::{Bytes, BytesMut};

use crate::answer::Answer;
use crate::budget::Budget;
use crate::call::{Call, own};
use crate::failure::{
    Failure, NOT_A_FLOAT, NOT_A_NUMBER, NOT_AN_INTEGER, OVERFLOW, Outcome, TOO_LONG,
};
use crate::keyspace::{Expiry, Keyspace};
use crate::long_double::{self, Parsed};
use crate::number;
use crate::value::entry::Value;

pub(crate) fn bulk_or_null(value: Option<&Bytes>) -> Answer {
    value.map_or(Answer::Null, |value| Answer::Bulk(value.clone()))
}

/// A length or a count; what fits into memory fits into an integer.
pub(crate) fn count(n: usize) -> Answer {
    Answer::Integer(i64::try_from(n).unwrap_or(i64::MAX))
}

pub(crate) fn get(space: &mut Keyspace, call: &Call<'_>) -> Outcome {
    Ok(bulk_or_null(space.string(call, call.argument(1))?))
}

pub(crate) fn mget(space: &mut Keyspace, call: &Call<'_>) -> Outcome {
    let mut budget = Budget::new(&space.limits);
    let mut values = Vec::with_capacity(call.len() - 1);
    for key in call.from(1) {
        let value = match space.entry(call, key).map(|entry| &entry.value) {
            Some(Value::String(value)) => Some(value),
            _ => None, // What is no string is as good as nothing.
        };
        budget.spend(value.map_or(0, Bytes::len))?;
        values.push(bulk_or_null(value));
    }
    Ok(Answer::Array(values))
}

fn pairs<'a>(call: &Call<'a>) -> Result<&'a [[Bytes; 2]], Failure> {
    let (pairs, rest) = call.from(1).as_chunks();
    if rest.is_empty() { Ok(pairs) } else { Err(call.wrong_arity()) }
}

pub(crate) fn mset(space: &mut Keyspace, call: &Call<'_>) -> Outcome {
    for [key, value] in pairs(call)? {
        space.put_string(call, key, own(value), Expiry::Never);
    }
    Ok(Answer::Ok)
}

pub(crate) fn msetnx(space: &mut Keyspace, call: &Call<'_>) -> Outcome {
    let pairs = pairs(call)?;
    if pairs.iter().any(|[key, _]| space.find(call, key).is_some()) {
        return Ok(Answer::Integer(0));
    }
    for [key, value] in pairs {
        space.put_string(call, key, own(value), Expiry::Never);
    }
    Ok(Answer::Integer(1))
}

pub(crate) fn setnx(space: &mut Keyspace, call: &Call<'_>) -> Outcome {
    let key = call.argument(1);
    if space.find(call, key).is_some() {
        return Ok(Answer::Integer(0));
    }
    space.put_string(call, key, call.value(2), Expiry::Never);
    Ok(Answer::Integer(1))
}

pub(crate) fn getset(space: &mut Keyspace, call: &Call<'_>) -> Outcome {
    let before = bulk_or_null(space.string(call, call.argument(1))?);
    space.put_string(call, call.argument(1), call.value(2), Expiry::Never);
    Ok(before)
}

pub(crate) fn getdel(space: &mut Keyspace, call: &Call<'_>) -> Outcome {
    let key = call.argument(1);
    let before = bulk_or_null(space.string(call, key)?);
    let found = space.find(call, key);
    space.remove_found(found);
    Ok(before)
}

pub(crate) fn strlen(space: &mut Keyspace, call: &Call<'_>) -> Outcome {
    Ok(count(space.string(call, call.argument(1))?.map_or(0, Bytes::len)))
}

pub(crate) fn append(space: &mut Keyspace, call: &Call<'_>) -> Outcome {
    let (key, tail) = (call.argument(1), call.argument(2));
    let value_bytes_max = space.limits.value_bytes_max;
    let value = match space.string(call, key)? {
        None => own(tail),
        Some(head) if head.len() + tail.len() > value_bytes_max => return Err(TOO_LONG),
        Some(head) => [&head[..], &tail[..]].concat().into(),
    };
    let length = value.len();
    space.put_string(call, key, value, Expiry::Keep);
    Ok(count(length))
}

pub(crate) fn getrange(space: &mut Keyspace, call: &Call<'_>) -> Outcome {
    let (start, end) = (call.integer(2)?, call.integer(3)?);
    let Some(value) = space.string(call, call.argument(1))? else {
        return Ok(Answer::Bulk(Bytes::new()));
    };
    if start < 0 && end < 0 && start > end {
        return Ok(Answer::Bulk(Bytes::new()));
    }
    let length = i64::try_from(value.len()).unwrap_or(i64::MAX);
    let from_end = |index: i64| if index < 0 { (length + index).max(0) } else { index };
    let (start, end) = (from_end(start), from_end(end).min(length - 1));
    if start > end {
        return Ok(Answer::Bulk(Bytes::new()));
    }
    let position = |index: i64| usize::try_from(index).expect("inside the value");
    // A copy: a slice would keep all of the value alive while the reply is under way.
    Ok(Answer::Bulk(Bytes::copy_from_slice(&value[position(start)..=position(end)])))
}

pub(crate) fn setrange(space: &mut Keyspace, call: &Call<'_>) -> Outcome {
    let (key, patch) = (call.argument(1), call.argument(3));
    let offset = usize::try_from(call.integer(2)?)
        .map_err(|_| Failure::new("ERR offset is out of range"))?;
    let value_bytes_max = space.limits.value_bytes_max;
    let before = space.string(call, key)?.cloned().unwrap_or_default();
    if patch.is_empty() {
        return Ok(count(before.len()));
    }
    let end = offset.checked_add(patch.len()).filter(|end| *end <= value_bytes_max);
    let end = end.ok_or(TOO_LONG)?;
    space.check_room(call, end.saturating_sub(before.len()))?;
    let mut value = BytesMut::zeroed(end.max(before.len()));
    value[..before.len()].copy_from_slice(&before);
    value[offset..end].copy_from_slice(patch);
    let length = value.len();
    space.put_string(call, key, value.freeze(), Expiry::Keep);
    Ok(count(length))
}

pub(crate) fn incr(space: &mut Keyspace, call: &Call<'_>) -> Outcome {
    add(space, call, 1)
}

pub(crate) fn decr(space: &mut Keyspace, call: &Call<'_>) -> Outcome {
    add(space, call, -1)
}

pub(crate) fn incrby(space: &mut Keyspace, call: &Call<'_>) -> Outcome {
    add(space, call, call.integer(2)?)
}

pub(crate) fn decrby(space: &mut Keyspace, call: &Call<'_>) -> Outcome {
    let amount = call.integer(2)?.checked_neg();
    add(space, call, amount.ok_or(Failure::new("ERR decrement would overflow"))?)
}

fn add(space: &mut Keyspace, call: &Call<'_>, amount: i64) -> Outcome {
    let key = call.argument(1);
    let before = match space.string(call, key)? {
        Some(value) => number::integer(value).ok_or(NOT_AN_INTEGER)?,
        None => 0,
    };
    let sum = before.checked_add(amount).ok_or(OVERFLOW)?;
    space.put_string(call, key, sum.to_string().into(), Expiry::Keep);
    Ok(Answer::Integer(sum))
}

pub(crate) fn incrbyfloat(space: &mut Keyspace, call: &Call<'_>) -> Outcome {
    let key = call.argument(1);
    let before = match space.string(call, key)? {
        Some(value) => long_double::parse(value).ok_or(NOT_A_FLOAT)?,
        None => Parsed::ZERO,
    };
    let amount = long_double::parse(call.argument(2)).ok_or(NOT_A_FLOAT)?;
    let sum = Bytes::from(before.plus(amount).ok_or(NOT_A_NUMBER)?.to_text());
    space.check_value(call, &sum)?;
    space.put_string(call, key, sum.clone(), Expiry::Keep);
    Ok(Answer::Bulk(sum))
}
