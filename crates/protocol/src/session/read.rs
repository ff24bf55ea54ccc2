//! Reads JSON that others wrote: lenient where a key is unknown or spelled in an older way, strict
//! where a value is wrong.
//!
//! An object becomes a list of its keys with their raw values, and each value is read by the rule
//! of its key. So every refusal can name the place, and unknown keys cost nothing.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;
use serde::de::value::{Error as WordError, StrDeserializer};
use serde::de::{Deserializer, IntoDeserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::alias::is_same_key;
use super::decode::{DecodeError, INTEGER_MAX, NAME_CHARS_MAX};
use super::moment::is_moment;
use super::open::OpenObject;

/// Where a value stands, as a chain up to the root; it becomes text only in a refusal.
#[derive(Clone, Copy)]
pub(super) struct Path<'a> {
    parent: Option<&'a Path<'a>>,
    step: Step,
}

#[derive(Clone, Copy)]
enum Step {
    Key(&'static str),
    Index(usize),
}

impl Path<'static> {
    /// The name of the whole, like `payload`.
    pub(super) const fn root(name: &'static str) -> Self {
        Self { parent: None, step: Step::Key(name) }
    }
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(parent) = self.parent {
            parent.fmt(f)?;
        }
        match (self.step, self.parent) {
            (Step::Key(key), Some(_)) => write!(f, ".{key}"),
            (Step::Key(key), None) => f.write_str(key),
            (Step::Index(index), _) => write!(f, "[{index}]"),
        }
    }
}

fn refusal(path: &Path<'_>, rule: &'static str) -> DecodeError {
    DecodeError::Invalid { path: path.to_string(), rule }
}

/// A raw value and its place.
#[derive(Clone, Copy)]
pub(super) struct Value<'a> {
    raw: &'a RawValue,
    path: Path<'a>,
}

impl<'a> Value<'a> {
    pub(super) fn new(raw: &'a RawValue, path: Path<'a>) -> Self {
        Self { raw, path }
    }

