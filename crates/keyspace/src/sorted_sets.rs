//! Commands of sorted sets.

use std::collections::BTreeSet;

use bytes::Bytes;

use crate::call::{Answer, Call, Failure, Outcome, SYNTAX, float, lenient_float};
use crate::keyspace::{Keyspace, Limits};
use crate::lists::positions;
use crate::value::{Collection as _, Score, ScoreRange, SortedSet};

/// `ZADD key score member [score member ...]`
pub fn zadd(space: &mut Keyspace, call: &Call<'_>) -> Outcome {
    let key = call.argument(1);
    let (pairs, rest) = call.from(2).as_chunks::<2>();
    if !rest.is_empty() || pairs.is_empty() {
        return Err(SYNTAX);
    }
    let score = |[score, _]: &[Bytes; 2]| float(score).and_then(Score::new);
    let scores: Option<Vec<Score>> = pairs.iter().map(score).collect();
    let scores = scores.ok_or(Failure::new("ERR value is not a valid float"))?;
    space.admit(call, key)?;
    let found = space.find_collection::<SortedSet>(call, key)?;
    let sorted = found.map(|index| space.collection::<SortedSet>(index));
    let (length, bytes) = sorted.map_or((0, 0), |sorted| (sorted.len(), sorted.row_bytes()));
    // Most of the time there is room even if all members are new.
    let more: usize = pairs.iter().map(|[_, member]| SortedSet::member_bytes(member)).sum();
    if space.limits.check_collection(length + pairs.len(), bytes + more).is_err() {
        let members = pairs.iter().map(|[_, member]| member);
        let is_new = |member: &&Bytes| sorted.is_none_or(|sorted| sorted.score(member).is_none());
        let new: BTreeSet<&Bytes> = members.filter(is_new).collect();
        let more: usize = new.iter().map(|member| SortedSet::member_bytes(member)).sum();
        space.limits.check_collection(length + new.len(), bytes + more)?;
    }
    let pairs = pairs.iter().map(|[_, member]| member).zip(scores);
    Ok(Answer::count(space.change(found, key, |sorted: &mut SortedSet| {
        pairs.filter(|(member, score)| sorted.put(member, *score)).count()
    })))
}

/// `ZREM key member [member ...]`
pub fn zrem(space: &mut Keyspace, call: &Call<'_>) -> Outcome {
    let has = |sorted: &SortedSet, member: &[u8]| sorted.score(member).is_some();
    space.remove_each(call, has, SortedSet::remove)
}

/// `ZSCORE key member`
pub fn zscore(space: &mut Keyspace, call: &Call<'_>) -> Outcome {
    let sorted = space.look::<SortedSet>(call, call.argument(1))?;
    let score = sorted.and_then(|sorted| sorted.score(call.argument(2)));
    Ok(score.map_or(Answer::Null, |score| Answer::Double(score.get())))
}

/// `ZCARD key`
pub fn zcard(space: &mut Keyspace, call: &Call<'_>) -> Outcome {
    Ok(Answer::count(space.look::<SortedSet>(call, call.argument(1))?.map_or(0, SortedSet::len)))
}

/// What follows a range.
#[derive(Debug)]
struct RangeOptions {
    with_scores: bool,
    offset: i64,
    /// How many members to give; all of them if negative.
    limit: i64,
}

impl RangeOptions {
    fn read(call: &Call<'_>, may_limit: bool) -> Result<Self, Failure> {
        let mut options = Self { with_scores: false, offset: 0, limit: -1 };
        let mut position = 4;
        while position < call.len() {
            if call.is(position, "withscores") {
                options.with_scores = true;
                position += 1;
            } else if may_limit && call.is(position, "limit") && position + 2 < call.len() {
                options.offset = call.integer(position + 1)?;
                options.limit = call.integer(position + 2)?;
                position += 3;
            } else {
                return Err(SYNTAX);
            }
        }
        Ok(options)
    }

    fn answer<'a>(
        &self,
        limits: &Limits,
        found: impl Iterator<Item = (&'a Bytes, Score)>,
    ) -> Outcome {
        if !self.with_scores {
            return Ok(Answer::Array(limits.collect(found.map(|(member, _)| Some(member)))?));
        }
        let found: Vec<_> = found.map(|(member, score)| (member.clone(), score.get())).collect();
        limits.check_reply(found.iter().map(|(member, _)| member.len()).sum())?;
        Ok(Answer::Scored(found))
    }
}

/// `ZRANGE key start stop [WITHSCORES]`, walked from the nearer end.
pub fn zrange(space: &mut Keyspace, call: &Call<'_>) -> Outcome {
    let (options, limits) = (RangeOptions::read(call, false)?, space.limits);
    let (start, end) = (call.integer(2)?, call.integer(3)?);
    let Some(sorted) = space.look::<SortedSet>(call, call.argument(1))? else {
        return Ok(Answer::Array(Vec::new()));
    };
    let range = positions(start, end, sorted.len());
    let n_behind = sorted.len() - range.end;
    let found: Vec<_> = if range.start <= n_behind {
        sorted.iter().skip(range.start).take(range.len()).collect()
    } else {
        let mut found: Vec<_> = sorted.iter().rev().skip(n_behind).take(range.len()).collect();
        found.reverse();
        found
    };
    options.answer(&limits, found.into_iter())
}

/// `ZRANGEBYSCORE key min max [WITHSCORES] [LIMIT offset count]`
pub fn zrangebyscore(space: &mut Keyspace, call: &Call<'_>) -> Outcome {
    let (options, limits) = (RangeOptions::read(call, true)?, space.limits);
    let (min, min_excluded) = score_end(call.argument(2))?;
    let (max, max_excluded) = score_end(call.argument(3))?;
    let Some(sorted) = space.look::<SortedSet>(call, call.argument(1))? else {
        return Ok(Answer::Array(Vec::new()));
    };
    // Redis never counts a negative offset down to its end.
    let skipped = usize::try_from(options.offset).unwrap_or(usize::MAX);
    let taken = usize::try_from(options.limit).unwrap_or(usize::MAX);
    let range = ScoreRange { min, min_excluded, max, max_excluded };
    let found: Vec<_> = sorted.range(range).skip(skipped).take(taken).collect();
    options.answer(&limits, found.into_iter())
}

/// The end of a range of scores, and whether it is excluded.
fn score_end(text: &[u8]) -> Result<(Score, bool), Failure> {
    let (number, is_excluded) = match text.strip_prefix(b"(") {
        Some(number) => (number, true),
        None => (text, false),
    };
    let score = lenient_float(number).and_then(Score::new);
    Ok((score.ok_or(Failure::new("ERR min or max is not a float"))?, is_excluded))
}
