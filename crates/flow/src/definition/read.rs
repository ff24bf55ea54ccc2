//! Reading a definition without giving up: a value of the wrong kind is noted where it stands, and
//! the rest is read on, so that all problems can be told at once.

use std::borrow::Cow;
use std::cell::Cell;
use std::fmt;
use std::marker::PhantomData;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::{EDGES_MAX, NODES_MAX, OBJECTS_MAX, WRONG_ELEMENTS_MAX};
use crate::problem::Place;

/// Something that was meant to be a `T`. A `null` counts as left out.
#[derive(Debug, Default)]
pub(crate) enum Loose<T> {
    /// The author did not say.
    #[default]
    Absent,
    /// The author said something else, of this kind.
    Wrong(&'static str),
    /// As it should be.
    Given(T),
}

impl<T> Loose<T> {
    /// The value, where there is one of the right kind.
    pub(crate) fn given(&self) -> Option<&T> {
        if let Self::Given(value) = self { Some(value) } else { None }
    }
}

/// A text.
pub(crate) type Text<'a> = Loose<Cow<'a, str>>;
/// A whole number.
pub(crate) type Whole = Loose<i64>;
/// A list.
pub(crate) type List<T> = Loose<Vec<Loose<T>>>;
/// Values by name.
pub(crate) type Pairs<'a, T> = Loose<Vec<(Cow<'a, str>, Loose<T>)>>;
/// JSON that is looked at later.
pub(crate) type Raw<'a> = Option<&'a RawValue>;

impl Text<'_> {
    /// The text, empty where there is none.
    pub(crate) fn text(&self) -> &str {
        self.given().map_or("", |text| text)
    }
}

impl<T> Loose<Vec<T>> {
    /// What a list or an object holds, nothing where there is none.
    pub(crate) fn items(&self) -> &[T] {
        self.given().map_or(&[], Vec::as_slice)
    }
}

/// What a thing counts as.
#[derive(Clone, Copy, Debug)]
pub(super) enum Counted {
    Node,
    Edge,
    /// Any other object, or a name in one, or an element of a list.
    Object,
    /// An element that is not of the kind that the list is for.
    WrongElement,
}

/// What is counted, and how much of it is read, in the order of [`Counted`].
const COUNTED: [(&str, usize); 4] = [
    ("nodes", NODES_MAX),
    ("edges", EDGES_MAX),
    ("objects and names", OBJECTS_MAX),
    ("elements of the wrong kind in its lists", WRONG_ELEMENTS_MAX),
];

/// What may still be read. Small elements could otherwise fill the memory of a whole machine.
#[derive(Debug)]
pub(super) struct Budget {
    left: [Cell<usize>; COUNTED.len()],
    /// What there was too much of, and its limit.
    pub(super) exceeded: Cell<Option<(&'static str, usize)>>,
}

impl Budget {
    pub(super) fn new() -> Self {
        Self { left: COUNTED.map(|(_, limit)| Cell::new(limit)), exceeded: Cell::new(None) }
    }

    /// One more of these; an error when there are too many.
    pub(super) fn count<E: Error>(&self, what: Counted) -> Result<(), E> {
        let left = &self.left[what as usize];
        let Some(rest) = left.get().checked_sub(1) else {
            self.exceeded.set(Some(COUNTED[what as usize]));
            return Err(E::custom("too much to read"));
        };
        left.set(rest);
        Ok(())
    }
}

/// What may become of values of each kind; `None` and the defaults refuse.
pub(super) trait Shape<'de>: Sized {
    /// Makes one of a text.
    fn of_text(_text: Cow<'de, str>) -> Option<Self> {
        None
    }

    /// Makes one of a whole number.
    fn of_whole(_number: i64) -> Option<Self> {
        None
    }

    /// Makes one of a yes or no.
    fn of_flag(_flag: bool) -> Option<Self> {
        None
    }

    /// Makes one of a list.
    fn of_list<A: SeqAccess<'de>>(mut list: A, _budget: &Budget) -> Result<Option<Self>, A::Error> {
        while list.next_element::<IgnoredAny>()?.is_some() {}
        Ok(None)
    }

    /// Makes one of an object.
    fn of_object<A: MapAccess<'de>>(
        mut map: A,
        _budget: &Budget,
    ) -> Result<Option<Self>, A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(None)
    }

    /// Tells what is wrong with the fields of an object.
    fn check(&self, _at: &Place<'_>) {}
}

/// Reads a `T` within a budget. Reading fails only where the text is no JSON, or too long.
pub(super) struct Within<'b, T>(&'b Budget, PhantomData<T>);

impl<'b, T> Within<'b, T> {
    pub(super) fn new(budget: &'b Budget) -> Self {
        Self(budget, PhantomData)
    }
}

impl<'de> DeserializeSeed<'de> for Within<'_, Raw<'de>> {
    type Value = Raw<'de>;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Raw<'de>, D::Error> {
        Deserialize::deserialize(from)
    }
}

impl<'de, T: Shape<'de>> DeserializeSeed<'de> for Within<'_, Loose<T>> {
    type Value = Loose<T>;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Loose<T>, D::Error> {
        from.deserialize_any(self)
    }
}

fn or_wrong<T>(made: Option<T>, kind: &'static str) -> Loose<T> {
    made.map_or(Loose::Wrong(kind), Loose::Given)
}

