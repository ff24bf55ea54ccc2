//! Commands that walk a table in portions.
//!
//! A cursor is the position below which the walk goes on. It goes from the back to the front: a
//! removal moves the last element forward, where the walk still comes by, so that what stays in the
//! table during a whole walk is given at least once.

use bytes::Bytes;

use crate::answer::Answer;
use crate::budget::Budget;
use crate::call::Call;
use crate::failure::{Failure, Outcome, SYNTAX};
use crate::generic::word;
use crate::glob::Glob;
use crate::keyspace::Keyspace;
use crate::number;
use crate::value::hash::Hash;
use crate::value::set::Set;
use crate::value::sorted_set::SortedSet;

/// How many elements a portion has, unless the client says otherwise.
const COUNT_DEFAULT: usize = 10;

/// What follows the cursor.
struct Options<'a> {
    count: usize,
    glob: Option<Glob<'a>>,
    kind: Option<&'a Bytes>,
}

impl<'a> Options<'a> {
    fn read(call: &Call<'a>, first: usize, of_keys: bool) -> Result<Self, Failure> {
        let mut options = Self { count: COUNT_DEFAULT, glob: None, kind: None };
        for position in (first..call.len()).step_by(2) {
            let value = call.arguments.get(position + 1).ok_or(SYNTAX)?;
            if call.is(position, "count") {
                let count = usize::try_from(call.integer(position + 1)?).ok();
                options.count = count.filter(|count| *count > 0).ok_or(SYNTAX)?;
            } else if call.is(position, "match") {
                options.glob = Some(Glob::new(value)).filter(|glob| !glob.is_everything());
            } else if call.is(position, "type") && of_keys {
                options.kind = Some(value);
            } else {
                return Err(SYNTAX);
            }
        }
        Ok(options)
    }

    fn is_wanted(&mut self, name: &[u8]) -> Result<bool, Failure> {
        self.glob.as_mut().map_or(Ok(true), |glob| glob.matches(name))
    }

    fn is_wanted_kind(&self, kind: &str) -> bool {
        self.kind.is_none_or(|wanted| wanted.eq_ignore_ascii_case(kind.as_bytes()))
    }
}

/// A cursor as C reads it: an unsigned number, of which a minus makes the complement.
fn cursor(argument: &[u8]) -> Result<u64, Failure> {
    let invalid = Failure::new("ERR invalid cursor");
    let argument = number::until_zero(argument);
    let (is_negative, digits) = match argument {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        _ => (false, argument),
    };
    // No digits at all are zero, but a sign alone is nothing.
    let is_number = digits.iter().all(u8::is_ascii_digit);
    if !is_number || digits.is_empty() && !argument.is_empty() {
        return Err(invalid);
    }
    let number = std::str::from_utf8(digits).ok().filter(|digits| !digits.is_empty());
    let number = number.map_or(Ok(0), str::parse::<u64>).map_err(|_| invalid)?;
    Ok(if is_negative { number.wrapping_neg() } else { number })
}

/// The positions of the next portion, and the cursor after it.
fn portion(cursor: u64, count: usize, length: usize) -> (std::ops::Range<usize>, usize) {
    let end = match usize::try_from(cursor) {
        Ok(0) | Err(_) => length,
        Ok(cursor) => cursor.min(length),
    };
    let start = end.saturating_sub(count);
    (start..end, start)
}

fn answer(cursor: usize, elements: Vec<Answer>) -> Answer {
    let cursor = Answer::Bulk(cursor.to_string().into());
    Answer::Array(vec![cursor, Answer::Array(elements)])
}

pub(crate) fn scan(space: &mut Keyspace, call: &Call<'_>) -> Outcome {
    let cursor = cursor(call.argument(1))?;
    let mut options = Options::read(call, 2, true)?;
    let mut budget = Budget::new(&space.limits);
    let count = options.count.min(space.limits.reply_elements_max);
    let (range, next) = portion(cursor, count, space.len());
    let mut found = Vec::new();
    for index in range.rev() {
        let (key, entry) = space.keys.get_index(index).expect("a position of a key");
        let is_wanted = options.is_wanted(key)?
            && options.is_wanted_kind(word(entry.value.kind()))
            && !entry.is_expired_at(call.now());
        if is_wanted {
            budget.spend(key.len())?;
            found.push(Answer::Bulk(key.clone()));
        }
    }
    Ok(answer(next, found))
}

pub(crate) fn hscan(space: &mut Keyspace, call: &Call<'_>) -> Outcome {
    let cursor = cursor(call.argument(2))?;
    let mut budget = Budget::new(&space.limits);
    let count_max = space.limits.reply_elements_max / 2;
    let Some(hash) = space.look::<Hash>(call, call.argument(1))? else {
        return Ok(answer(0, Vec::new()));
    };
    let mut options = Options::read(call, 3, false)?;
    let (range, next) = portion(cursor, options.count.min(count_max), hash.len());
    let mut found = Vec::new();
    for index in range.rev() {
        let (field, value) = hash.at(index).expect("a position of a field");
        if options.is_wanted(field)? {
            budget.spend(field.len())?;
            budget.spend(value.len())?;
            found.extend([Answer::Bulk(field.clone()), Answer::Bulk(value.clone())]);
        }
    }
    Ok(answer(next, found))
}

pub(crate) fn sscan(space: &mut Keyspace, call: &Call<'_>) -> Outcome {
    let cursor = cursor(call.argument(2))?;
    let mut budget = Budget::new(&space.limits);
    let count_max = space.limits.reply_elements_max;
    let Some(set) = space.look::<Set>(call, call.argument(1))? else {
        return Ok(answer(0, Vec::new()));
    };
    let mut options = Options::read(call, 3, false)?;
    let (range, next) = portion(cursor, options.count.min(count_max), set.len());
    let mut found = Vec::new();
    for index in range.rev() {
        let member = set.at(index).expect("a position of a member");
        if options.is_wanted(member)? {
            budget.spend(member.len())?;
            found.push(Answer::Bulk(member.clone()));
        }
    }
    Ok(answer(next, found))
}

pub(crate) fn zscan(space: &mut Keyspace, call: &Call<'_>) -> Outcome {
    let cursor = cursor(call.argument(2))?;
    let mut budget = Budget::new(&space.limits);
    let count_max = space.limits.reply_elements_max / 2;
    let Some(sorted) = space.look::<SortedSet>(call, call.argument(1))? else {
        return Ok(answer(0, Vec::new()));
    };
    let mut options = Options::read(call, 3, false)?;
    let (range, next) = portion(cursor, options.count.min(count_max), sorted.len());
    let mut found = Vec::new();
    for index in range.rev() {
        let (member, score) = sorted.at(index).expect("a position of a member");
        if options.is_wanted(member)? {
            let score = Bytes::from(number::float_text(score.get()));
            budget.spend(member.len())?;
            budget.spend(score.len())?;
            found.extend([Answer::Bulk(member.clone()), Answer::Bulk(score)]);
        }
    }
    Ok(answer(next, found))
}
