//! Programs that were compiled lately, so that looking at a run again and again does not pay for its
//! definition each time; each is known by the hash of its canonical text.
//!
//! The canonical text has sorted keys and nothing between its tokens. It is written as it is read: a
//! tree of values in between would take ten times the room of a definition with tens of megabytes.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::ops::Range;
use std::sync::{Arc, Weak};

use aws_lc_rs::digest;
use bytes::Bytes;
use flow::{Compiled, Problem, Program};
use model::ShardId;
use parking_lot::Mutex;
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use shard::report_key::hex;
use tokio::sync::Semaphore;

/// Limit: definitions that are compiled at the same time, one of each tenant; further ones wait.
const COMPILES_AT_ONCE_MAX: usize = 2;
/// Limit: programs that are remembered.
const PROGRAMS_REMEMBERED_MAX: usize = 64;
/// Limit: the definitions of remembered programs, together.
const PROGRAMS_BYTES_MAX: usize = 64 * 1024 * 1024;

/// A definition, ready to run.
#[derive(Clone)]
pub(crate) struct Ready {
    /// What is executed.
    pub(crate) program: Arc<Program>,
    /// SHA-256 of the canonical definition, in hexadecimal.
    pub(crate) hash: Arc<str>,
    /// What is odd about it.
    pub(crate) warnings: Arc<[Problem]>,
}

/// A definition that was looked through.
pub(crate) struct Checked {
    /// SHA-256 of the canonical definition, in hexadecimal.
    pub(crate) hash: String,
    /// What keeps it from running, and what is odd about it.
    pub(crate) problems: Vec<Problem>,
}

/// Why there is no program.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CompileError {
    /// The definition is wrong; everything that is wrong with it.
    #[error("{}", first_of(.0))]
    Invalid(Vec<Problem>),
    /// It is no JSON, nests too deep, or the compiler ended before its answer.
    #[error("the definition could not be read")]
    Broken,
}

fn first_of(problems: &[Problem]) -> &str {
    problems.first().map_or("the workflow cannot run as it stands", |problem| &problem.message)
}

/// The compiler, with a memory.
pub(crate) struct Programs {
    /// Most recently used last.
    recent: Mutex<VecDeque<Ready>>,
    turns: Semaphore,
    /// A tenant compiles one definition at a time, so that it cannot keep the others waiting.
    turns_of: Mutex<BTreeMap<ShardId, Weak<Semaphore>>>,
}

impl Default for Programs {
    fn default() -> Self {
        Self {
            recent: Mutex::default(),
            turns: Semaphore::new(COMPILES_AT_ONCE_MAX),
            turns_of: Mutex::default(),
        }
    }
}

impl Programs {
    /// The program of a definition that is about to run: made of exactly these bytes.
    pub(crate) async fn compile(
        &self,
        shard: ShardId,
        source: Bytes,
    ) -> Result<Ready, CompileError> {
        let known = |ready: &Ready| ready.program.source == source;
        if let Some(ready) = self.find(known) {
            return Ok(ready);
        }
        self.make(shard, source).await
    }

    /// The program of a run's definition, by its hash; how it was written makes no difference.
    pub(crate) async fn of_run(
        &self,
        shard: ShardId,
        hash: &str,
        source: Bytes,
    ) -> Result<Ready, CompileError> {
        if let Some(ready) = self.find(|ready| *ready.hash == *hash) {
            return Ok(ready);
        }
        self.make(shard, source).await
    }

    /// Everything that is wrong with a definition, or odd about it.
    pub(crate) async fn check(
        &self,
        shard: ShardId,
        source: Bytes,
    ) -> Result<Checked, CompileError> {
        match self.compile(shard, source.clone()).await {
            Ok(ready) => {
                Ok(Checked { hash: ready.hash.to_string(), problems: ready.warnings.to_vec() })
            }
            Err(CompileError::Invalid(problems)) => {
                let hashing = tokio::task::spawn_blocking(move || hash(&source));
                let hash = hashing.await.ok().and_then(Result::ok).ok_or(CompileError::Broken)?;
                Ok(Checked { hash, problems })
            }
            Err(CompileError::Broken) => Err(CompileError::Broken),
        }
    }

    async fn make(&self, shard: ShardId, source: Bytes) -> Result<Ready, CompileError> {
        let own = self.turn_of(shard);
        let _own_turn = own.acquire().await.map_err(|_| CompileError::Broken)?;
        let _turn = self.turns.acquire().await.map_err(|_| CompileError::Broken)?;
        let making = tokio::task::spawn_blocking(move || make(&source));
        let ready = making.await.map_err(|_| CompileError::Broken)??;
        self.remember(ready.clone());
        Ok(ready)
    }

