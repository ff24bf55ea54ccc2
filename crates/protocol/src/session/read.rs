//! Reads JSON that others wrote: lenient where a key is unknown or spelled in an older way, strict
//! where a value is wrong.
//!
//! It is the deserializer of all payloads and of the envelope. A struct gets its fields in the
//! order of their definition, each by the best of its spellings, and one that is missing as
//! `null`: so every refusal is the first in that order and names the place, and unknown keys cost
//! nothing. Types that are read here must not be read by others, who look at no [`rule`].

use std::borrow::Cow;
use std::fmt::{self, Display};
use std::marker::PhantomData;
use std::ops::RangeInclusive;
use std::str::FromStr;

use serde::de::value::{
    BorrowedStrDeserializer, MapAccessDeserializer, MapDeserializer, StrDeserializer,
};
use serde::de::{
    DeserializeSeed, Deserializer, Error, Expected, MapAccess, SeqAccess, Unexpected, Visitor,
};
use serde::{Deserialize, forward_to_deserialize_any};
use serde_json::value::RawValue;

use super::codec::{DecodeError, INTEGER_MAX};
use super::kind::{aliases_of, is_same_key, object_of};
use super::rule::{self, Bits, Capitals, Fraction, Positive, Rule};

/// The field of a struct that takes every key which no other field takes.
pub(super) const OTHERS: &str = "*";

/// The name under which [`Object`] asks for an object.
const OBJECT: &str = "an object";

/// Reads what stands under `name`.
pub(super) fn read<'a, T: Deserialize<'a>>(
    name: &'static str,
    raw: &'a RawValue,
) -> Result<T, DecodeError> {
    T::deserialize(Value { raw, rule: None }).map_err(|error| error.at(format_args!("{name}")))
}

impl Error for DecodeError {
    fn custom<T: Display>(rule: T) -> Self {
        Self::Invalid { path: String::new(), rule: rule.to_string() }
    }

    fn invalid_type(_: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self::custom(expected)
    }

    fn unknown_variant(_: &str, words: &'static [&'static str]) -> Self {
        let (last, others) = words.split_last().expect("an enum has words");
        Self::custom(format_args!("{} or {last}", others.join(", ")))
    }
}

/// A raw value, and the rule that its field names.
#[derive(Clone, Copy)]
struct Value<'a> {
    raw: &'a RawValue,
    rule: Option<&'static str>,
}

impl<'a> Value<'a> {
    fn parse<T: Deserialize<'a>>(self, rule: &str) -> Result<T, DecodeError> {
        serde_json::from_str(self.raw.get()).map_err(|_| DecodeError::custom(rule))
    }

    /// The value if it is a string; without escapes it stands in the text as it is.
    fn text(self) -> Option<Cow<'a, str>> {
        let quoted = self.raw.get().strip_prefix('"')?;
        match quoted.strip_suffix('"').filter(|text| !text.as_bytes().contains(&b'\\')) {
            Some(text) => Some(Cow::Borrowed(text)),
            None => serde_json::from_str(self.raw.get()).ok().map(Cow::Owned),
        }
    }

    // `5.0` is an integer to JSON Schema, and some languages write it so.
    fn integer<T>(self, rule: &str, range: RangeInclusive<T>) -> Result<T, DecodeError>
    where
        T: FromStr + PartialOrd,
    {
        let integer = self.raw.get().parse().ok().or_else(|| {
            let number: f64 = self.parse(rule).ok()?;
            if number.fract() != 0.0 {
                return None;
            }
            // Adding zero takes the sign from `-0.0`, which no unsigned integer would read.
            format!("{:.0}", number + 0.0).parse().ok()
        });
        integer.filter(|it| range.contains(it)).ok_or_else(|| DecodeError::custom(rule))
    }
}

