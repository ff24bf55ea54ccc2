//! Commands of hashes.

use bytes::Bytes;

use crate::answer::Answer;
use crate::budget::Budget;
use crate::call::{Call, own};
use crate::dice::Dice;
use crate::failure::{Failure, NOT_A_FLOAT, NOT_A_NUMBER, OUT_OF_RANGE, OVERFLOW, Outcome, SYNTAX};
use crate::keyspace::Keyspace;
use crate::lists::ranged;
use crate::long_double::{self, Parsed};
use crate::number;
use crate::strings::{bulk_or_null, count};
use crate::value::hash::Hash;

pub(crate) fn hset(space: &mut Keyspace, call: &Call<'_>) -> Outcome {
    put_fields(space, call).map(count)
}

pub(crate) fn hmset(space: &mut Keyspace, call: &Call<'_>) -> Outcome {
    put_fields(space, call).map(|_| Answer::Ok)
}

/// How many fields are new.
fn put_fields(space: &mut Keyspace, call: &Call<'_>) -> Result<usize, Failure> {
    let (pairs, rest) = call.from(2).as_chunks::<2>();
    if !rest.is_empty() {
        return Err(call.wrong_arity());
    }
    check_fields(space, call, pairs.iter().map(|[field, _]| field))?;
    let mut edit = space.open::<Hash>(call, call.argument(1))?;
    let is_new = |[field, value]: &&[Bytes; 2]| edit.put(own(field), own(value));
    Ok(pairs.iter().filter(is_new).count())
}

/// Refuses fields that would make a hash too large.
fn check_fields<'a>(
    space: &mut Keyspace,
    call: &Call<'_>,
    fields: impl ExactSizeIterator<Item = &'a Bytes>,
) -> Result<(), Failure> {
    let elements_max = space.limits.elements_max;
    let hash = space.look::<Hash>(call, call.argument(1))?;
    let length = hash.map_or(0, Hash::len);
    if length + fields.len() <= elements_max {
        return Ok(());
    }
    let n_new = fields.filter(|field| hash.is_none_or(|hash| !hash.contains(field))).count();
    space.check_elements(length + n_new)
}

pub(crate) fn hsetnx(space: &mut Keyspace, call: &Call<'_>) -> Outcome {
    let (key, field) = (call.argument(1), call.argument(2));
    if space.look::<Hash>(call, key)?.is_some_and(|hash| hash.contains(field)) {
        return Ok(Answer::Integer(0));
    }
    check_fields(space, call, [field].into_iter())?;
    space.open::<Hash>(call, key)?.put(own(field), call.value(3));
    Ok(Answer::Integer(1))
}

pub(crate) fn hget(space: &mut Keyspace, call: &Call<'_>) -> Outcome {
    let hash = space.look::<Hash>(call, call.argument(1))?;
    Ok(bulk_or_null(hash.and_then(|hash| hash.get(call.argument(2)))))
}

pub(crate) fn hmget(space: &mut Keyspace, call: &Call<'_>) -> Outcome {
    let mut budget = Budget::new(&space.limits);
    let hash = space.look::<Hash>(call, call.argument(1))?;
    let mut values = Vec::with_capacity(call.len() - 2);
    for field in call.from(2) {
        let value = hash.and_then(|hash| hash.get(field));
        budget.spend(value.map_or(0, Bytes::len))?;
        values.push(bulk_or_null(value));
    }
    Ok(Answer::Array(values))
}

pub(crate) fn hgetall(space: &mut Keyspace, call: &Call<'_>) -> Outcome {
    let mut budget = Budget::new(&space.limits);
    let Some(hash) = space.look::<Hash>(call, call.argument(1))? else {
        return Ok(Answer::Map(Vec::new()));
    };
    budget.check_elements(hash.len())?;
    let mut pairs = Vec::with_capacity(hash.len());
    for (field, value) in hash.iter() {
        budget.spend(field.len() + value.len())?;
        pairs.push((field.clone(), value.clone()));
    }
    Ok(Answer::Map(pairs))
}

pub(crate) fn hkeys(space: &mut Keyspace, call: &Call<'_>) -> Outcome {
    let mut budget = Budget::new(&space.limits);
    let Some(hash) = space.look::<Hash>(call, call.argument(1))? else {
        return Ok(Answer::Array(Vec::new()));
    };
    let fields = budget.collect(hash.iter().map(|(field, _)| field))?;
    Ok(Answer::Array(fields.into_iter().map(Answer::Bulk).collect()))
}

pub(crate) fn hvals(space: &mut Keyspace, call: &Call<'_>) -> Outcome {
    let mut budget = Budget::new(&space.limits);
    let Some(hash) = space.look::<Hash>(call, call.argument(1))? else {
        return Ok(Answer::Array(Vec::new()));
    };
    let values = budget.collect(hash.iter().map(|(_, value)| value))?;
    Ok(Answer::Array(values.into_iter().map(Answer::Bulk).collect()))
}

