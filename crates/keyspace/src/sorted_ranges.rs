//! Commands of sorted sets that name ranges: of ranks, of scores, or of members.

use bytes::Bytes;

use crate::answer::Answer;
use crate::budget::Budget;
use crate::call::Call;
use crate::failure::{Failure, Outcome, SYNTAX};
use crate::keyspace::Keyspace;
use crate::lists::positions;
use crate::number;
use crate::strings::count;
use crate::value::score::Score;
use crate::value::sorted_set::{ScoreRange, SortedSet};

/// What the ends of a range are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum By {
    Rank,
    Score,
    Member,
}

/// A range, and how to walk it.
#[derive(Debug)]
struct Query<'a> {
    range: Range<'a>,
    is_reverse: bool,
    with_scores: bool,
    offset: i64,
    /// All, if negative.
    limit: i64,
}

#[derive(Clone, Copy, Debug)]
enum Range<'a> {
    Rank { start: i64, end: i64 },
    Score(ScoreRange),
    Member(MemberRange<'a>),
}

/// The end of a range of members, in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum MemberEnd<'a> {
    BeforeAll,
    At(&'a [u8]),
    AfterAll,
}

#[derive(Clone, Copy, Debug)]
struct MemberRange<'a> {
    min: MemberEnd<'a>,
    min_excluded: bool,
    max: MemberEnd<'a>,
    max_excluded: bool,
}

impl<'a> MemberRange<'a> {
    fn read(min: &'a [u8], max: &'a [u8]) -> Result<Self, Failure> {
        let ((min, min_excluded), (max, max_excluded)) = (member_end(min)?, member_end(max)?);
        Ok(Self { min, min_excluded, max, max_excluded })
    }

    fn starts_before(&self, member: &[u8]) -> bool {
        let member = MemberEnd::At(member);
        if self.min_excluded { member > self.min } else { member >= self.min }
    }

    fn ends_after(&self, member: &[u8]) -> bool {
        let member = MemberEnd::At(member);
        if self.max_excluded { member < self.max } else { member <= self.max }
    }
}

fn member_end(text: &[u8]) -> Result<(MemberEnd<'_>, bool), Failure> {
    match text {
        b"-" => Ok((MemberEnd::BeforeAll, true)),
        b"+" => Ok((MemberEnd::AfterAll, true)),
        [b'(', member @ ..] => Ok((MemberEnd::At(member), true)),
        [b'[', member @ ..] => Ok((MemberEnd::At(member), false)),
        _ => Err(Failure::new("ERR min or max not valid string range item")),
    }
}

fn score_end(text: &[u8]) -> Result<(Score, bool), Failure> {
    let (number, is_excluded) = match text {
        [b'(', number @ ..] => (number, true),
        number => (number, false),
    };
    let score = number::lenient_float(number).and_then(Score::new);
    Ok((score.ok_or(Failure::new("ERR min or max is not a float"))?, is_excluded))
}

fn score_range(min: &[u8], max: &[u8]) -> Result<ScoreRange, Failure> {
    let ((min, min_excluded), (max, max_excluded)) = (score_end(min)?, score_end(max)?);
    Ok(ScoreRange { min, min_excluded, max, max_excluded })
}

/// What a command fixes; what it leaves open, options may say.
#[derive(Clone, Copy, Debug)]
struct Form {
    by: Option<By>,
    is_reverse: Option<bool>,
}

impl<'a> Query<'a> {
    fn read(call: &Call<'a>, mut form: Form) -> Result<Self, Failure> {
        let range = Range::Rank { start: 0, end: -1 };
        let mut query = Self { range, is_reverse: false, with_scores: false, offset: 0, limit: -1 };
        let mut position = 4;
        while position < call.len() {
            position += query.take(call, position, &mut form)?;
        }
        let by = form.by.unwrap_or(By::Rank);
        if query.limit != -1 && by == By::Rank {
            return Err(Failure::new(
                "ERR syntax error, LIMIT is only supported in combination with either BYSCORE or \
                 BYLEX",
            ));
        }
        if query.with_scores && by == By::Member {
            return Err(Failure::new(
                "ERR syntax error, WITHSCORES not supported in combination with BYLEX",
            ));
        }
        query.is_reverse = form.is_reverse.unwrap_or(false);
        let (min, max) = if query.is_reverse { (3, 2) } else { (2, 3) };
        let (min, max) = (call.argument(min), call.argument(max));
        query.range = match by {
            By::Rank => Range::Rank { start: call.integer(2)?, end: call.integer(3)? },
            By::Score => Range::Score(score_range(min, max)?),
            By::Member => Range::Member(MemberRange::read(min, max)?),
        };
        Ok(query)
    }

    /// Reads one option, and says how many arguments it took.
    fn take(&mut self, call: &Call<'_>, at: usize, form: &mut Form) -> Result<usize, Failure> {
        let is = |word: &str| call.is(at, word);
        match () {
            () if is("withscores") => self.with_scores = true,
            () if is("limit") && at + 2 < call.len() => {
                (self.offset, self.limit) = (call.integer(at + 1)?, call.integer(at + 2)?);
                return Ok(3);
            }
            () if is("rev") && form.is_reverse.is_none() => form.is_reverse = Some(true),
            () if is("byscore") && form.by.is_none() => form.by = Some(By::Score),
            () if is("bylex") && form.by.is_none() => form.by = Some(By::Member),
            () => return Err(SYNTAX),
        }
        Ok(1)
    }