    fn parse<T: Deserialize<'a>>(&self, rule: &'static str) -> Result<T, DecodeError> {
        serde_json::from_str(self.raw.get()).map_err(|_| self.refuse(rule))
    }

    /// The refusal of this value.
    pub(super) fn refuse(&self, rule: &'static str) -> DecodeError {
        refusal(&self.path, rule)
    }

    /// An object with keys that are known.
    pub(super) fn object(&self) -> Result<Fields<'a>, DecodeError> {
        let Entries(entries) = self.parse("an object")?;
        Ok(Fields { entries, path: self.path })
    }

    /// An object that is carried without being looked into.
    pub(super) fn open(&self) -> Result<OpenObject, DecodeError> {
        OpenObject::new(self.raw.to_owned()).ok_or_else(|| self.refuse("an object"))
    }

    /// Any JSON.
    #[expect(clippy::unnecessary_wraps, reason = "stands where the other rules stand")]
    pub(super) fn anything(&self) -> Result<Box<RawValue>, DecodeError> {
        Ok(self.raw.to_owned())
    }

    fn borrowed_text(&self) -> Result<Cow<'a, str>, DecodeError> {
        self.parse::<Text<'a>>("a string").map(|text| text.0)
    }

    /// A string.
    pub(super) fn text(&self) -> Result<String, DecodeError> {
        self.borrowed_text().map(Cow::into_owned)
    }

    /// A string that is not empty.
    pub(super) fn name(&self) -> Result<String, DecodeError> {
        self.text_where("a string that is not empty", |text| !text.is_empty())
    }

    /// A string that is neither empty nor longer than an envelope's names may be.
    pub(super) fn short_name(&self) -> Result<String, DecodeError> {
        self.text_where("a string of 1 to 256 characters", |text| {
            !text.is_empty() && is_short(text)
        })
    }

    /// A string that is no longer than an envelope's names may be.
    pub(super) fn short_text(&self) -> Result<String, DecodeError> {
        self.text_where("a string of at most 256 characters", is_short)
    }

    /// A moment in RFC 3339, with an offset: a time without one could be any of 27 moments.
    pub(super) fn moment(&self) -> Result<String, DecodeError> {
        self.text_where("a moment in RFC 3339 with an offset or Z", is_moment)
    }

    /// A string that fits.
    pub(super) fn text_where(
        &self,
        rule: &'static str,
        fits: fn(&str) -> bool,
    ) -> Result<String, DecodeError> {
        let text = self.borrowed_text().map_err(|_| self.refuse(rule))?;
        if fits(&text) { Ok(text.into_owned()) } else { Err(self.refuse(rule)) }
    }

    /// One of the words of an enum.
    pub(super) fn word<T: Deserialize<'a>>(&self, rule: &'static str) -> Result<T, DecodeError> {
        let text = self.borrowed_text().map_err(|_| self.refuse(rule))?;
        self.word_of(&text, rule)
    }

    /// One of the words of an enum, which are written in capitals; small letters are as good.
    pub(super) fn capital_word<T: Deserialize<'a>>(
        &self,
        rule: &'static str,
    ) -> Result<T, DecodeError> {
        let text = self.borrowed_text().map_err(|_| self.refuse(rule))?;
        self.word_of(&text.to_ascii_uppercase(), rule)
    }

    // An enum's own decode would also take `{"WORD": null}`; a word that is text cannot be that.
    fn word_of<T: Deserialize<'a>>(
        &self,
        text: &str,
        rule: &'static str,
    ) -> Result<T, DecodeError> {
        let deserializer: StrDeserializer<'_, WordError> = text.into_deserializer();
        T::deserialize(deserializer).map_err(|_| self.refuse(rule))
    }

    /// `true` or `false`.
    pub(super) fn flag(&self) -> Result<bool, DecodeError> {
        self.parse("true or false")
    }

    /// A number, as it was written.
    pub(super) fn exact_number(&self) -> Result<serde_json::Number, DecodeError> {
        self.parse("a number")
    }

    /// A number that is not negative.
    pub(super) fn share(&self) -> Result<f64, DecodeError> {
        self.number_within(f64::INFINITY, "a number from 0")
    }

    /// A number from 0 to 1.
    pub(super) fn fraction(&self) -> Result<f64, DecodeError> {
        self.number_within(1.0, "a number from 0 to 1")
    }

    fn number_within(&self, max: f64, rule: &'static str) -> Result<f64, DecodeError> {
        let number = self.parse(rule)?;
        if (0.0..=max).contains(&number) { Ok(number) } else { Err(self.refuse(rule)) }
    }

    /// An integer, of either sign.
    pub(super) fn integer(&self) -> Result<i64, DecodeError> {
        const RULE: &str = "an integer of at most 2^53-1";
        let integer: i64 = self.whole(RULE)?;
        if integer.unsigned_abs() <= INTEGER_MAX { Ok(integer) } else { Err(self.refuse(RULE)) }
    }

    /// An integer from 0.
    pub(super) fn count(&self) -> Result<u64, DecodeError> {
        const RULE: &str = "an integer from 0 to 2^53-1";
        let count = self.whole(RULE)?;
        if count <= INTEGER_MAX { Ok(count) } else { Err(self.refuse(RULE)) }
    }

    /// An integer from 1.
    pub(super) fn positive(&self) -> Result<u64, DecodeError> {
        const RULE: &str = "an integer from 1 to 2^53-1";
        let count = self.whole(RULE)?;
        if (1..=INTEGER_MAX).contains(&count) { Ok(count) } else { Err(self.refuse(RULE)) }
    }

    /// 64 bits, as an integer.
    pub(super) fn bits(&self) -> Result<u64, DecodeError> {
        self.whole("an integer from 0 to 2^64-1")
    }

    // `5.0` is an integer to JSON Schema, and some languages write it so.
    fn whole<T>(&self, rule: &'static str) -> Result<T, DecodeError>
    where
        T: Deserialize<'a> + std::str::FromStr,
    {
        if let Ok(whole) = serde_json::from_str(self.raw.get()) {
            return Ok(whole);
        }
        let number: f64 = self.parse(rule)?;
        if number.fract() != 0.0 {
            return Err(self.refuse(rule));
        }
        // Adding zero takes the sign from `-0.0`, which no unsigned integer would read.
        let digits = format!("{:.0}", number + 0.0);
        digits.parse().map_err(|_| self.refuse(rule))
    }

    /// A list whose items all follow `rule`.
    pub(super) fn list<'v, T>(
        &'v self,
        rule: impl Fn(&Value<'v>) -> Result<T, DecodeError>,
    ) -> Result<Vec<T>, DecodeError> {
        let items: Vec<&'a RawValue> = self.parse("a list")?;
        let item = |(index, raw)| {
            rule(&Value { raw, path: Path { parent: Some(&self.path), step: Step::Index(index) } })
        };
        items.into_iter().enumerate().map(item).collect()
    }

    /// An object with keys of the peer's choice, whose values all follow `rule`.
    pub(super) fn map<T>(
        &self,
        rule: impl Fn(&Value<'a>) -> Result<T, DecodeError>,
    ) -> Result<BTreeMap<String, T>, DecodeError> {
        let Entries(entries) = self.parse("an object")?;
        let entry = |(key, raw): (Cow<'a, str>, &'a RawValue)| {
            let value = rule(&Value { raw, path: self.path }).map_err(|error| error.at(&key))?;
            Ok((key.into_owned(), value))
        };
        entries.into_iter().map(entry).collect()
    }
}

fn is_short(text: &str) -> bool {
    text.len() <= NAME_CHARS_MAX || text.chars().count() <= NAME_CHARS_MAX
}

/// The keys of an object that are asked for by name.
pub(super) struct Fields<'a> {
    entries: Vec<(Cow<'a, str>, &'a RawValue)>,
    path: Path<'a>,
}