    fn turn_of(&self, shard: ShardId) -> Arc<Semaphore> {
        let mut turns_of = self.turns_of.lock();
        if let Some(own) = turns_of.get(&shard).and_then(Weak::upgrade) {
            return own;
        }
        turns_of.retain(|_, other| other.strong_count() > 0);
        let own = Arc::new(Semaphore::new(1));
        turns_of.insert(shard, Arc::downgrade(&own));
        own
    }

    fn find(&self, is_it: impl Fn(&Ready) -> bool) -> Option<Ready> {
        let mut recent = self.recent.lock();
        let place = recent.iter().position(is_it)?;
        let ready = recent.remove(place)?;
        recent.push_back(ready.clone());
        Some(ready)
    }

    fn remember(&self, ready: Ready) {
        let mut recent = self.recent.lock();
        recent.retain(|known| known.program.source != ready.program.source);
        recent.push_back(ready);
        let mut bytes: usize = recent.iter().map(|known| known.program.source.len()).sum();
        while recent.len() > 1
            && (recent.len() > PROGRAMS_REMEMBERED_MAX || bytes > PROGRAMS_BYTES_MAX)
        {
            bytes -= recent.pop_front().map_or(0, |oldest| oldest.program.source.len());
        }
    }
}

fn make(source: &Bytes) -> Result<Ready, CompileError> {
    let compiled = flow::compile(source.clone()).map_err(CompileError::Invalid)?;
    let hash = hash(source).map_err(|_| CompileError::Broken)?;
    let Compiled { program, warnings } = compiled;
    Ok(Ready { program: Arc::new(program), hash: hash.into(), warnings: warnings.into() })
}

/// SHA-256 of the canonical form, in hexadecimal.
pub(crate) fn hash(json: &[u8]) -> Result<String, serde_json::Error> {
    Ok(hex(digest::digest(&digest::SHA256, &canonical(json)?).as_ref()))
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
        let mut keys = Vec::new();
        while let Some(key) = entries.next_key::<String>()? {
            let from = self.out.len();
            serde_json::to_writer(&mut *self.out, &key).map_err(A::Error::custom)?;
            self.out.push(b':');
            entries.next_value_seed(Canonical { out: self.out })?;
            self.out.push(b',');
            keys.push((key, from..self.out.len()));
        }
        sort(self.out, start, keys);
        close(self.out, start, b'}');
        Ok(())
    }
}

/// Puts the entries behind `start`, by key and the place of their `"key":value,`, in the order of
/// their keys.
fn sort(out: &mut Vec<u8>, start: usize, mut entries: Vec<(String, Range<usize>)>) {
    if entries.is_sorted_by(|a, b| a.0 < b.0) {
        return;
    }
    // Stable, so that of two equal keys the later one stays last.
    entries.sort_by(|a, b| a.0.cmp(&b.0));
    let mut sorted = Vec::with_capacity(out.len() - start);
    for (position, (key, place)) in entries.iter().enumerate() {
        if entries.get(position + 1).is_none_or(|(next, _)| next != key) {
            sorted.extend_from_slice(&out[place.clone()]);
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
mod programs_tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_tenant_that_compiles_keeps_no_other_waiting() {
        let programs = Arc::new(Programs::default());
        let shard = |number| ShardId::new(number).expect("fits");
        let definition = |number: u128| {
            let id = uuid::Uuid::from_u128(number);
            Bytes::from(format!(
                r#"{{"id":"{id}","schemaVersion":"2025-10","metadata":{{"name":"n"}},"edges":[],
                     "nodes":[{{"id":"{id}","type":"ok","label":"n","parameters":{{}}}}]}}"#
            ))
        };
        let busy = programs.turn_of(shard(1));
        let turn = busy.acquire().await.expect("open");
        let waiting: Vec<_> = (1..=3)
            .map(|number| {
                let (programs, source) = (Arc::clone(&programs), definition(number));
                tokio::spawn(async move { programs.compile(shard(1), source).await.is_ok() })
            })
            .collect();
        let other = programs.compile(shard(2), definition(9));
        let other = tokio::time::timeout(Duration::from_mins(1), other).await;
        assert!(other.expect("it does not wait").is_ok());
        assert!(waiting.iter().all(|one| !one.is_finished()), "they wait for their own tenant");
        drop(turn);
        for one in waiting {
            assert!(one.await.expect("ends"));
        }
        drop(busy);
        programs.turn_of(shard(3));
        assert_eq!(programs.turns_of.lock().len(), 1, "nothing is kept of who compiles nothing");
    }
}

#[cfg(test)]
mod canonical_tests {
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
