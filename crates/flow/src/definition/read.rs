//! Reading a definition without giving up: a value of the wrong kind is noted where it stands, and
//! the rest is read on, so that all problems can be told at once.

use std::borrow::Cow;
use std::cell::Cell;
use std::fmt;
use std::marker::PhantomData;

use serde::Deserialize;
use serde::de::{self, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

/// Something that was meant to be a `T`. A `null` counts as left out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Loose<T> {
    /// The author did not say.
    #[default]
    Absent,
    /// The author said something else.
    Wrong(Kind),
    /// As it should be.
    Given(T),
}

impl<T> Loose<T> {
    /// The value, where there is one of the right kind.
    pub(crate) fn given(&self) -> Option<&T> {
        match self {
            Self::Given(value) => Some(value),
            Self::Absent | Self::Wrong(_) => None,
        }
    }
}

/// A text.
pub(crate) type Text<'a> = Loose<Cow<'a, str>>;
/// A list.
pub(crate) type List<T> = Loose<Vec<Loose<T>>>;
/// Values by name.
pub(crate) type Pairs<'a, T> = Loose<Vec<(Cow<'a, str>, Loose<T>)>>;

impl Text<'_> {
    /// The text, empty where there is none.
    pub(crate) fn text(&self) -> &str {
        self.given().map_or("", |text| text)
    }
}

impl<T> List<T> {
    /// What the list holds, nothing where there is none.
    pub(crate) fn items(&self) -> &[Loose<T>] {
        self.given().map_or(&[], Vec::as_slice)
    }
}

/// What kind of value stands somewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// `true` or `false`.
    Flag,
    /// A number.
    Number,
    /// A text.
    Text,
    /// A list.
    List,
    /// An object.
    Object,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Flag => "true or false",
            Self::Number => "a number",
            Self::Text => "text",
            Self::List => "a list",
            Self::Object => "an object",
        })
    }
}

/// What may still be read. Small elements could otherwise fill the memory of a whole machine.
#[derive(Debug)]
pub(crate) struct Budget {
    limits: [usize; KINDS],
    left: [Cell<usize>; KINDS],
    exceeded: Cell<Option<Counted>>,
}

/// How many things are counted.
const KINDS: usize = 4;

impl Budget {
    /// So many of each, in the order of [`Counted`].
    pub(crate) fn new(limits: [usize; KINDS]) -> Self {
        Self { limits, left: limits.map(Cell::new), exceeded: Cell::new(None) }
    }

    /// What there was too much of, and its limit.
    pub(crate) fn exceeded(&self) -> Option<(&'static str, usize)> {
        let what = self.exceeded.get()?;
        Some((what.words(), self.limits[what as usize]))
    }

    /// One more of these; an error when there are too many.
    pub(crate) fn count<E: de::Error>(&self, what: Counted) -> Result<(), E> {
        let left = &self.left[what as usize];
        let Some(rest) = left.get().checked_sub(1) else {
            self.exceeded.set(Some(what));
            return Err(E::custom("too much to read"));
        };
        left.set(rest);
        Ok(())
    }
}

/// What a thing counts as.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Counted {
    /// A node.
    Node,
    /// An edge.
    Edge,
    /// Any other object, or a name in one, or an element of a list.
    Object,
    /// An element that is not of the kind that the list is for.
    WrongElement,
}

impl Counted {
    fn words(self) -> &'static str {
        match self {
            Self::Node => "nodes",
            Self::Edge => "edges",
            Self::Object => "objects and names",
            Self::WrongElement => "elements of the wrong kind in its lists",
        }
    }
}

/// A field of an object. Reading fails only where the text is no JSON, or too long.
pub(crate) trait Read<'de>: Sized {
    /// Reads whatever stands here.
    fn read<D: Deserializer<'de>>(from: D, budget: &Budget) -> Result<Self, D::Error>;
}

/// What may become of values of each kind; `None` and the defaults refuse.
pub(crate) trait Shape<'de>: Sized {
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
}

impl<'de, T: Shape<'de>> Read<'de> for Loose<T> {
    fn read<D: Deserializer<'de>>(from: D, budget: &Budget) -> Result<Self, D::Error> {
        from.deserialize_any(Look { budget, wanted: PhantomData })
    }
}

/// JSON as it stands, for later.
impl<'de> Read<'de> for Option<&'de RawValue> {
    fn read<D: Deserializer<'de>>(from: D, _budget: &Budget) -> Result<Self, D::Error> {
        Self::deserialize(from)
    }
}

/// Objects whose fields have two spellings.
pub(crate) trait Spelling {
    /// Whether the author used the second spelling.
    fn is_snake(&self) -> bool;

