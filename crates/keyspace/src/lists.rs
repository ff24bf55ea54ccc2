//! Commands of lists: push, pop, move, and the pops that wait.

use std::ops::Range;

use bytes::Bytes;
use model::Timestamp;

use crate::call::{Answer, Call, End, Failure, Outcome, Popped, SYNTAX, WRONG_TYPE, own};
use crate::keyspace::Keyspace;
use crate::row::Kind;
use crate::value::{Collection as _, List};

/// `LPUSH key element [element ...]`
pub fn lpush(space: &mut Keyspace, call: &Call<'_>) -> Outcome {
    push(space, call, End::Left)
}

/// `RPUSH key element [element ...]`
pub fn rpush(space: &mut Keyspace, call: &Call<'_>) -> Outcome {
    push(space, call, End::Right)
}

fn push(space: &mut Keyspace, call: &Call<'_>, end: End) -> Outcome {
    let (key, elements) = (call.argument(1), call.from(2));
    space.admit(call, key)?;
    let found = space.find_collection::<List>(call, key)?;
    let (length, bytes) = size(space, found);
    let length = length + elements.len();
    let more: usize = elements.iter().map(List::element_bytes).sum();
    space.limits.check_collection(length, bytes + more)?;
    space.change(found, key, |list: &mut List| {
        for element in elements {
            list.push(end, own(element));
        }
    });
    space.note_growth(key);
    Ok(Answer::count(length))
}

/// How many elements a list has, and how long its row is.
fn size(space: &Keyspace, found: Option<usize>) -> (usize, usize) {
    found.map_or((0, 0), |index| {
        let list: &List = space.collection(index);
        (list.len(), list.row_bytes())
    })
}

/// `LPOP key [count]`
pub fn lpop(space: &mut Keyspace, call: &Call<'_>) -> Outcome {
    pop(space, call, End::Left)
}

/// `RPOP key [count]`
pub fn rpop(space: &mut Keyspace, call: &Call<'_>) -> Outcome {
    pop(space, call, End::Right)
}

fn pop(space: &mut Keyspace, call: &Call<'_>, end: End) -> Outcome {
    let key = call.argument(1);
    match (call.len(), end) {
        (2, _) => return Ok(pop_one(space, call, key, end)?.map_or(Answer::Null, Answer::Bulk)),
        (4.., End::Left) => return Err(Failure::wrong_arity("lpop")),
        (4.., End::Right) => return Err(Failure::wrong_arity("rpop")),
        (..=3, _) => {}
    }
    let at_most = call.count(2)?;
    let Some(index) = space.find_collection::<List>(call, key)? else {
        return Ok(Answer::NullArray);
    };
    let n_elements = at_most.min(space.collection::<List>(index).len());
    if n_elements == 0 {
        return Ok(Answer::Array(Vec::new()));
    }
    let popped = space.change(Some(index), key, |list: &mut List| {
        std::iter::from_fn(|| list.pop(end)).take(n_elements).map(Answer::Bulk).collect()
    });
    Ok(Answer::Array(popped))
}

/// One element off the end of a list, if there is any.
fn pop_one(
    space: &mut Keyspace,
    call: &Call<'_>,
    key: &Bytes,
    end: End,
) -> Result<Option<Bytes>, Failure> {
    let found = space.find_collection::<List>(call, key)?;
    Ok(found.and_then(|index| space.change(Some(index), key, |list: &mut List| list.pop(end))))
}

/// `LLEN key`
pub fn llen(space: &mut Keyspace, call: &Call<'_>) -> Outcome {
    Ok(Answer::count(space.look::<List>(call, call.argument(1))?.map_or(0, List::len)))
}

/// The positions from one index to another, both included, as far as there are any.
pub(crate) fn positions(start: i64, end: i64, length: usize) -> Range<usize> {
    let size = i64::try_from(length).unwrap_or(i64::MAX);
    let from_end = |index: i64| if index < 0 { size.saturating_add(index) } else { index };
    let (start, end) = (from_end(start).max(0), from_end(end).min(size - 1));
    if start > end {
        return 0..0;
    }
    let position = |index: i64| usize::try_from(index).expect("inside the collection");
    position(start)..position(end) + 1
}

/// `LRANGE key start stop`
pub fn lrange(space: &mut Keyspace, call: &Call<'_>) -> Outcome {
    let (start, end, limits) = (call.integer(2)?, call.integer(3)?, space.limits);
    let Some(list) = space.look::<List>(call, call.argument(1))? else {
        return Ok(Answer::Array(Vec::new()));
    };
    let range = positions(start, end, list.len());
    Ok(Answer::Array(limits.collect(list.range(range).map(Some))?))
}

