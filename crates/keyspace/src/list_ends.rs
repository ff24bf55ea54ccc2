//! Commands at the ends of lists: push, pop, move, and their kin that wait.

use std::time::Duration;

use bytes::Bytes;

use crate::answer::Answer;
use crate::budget::Budget;
use crate::call::{Call, own};
use crate::failure::{Failure, Outcome, SYNTAX};
use crate::keyspace::Keyspace;
use crate::long_double::{self, Parsed};
use crate::strings::count;
use crate::value::list::{End, List};

pub(crate) fn lpush(space: &mut Keyspace, call: &Call<'_>) -> Outcome {
    push(space, call, End::Left)
}

pub(crate) fn rpush(space: &mut Keyspace, call: &Call<'_>) -> Outcome {
    push(space, call, End::Right)
}

pub(crate) fn lpushx(space: &mut Keyspace, call: &Call<'_>) -> Outcome {
    push_if_there(space, call, End::Left)
}

pub(crate) fn rpushx(space: &mut Keyspace, call: &Call<'_>) -> Outcome {
    push_if_there(space, call, End::Right)
}

fn push_if_there(space: &mut Keyspace, call: &Call<'_>, end: End) -> Outcome {
    match space.look::<List>(call, call.argument(1))? {
        Some(_) => push(space, call, end),
        None => Ok(Answer::Integer(0)),
    }
}

fn push(space: &mut Keyspace, call: &Call<'_>, end: End) -> Outcome {
    let key = call.argument(1);
    let (n_new, elements_max) = (call.len() - 2, space.limits.elements_max);
    // A new list is judged before it is made, and one that is there is looked up once only.
    if n_new > elements_max {
        return Err(Failure::too_many_elements(elements_max));
    }
    let mut edit = space.open::<List>(call, key)?;
    if edit.collection.len() + n_new > elements_max {
        return Err(Failure::too_many_elements(elements_max));
    }
    for position in 2..call.len() {
        edit.push(end, call.value(position));
    }
    edit.ledger.note_growth(edit.key);
    Ok(count(edit.collection.len()))
}

pub(crate) fn lpop(space: &mut Keyspace, call: &Call<'_>) -> Outcome {
    pop(space, call, End::Left)
}

pub(crate) fn rpop(space: &mut Keyspace, call: &Call<'_>) -> Outcome {
    pop(space, call, End::Right)
}

fn pop(space: &mut Keyspace, call: &Call<'_>, end: End) -> Outcome {
    match call.len() {
        2 => Ok(pop_one(space, call, call.argument(1), end)?.map_or(Answer::Null, Answer::Bulk)),
        3 => pop_many(space, call, end),
        _ => Err(call.wrong_arity()),
    }
}

/// One element off the end of a list, if there is any.
fn pop_one(
    space: &mut Keyspace,
    call: &Call<'_>,
    key: &Bytes,
    end: End,
) -> Result<Option<Bytes>, Failure> {
    let Some(mut edit) = space.edit::<List>(call, key)? else {
        return Ok(None);
    };
    let (index, element) = (edit.index, edit.pop(end));
    space.remove_if_empty(index);
    Ok(element)
}

fn pop_many(space: &mut Keyspace, call: &Call<'_>, end: End) -> Outcome {
    let at_most = call.count(2)?;
    let mut budget = Budget::new(&space.limits);
    let Some(mut edit) = space.edit::<List>(call, call.argument(1))? else {
        return Ok(Answer::NullArray);
    };
    let n_elements = at_most.min(edit.collection.len());
    budget.check_elements(n_elements)?;
    let elements = edit.collection.iter();
    match end {
        End::Left => elements.take(n_elements).try_for_each(|one| budget.spend(one.len())),
        End::Right => elements.rev().take(n_elements).try_for_each(|one| budget.spend(one.len())),
    }?;
    let popped = std::iter::from_fn(|| edit.pop(end)).take(n_elements);
    let popped = popped.map(Answer::Bulk).collect();
    let index = edit.index;
    space.remove_if_empty(index);
    Ok(Answer::Array(popped))
}

fn end_at(call: &Call<'_>, position: usize) -> Result<End, Failure> {
    match () {
        () if call.is(position, "left") => Ok(End::Left),
        () if call.is(position, "right") => Ok(End::Right),
        () => Err(SYNTAX),
    }
}

