//! Programs that were compiled lately, so that who looks at a run again and again does not pay for
//! its definition each time.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Weak};

use bytes::Bytes;
use flow::{Compiled, Problem, Program};
use model::ShardId;
use parking_lot::Mutex;
use tokio::sync::Semaphore;

use super::canonical;

/// Definitions that are compiled at the same time, one of each tenant; further ones wait.
pub(crate) const COMPILES_AT_ONCE_MAX: usize = 2;
/// Programs that are remembered.
pub(crate) const PROGRAMS_REMEMBERED_MAX: usize = 64;
/// The definitions of remembered programs, together.
pub(crate) const PROGRAMS_BYTES_MAX: usize = 64 * 1024 * 1024;

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
                let hashing = tokio::task::spawn_blocking(move || canonical::hash(&source));
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
    let hash = canonical::hash(source).map_err(|_| CompileError::Broken)?;
    let Compiled { program, warnings } = compiled;
    Ok(Ready { program: Arc::new(program), hash: hash.into(), warnings: warnings.into() })
}

#[cfg(test)]
mod tests {
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