    /// How many members to leave out, and how many to give.
    fn window(&self) -> (usize, usize) {
        // A negative offset is never counted down to its end.
        let skipped = usize::try_from(self.offset).unwrap_or(usize::MAX);
        (skipped, usize::try_from(self.limit).unwrap_or(usize::MAX))
    }

    fn select<'b>(&self, sorted: &'b SortedSet) -> Box<dyn Iterator<Item = Found<'b>> + 'b>
    where
        'a: 'b,
    {
        let (skipped, taken) = self.window();
        match (self.range, self.is_reverse) {
            (Range::Rank { start, end }, false) => {
                let range = positions(start, end, sorted.len());
                Box::new(by_rank(sorted, range).into_iter())
            }
            (Range::Rank { start, end }, true) => {
                let range = positions(start, end, sorted.len());
                let range = sorted.len() - range.end..sorted.len() - range.start;
                Box::new(by_rank(sorted, range).into_iter().rev())
            }
            (Range::Score(range), false) => Box::new(sorted.range(range).skip(skipped).take(taken)),
            (Range::Score(range), true) => {
                Box::new(sorted.range(range).rev().skip(skipped).take(taken))
            }
            (Range::Member(range), is_reverse) => {
                Box::new(by_member(sorted, range, is_reverse).skip(skipped).take(taken))
            }
        }
    }
}

type Found<'a> = (&'a Bytes, Score);

/// The members of these ranks, walked from the nearer end.
fn by_rank(sorted: &SortedSet, range: std::ops::Range<usize>) -> Vec<Found<'_>> {
    let n_behind = sorted.len() - range.end;
    if range.start <= n_behind {
        return sorted.iter().skip(range.start).take(range.len()).collect();
    }
    let mut found: Vec<_> = sorted.iter().rev().skip(n_behind).take(range.len()).collect();
    found.reverse();
    found
}

/// Meant for members of one score. Among several scores Redis promises nothing.
fn by_member<'a>(
    sorted: &'a SortedSet,
    range: MemberRange<'a>,
    is_reverse: bool,
) -> Box<dyn Iterator<Item = Found<'a>> + 'a> {
    if is_reverse {
        let found = sorted.iter().rev().skip_while(move |(member, _)| !range.ends_after(member));
        return Box::new(found.take_while(move |(member, _)| range.starts_before(member)));
    }
    let found = sorted.iter().skip_while(move |(member, _)| !range.starts_before(member));
    Box::new(found.take_while(move |(member, _)| range.ends_after(member)))
}

pub(crate) fn zrange(space: &mut Keyspace, call: &Call<'_>) -> Outcome {
    give(space, call, Form { by: None, is_reverse: None })
}

pub(crate) fn zrangebyscore(space: &mut Keyspace, call: &Call<'_>) -> Outcome {
    give(space, call, Form { by: Some(By::Score), is_reverse: Some(false) })
}

pub(crate) fn zrevrange(space: &mut Keyspace, call: &Call<'_>) -> Outcome {
    give(space, call, Form { by: Some(By::Rank), is_reverse: Some(true) })
}

pub(crate) fn zrevrangebyscore(space: &mut Keyspace, call: &Call<'_>) -> Outcome {
    give(space, call, Form { by: Some(By::Score), is_reverse: Some(true) })
}

fn give(space: &mut Keyspace, call: &Call<'_>, form: Form) -> Outcome {
    let query = Query::read(call, form)?;
    let mut budget = Budget::new(&space.limits);
    let Some(sorted) = space.look::<SortedSet>(call, call.argument(1))? else {
        return Ok(Answer::Array(Vec::new()));
    };
    let mut found = Vec::new();
    for (member, score) in query.select(sorted) {
        budget.spend(member.len())?;
        found.push((member.clone(), score.get()));
    }
    if query.with_scores {
        return Ok(Answer::Scored(found));
    }
    Ok(Answer::Array(found.into_iter().map(|(member, _)| Answer::Bulk(member)).collect()))
}

pub(crate) fn zcount(space: &mut Keyspace, call: &Call<'_>) -> Outcome {
    let range = score_range(call.argument(2), call.argument(3))?;
    let sorted = space.look::<SortedSet>(call, call.argument(1))?;
    Ok(count(sorted.map_or(0, |sorted| sorted.range(range).count())))
}

pub(crate) fn zremrangebyrank(space: &mut Keyspace, call: &Call<'_>) -> Outcome {
    let (start, end) = (call.integer(2)?, call.integer(3)?);
    remove(space, call, |sorted| by_rank(sorted, positions(start, end, sorted.len())))
}

pub(crate) fn zremrangebyscore(space: &mut Keyspace, call: &Call<'_>) -> Outcome {
    let range = score_range(call.argument(2), call.argument(3))?;
    remove(space, call, |sorted| sorted.range(range).collect())
}

fn remove(
    space: &mut Keyspace,
    call: &Call<'_>,
    select: impl FnOnce(&SortedSet) -> Vec<Found<'_>>,
) -> Outcome {
    let Some(mut edit) = space.edit::<SortedSet>(call, call.argument(1))? else {
        return Ok(Answer::Integer(0));
    };
    let doomed: Vec<Bytes> =
        select(edit.collection).into_iter().map(|(member, _)| member.clone()).collect();
    for member in &doomed {
        edit.remove(member);
    }
    let index = edit.index;
    space.remove_if_empty(index);
    Ok(count(doomed.len()))
}