    /// The second spelling of a key, where it has one.
    fn snake(key: &'static str) -> &'static str;

    /// The key as the author wrote it.
    fn spelling(&self, key: &'static str) -> &'static str {
        if self.is_snake() { Self::snake(key) } else { key }
    }
}

/// Lets a field be read by those who know the budget.
pub(crate) struct Within<'b, T>(&'b Budget, PhantomData<T>);

impl<'b, T> Within<'b, T> {
    /// With what may still be read.
    pub(crate) fn new(budget: &'b Budget) -> Self {
        Self(budget, PhantomData)
    }
}

impl<'de, T: Read<'de>> de::DeserializeSeed<'de> for Within<'_, T> {
    type Value = T;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<T, D::Error> {
        T::read(from, self.0)
    }
}

/// A key of an object.
#[derive(Deserialize)]
pub(crate) struct Key<'a>(#[serde(borrow)] pub(crate) Cow<'a, str>);

struct Look<'b, T> {
    budget: &'b Budget,
    wanted: PhantomData<T>,
}

fn or_wrong<T>(made: Option<T>, kind: Kind) -> Loose<T> {
    made.map_or(Loose::Wrong(kind), Loose::Given)
}

impl<'de, T: Shape<'de>> Visitor<'de> for Look<'_, T> {
    type Value = Loose<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    fn visit_bool<E>(self, flag: bool) -> Result<Loose<T>, E> {
        Ok(or_wrong(T::of_flag(flag), Kind::Flag))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Loose<T>, E> {
        Ok(or_wrong(T::of_whole(number), Kind::Number))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Loose<T>, E> {
        Ok(or_wrong(i64::try_from(number).ok().and_then(T::of_whole), Kind::Number))
    }

    /// `30.0` and `3e1` are whole numbers too; JSON knows no difference.
    fn visit_f64<E>(self, number: f64) -> Result<Loose<T>, E> {
        Ok(or_wrong(whole(number).and_then(T::of_whole), Kind::Number))
    }

    fn visit_str<E>(self, text: &str) -> Result<Loose<T>, E> {
        Ok(or_wrong(T::of_text(Cow::Owned(text.to_owned())), Kind::Text))
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Loose<T>, E> {
        Ok(or_wrong(T::of_text(Cow::Borrowed(text)), Kind::Text))
    }

    fn visit_unit<E>(self) -> Result<Loose<T>, E> {
        Ok(Loose::Absent)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<Loose<T>, A::Error> {
        Ok(or_wrong(T::of_list(list, self.budget)?, Kind::List))
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Loose<T>, A::Error> {
        Ok(or_wrong(T::of_object(map, self.budget)?, Kind::Object))
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
}

impl<'de, T: Shape<'de>> Shape<'de> for Vec<Loose<T>> {
    fn of_list<A: SeqAccess<'de>>(mut list: A, budget: &Budget) -> Result<Option<Self>, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = list.next_element_seed(Within::new(budget))? {
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
            pairs.push((name, map.next_value_seed(Within::new(budget))?));
        }
        Ok(Some(pairs))
    }
}

/// An object with the fields that we look at; others are passed over. A field that stands twice
/// counts as it stands last, as with every other reader of JSON. Fields of our own have a second
/// spelling; `is_snake` remembers who used it, so that problems point to what stands there.
macro_rules! object {
    (
        $(#[$doc:meta])*
        $name:ident<$life:lifetime> as $counted:ident {
            $( $(#[$field_doc:meta])* $field:ident: $type:ty = $key:literal $(or $other:literal)?, )*
        }
    ) => {
        $(#[$doc])*
        #[derive(Debug, Default)]
        pub(crate) struct $name<$life> {
            $( $(#[$field_doc])* pub(crate) $field: $type, )*
            is_snake: bool,
            marker: std::marker::PhantomData<&$life ()>,
        }

        impl $crate::definition::read::Spelling for $name<'_> {
            fn is_snake(&self) -> bool {
                self.is_snake
            }

            fn snake(key: &'static str) -> &'static str {
                match key {
                    $( $( $key => $other, )? )*
                    _ => key,
                }
            }
        }

        impl<$life> $crate::definition::read::Shape<$life> for $name<$life> {
            fn of_object<A: serde::de::MapAccess<$life>>(
                mut map: A,
                budget: &$crate::definition::read::Budget,
            ) -> Result<Option<Self>, A::Error> {
                use $crate::definition::read::{Counted, Key, Within};
                budget.count(Counted::$counted)?;
                let mut made = Self::default();
                while let Some(Key(key)) = map.next_key::<Key<$life>>()? {
                    match key.as_ref() {
                        $(
                            $key => made.$field = map.next_value_seed(Within::new(budget))?,
                            $( $other => {
                                made.is_snake = true;
                                made.$field = map.next_value_seed(Within::new(budget))?;
                            } )?
                        )*
                        _ => {
                            map.next_value::<serde::de::IgnoredAny>()?;
                        }
                    }
                }
                Ok(Some(made))
            }
        }
    };
}
pub(crate) use object;
