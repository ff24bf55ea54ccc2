//! Commands that look into lists, or change them away from their ends.

use bytes::Bytes;

use crate::answer::Answer;
use crate::budget::Budget;
use crate::call::Call;
use crate::failure::{Failure, NO_SUCH_KEY, NOT_AN_INTEGER, Outcome, SYNTAX};
use crate::keyspace::Keyspace;
use crate::number;
use crate::strings::{bulk_or_null, count};
use crate::value::list::List;

pub(crate) fn llen(space: &mut Keyspace, call: &Call<'_>) -> Outcome {
    Ok(count(space.look::<List>(call, call.argument(1))?.map_or(0, List::len)))
}

/// The position that an index means; negative ones count from the end.
fn position(index: i64, length: usize) -> Option<usize> {
    let index = if index < 0 { i64::try_from(length).ok()?.checked_add(index)? } else { index };
    usize::try_from(index).ok().filter(|index| *index < length)
}

/// The positions from one index to another, both included, as far as there are any.
pub(crate) fn positions(start: i64, end: i64, length: usize) -> std::ops::Range<usize> {
    let size = i64::try_from(length).unwrap_or(i64::MAX);
    let from_end = |index: i64| if index < 0 { size.saturating_add(index) } else { index };
    let (start, end) = (from_end(start).max(0), from_end(end).min(size - 1));
    if start > end {
        return 0..0;
    }
    let position = |index: i64| usize::try_from(index).expect("inside the collection");
    position(start)..position(end) + 1
}

pub(crate) fn lindex(space: &mut Keyspace, call: &Call<'_>) -> Outcome {
    let Some(list) = space.look::<List>(call, call.argument(1))? else {
        return Ok(Answer::Null);
    };
    let index = call.integer(2)?;
    Ok(bulk_or_null(position(index, list.len()).and_then(|position| list.get(position))))
}

pub(crate) fn lrange(space: &mut Keyspace, call: &Call<'_>) -> Outcome {
    let (start, end) = (call.integer(2)?, call.integer(3)?);
    let mut budget = Budget::new(&space.limits);
    let Some(list) = space.look::<List>(call, call.argument(1))? else {
        return Ok(Answer::Array(Vec::new()));
    };
    let range = positions(start, end, list.len());
    budget.check_elements(range.len())?;
    let mut elements = Vec::with_capacity(range.len());
    for element in list.range(range) {
        budget.spend(element.len())?;
        elements.push(Answer::Bulk(element.clone()));
    }
    Ok(Answer::Array(elements))
}

pub(crate) fn lset(space: &mut Keyspace, call: &Call<'_>) -> Outcome {
    let mut edit = space.edit::<List>(call, call.argument(1))?.ok_or(NO_SUCH_KEY)?;
    let index = call.integer(2)?;
    let position = position(index, edit.collection.len());
    edit.replace(position.ok_or(Failure::new("ERR index out of range"))?, call.value(3));
    Ok(Answer::Ok)
}

pub(crate) fn linsert(space: &mut Keyspace, call: &Call<'_>) -> Outcome {
    let offset = match () {
        () if call.is(2, "before") => 0,
        () if call.is(2, "after") => 1,
        () => return Err(SYNTAX),
    };
    let elements_max = space.limits.elements_max;
    let Some(mut edit) = space.edit::<List>(call, call.argument(1))? else {
        return Ok(Answer::Integer(0));
    };
    let pivot = call.argument(3);
    let Some(found) = edit.collection.iter().position(|element| element == pivot) else {
        return Ok(Answer::Integer(-1));
    };
    if edit.collection.len() >= elements_max {
        return Err(Failure::too_many_elements(elements_max));
    }
    edit.insert(found + offset, call.value(4));
    Ok(count(edit.collection.len()))
}

pub(crate) fn lrem(space: &mut Keyspace, call: &Call<'_>) -> Outcome {
    let at_most = call.integer(2)?;
    let Some(mut edit) = space.edit::<List>(call, call.argument(1))? else {
        return Ok(Answer::Integer(0));
    };
    let wanted = call.argument(3);
    let same = edit.collection.iter().enumerate().filter(|(_, element)| *element == wanted);
    let same = same.map(|(index, _)| index);
    let n_max = if at_most == 0 { u64::MAX } else { at_most.unsigned_abs() };
    let n_max = usize::try_from(n_max).unwrap_or(usize::MAX);
    let mut doomed: Vec<usize> =
        if at_most < 0 { same.rev().take(n_max).collect() } else { same.take(n_max).collect() };
    doomed.sort_unstable();
    edit.remove(&doomed);
    let index = edit.index;
    space.remove_if_empty(index);
    Ok(count(doomed.len()))
}

