//! What a value must be that its type does not tell, in the words of a refusal.
//!
//! A field names its rule: `#[serde(deserialize_with = "Positive::read")]`. Lists, maps and
//! `Option`s pass the rule on to what is in them.

use std::fmt;
use std::marker::PhantomData;

use serde::Deserialize;
use serde::de::{Deserializer, Visitor};

use super::codec::NAME_CHARS_MAX;

// The rules of values whose field names none: for strings, integers of either sign, other
// integers, numbers.
pub(super) const NAME: &str = "a string that is not empty";
pub(super) const INTEGER: &str = "an integer of at most 2^53-1";
pub(super) const COUNT: &str = "an integer from 0 to 2^53-1";
pub(super) const SHARE: &str = "a number from 0";

/// A rule that a field can name.
pub(super) trait Rule {
    const WORDS: &'static str;

    /// Reads what follows the rule. Only the lenient reader looks at it.
    fn read<'de, D: Deserializer<'de>, T: Deserialize<'de>>(value: D) -> Result<T, D::Error> {
        value.deserialize_newtype_struct(Self::WORDS, Ruled(PhantomData))
    }
}

struct Ruled<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for Ruled<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value with a rule")
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, value: D) -> Result<T, D::Error> {
        T::deserialize(value)
    }
}

macro_rules! rules {
    ($($(#[$doc:meta])* $name:ident = $words:literal;)*) => {$(
        $(#[$doc])*
        pub(super) struct $name;

        impl Rule for $name {
            const WORDS: &'static str = $words;
        }
    )*};
}

rules! {
    /// Any text, also none at all.
    Text = "a string";
    /// Neither empty nor longer than an envelope's names may be.
    ShortName = "a string of 1 to 256 characters";
    /// No longer than an envelope's names may be.
    ShortText = "a string of at most 256 characters";
    /// A moment with an offset: a time without one could be any of 27 moments.
    Moment = "a moment in RFC 3339 with an offset or Z";
    Uri = "a URI";
    Sha256 = "64 hexadecimal digits";
    /// A word of an enum, which is written in capitals; small letters are as good.
    Capitals = "a word in capitals";
    Positive = "an integer from 1 to 2^53-1";
    /// 64 bits, as an integer.
    Bits = "an integer from 0 to 2^64-1";
    Fraction = "a number from 0 to 1";
}

/// Whether a text follows its rule.
pub(super) fn fits(rule: &str, text: &str) -> bool {
    match rule {
        NAME => !text.is_empty(),
        ShortName::WORDS => !text.is_empty() && is_short(text),
        ShortText::WORDS => is_short(text),
        Moment::WORDS => is_moment(text),
        Uri::WORDS => is_uri(text),
        Sha256::WORDS => text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit()),
        _ => true,
    }
}

fn is_short(text: &str) -> bool {
    text.len() <= NAME_CHARS_MAX || text.chars().count() <= NAME_CHARS_MAX
}

// The rule of the schema: a scheme, a colon, and printable ASCII.
fn is_uri(text: &str) -> bool {
    let Some((scheme, rest)) = text.split_once(':') else { return false };
    scheme.starts_with(|letter: char| letter.is_ascii_alphabetic())
        && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+.-".contains(&byte))
        && !rest.is_empty()
        && rest.bytes().all(|byte| byte.is_ascii_graphic())
}

/// Whether `text` has the form `2026-01-31T12:00:00.5+01:00` or `...Z`.
///
/// It is the rule of the schemas, which knows no calendar: whoever counts with the moment parses it.
pub(super) fn is_moment(text: &str) -> bool {
    let bytes = text.as_bytes();
    let Some((date_time, rest)) = bytes.split_at_checked(19) else { return false };
    let marks = [(4, b'-'), (7, b'-'), (13, b':'), (16, b':')];
    let in_place = marks.iter().all(|(at, mark)| date_time[*at] == *mark);
    in_place
        && date_time[10].eq_ignore_ascii_case(&b'T')
        && date_time[..4].iter().all(u8::is_ascii_digit)
        && is_pair(&date_time[5..7], 1, 12)
        && is_pair(&date_time[8..10], 1, 31)
        && is_pair(&date_time[11..13], 0, 23)
        && is_pair(&date_time[14..16], 0, 59)
        && is_pair(&date_time[17..19], 0, 60)
        && after_fraction(rest).is_some_and(is_offset)
}

fn is_pair(digits: &[u8], min: u8, max: u8) -> bool {
    match digits {
        [tens @ b'0'..=b'9', ones @ b'0'..=b'9'] => {
            (min..=max).contains(&((tens - b'0') * 10 + (ones - b'0')))
        }
        _ => false,
    }
}

fn after_fraction(rest: &[u8]) -> Option<&[u8]> {
    let Some(fraction) = rest.strip_prefix(b".") else { return Some(rest) };
    let n_digits = fraction.iter().take_while(|byte| byte.is_ascii_digit()).count();
    (n_digits > 0).then(|| &fraction[n_digits..])
}

fn is_offset(offset: &[u8]) -> bool {
    match offset {
        [b'Z' | b'z'] => true,
        [b'+' | b'-', hours @ .., b':', tens, ones] => {
            is_pair(hours, 0, 23) && is_pair(&[*tens, *ones], 0, 59)
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_has_an_offset() {
        for good in [
            "2026-01-31T12:00:00Z",
            "2026-01-31t12:00:60.000001z",
            "2026-01-31T12:00:00+05:30",
            "0000-12-01T23:59:59.9-23:59",
        ] {
            assert!(is_moment(good), "{good}");
        }
        for bad in [
            "",
            "2026-01-31T12:00:00",
            "2026-01-31 12:00:00Z",
            "2026-13-31T12:00:00Z",
            "2026-00-31T12:00:00Z",
            "2026-01-32T12:00:00Z",
            "2026-01-31T24:00:00Z",
            "2026-01-31T12:00:00.Z",
            "2026-01-31T12:00:00+0100",
            "2026-01-31T12:00:00+1:00",
            "2026-01-31T12:00:00ZZ",
            "2026-01-31T12:00:00é",
            "ééééééééééééééé",
        ] {
            assert!(!is_moment(bad), "{bad}");
        }
    }
}
