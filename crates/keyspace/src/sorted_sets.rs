//! Commands of sorted sets that name members.

use bytes::Bytes;

use crate::answer::Answer;
use crate::budget::Budget;
use crate::call::Call;
use crate::failure::{Failure, Outcome, SYNTAX};
use crate::keyspace::Keyspace;
use crate::strings::count;
use crate::value::score::Score;
use crate::value::sorted_set::SortedSet;

/// How scores are put.
#[derive(Clone, Copy, Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a word that a client may say")]
struct Options {
    only_new: bool,
    only_there: bool,
    only_greater: bool,
    only_less: bool,
    counts_changed: bool,
    increments: bool,
}

/// What becomes of a member.
#[derive(Clone, Copy, Debug)]
enum Change {
    /// The options forbid it.
    Nothing,
    Added(Score),
    Moved(Score),
    /// It has this score already.
    Same(Score),
}

impl Options {
    /// The options, and where scores begin.
    fn read(call: &Call<'_>, increments: bool) -> Result<(Self, usize), Failure> {
        let mut options = Self { increments, ..Self::default() };
        let mut position = 2;
        while position < call.len() && options.take(call, position) {
            position += 1;
        }
        let n_arguments = call.len() - position;
        if n_arguments == 0 || n_arguments % 2 == 1 {
            return Err(SYNTAX);
        }
        options.check()?;
        if options.increments && n_arguments > 2 {
            return Err(Failure::new("ERR INCR option supports a single increment-element pair"));
        }
        Ok((options, position))
    }

    /// Whether the argument is an option.
    fn take(&mut self, call: &Call<'_>, position: usize) -> bool {
        let is = |word: &str| call.is(position, word);
        match () {
            () if is("nx") => self.only_new = true,
            () if is("xx") => self.only_there = true,
            () if is("gt") => self.only_greater = true,
            () if is("lt") => self.only_less = true,
            () if is("ch") => self.counts_changed = true,
            () if is("incr") => self.increments = true,
            () => return false,
        }
        true
    }

    fn check(self) -> Result<(), Failure> {
        if self.only_new && self.only_there {
            return Err(Failure::new("ERR XX and NX options at the same time are not compatible"));
        }
        let (new, greater, less) = (self.only_new, self.only_greater, self.only_less);
        if new && (greater || less) || greater && less {
            return Err(Failure::new(
                "ERR GT, LT, and/or NX options at the same time are not compatible",
            ));
        }
        Ok(())
    }

    fn decide(self, before: Option<Score>, number: f64) -> Result<Change, Failure> {
        let not_a_number = Failure::new("ERR resulting score is not a number (NaN)");
        let Some(before) = before else {
            let score = Score::new(number).ok_or(not_a_number)?;
            return Ok(if self.only_there { Change::Nothing } else { Change::Added(score) });
        };
        if self.only_new {
            return Ok(Change::Nothing);
        }
        let number = if self.increments { before.get() + number } else { number };
        let score = Score::new(number).ok_or(not_a_number)?;
        let is_wrong = self.only_greater && score <= before || self.only_less && score >= before;
        Ok(match score == before {
            _ if is_wrong => Change::Nothing,
            true => Change::Same(score),
            false => Change::Moved(score),
        })
    }
}

pub(crate) fn zadd(space: &mut Keyspace, call: &Call<'_>) -> Outcome {
    put(space, call, false)
}

pub(crate) fn zincrby(space: &mut Keyspace, call: &Call<'_>) -> Outcome {
    put(space, call, true)
}

fn put(space: &mut Keyspace, call: &Call<'_>, increments: bool) -> Outcome {
    let (options, first) = Options::read(call, increments)?;
    let scores = (first..call.len()).step_by(2).map(|position| call.float(position));
    let scores: Vec<f64> = scores.collect::<Result<_, _>>()?;
    let members = || call.from(first + 1).iter().step_by(2);
    check_members(space, call, options, members())?;
    if options.increments {
        return increment(space, call, options, (members(), scores[0]));
    }
    if options.only_there && space.find(call, call.argument(1)).is_none() {
        return Ok(Answer::Integer(0));
    }
    let (mut n_added, mut n_moved) = (0, 0);
    let mut edit = space.open::<SortedSet>(call, call.argument(1))?;
    for (member, score) in members().zip(scores) {
        match options.decide(edit.collection.score(member), score)? {
            Change::Nothing | Change::Same(_) => {}
            Change::Added(score) => {
                edit.put(member, score);
                n_added += 1;
            }
            Change::Moved(score) => {
                edit.put(member, score);
                n_moved += 1;
            }
        }
    }
    let index = edit.index;
    space.remove_if_empty(index);
    Ok(count(if options.counts_changed { n_added + n_moved } else { n_added }))
}