impl<'de, T: Shape<'de>> Visitor<'de> for Within<'_, Loose<T>> {
    type Value = Loose<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    fn visit_bool<E>(self, flag: bool) -> Result<Loose<T>, E> {
        Ok(or_wrong(T::of_flag(flag), "true or false"))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Loose<T>, E> {
        Ok(or_wrong(T::of_whole(number), "a number"))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Loose<T>, E> {
        Ok(or_wrong(i64::try_from(number).ok().and_then(T::of_whole), "a number"))
    }

    /// `30.0` and `3e1` are whole numbers too; JSON knows no difference.
    fn visit_f64<E>(self, number: f64) -> Result<Loose<T>, E> {
        Ok(or_wrong(whole(number).and_then(T::of_whole), "a number"))
    }

    fn visit_str<E>(self, text: &str) -> Result<Loose<T>, E> {
        Ok(or_wrong(T::of_text(Cow::Owned(text.to_owned())), "text"))
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Loose<T>, E> {
        Ok(or_wrong(T::of_text(Cow::Borrowed(text)), "text"))
    }

    fn visit_unit<E>(self) -> Result<Loose<T>, E> {
        Ok(Loose::Absent)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<Loose<T>, A::Error> {
        Ok(or_wrong(T::of_list(list, self.0)?, "a list"))
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Loose<T>, A::Error> {
        Ok(or_wrong(T::of_object(map, self.0)?, "an object"))
    }
}

/// Beyond this a number with a fraction cannot tell neighbours apart.
const EXACT_MAX: f64 = 9_007_199_254_740_992.0;

fn whole(number: f64) -> Option<i64> {
    #[expect(clippy::cast_possible_truncation, reason = "whole, and small enough")]
    (number.fract() == 0.0 && number.abs() <= EXACT_MAX).then_some(number as i64)
}

impl<'de> Shape<'de> for Cow<'de, str> {
    fn of_text(text: Cow<'de, str>) -> Option<Self> {
        Some(text)
    }
}

impl Shape<'_> for i64 {
    fn of_whole(number: i64) -> Option<Self> {
        Some(number)
    }
}

impl<'de, T: Shape<'de>> Shape<'de> for Box<T> {
    fn of_object<A: MapAccess<'de>>(map: A, budget: &Budget) -> Result<Option<Self>, A::Error> {
        Ok(T::of_object(map, budget)?.map(Box::new))
    }

    fn check(&self, at: &Place<'_>) {
        self.as_ref().check(at);
    }
}

impl<'de, T: Shape<'de>> Shape<'de> for Vec<Loose<T>> {
    fn of_list<A: SeqAccess<'de>>(mut list: A, budget: &Budget) -> Result<Option<Self>, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = list.next_element_seed(Within::<Loose<T>>::new(budget))? {
            let is_given = matches!(item, Loose::Given(_));
            budget.count(if is_given { Counted::Object } else { Counted::WrongElement })?;
            // Most lists of a node have one element.
            if items.is_empty() {
                items.reserve_exact(1);
            }
            items.push(item);
        }
        Ok(Some(items))
    }
}

impl<'de, T: Shape<'de>> Shape<'de> for Vec<(Cow<'de, str>, Loose<T>)> {
    fn of_object<A: MapAccess<'de>>(mut map: A, budget: &Budget) -> Result<Option<Self>, A::Error> {
        let mut pairs = Vec::new();
        while let Some(Key(name)) = map.next_key::<Key<'de>>()? {
            budget.count(Counted::Object)?;
            pairs.push((name, map.next_value_seed(Within::<Loose<T>>::new(budget))?));
        }
        Ok(Some(pairs))
    }
}

/// A key of an object.
#[derive(Deserialize)]
pub(super) struct Key<'a>(#[serde(borrow)] pub(super) Cow<'a, str>);

/// Objects with the fields that we look at, and the rule of each; others are passed over. A field
/// that stands twice counts as it stands last, as with every other reader of JSON. Fields of our
/// own have a second spelling; `is_snake` remembers who used it, so that problems point to what
/// stands there. Problems are told in the order of the table.
macro_rules! objects {
    ( $(
        $(#[$doc:meta])*
        $name:ident<$life:lifetime> as $counted:ident {
            $( $field:ident: $type:ty = $key:literal $(or $other:literal)?, $rule:expr; )*
        }
    )* ) => { $(
        $(#[$doc])*
        #[derive(Debug, Default)]
        pub(crate) struct $name<$life> {
            $( pub(crate) $field: $type, )*
            pub(crate) is_snake: bool,
            marker: std::marker::PhantomData<&$life ()>,
        }

        impl<$life> Shape<$life> for $name<$life> {
            fn of_object<A: serde::de::MapAccess<$life>>(
                mut map: A,
                budget: &Budget,
            ) -> Result<Option<Self>, A::Error> {
                budget.count(Counted::$counted)?;
                let mut made = Self::default();
                while let Some(Key(key)) = map.next_key::<Key<$life>>()? {
                    match key.as_ref() {
                        $(
                            $key => {
                                made.$field = map.next_value_seed(Within::<$type>::new(budget))?;
                            }
                            $( $other => {
                                made.is_snake = true;
                                made.$field = map.next_value_seed(Within::<$type>::new(budget))?;
                            } )?
                        )*
                        _ => {
                            map.next_value::<serde::de::IgnoredAny>()?;
                        }
                    }
                }
                Ok(Some(made))
            }

            fn check(&self, at: &Place<'_>) {
                $(
                    let spellings = [$key $(, $other)?];
                    let key = if self.is_snake { spellings[spellings.len() - 1] } else { $key };
                    ($rule)(&self.$field, &at.key(key));
                )*
            }
        }
    )* };
}
pub(super) use objects;