pub(crate) fn hdel(space: &mut Keyspace, call: &Call<'_>) -> Outcome {
    let Some(mut edit) = space.edit::<Hash>(call, call.argument(1))? else {
        return Ok(Answer::Integer(0));
    };
    let n_removed = call.from(2).iter().filter(|field| edit.remove(field)).count();
    let index = edit.index;
    space.remove_if_empty(index);
    Ok(count(n_removed))
}

pub(crate) fn hexists(space: &mut Keyspace, call: &Call<'_>) -> Outcome {
    let hash = space.look::<Hash>(call, call.argument(1))?;
    let is_there = hash.is_some_and(|hash| hash.contains(call.argument(2)));
    Ok(Answer::Integer(i64::from(is_there)))
}

pub(crate) fn hlen(space: &mut Keyspace, call: &Call<'_>) -> Outcome {
    Ok(count(space.look::<Hash>(call, call.argument(1))?.map_or(0, Hash::len)))
}

pub(crate) fn hstrlen(space: &mut Keyspace, call: &Call<'_>) -> Outcome {
    let hash = space.look::<Hash>(call, call.argument(1))?;
    let value = hash.and_then(|hash| hash.get(call.argument(2)));
    Ok(count(value.map_or(0, Bytes::len)))
}

pub(crate) fn hincrby(space: &mut Keyspace, call: &Call<'_>) -> Outcome {
    let (key, field, amount) = (call.argument(1), call.argument(2), call.integer(3)?);
    let hash = space.look::<Hash>(call, key)?;
    let before = match hash.and_then(|hash| hash.get(field)) {
        Some(value) => {
            number::integer(value).ok_or(Failure::new("ERR hash value is not an integer"))?
        }
        None => 0,
    };
    let sum = before.checked_add(amount).ok_or(OVERFLOW)?;
    check_fields(space, call, [field].into_iter())?;
    space.open::<Hash>(call, key)?.put(own(field), sum.to_string().into());
    Ok(Answer::Integer(sum))
}

pub(crate) fn hincrbyfloat(space: &mut Keyspace, call: &Call<'_>) -> Outcome {
    let (key, field) = (call.argument(1), call.argument(2));
    let amount = long_double::parse(call.argument(3)).ok_or(NOT_A_FLOAT)?;
    if matches!(amount, Parsed::Infinite { .. }) {
        return Err(Failure::new("ERR value is NaN or Infinity"));
    }
    let hash = space.look::<Hash>(call, key)?;
    let before = match hash.and_then(|hash| hash.get(field)) {
        Some(value) => {
            long_double::parse(value).ok_or(Failure::new("ERR hash value is not a float"))?
        }
        None => Parsed::ZERO,
    };
    let sum = Bytes::from(before.plus(amount).ok_or(NOT_A_NUMBER)?.to_text());
    check_fields(space, call, [field].into_iter())?;
    space.check_value(call, &sum)?;
    space.open::<Hash>(call, key)?.put(own(field), sum.clone());
    Ok(Answer::Bulk(sum))
}

pub(crate) fn hrandfield(space: &mut Keyspace, call: &Call<'_>) -> Outcome {
    let mut dice = Dice::new(call.at.entropy);
    if call.len() == 2 {
        let Some(hash) = space.look::<Hash>(call, call.argument(1))? else {
            return Ok(Answer::Null);
        };
        return Ok(bulk_or_null(hash.at(dice.below(hash.len())).map(|(field, _)| field)));
    }
    let wanted = ranged(call, 2)?;
    let with_values = call.len() == 4 && call.is(3, "withvalues");
    if call.len() > 3 && !with_values {
        return Err(SYNTAX);
    }
    if with_values && !(-i64::MAX / 2..=i64::MAX / 2).contains(&wanted) {
        return Err(OUT_OF_RANGE);
    }
    let mut budget = Budget::new(&space.limits);
    let Some(hash) = space.look::<Hash>(call, call.argument(1))? else {
        return Ok(Answer::Array(Vec::new()));
    };
    let indexes = pick(&mut dice, &budget, wanted, hash.len())?;
    let mut pairs = Vec::with_capacity(indexes.len());
    for index in indexes {
        let (field, value) = hash.at(index).expect("a position of a field");
        budget.spend(field.len() + if with_values { value.len() } else { 0 })?;
        pairs.push((field.clone(), value.clone()));
    }
    if with_values {
        return Ok(Answer::Pairs(pairs));
    }
    Ok(Answer::Array(pairs.into_iter().map(|(field, _)| Answer::Bulk(field)).collect()))
}

/// So many positions: different ones, or if the number is negative, any.
pub(crate) fn pick(
    dice: &mut Dice,
    budget: &Budget,
    wanted: i64,
    length: usize,
) -> Result<Vec<usize>, Failure> {
    let n = usize::try_from(wanted.unsigned_abs()).unwrap_or(usize::MAX);
    if wanted >= 0 {
        let n = n.min(length);
        budget.check_elements(n)?;
        return Ok(dice.different(n, length));
    }
    budget.check_elements(n)?;
    Ok((0..n).map(|_| dice.below(length)).collect())
}