/// Refuses members that would make a sorted set too large.
fn check_members<'a>(
    space: &mut Keyspace,
    call: &Call<'_>,
    options: Options,
    members: impl ExactSizeIterator<Item = &'a Bytes>,
) -> Result<(), Failure> {
    let elements_max = space.limits.elements_max;
    let sorted = space.look::<SortedSet>(call, call.argument(1))?;
    let length = sorted.map_or(0, SortedSet::len);
    if options.only_there || length + members.len() <= elements_max {
        return Ok(());
    }
    let is_new = |member: &&Bytes| sorted.is_none_or(|sorted| sorted.score(member).is_none());
    let n_new = members.filter(is_new).count();
    space.check_elements(length + n_new)
}

fn increment<'a>(
    space: &mut Keyspace,
    call: &Call<'_>,
    options: Options,
    (mut members, amount): (impl Iterator<Item = &'a Bytes>, f64),
) -> Outcome {
    let key = call.argument(1);
    let member = members.next().expect("there is one pair");
    let before = space.look::<SortedSet>(call, key)?.and_then(|sorted| sorted.score(member));
    match options.decide(before, amount)? {
        Change::Nothing => Ok(Answer::Null),
        Change::Same(score) => Ok(Answer::Double(score.get())),
        Change::Added(score) | Change::Moved(score) => {
            space.open::<SortedSet>(call, key)?.put(member, score);
            Ok(Answer::Double(score.get()))
        }
    }
}

pub(crate) fn zrem(space: &mut Keyspace, call: &Call<'_>) -> Outcome {
    let Some(mut edit) = space.edit::<SortedSet>(call, call.argument(1))? else {
        return Ok(Answer::Integer(0));
    };
    let n_removed = call.from(2).iter().filter(|member| edit.remove(member)).count();
    let index = edit.index;
    space.remove_if_empty(index);
    Ok(count(n_removed))
}

pub(crate) fn zscore(space: &mut Keyspace, call: &Call<'_>) -> Outcome {
    let sorted = space.look::<SortedSet>(call, call.argument(1))?;
    let score = sorted.and_then(|sorted| sorted.score(call.argument(2)));
    Ok(score.map_or(Answer::Null, |score| Answer::Double(score.get())))
}

pub(crate) fn zmscore(space: &mut Keyspace, call: &Call<'_>) -> Outcome {
    let sorted = space.look::<SortedSet>(call, call.argument(1))?;
    let score = |member: &Bytes| {
        let score = sorted.and_then(|sorted| sorted.score(member));
        score.map_or(Answer::Null, |score| Answer::Double(score.get()))
    };
    Ok(Answer::Array(call.from(2).iter().map(score).collect()))
}

pub(crate) fn zcard(space: &mut Keyspace, call: &Call<'_>) -> Outcome {
    Ok(count(space.look::<SortedSet>(call, call.argument(1))?.map_or(0, SortedSet::len)))
}

pub(crate) fn zrank(space: &mut Keyspace, call: &Call<'_>) -> Outcome {
    let sorted = space.look::<SortedSet>(call, call.argument(1))?;
    let rank = sorted.and_then(|sorted| sorted.rank(call.argument(2)));
    Ok(rank.map_or(Answer::Null, count))
}

pub(crate) fn zrevrank(space: &mut Keyspace, call: &Call<'_>) -> Outcome {
    let Some(sorted) = space.look::<SortedSet>(call, call.argument(1))? else {
        return Ok(Answer::Null);
    };
    let rank = sorted.rank(call.argument(2));
    Ok(rank.map_or(Answer::Null, |rank| count(sorted.len() - 1 - rank)))
}

pub(crate) fn zpopmin(space: &mut Keyspace, call: &Call<'_>) -> Outcome {
    pop(space, call, false)
}

pub(crate) fn zpopmax(space: &mut Keyspace, call: &Call<'_>) -> Outcome {
    pop(space, call, true)
}

fn pop(space: &mut Keyspace, call: &Call<'_>, from_back: bool) -> Outcome {
    let n_max = match call.len() {
        2 => None,
        3 => Some(call.count(2)?),
        _ => return Err(SYNTAX),
    };
    let mut budget = Budget::new(&space.limits);
    let Some(mut edit) = space.edit::<SortedSet>(call, call.argument(1))? else {
        return Ok(Answer::Array(Vec::new()));
    };
    let n = n_max.unwrap_or(1).min(edit.collection.len());
    budget.check_elements(n)?;
    let mut popped = Vec::with_capacity(n);
    let mut members = edit.collection.iter();
    for _ in 0..n {
        let next = if from_back { members.next_back() } else { members.next() };
        let (member, score) = next.expect("not more than there are");
        budget.spend(member.len())?;
        popped.push((member.clone(), score.get()));
    }
    drop(members);
    for (member, _) in &popped {
        edit.remove(member);
    }
    let index = edit.index;
    space.remove_if_empty(index);
    if n_max.is_some() {
        return Ok(Answer::Scored(popped));
    }
    let flat = popped
        .into_iter()
        .flat_map(|(member, score)| [Answer::Bulk(member), Answer::Double(score)]);
    Ok(Answer::Array(flat.collect()))
}