impl<'a> Fields<'a> {
    /// The value of a key that must be there.
    pub(super) fn required<'f, T>(
        &'f self,
        key: impl Into<Key>,
        rule: impl Fn(&Value<'f>) -> Result<T, DecodeError>,
    ) -> Result<T, DecodeError> {
        let key = key.into();
        let raw = self.find(key)?.ok_or_else(|| refusal(&self.at(key), "present"))?;
        rule(&Value { raw, path: self.at(key) })
    }

    /// The value of a key that may be missing; `null` is as good as missing.
    pub(super) fn optional<'f, T>(
        &'f self,
        key: impl Into<Key>,
        rule: impl Fn(&Value<'f>) -> Result<T, DecodeError>,
    ) -> Result<Option<T>, DecodeError> {
        let key = key.into();
        match self.find(key)?.filter(|raw| raw.get() != "null") {
            Some(raw) => rule(&Value { raw, path: self.at(key) }).map(Some),
            None => Ok(None),
        }
    }

    /// Every key that is not one of `known`, with its value as it is.
    pub(super) fn others(&self, known: &[&str]) -> BTreeMap<String, Box<RawValue>> {
        let is_other = |key: &str| !known.iter().any(|known| is_same_key(key, known));
        let others = self.entries.iter().filter(|(key, _)| is_other(key));
        others.map(|(key, raw)| (key.to_string(), (*raw).to_owned())).collect()
    }

    fn at(&self, key: Key) -> Path<'_> {
        Path { parent: Some(&self.path), step: Step::Key(key.name) }
    }

    // The spellings are tried in the order of their rank, so that a peer which sends an old key
    // beside the right one is taken at the right one.
    fn find(&self, key: Key) -> Result<Option<&'a RawValue>, DecodeError> {
        if let Some(raw) = self.find_where(key, |said| said == key.name)? {
            return Ok(Some(raw));
        }
        for spelling in std::iter::once(&key.name).chain(key.aliases) {
            let same = |said: &str| is_same_key(said, spelling);
            if let Some(raw) = self.find_where(key, same)? {
                return Ok(Some(raw));
            }
        }
        Ok(None)
    }

    // A key that is given twice means what its reader happens to take; nobody should guess.
    fn find_where(
        &self,
        key: Key,
        is_it: impl Fn(&str) -> bool,
    ) -> Result<Option<&'a RawValue>, DecodeError> {
        let mut found = self.entries.iter().filter(|(said, _)| is_it(said));
        let first = found.next().map(|(_, raw)| *raw);
        match found.next() {
            Some(_) => Err(refusal(&self.at(key), "given once")),
            None => Ok(first),
        }
    }
}

/// A key with the names that it had elsewhere, best first.
#[derive(Clone, Copy)]
pub(super) struct Key {
    name: &'static str,
    aliases: &'static [&'static str],
}

impl From<&'static str> for Key {
    fn from(name: &'static str) -> Self {
        Self { name, aliases: &[] }
    }
}

impl From<(&'static str, &'static [&'static str])> for Key {
    fn from((name, aliases): (&'static str, &'static [&'static str])) -> Self {
        Self { name, aliases }
    }
}

/// A string that is borrowed unless it has escapes.
#[derive(Deserialize)]
#[serde(transparent)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

/// An object, one level deep.
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
        while let Some((Text(key), raw)) = map.next_entry()? {
            entries.push((key, raw));
        }
        Ok(Entries(entries))
    }
}