pub(crate) fn lmove(space: &mut Keyspace, call: &Call<'_>) -> Outcome {
    let (from, to) = (end_at(call, 3)?, end_at(call, 4)?);
    Ok(move_one(space, call, from, to)?.map_or(Answer::Null, Answer::Bulk))
}

pub(crate) fn rpoplpush(space: &mut Keyspace, call: &Call<'_>) -> Outcome {
    Ok(move_one(space, call, End::Right, End::Left)?.map_or(Answer::Null, Answer::Bulk))
}

/// One element from the list at position 1 to the list at position 2.
fn move_one(
    space: &mut Keyspace,
    call: &Call<'_>,
    from: End,
    to: End,
) -> Result<Option<Bytes>, Failure> {
    let (source, destination) = (call.argument(1), call.argument(2));
    if space.look::<List>(call, source)?.is_none() {
        return Ok(None);
    }
    let length = space.look::<List>(call, destination)?.map_or(0, List::len);
    if source != destination {
        space.check_elements(length + 1)?;
    }
    // Put first and taken afterwards, so that a list which turns around one element stays.
    let list = space.look::<List>(call, source)?.expect("it was just there");
    let element = match from {
        End::Left => list.get(0),
        End::Right => list.get(list.len() - 1),
    };
    let element = element.cloned().expect("a list has elements");
    if source == destination {
        let mut edit = space.open::<List>(call, source)?;
        edit.pop(from);
        edit.push(to, element.clone());
        edit.ledger.note_growth(edit.key);
    } else {
        let mut edit = space.open::<List>(call, destination)?;
        edit.push(to, element.clone());
        edit.ledger.note_growth(edit.key);
        pop_one(space, call, source, from)?;
    }
    Ok(Some(element))
}

pub(crate) fn blpop(space: &mut Keyspace, call: &Call<'_>) -> Outcome {
    pop_or_wait(space, call, End::Left)
}

pub(crate) fn brpop(space: &mut Keyspace, call: &Call<'_>) -> Outcome {
    pop_or_wait(space, call, End::Right)
}

fn pop_or_wait(space: &mut Keyspace, call: &Call<'_>, end: End) -> Outcome {
    let timeout = timeout(call)?;
    let keys = &call.arguments[1..call.len() - 1];
    for key in keys {
        if let Some(element) = pop_one(space, call, key, end)? {
            return Ok(Answer::Array(vec![Answer::Bulk(key.clone()), Answer::Bulk(element)]));
        }
    }
    Ok(Answer::Block { keys: keys.iter().map(own).collect(), timeout })
}

pub(crate) fn blmove(space: &mut Keyspace, call: &Call<'_>) -> Outcome {
    let (from, to) = (end_at(call, 3)?, end_at(call, 4)?);
    move_or_wait(space, call, from, to)
}

pub(crate) fn brpoplpush(space: &mut Keyspace, call: &Call<'_>) -> Outcome {
    move_or_wait(space, call, End::Right, End::Left)
}

fn move_or_wait(space: &mut Keyspace, call: &Call<'_>, from: End, to: End) -> Outcome {
    let timeout = timeout(call)?;
    match move_one(space, call, from, to)? {
        Some(element) => Ok(Answer::Bulk(element)),
        None => Ok(Answer::Block { keys: vec![call.value(1)], timeout }),
    }
}

/// The last argument: seconds, and parts of them. Zero is for ever.
fn timeout(call: &Call<'_>) -> Result<Option<Duration>, Failure> {
    let negative = Failure::new("ERR timeout is negative");
    let argument = call.argument(call.len() - 1);
    let millis = match long_double::parse(argument) {
        Some(Parsed::Finite(seconds)) => seconds.millis_rounded_up(),
        Some(Parsed::Infinite { .. }) => return Err(negative),
        None => return Err(Failure::new("ERR timeout is not a float or out of range")),
    };
    // Redis takes for negative what has no room in 64 bits.
    let millis = i64::try_from(millis).ok().and_then(|millis| u64::try_from(millis).ok());
    let millis = millis.ok_or(negative)?;
    Ok((millis > 0).then(|| Duration::from_millis(millis)))
}
