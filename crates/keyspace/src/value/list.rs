//! Elements in order. Each has a place, which is its row's name: places only rise from front to
//! back, with gaps where elements were, so that a push or a removal is one row.

use std::collections::VecDeque;

use bytes::Bytes;

use super::edit::{Edit, collection, spare};

/// What an element costs besides its bytes.
pub(crate) const ELEMENT_BYTES: usize = 100;

/// Flips the sign, so that the bytes of places sort as places do.
const SIGN: u64 = 1 << 63;

/// One end of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Left,
    Right,
}

#[derive(Debug)]
struct Element {
    place: i64,
    value: Bytes,
}

/// The elements of a list.
#[derive(Debug, Default)]
pub(crate) struct List {
    elements: VecDeque<Element>,
    bytes: usize,
}

collection!(List);

fn item(place: i64) -> Bytes {
    Bytes::copy_from_slice(&(place.cast_unsigned() ^ SIGN).to_be_bytes())
}

/// The place that a row's name stands for.
pub(crate) fn place_of(item: &[u8]) -> Option<i64> {
    let bits = u64::from_be_bytes(item.try_into().ok()?);
    Some((bits ^ SIGN).cast_signed())
}

impl List {
    pub(crate) fn len(&self) -> usize {
        self.elements.len()
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn get(&self, index: usize) -> Option<&Bytes> {
        self.elements.get(index).map(|element| &element.value)
    }

    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = &Bytes> + ExactSizeIterator {
        self.elements.iter().map(|element| &element.value)
    }

    pub(crate) fn range(
        &self,
        range: std::ops::Range<usize>,
    ) -> impl DoubleEndedIterator<Item = &Bytes> {
        self.elements.range(range).map(|element| &element.value)
    }

    pub(crate) fn items(&self) -> Vec<(Bytes, Bytes)> {
        let rows = self.elements.iter().map(|one| (item(one.place), one.value.clone()));
        rows.collect()
    }

    /// Puts an element behind all others, as it was kept; false if that is not where it belongs.
    pub(crate) fn restore(&mut self, place: i64, value: Bytes) -> bool {
        let fits = self.elements.back().is_none_or(|last| last.place < place);
        if fits {
            self.bytes += ELEMENT_BYTES + value.len();
            self.elements.push_back(Element { place, value });
        }
        fits
    }
}

impl Edit<'_, List> {
    pub(crate) fn push(&mut self, end: End, value: Bytes) {
        let elements = &mut self.collection.elements;
        let place = match end {
            End::Left => elements.front().map_or(0, |first| first.place - 1),
            End::Right => elements.back().map_or(0, |last| last.place + 1),
        };
        let element = Element { place, value: value.clone() };
        match end {
            End::Left => elements.push_front(element),
            End::Right => elements.push_back(element),
        }
        self.grow(ELEMENT_BYTES + value.len());
        self.ledger.put_item(self.key, item(place), value);
    }

    pub(crate) fn pop(&mut self, end: End) -> Option<Bytes> {
        let element = match end {
            End::Left => self.collection.elements.pop_front(),
            End::Right => self.collection.elements.pop_back(),
        }?;
        self.forget(&element);
        Some(element.value)
    }

    pub(crate) fn replace(&mut self, index: usize, value: Bytes) {
        let element = &mut self.collection.elements[index];
        let (place, before) = (element.place, element.value.len());
        element.value = value.clone();
        self.grow(value.len());
        self.shrink(before);
        self.ledger.put_item(self.key, item(place), value);
    }

    /// Removes the elements at these positions, which rise.
    pub(crate) fn remove(&mut self, indexes: &[usize]) {
        if let [index] = indexes {
            let element = self.collection.elements.remove(*index).expect("a position of the list");
            return self.forget(&element);
        }
        let mut doomed = indexes.iter().peekable();
        let elements = std::mem::take(&mut self.collection.elements);
        for (index, element) in elements.into_iter().enumerate() {
            if doomed.next_if_eq(&&index).is_some() {
                self.forget(&element);
            } else {
                self.collection.elements.push_back(element);
            }
        }
    }

    /// Removes all elements outside of these positions.
    pub(crate) fn trim(&mut self, kept: std::ops::Range<usize>) {
        for _ in kept.end..self.collection.len() {
            self.pop(End::Right);
        }
        for _ in 0..kept.start {
            self.pop(End::Left);
        }
    }

    /// Puts an element before the one at `index`.
    pub(crate) fn insert(&mut self, index: usize, value: Bytes) {
        let length = self.collection.len();
        if index == 0 {
            return self.push(End::Left, value);
        }
        if index == length {
            return self.push(End::Right, value);
        }
        if index <= length / 2 {
            self.free_left(index);
        } else {
            self.free_right(index);
        }
        let elements = &mut self.collection.elements;
        let place = elements[index - 1].place.midpoint(elements[index].place);
        elements.insert(index, Element { place, value: value.clone() });
        self.grow(ELEMENT_BYTES + value.len());
        self.ledger.put_item(self.key, item(place), value);
    }

    /// Moves elements to the left until there is a free place before `index`.
    fn free_left(&mut self, index: usize) {
        let elements = &mut self.collection.elements;
        let mut bound = elements[index].place;
        for element in elements.range_mut(..index).rev() {
            if element.place + 1 < bound {
                return;
            }
            bound = element.place;
            element.place -= 1;
            self.ledger.put_item(self.key, item(element.place), element.value.clone());
        }
    }

    /// Moves elements to the right until there is a free place before `index`.
    fn free_right(&mut self, index: usize) {
        let elements = &mut self.collection.elements;
        let mut bound = elements[index - 1].place;
        for element in elements.range_mut(index..) {
            if bound + 1 < element.place {
                return;
            }
            bound = element.place;
            element.place += 1;
            self.ledger.put_item(self.key, item(element.place), element.value.clone());
        }
    }

    fn forget(&mut self, element: &Element) {
        let elements = &mut self.collection.elements;
        if let Some(capacity) = spare(elements.len(), elements.capacity()) {
            elements.shrink_to(capacity);
        }
        self.shrink(ELEMENT_BYTES + element.value.len());
        self.ledger.delete_item(self.key, item(element.place));
    }
}
