//! The canonical form of a JSON text, and its hash: keys sorted, nothing between the tokens.
//!
//! The text is written as it is read. A tree of values in between would take ten times the room of
//! a definition with tens of megabytes, and most of the time.

use std::fmt::{self, Write};

use aws_lc_rs::digest;
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};

/// SHA-256 of the canonical form, in hexadecimal.
pub(crate) fn hash(json: &[u8]) -> Result<String, serde_json::Error> {
    let canonical = canonical(json)?;
    let digest = digest::digest(&digest::SHA256, &canonical);
    let mut text = String::with_capacity(2 * digest.as_ref().len());
    for byte in digest.as_ref() {
        write!(text, "{byte:02x}").expect("a String takes everything");
    }
    Ok(text)
}

/// The canonical form. Of a key that stands twice in an object, the last one counts.
fn canonical(json: &[u8]) -> Result<Vec<u8>, serde_json::Error> {
    let mut out = Vec::with_capacity(json.len());
    let mut reader = serde_json::Deserializer::from_slice(json);
    Canonical { out: &mut out }.deserialize(&mut reader)?;
    reader.end()?;
    Ok(out)
}

/// Writes the value that is read.
struct Canonical<'o> {
    out: &'o mut Vec<u8>,
}

impl Canonical<'_> {
    fn plain<E: Error>(self, value: impl serde::Serialize) -> Result<(), E> {
        serde_json::to_writer(self.out, &value).map_err(E::custom)
    }
}

impl<'de> DeserializeSeed<'de> for Canonical<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Canonical<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<(), E> {
        self.plain(value)
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<(), E> {
        self.plain(value)
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<(), E> {
        self.plain(value)
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<(), E> {
        self.plain(value)
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<(), E> {
        self.plain(value)
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        self.plain(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        self.out.push(b'[');
        let start = self.out.len();
        while items.next_element_seed(Canonical { out: self.out })?.is_some() {
            self.out.push(b',');
        }
        close(self.out, start, b']');
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<(), A::Error> {
        self.out.push(b'{');
        let start = self.out.len();
        let mut keys: Vec<Entry> = Vec::new();
        while let Some(key) = entries.next_key::<String>()? {
            let from = self.out.len();
            serde_json::to_writer(&mut *self.out, &key).map_err(A::Error::custom)?;
            self.out.push(b':');
            entries.next_value_seed(Canonical { out: self.out })?;
            self.out.push(b',');
            keys.push(Entry { key, from, to: self.out.len() });
        }
        sort(self.out, start, keys);
        close(self.out, start, b'}');
        Ok(())
    }
}

/// One `"key":value,` and where it was written.
struct Entry {
    key: String,
    from: usize,
    to: usize,
}

/// Puts the entries behind `start` in the order of their keys.
fn sort(out: &mut Vec<u8>, start: usize, mut entries: Vec<Entry>) {
    if entries.is_sorted_by(|a, b| a.key < b.key) {
        return;
    }
    // Stable, so that of two equal keys the later one stays last.
    entries.sort_by(|a, b| a.key.cmp(&b.key));
    let mut sorted = Vec::with_capacity(out.len() - start);
    for (position, entry) in entries.iter().enumerate() {
        let next = entries.get(position + 1);
        if next.is_none_or(|next| next.key != entry.key) {
            sorted.extend_from_slice(&out[entry.from..entry.to]);
        }
    }
    out.truncate(start);
    out.extend_from_slice(&sorted);
}

/// The comma behind the last entry becomes the bracket.
fn close(out: &mut Vec<u8>, start: usize, bracket: u8) {
    if out.len() > start {
        out.pop();
    }
    out.push(bracket);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_sorted_and_spaces_go() {
        check("{ }", "{}");
        check("[ ]", "[]");
        check(r#" [ {"b" : 1 , "a": [ null, true,-2, "x\u00e9\n" ] } , [] ]"#, {
            r#"[{"a":[null,true,-2,"xé\n"],"b":1},[]]"#
        });
        check(r#"{"z":{"y":1,"x":2},"a":{"q":{},"b":{"d":1.5,"c":1e2}}}"#, {
            r#"{"a":{"b":{"c":100.0,"d":1.5},"q":{}},"z":{"x":2,"y":1}}"#
        });
    }

    #[test]
    fn of_two_equal_keys_the_last_one_counts() {
        check(r#"{"a":1,"b":2,"a":3}"#, r#"{"a":3,"b":2}"#);
        check(r#"{"a":1,"a":2}"#, r#"{"a":2}"#);
    }

    #[test]
    fn the_same_content_has_the_same_hash() {
        let one = hash(br#"{"id":"x","nodes":[{"a":1,"b":2}]}"#).expect("JSON");
        let two = hash(b"{\n \"nodes\": [ {\"b\":2, \"a\":1} ],\n \"id\": \"x\" }").expect("JSON");
        let other = hash(br#"{"id":"x","nodes":[{"a":1,"b":3}]}"#).expect("JSON");
        assert_eq!(one, two);
        assert_ne!(one, other);
        // `printf '{}' | sha256sum`
        let empty = "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a";
        assert_eq!(hash(b" {} ").expect("JSON"), empty);
    }

    #[test]
    fn what_is_no_json_has_none() {
        for wrong in [&b""[..], b"{", b"{}{}", b"[1,]", b"nope"] {
            assert!(hash(wrong).is_err());
        }
        let deep = "[".repeat(100_000);
        assert!(hash(deep.as_bytes()).is_err());
    }

    fn check(json: &str, expected: &str) {
        let made = canonical(json.as_bytes()).expect("JSON");
        assert_eq!(String::from_utf8(made).expect("text"), expected);
    }
}