impl<'de> Deserializer<'de> for Value<'de> {
    type Error = DecodeError;

    // Only a number of any kind asks for whatever there is.
    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DecodeError> {
        self.raw.deserialize_any(visitor).map_err(|_| DecodeError::custom("a number"))
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DecodeError> {
        match self.raw.get() {
            "true" => visitor.visit_bool(true),
            "false" => visitor.visit_bool(false),
            _ => Err(DecodeError::custom("true or false")),
        }
    }

    fn deserialize_i64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DecodeError> {
        let max = INTEGER_MAX.cast_signed();
        visitor.visit_i64(self.integer(rule::INTEGER, -max..=max)?)
    }

    fn deserialize_u64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DecodeError> {
        let (rule, range) = match self.rule {
            Some(Positive::WORDS) => (Positive::WORDS, 1..=INTEGER_MAX),
            Some(Bits::WORDS) => (Bits::WORDS, 0..=u64::MAX),
            _ => (rule::COUNT, 0..=INTEGER_MAX),
        };
        visitor.visit_u64(self.integer(rule, range)?)
    }

    fn deserialize_f64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DecodeError> {
        let (rule, max) = match self.rule {
            Some(Fraction::WORDS) => (Fraction::WORDS, 1.0),
            _ => (rule::SHARE, f64::INFINITY),
        };
        let number = self.parse(rule)?;
        if (0.0..=max).contains(&number) {
            visitor.visit_f64(number)
        } else {
            Err(DecodeError::custom(rule))
        }
    }

    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DecodeError> {
        let rule = self.rule.unwrap_or(rule::NAME);
        match self.text().filter(|text| rule::fits(rule, text)) {
            Some(Cow::Borrowed(text)) => visitor.visit_borrowed_str(text),
            Some(Cow::Owned(text)) => visitor.visit_string(text),
            None => Err(DecodeError::custom(rule)),
        }
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DecodeError> {
        self.deserialize_str(visitor)
    }

    // An enum's own decode would also take `{"WORD": null}`; a word that is text cannot be that.
    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        words: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, DecodeError> {
        let Some(mut word) = self.text() else {
            return Err(DecodeError::unknown_variant("", words));
        };
        if self.rule == Some(Capitals::WORDS) {
            word.to_mut().make_ascii_uppercase();
        }
        visitor.visit_enum(StrDeserializer::new(&word))
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DecodeError> {
        if self.raw.get() == "null" { visitor.visit_none() } else { visitor.visit_some(self) }
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DecodeError> {
        let items: Vec<&RawValue> = self.parse("a list")?;
        visitor.visit_seq(Items { items: items.into_iter().enumerate(), rule: self.rule })
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DecodeError> {
        let Entries(entries) = self.parse("an object")?;
        visitor.visit_map(Members { entries: entries.into_iter(), value: None, rule: self.rule })
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, DecodeError> {
        if name == OBJECT {
            return visitor.visit_newtype_struct(self);
        }
        let entries = self.parse("an object")?;
        visitor.visit_seq(Fields { name, keys: fields, n_read: 0, entries })
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, DecodeError> {
        // Raw values ask for themselves by a name with a dollar, and want their text under it; all
        // other names are rules.
        if name.starts_with('$') {
            let text = BorrowedStrDeserializer::<DecodeError>::new(self.raw.get());
            return visitor.visit_map(MapDeserializer::new(std::iter::once((name, text))));
        }
        visitor.visit_newtype_struct(Self { rule: Some(name), ..self })
    }

    forward_to_deserialize_any! {
        i8 i16 i32 i128 u8 u16 u32 u128 f32 char bytes byte_buf unit unit_struct tuple tuple_struct
        identifier ignored_any
    }
}

/// A string that is borrowed unless it has escapes.
#[derive(Debug, Deserialize)]
#[serde(transparent)]
pub(super) struct Str<'a>(#[serde(borrow)] pub(super) Cow<'a, str>);

struct Items<'a> {
    items: std::iter::Enumerate<std::vec::IntoIter<&'a RawValue>>,
    rule: Option<&'static str>,
}

impl<'de> SeqAccess<'de> for Items<'de> {
    type Error = DecodeError;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, DecodeError> {
        let Some((index, raw)) = self.items.next() else { return Ok(None) };
        let item = seed.deserialize(Value { raw, rule: self.rule });
        item.map(Some).map_err(|error| error.at(format_args!("[{index}]")))
    }
}

/// An object, one level deep.
#[derive(Default)]
struct Entries<'a>(Vec<(Cow<'a, str>, &'a RawValue)>);

impl<'de> Deserialize<'de> for Entries<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(EntriesVisitor)
    }
}

struct EntriesVisitor;

impl<'de> Visitor<'de> for EntriesVisitor {
    type Value = Entries<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Entries<'de>, A::Error> {
        let mut entries = Vec::with_capacity(12);
        while let Some((Str(key), raw)) = map.next_entry()? {
            entries.push((key, raw));
        }
        Ok(Entries(entries))
    }
}

