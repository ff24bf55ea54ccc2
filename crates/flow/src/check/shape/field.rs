//! One field at a time.

use std::borrow::Cow;
use std::ops::RangeInclusive;
use std::str::FromStr;

use model::{InvalidText, TagKey, TagValue};
use serde_json::value::RawValue;

use crate::compile::uuid;
use crate::definition::{List, Loose, Pairs, Raw, Text, Whole};
use crate::problem::{Place, Problems, Quoted, code};

/// The parameters of one node, or the outputs of one graph.
pub(crate) const PARAMETERS_BYTES_MAX: usize = 1024 * 1024;
/// How deep they nest. Whoever reads them with a recursive parser is safe.
pub(crate) const PARAMETERS_DEPTH_MAX: usize = 64;
/// Tools or labels that a node may demand, of each.
pub const DEMAND_ENTRIES_MAX: usize = 64;

/// Looks at fields, and tells what is wrong with them.
pub(crate) struct Fields<'p> {
    /// Where it is told.
    pub(crate) problems: &'p mut Problems,
}

impl Fields<'_> {
    /// A field that may be left out.
    pub(crate) fn given<'v, T>(
        &mut self,
        value: &'v Loose<T>,
        at: &Place<'_>,
        wanted: &str,
    ) -> Option<&'v T> {
        if let Loose::Wrong(kind) = value {
            let message = format_args!("{} is {kind}; it must be {wanted}", at.name());
            self.problems.error(code::INVALID, at, message);
        }
        value.given()
    }

    /// A field that must be there.
    pub(crate) fn needed<'v, T>(
        &mut self,
        value: &'v Loose<T>,
        at: &Place<'_>,
        wanted: &str,
    ) -> Option<&'v T> {
        if matches!(value, Loose::Absent) {
            let message = format_args!("{} is missing; it must be {wanted}", at.name());
            self.problems.error(code::INVALID, at, message);
        }
        self.given(value, at, wanted)
    }

    /// A text that may be left out.
    pub(crate) fn text<'v>(&mut self, value: &'v Text<'_>, at: &Place<'_>) -> Option<&'v str> {
        self.given(value, at, "text").map(Cow::as_ref)
    }

    /// An object that may be left out.
    pub(crate) fn object<'v, T>(&mut self, value: &'v Loose<T>, at: &Place<'_>) -> Option<&'v T> {
        self.given(value, at, "an object")
    }

    /// A list that may be left out.
    pub(crate) fn list<'v, T>(&mut self, value: &'v List<T>, at: &Place<'_>) -> &'v [Loose<T>] {
        self.given(value, at, "a list").map_or(&[], Vec::as_slice)
    }

    /// An object with any keys, which may be left out.
    pub(crate) fn pairs<'v, 'a, T>(
        &mut self,
        value: &'v Pairs<'a, T>,
        at: &Place<'_>,
    ) -> &'v [(Cow<'a, str>, Loose<T>)] {
        self.given(value, at, "an object").map_or(&[], Vec::as_slice)
    }

    /// An id that must be there.
    pub(crate) fn id(&mut self, value: &Text<'_>, at: &Place<'_>) {
        if let Some(text) = self.needed(value, at, "a UUID") {
            self.uuid(text, at);
        }
    }

    /// An id that may be left out.
    pub(crate) fn id_if_any(&mut self, value: &Text<'_>, at: &Place<'_>) {
        if let Some(text) = self.text(value, at) {
            self.uuid(text, at);
        }
    }

    fn uuid(&mut self, text: &str, at: &Place<'_>) {
        if uuid(text).is_none() {
            let message = format_args!(
                "\"{}\" is not a UUID; write one with hyphens, like \
                 2b2c3fcb-9c18-4ca2-9b5a-8ad4deb1f164",
                Quoted(text)
            );
            self.problems.error(code::INVALID, at, message);
        }
    }

    /// A text that follows the rule of its type.
    pub(crate) fn fits<T: FromStr<Err = InvalidText>>(&mut self, value: &Text<'_>, at: &Place<'_>) {
        if let Some(text) = self.text(value, at) {
            self.rule::<T>(text, at);
        }
    }

    /// The same, of a text that must be there.
    pub(crate) fn needs<T: FromStr<Err = InvalidText>>(
        &mut self,
        value: &Text<'_>,
        at: &Place<'_>,
    ) {
        if let Some(text) = self.needed(value, at, "text") {
            self.rule::<T>(text, at);
        }
    }

    fn rule<T: FromStr<Err = InvalidText>>(&mut self, text: &str, at: &Place<'_>) {
        if let Err(InvalidText { rule, .. }) = text.parse::<T>() {
            let message = format_args!("{} is \"{}\"; it must be {rule}", at.name(), Quoted(text));
            self.problems.error(code::INVALID, at, message);
        }
    }

    /// One of a few words.
    pub(crate) fn one_of(&mut self, value: &Text<'_>, at: &Place<'_>, words: &[&str]) {
        let Some(text) = self.text(value, at) else { return };
        if !words.contains(&text) {
            let words = words.join(", ");
            let message =
                format_args!("{} is \"{}\"; it must be one of {words}", at.name(), Quoted(text));
            self.problems.error(code::INVALID, at, message);
        }
    }

    /// A whole number in its bounds.
    pub(crate) fn whole(&mut self, value: &Whole, at: &Place<'_>, bounds: &RangeInclusive<i64>) {
        let Some(number) = self.given(value, at, "a whole number") else { return };
        if !bounds.contains(number) {
            let (low, high) = (bounds.start(), bounds.end());
            let message =
                format_args!("{} is {number}; it must lie between {low} and {high}", at.name());
            self.problems.error(code::INVALID, at, message);
        }
    }

    /// Labels that a worker must carry.
    pub(crate) fn labels(&mut self, value: &Pairs<'_, Cow<'_, str>>, at: &Place<'_>) {
        let labels = self.pairs(value, at);
        self.at_most(labels.len(), DEMAND_ENTRIES_MAX, at);
        for (key, value) in labels {
            let at = at.key(key);
            if let Err(InvalidText { rule, .. }) = key.parse::<TagKey>() {
                let message = format_args!("the label \"{}\" must be {rule}", Quoted(key));
                self.problems.error(code::INVALID, &at, message);
            }
            self.needs::<TagValue>(value, &at);
        }
    }

    /// Not more of something than there may be.
    pub(crate) fn at_most(&mut self, n: usize, limit: usize, at: &Place<'_>) {
        if n > limit {
            let message = format_args!("{} has {n} entries; at most {limit} are taken", at.name());
            self.problems.error(code::LIMIT, at, message);
        }
    }

    /// JSON that is opaque from here on: an object, not too long and not too deep.
    pub(crate) fn raw_object(&mut self, raw: Raw<'_>, at: &Place<'_>) {
        let Some(text) = raw.map(RawValue::get) else { return };
        if !text.starts_with('{') {
            let message = format_args!("{} must be an object", at.name());
            self.problems.error(code::INVALID, at, message);
        }
        self.payload(text, at);
    }

    /// Not too long and not too deep.
    pub(crate) fn payload(&mut self, text: &str, at: &Place<'_>) {
        if text.len() > PARAMETERS_BYTES_MAX {
            let message = format_args!(
                "{} has {} bytes, at most {PARAMETERS_BYTES_MAX} are taken; put the data where \
                 workers can fetch it, and its address here",
                at.name(),
                text.len()
            );
            self.problems.error(code::LIMIT, at, message);
        }
        if is_deeper_than(text.as_bytes(), PARAMETERS_DEPTH_MAX) {
            let message = format_args!(
                "{} nests more than {PARAMETERS_DEPTH_MAX} levels deep; write deeply nested data \
                 as a text",
                at.name()
            );
            self.problems.error(code::LIMIT, at, message);
        }
    }
}

/// Whether valid JSON nests deeper than this; brackets inside texts do not count.
pub(crate) fn is_deeper_than(json: &[u8], depth_max: usize) -> bool {
    // Each level takes two brackets, so most parameters are too short to be deep.
    if json.len() < 2 * (depth_max + 1) {
        return false;
    }
    let (mut depth, mut in_text, mut escaped) = (0_usize, false, false);
    for byte in json {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => in_text = !in_text,
            b'[' | b'{' if !in_text => depth += 1,
            b']' | b'}' if !in_text => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > depth_max {
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn depth_counts_brackets_outside_of_texts() {
        let deep = |n: usize| "[".repeat(n) + &"]".repeat(n);
        assert!(!is_deeper_than(deep(64).as_bytes(), 64));
        assert!(is_deeper_than(deep(65).as_bytes(), 64));
        let text = format!(r#"["{}\"[{}"]"#, "[".repeat(40), "[".repeat(40));
        assert!(!is_deeper_than(text.as_bytes(), 64));
    }
}
