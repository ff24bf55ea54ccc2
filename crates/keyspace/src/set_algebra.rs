//! Unions, intersections and differences of sets.

use crate::hash_state::HashState;
use bytes::Bytes;
use indexmap::IndexSet;

use crate::answer::Answer;
use crate::budget::Budget;
use crate::call::{Call, own};
use crate::failure::{Failure, Outcome, WRONG_TYPE};
use crate::keyspace::Keyspace;
use crate::strings::count;
use crate::value::edit::Collection;
use crate::value::entry::{Entry, Value};
use crate::value::set::{MEMBER_BYTES, Set};

/// How sets become one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operation {
    Union,
    Intersection,
    Difference,
}

pub(crate) fn sunion(space: &mut Keyspace, call: &Call<'_>) -> Outcome {
    reply(space, call, Operation::Union)
}

pub(crate) fn sinter(space: &mut Keyspace, call: &Call<'_>) -> Outcome {
    reply(space, call, Operation::Intersection)
}

pub(crate) fn sdiff(space: &mut Keyspace, call: &Call<'_>) -> Outcome {
    reply(space, call, Operation::Difference)
}

pub(crate) fn sunionstore(space: &mut Keyspace, call: &Call<'_>) -> Outcome {
    store(space, call, Operation::Union)
}

pub(crate) fn sinterstore(space: &mut Keyspace, call: &Call<'_>) -> Outcome {
    store(space, call, Operation::Intersection)
}

pub(crate) fn sdiffstore(space: &mut Keyspace, call: &Call<'_>) -> Outcome {
    store(space, call, Operation::Difference)
}

fn reply(space: &mut Keyspace, call: &Call<'_>, operation: Operation) -> Outcome {
    let members = combine(space, call, call.from(1), operation)?;
    Ok(Answer::Set(Budget::new(&space.limits).collect(members.iter())?))
}

fn store(space: &mut Keyspace, call: &Call<'_>, operation: Operation) -> Outcome {
    let destination = call.argument(1);
    let members = combine(space, call, call.from(2), operation)?;
    space.check_elements(members.len())?;
    let bytes = members.iter().map(|member| MEMBER_BYTES + member.len()).sum();
    space.check_room(call, bytes)?;
    let found = space.find(call, destination);
    space.remove_found(found);
    if members.is_empty() {
        return Ok(Answer::Integer(0));
    }
    let mut set = Set::default();
    let n_members = members.len();
    members.into_iter().for_each(|member| {
        set.restore(member);
    });
    let value = Value::Set(Box::new(set));
    space.insert(own(destination), Entry { value, expires_at: None });
    Ok(count(n_members))
}

type Members = IndexSet<Bytes, HashState>;

/// The members that come out. A key that is not there is an empty set.
fn combine(
    space: &mut Keyspace,
    call: &Call<'_>,
    keys: &[Bytes],
    operation: Operation,
) -> Result<Members, Failure> {
    // Ended keys go first, so that the rest can look at several sets at once.
    let found: Vec<_> = keys.iter().map(|key| space.find(call, key).is_some()).collect();
    let mut sets = Vec::with_capacity(keys.len());
    for (key, is_there) in keys.iter().zip(found) {
        let entry = if is_there { space.keys.get(key) } else { None };
        sets.push(entry.map(|entry| Set::of(&entry.value).ok_or(WRONG_TYPE)).transpose()?);
    }
    Ok(match operation {
        Operation::Union => sets.into_iter().flatten().flat_map(Set::iter).cloned().collect(),
        Operation::Intersection => intersection(&sets),
        Operation::Difference => difference(&sets),
    })
}

fn intersection(sets: &[Option<&Set>]) -> Members {
    let Some(mut sets) = sets.iter().copied().collect::<Option<Vec<&Set>>>() else {
        return Members::default();
    };
    // A set that is named a thousand times is looked at once.
    sets.sort_by_key(|set| (set.len(), std::ptr::from_ref(*set)));
    sets.dedup_by(|one, two| std::ptr::eq(*one, *two));
    let Some((smallest, others)) = sets.split_first() else {
        return Members::default();
    };
    let is_in_all = |member: &&Bytes| others.iter().all(|set| set.contains(member));
    smallest.iter().filter(is_in_all).cloned().collect()
}

fn difference(sets: &[Option<&Set>]) -> Members {
    let Some((Some(first), others)) = sets.split_first() else {
        return Members::default();
    };
    let n_others: usize = others.iter().flatten().map(|other| other.len()).sum();
    if first.len().saturating_mul(others.len()) <= n_others {
        let is_elsewhere =
            |member: &Bytes| others.iter().flatten().any(|other| other.contains(member));
        return first.iter().filter(|member| !is_elsewhere(member)).cloned().collect();
    }
    // Many small sets are walked once each, rather than asked for every member of a large one.
    let mut members: Members = first.iter().cloned().collect();
    for member in others.iter().flatten().flat_map(|other| other.iter()) {
        members.swap_remove(member);
    }
    members
}