impl<'a> Entries<'a> {
    // The spellings are tried in the order of their rank, so that a peer which sends an old key
    // beside the right one is taken at the right one.
    fn find(&self, name: &str, key: &str) -> Found<'a> {
        if let Some(raw) = self.find_where(|said| said == key)? {
            return Ok(Some(raw));
        }
        for spelling in std::iter::once(&key).chain(aliases_of(name, key)) {
            if let Some(raw) = self.find_where(|said| is_same_key(said, spelling))? {
                return Ok(Some(raw));
            }
        }
        Ok(None)
    }

    // A key that is given twice means what its reader happens to take; nobody should guess.
    fn find_where(&self, is_it: impl Fn(&str) -> bool) -> Found<'a> {
        let mut found = self.0.iter().filter(|(said, _)| is_it(said));
        let first = found.next().map(|(_, raw)| *raw);
        match found.next() {
            Some(_) => Err(DecodeError::custom("given once")),
            None => Ok(first),
        }
    }
}

/// The entries of an object with keys of the peer's choice.
struct Members<'a> {
    entries: std::vec::IntoIter<(Cow<'a, str>, &'a RawValue)>,
    value: Option<(Cow<'a, str>, &'a RawValue)>,
    rule: Option<&'static str>,
}

impl<'de> MapAccess<'de> for Members<'de> {
    type Error = DecodeError;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, DecodeError> {
        self.value = self.entries.next();
        self.value.as_ref().map(|(key, _)| seed.deserialize(StrDeserializer::new(key))).transpose()
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(
        &mut self,
        seed: V,
    ) -> Result<V::Value, DecodeError> {
        let (key, raw) = self.value.take().expect("a value comes after its key");
        let value = seed.deserialize(Value { raw, rule: self.rule });
        value.map_err(|error| error.at(format_args!(".{key}")))
    }
}

/// The values of a struct, in the order of its fields.
struct Fields<'a> {
    name: &'static str,
    keys: &'static [&'static str],
    n_read: usize,
    entries: Entries<'a>,
}

impl<'de> SeqAccess<'de> for Fields<'de> {
    type Error = DecodeError;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, DecodeError> {
        let Some(&key) = self.keys.get(self.n_read) else { return Ok(None) };
        self.n_read += 1;
        if key == OTHERS {
            return seed.deserialize(MapAccessDeserializer::new(self.others())).map(Some);
        }
        let found = self.entries.find(self.name, key);
        if is_missing(&found)
            && let Some((outer, inner)) = object_of(self.name, key)
            && let object = self.entries.find("", outer)
            && !is_missing(&object)
        {
            let object = read_field(outer, object, PhantomData::<Entries<'_>>)?;
            let value = read_field(inner, object.find("", inner), seed);
            return value.map(Some).map_err(|error| error.at(format_args!(".{outer}")));
        }
        read_field(key, found, seed).map(Some)
    }
}

type Found<'a> = Result<Option<&'a RawValue>, DecodeError>;

fn is_missing(found: &Found<'_>) -> bool {
    matches!(found, Ok(None)) || matches!(found, Ok(Some(raw)) if raw.get() == "null")
}

fn read_field<'a, T: DeserializeSeed<'a>>(
    key: &str,
    found: Found<'a>,
    seed: T,
) -> Result<T::Value, DecodeError> {
    let value = match found {
        Ok(Some(raw)) => seed.deserialize(Value { raw, rule: None }),
        Ok(None) => seed
            .deserialize(Value { raw: RawValue::NULL, rule: None })
            .map_err(|_| DecodeError::custom("present")),
        Err(error) => Err(error),
    };
    value.map_err(|error| error.at(format_args!(".{key}")))
}

impl<'a> Fields<'a> {
    fn others(&mut self) -> Members<'a> {
        let Entries(mut entries) = std::mem::take(&mut self.entries);
        entries.retain(|(key, _)| !self.keys.iter().any(|known| is_same_key(key, known)));
        Members { entries: entries.into_iter(), value: None, rule: None }
    }
}

/// A struct that is written as an object; on its own, others would also read it from a list.
pub(super) struct Object<T>(pub(super) T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_struct(OBJECT, &[], ObjectVisitor(PhantomData))
    }
}

struct ObjectVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for ObjectVisitor<T> {
    type Value = Object<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Object<T>, A::Error> {
        T::deserialize(MapAccessDeserializer::new(map)).map(Object)
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, value: D) -> Result<Object<T>, D::Error> {
        T::deserialize(value).map(Object)
    }
}
