//! Commands of sets.

use crate::answer::Answer;
use crate::budget::Budget;
use crate::call::Call;
use crate::dice::Dice;
use crate::failure::{Outcome, SYNTAX};
use crate::hashes::pick;
use crate::keyspace::Keyspace;
use crate::lists::ranged;
use crate::strings::{bulk_or_null, count};
use crate::value::set::Set;

pub(crate) fn sadd(space: &mut Keyspace, call: &Call<'_>) -> Outcome {
    let (key, members) = (call.argument(1), call.from(2));
    let elements_max = space.limits.elements_max;
    let set = space.look::<Set>(call, key)?;
    let length = set.map_or(0, Set::len);
    if length + members.len() > elements_max {
        let is_new = |member: &&bytes::Bytes| set.is_none_or(|set| !set.contains(member));
        let n_new = members.iter().filter(is_new).count();
        space.check_elements(length + n_new)?;
    }
    let mut edit = space.open::<Set>(call, key)?;
    Ok(count(members.iter().filter(|member| edit.add(member)).count()))
}

pub(crate) fn srem(space: &mut Keyspace, call: &Call<'_>) -> Outcome {
    let Some(mut edit) = space.edit::<Set>(call, call.argument(1))? else {
        return Ok(Answer::Integer(0));
    };
    let n_removed = call.from(2).iter().filter(|member| edit.remove(member)).count();
    let index = edit.index;
    space.remove_if_empty(index);
    Ok(count(n_removed))
}

pub(crate) fn smembers(space: &mut Keyspace, call: &Call<'_>) -> Outcome {
    let mut budget = Budget::new(&space.limits);
    match space.look::<Set>(call, call.argument(1))? {
        Some(set) => Ok(Answer::Set(budget.collect(set.iter())?)),
        None => Ok(Answer::Set(Vec::new())),
    }
}

pub(crate) fn sismember(space: &mut Keyspace, call: &Call<'_>) -> Outcome {
    let set = space.look::<Set>(call, call.argument(1))?;
    let is_member = set.is_some_and(|set| set.contains(call.argument(2)));
    Ok(Answer::Integer(i64::from(is_member)))
}

pub(crate) fn smismember(space: &mut Keyspace, call: &Call<'_>) -> Outcome {
    let set = space.look::<Set>(call, call.argument(1))?;
    let is_member = |member: &bytes::Bytes| set.is_some_and(|set| set.contains(member));
    let members = call.from(2).iter().map(is_member);
    Ok(Answer::Array(members.map(|found| Answer::Integer(i64::from(found))).collect()))
}

pub(crate) fn scard(space: &mut Keyspace, call: &Call<'_>) -> Outcome {
    Ok(count(space.look::<Set>(call, call.argument(1))?.map_or(0, Set::len)))
}

pub(crate) fn spop(space: &mut Keyspace, call: &Call<'_>) -> Outcome {
    let mut dice = Dice::new(call.at.entropy);
    let n_max = match call.len() {
        2 => None,
        3 => Some(call.count(2)?),
        _ => return Err(SYNTAX),
    };
    let mut budget = Budget::new(&space.limits);
    let Some(mut edit) = space.edit::<Set>(call, call.argument(1))? else {
        return Ok(n_max.map_or(Answer::Null, |_| Answer::Set(Vec::new())));
    };
    let length = edit.collection.len();
    let n = n_max.unwrap_or(1).min(length);
    budget.check_elements(n)?;
    let mut chosen = dice.different(n, length);
    let member = |index: &usize| edit.collection.at(*index).expect("a position of a member");
    let members = budget.collect(chosen.iter().map(member))?;
    // From the back to the front, because a removal moves the last member.
    chosen.sort_unstable();
    for index in chosen.into_iter().rev() {
        edit.take(index);
    }
    let index = edit.index;
    space.remove_if_empty(index);
    Ok(match n_max {
        Some(_) => Answer::Set(members),
        None => bulk_or_null(members.first()),
    })
}

pub(crate) fn srandmember(space: &mut Keyspace, call: &Call<'_>) -> Outcome {
    let mut dice = Dice::new(call.at.entropy);
    if call.len() > 3 {
        return Err(SYNTAX);
    }
    let wanted = if call.len() == 3 { Some(ranged(call, 2)?) } else { None };
    let mut budget = Budget::new(&space.limits);
    let Some(set) = space.look::<Set>(call, call.argument(1))? else {
        return Ok(wanted.map_or(Answer::Null, |_| Answer::Array(Vec::new())));
    };
    let Some(wanted) = wanted else {
        return Ok(bulk_or_null(set.at(dice.below(set.len()))));
    };
    let chosen = pick(&mut dice, &budget, wanted, set.len())?;
    let member = |index: &usize| set.at(*index).expect("a position of a member");
    let members = budget.collect(chosen.iter().map(member))?;
    Ok(Answer::Array(members.into_iter().map(Answer::Bulk).collect()))
}

pub(crate) fn smove(space: &mut Keyspace, call: &Call<'_>) -> Outcome {
    let (source, destination, member) = (call.argument(1), call.argument(2), call.argument(3));
    let Some(set) = space.look::<Set>(call, source)? else {
        return Ok(Answer::Integer(0));
    };
    let is_member = set.contains(member);
    let target = space.look::<Set>(call, destination)?;
    let n_after = target.map_or(1, |set| set.len() + usize::from(!set.contains(member)));
    if source == destination || !is_member {
        return Ok(Answer::Integer(i64::from(is_member)));
    }
    space.check_elements(n_after)?;
    space.open::<Set>(call, destination)?.add(member);
    if let Some(mut edit) = space.edit::<Set>(call, source)? {
        edit.remove(member);
        let index = edit.index;
        space.remove_if_empty(index);
    }
    Ok(Answer::Integer(1))
}