/// `LREM key count element`
pub fn lrem(space: &mut Keyspace, call: &Call<'_>) -> Outcome {
    let (key, at_most, wanted) = (call.argument(1), call.integer(2)?, call.argument(3));
    let Some(index) = space.find_collection::<List>(call, key)? else {
        return Ok(Answer::Integer(0));
    };
    let elements = space.collection::<List>(index).iter().enumerate();
    let same = elements.filter(|(_, element)| *element == wanted).map(|(position, _)| position);
    let n_max = if at_most == 0 { u64::MAX } else { at_most.unsigned_abs() };
    let n_max = usize::try_from(n_max).unwrap_or(usize::MAX);
    let mut doomed: Vec<usize> =
        if at_most < 0 { same.rev().take(n_max).collect() } else { same.take(n_max).collect() };
    doomed.sort_unstable();
    if !doomed.is_empty() {
        space.change(Some(index), key, |list: &mut List| list.remove(&doomed));
    }
    Ok(Answer::count(doomed.len()))
}

fn end_at(call: &Call<'_>, position: usize) -> Result<End, Failure> {
    match () {
        () if call.is(position, "left") => Ok(End::Left),
        () if call.is(position, "right") => Ok(End::Right),
        () => Err(SYNTAX),
    }
}

/// `LMOVE source destination LEFT|RIGHT LEFT|RIGHT`
pub fn lmove(space: &mut Keyspace, call: &Call<'_>) -> Outcome {
    let (from, to) = (end_at(call, 3)?, end_at(call, 4)?);
    Ok(move_one(space, call, from, to)?.map_or(Answer::Null, Answer::Bulk))
}

/// `RPOPLPUSH source destination`
pub fn rpoplpush(space: &mut Keyspace, call: &Call<'_>) -> Outcome {
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
    space.admit(call, destination)?;
    let Some(index) = space.find_collection::<List>(call, source)? else { return Ok(None) };
    let element = space.collection::<List>(index).end(from).cloned().expect("it has elements");
    if source == destination {
        space.change(Some(index), source, |list: &mut List| {
            list.pop(from);
            list.push(to, element.clone());
        });
        space.note_growth(source);
        return Ok(Some(element));
    }
    let target = space.find_collection::<List>(call, destination)?;
    let (length, bytes) = size(space, target);
    space.limits.check_collection(length + 1, bytes + List::element_bytes(&element))?;
    space.change(target, destination, |list: &mut List| list.push(to, element.clone()));
    space.note_growth(destination);
    pop_one(space, call, source, from)
}

/// `BLPOP key [key ...] timeout`
pub fn blpop(space: &mut Keyspace, call: &Call<'_>) -> Outcome {
    pop_or_wait(space, call, End::Left)
}

/// `BRPOP key [key ...] timeout`
pub fn brpop(space: &mut Keyspace, call: &Call<'_>) -> Outcome {
    pop_or_wait(space, call, End::Right)
}

fn pop_or_wait(space: &mut Keyspace, call: &Call<'_>, end: End) -> Outcome {
    let timeout = call.timeout()?;
    let keys = call.from(1).split_last().map_or(&[][..], |(_, keys)| keys);
    for key in keys {
        if let Some(element) = pop_one(space, call, key, end)? {
            return Ok(Answer::Popped(Popped { key: own(key), element, end }));
        }
    }
    Ok(Answer::Block { keys: keys.iter().map(own).collect(), timeout })
}

/// `BRPOPLPUSH source destination timeout`
pub fn brpoplpush(space: &mut Keyspace, call: &Call<'_>) -> Outcome {
    let timeout = call.timeout()?;
    match move_one(space, call, End::Right, End::Left)? {
        Some(element) => Ok(Answer::Bulk(element)),
        None => Ok(Answer::Block { keys: vec![own(call.argument(1))], timeout }),
    }
}

impl Keyspace {
    /// Puts an element back at the end from which it was popped, because nobody took it. The list
    /// may grow over its limits by that: an element must not be lost.
    pub fn put_back(&mut self, now: Timestamp, popped: &Popped) -> Result<(), Failure> {
        let Popped { key, element, end } = popped;
        let found = self.find(&Call { now, arguments: &[] }, key);
        if found.is_some_and(|index| self.keys[index].value.kind() != Kind::List) {
            return Err(WRONG_TYPE);
        }
        self.change(found, key, |list: &mut List| list.push(*end, element.clone()));
        self.note_growth(key);
        Ok(())
    }
}
