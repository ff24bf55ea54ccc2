//! Members in the order of their scores, then of their bytes.

use std::collections::BTreeSet;
use std::ops::Bound;

use crate::hash_state::HashState;
use bytes::Bytes;
use indexmap::IndexMap;

use super::edit::{Edit, collection, spare};
use super::score::Score;

/// What a member costs besides its bytes: it stands in the order and in the table.
pub(crate) const MEMBER_BYTES: usize = 220;

/// From where to where scores lie; an end that is excluded lies just outside.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ScoreRange {
    pub(crate) min: Score,
    pub(crate) min_excluded: bool,
    pub(crate) max: Score,
    pub(crate) max_excluded: bool,
}

/// A member's place in the order.
type Place = (Score, Bytes);

/// The members of a sorted set.
#[derive(Debug, Default)]
pub(crate) struct SortedSet {
    scores: IndexMap<Bytes, Score, HashState>,
    order: BTreeSet<Place>,
    bytes: usize,
}

collection!(SortedSet);

impl SortedSet {
    pub(crate) fn len(&self) -> usize {
        self.scores.len()
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn score(&self, member: &[u8]) -> Option<Score> {
        self.scores.get(member).copied()
    }

    /// The member at a position that only scans use.
    pub(crate) fn at(&self, index: usize) -> Option<(&Bytes, Score)> {
        self.scores.get_index(index).map(|(member, score)| (member, *score))
    }

    /// The lowest score first.
    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = (&Bytes, Score)> {
        self.order.iter().map(|(score, member)| (member, *score))
    }

    pub(crate) fn range(
        &self,
        range: ScoreRange,
    ) -> impl DoubleEndedIterator<Item = (&Bytes, Score)> {
        let found = ends(range).map(|ends| self.order.range(ends));
        found.into_iter().flatten().map(|(score, member)| (member, *score))
    }

    /// How many members come before this one.
    pub(crate) fn rank(&self, member: &Bytes) -> Option<usize> {
        let score = self.score(member)?;
        Some(self.order.range(..(score, member.clone())).count())
    }

    pub(crate) fn items(&self) -> Vec<(Bytes, Bytes)> {
        let rows = self.scores.iter().map(|(member, score)| (member.clone(), score.to_bytes()));
        rows.collect()
    }

    pub(crate) fn restore(&mut self, member: Bytes, score: Score) -> bool {
        self.bytes += MEMBER_BYTES + member.len();
        self.order.insert((score, member.clone()));
        self.scores.insert(member, score).is_none()
    }
}

/// The same range as ends in the order, where the empty member comes before all others.
fn ends(range: ScoreRange) -> Option<(Bound<Place>, Bound<Place>)> {
    let first = if range.min_excluded { range.min.next()? } else { range.min };
    let end = if range.max_excluded { Some(range.max) } else { range.max.next() };
    if end.is_some_and(|end| end < first) {
        return None; // The tree would panic.
    }
    let end = end.map_or(Bound::Unbounded, |end| Bound::Excluded((end, Bytes::new())));
    Some((Bound::Included((first, Bytes::new())), end))
}

impl Edit<'_, SortedSet> {
    /// Adds a member, or moves it to this score.
    pub(crate) fn put(&mut self, member: &Bytes, score: Score) {
        let sorted = &mut *self.collection;
        let found = sorted.scores.get_full_mut(member);
        let member = if let Some((_, member, kept)) = found {
            let place = (std::mem::replace(kept, score), member.clone());
            sorted.order.remove(&place);
            place.1
        } else {
            let member = crate::call::own(member);
            sorted.scores.insert(member.clone(), score);
            self.grow(MEMBER_BYTES + member.len());
            member
        };
        self.ledger.put_item(self.key, member.clone(), score.to_bytes());
        self.collection.order.insert((score, member));
    }

    /// Whether it was a member.
    pub(crate) fn remove(&mut self, member: &[u8]) -> bool {
        let Some((member, score)) = self.collection.scores.swap_remove_entry(member) else {
            return false;
        };
        let scores = &mut self.collection.scores;
        if let Some(capacity) = spare(scores.len(), scores.capacity()) {
            scores.shrink_to(capacity);
        }
        self.shrink(MEMBER_BYTES + member.len());
        let place = (score, member);
        self.collection.order.remove(&place);
        self.ledger.delete_item(self.key, place.1);
        true
    }
}
