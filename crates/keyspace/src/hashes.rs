//! Commands of hashes.

use std::collections::BTreeMap;

use bytes::Bytes;

use crate::call::{Answer, Call, Failure, OVERFLOW, Outcome, integer, own};
use crate::keyspace::Keyspace;
use crate::value::{Collection as _, Hash};

/// `HSET key field value [field value ...]`
pub fn hset(space: &mut Keyspace, call: &Call<'_>) -> Outcome {
    let (pairs, rest) = call.from(2).as_chunks::<2>();
    if !rest.is_empty() {
        return Err(Failure::wrong_arity("hset"));
    }
    put(space, call, pairs).map(Answer::count)
}

/// Puts fields, and says how many of them are new.
fn put(space: &mut Keyspace, call: &Call<'_>, pairs: &[[Bytes; 2]]) -> Result<usize, Failure> {
    let key = call.argument(1);
    space.admit(call, key)?;
    let found = space.find_collection::<Hash>(call, key)?;
    let hash = found.map(|index| space.collection::<Hash>(index));
    let (mut length, mut bytes) = hash.map_or((0, 0), |hash| (hash.len(), hash.row_bytes()));
    // Most of the time there is room even if all fields are new.
    let more: usize = pairs.iter().map(|[field, value]| Hash::field_bytes(field, value)).sum();
    if space.limits.check_collection(length + pairs.len(), bytes + more).is_err() {
        let last: BTreeMap<_, _> = pairs.iter().map(|[field, value]| (field, value)).collect();
        for (field, value) in last {
            if let Some(before) = hash.and_then(|hash| hash.get(field)) {
                bytes = bytes + value.len() - before.len();
            } else {
                (length, bytes) = (length + 1, bytes + Hash::field_bytes(field, value));
            }
        }
        space.limits.check_collection(length, bytes)?;
    }
    Ok(space.change(found, key, |hash: &mut Hash| {
        pairs.iter().filter(|[field, value]| hash.put(own(field), own(value))).count()
    }))
}

/// `HGET key field`
pub fn hget(space: &mut Keyspace, call: &Call<'_>) -> Outcome {
    let hash = space.look::<Hash>(call, call.argument(1))?;
    Ok(Answer::bulk_or_null(hash.and_then(|hash| hash.get(call.argument(2)))))
}

/// `HGETALL key`
pub fn hgetall(space: &mut Keyspace, call: &Call<'_>) -> Outcome {
    let limits = space.limits;
    let Some(hash) = space.look::<Hash>(call, call.argument(1))? else {
        return Ok(Answer::Map(Vec::new()));
    };
    limits.check_reply(hash.row_bytes())?;
    let pair = |(field, value): (&Bytes, &Bytes)| (field.clone(), value.clone());
    Ok(Answer::Map(hash.iter().map(pair).collect()))
}

/// `HDEL key field [field ...]`
pub fn hdel(space: &mut Keyspace, call: &Call<'_>) -> Outcome {
    space.remove_each(call, |hash: &Hash, field| hash.get(field).is_some(), Hash::remove)
}

/// `HEXISTS key field`
pub fn hexists(space: &mut Keyspace, call: &Call<'_>) -> Outcome {
    let hash = space.look::<Hash>(call, call.argument(1))?;
    let is_there = hash.is_some_and(|hash| hash.get(call.argument(2)).is_some());
    Ok(Answer::Integer(i64::from(is_there)))
}

/// `HLEN key`
pub fn hlen(space: &mut Keyspace, call: &Call<'_>) -> Outcome {
    Ok(Answer::count(space.look::<Hash>(call, call.argument(1))?.map_or(0, Hash::len)))
}

/// `HINCRBY key field increment`
pub fn hincrby(space: &mut Keyspace, call: &Call<'_>) -> Outcome {
    let (key, field, amount) = (call.argument(1), call.argument(2), call.integer(3)?);
    let hash = space.look::<Hash>(call, key)?;
    let before = match hash.and_then(|hash| hash.get(field)) {
        Some(value) => integer(value).ok_or(Failure::new("ERR hash value is not an integer"))?,
        None => 0,
    };
    let sum = before.checked_add(amount).ok_or(OVERFLOW)?;
    put(space, call, &[[field.clone(), sum.to_string().into()]])?;
    Ok(Answer::Integer(sum))
}