pub(crate) fn ltrim(space: &mut Keyspace, call: &Call<'_>) -> Outcome {
    let (start, end) = (call.integer(2)?, call.integer(3)?);
    let Some(mut edit) = space.edit::<List>(call, call.argument(1))? else {
        return Ok(Answer::Ok);
    };
    let length = edit.collection.len();
    let kept = positions(start, end, length);
    let index = edit.index;
    if kept.is_empty() {
        space.remove_at(index);
    } else {
        edit.trim(kept);
    }
    Ok(Answer::Ok)
}

/// What `LPOS` is asked for.
struct Search {
    /// Which match is the first to give, from 1 on.
    rank: usize,
    is_backwards: bool,
    /// How many matches to give; all of them if zero.
    count: Option<usize>,
    /// How many elements to compare; all of them if zero.
    length_max: usize,
}

impl Search {
    fn read(call: &Call<'_>) -> Result<Self, Failure> {
        let mut search = Self { rank: 1, is_backwards: false, count: None, length_max: 0 };
        for position in (3..call.len()).step_by(2) {
            if position + 1 == call.len() {
                return Err(SYNTAX);
            }
            search.take(call, position)?;
        }
        Ok(search)
    }

    fn take(&mut self, call: &Call<'_>, position: usize) -> Result<(), Failure> {
        let not_negative = |sentence| {
            let number = number::integer(call.argument(position + 1));
            let number = number.and_then(|number| usize::try_from(number).ok());
            number.ok_or(Failure::new(sentence))
        };
        if call.is(position, "rank") {
            let rank = call.integer(position + 1)?;
            if rank == 0 {
                return Err(Failure::new(
                    "ERR RANK can't be zero: use 1 to start from the first match, 2 from the \
                     second ... or use negative to start from the end of the list",
                ));
            }
            // The least integer cannot be turned around, and Redis takes it for the last match.
            let distance = rank.checked_abs().unwrap_or(1);
            self.rank = usize::try_from(distance).unwrap_or(usize::MAX);
            self.is_backwards = rank < 0;
        } else if call.is(position, "count") {
            self.count = Some(not_negative("ERR COUNT can't be negative")?);
        } else if call.is(position, "maxlen") {
            self.length_max = not_negative("ERR MAXLEN can't be negative")?;
        } else {
            return Err(SYNTAX);
        }
        Ok(())
    }

    fn run(&self, list: &List, wanted: &Bytes) -> Vec<usize> {
        let all_if_zero = |n: usize| if n == 0 { usize::MAX } else { n };
        let n_compared = all_if_zero(self.length_max);
        let n_found = all_if_zero(self.count.unwrap_or(1));
        let is_wanted = |(_, element): &(usize, &Bytes)| *element == wanted;
        let elements = list.iter().enumerate();
        let index = |(index, _)| index;
        if self.is_backwards {
            let found = elements.rev().take(n_compared).filter(is_wanted).skip(self.rank - 1);
            return found.take(n_found).map(index).collect();
        }
        let found = elements.take(n_compared).filter(is_wanted).skip(self.rank - 1);
        found.take(n_found).map(index).collect()
    }
}

/// Any integer but the least, which cannot be turned around.
pub(crate) fn ranged(call: &Call<'_>, position: usize) -> Result<i64, Failure> {
    let number = number::integer(call.argument(position)).ok_or(NOT_AN_INTEGER)?;
    if number == i64::MIN {
        let (min, max) = (-i64::MAX, i64::MAX);
        return Err(Failure::with(format!(
            "ERR value is out of range, value must between {min} and {max}"
        )));
    }
    Ok(number)
}

pub(crate) fn lpos(space: &mut Keyspace, call: &Call<'_>) -> Outcome {
    let search = Search::read(call)?;
    let budget = Budget::new(&space.limits);
    let list = space.look::<List>(call, call.argument(1))?;
    let found = list.map(|list| search.run(list, call.argument(2))).unwrap_or_default();
    if search.count.is_none() {
        return Ok(found.first().map_or(Answer::Null, |index| count(*index)));
    }
    budget.check_elements(found.len())?;
    Ok(Answer::Array(found.into_iter().map(count).collect()))
}
