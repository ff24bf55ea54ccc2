//! Programs that were compiled lately, so that who looks at a run again and again does not pay for
//! its definition each time.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use flow::{Compiled, Problem, Program};
use parking_lot::Mutex;
use tokio::sync::Semaphore;

use super::canonical;

/// Definitions that are compiled at the same time; further ones wait.
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
}

impl Default for Programs {
    fn default() -> Self {
        Self { recent: Mutex::default(), turns: Semaphore::new(COMPILES_AT_ONCE_MAX) }
    }
}

impl Programs {
    /// The program of a definition that is about to run: made of exactly these bytes.
    pub(crate) async fn compile(&self, source: Bytes) -> Result<Ready, CompileError> {
        let known = |ready: &Ready| ready.program.source == source;
        if let Some(ready) = self.find(known) {
            return Ok(ready);
        }
        self.make(source).await
    }

    /// The program of a run's definition, by its hash; how it was written makes no difference.
    pub(crate) async fn of_run(&self, hash: &str, source: Bytes) -> Result<Ready, CompileError> {
        if let Some(ready) = self.find(|ready| *ready.hash == *hash) {
            return Ok(ready);
        }
        self.make(source).await
    }

    /// Everything that is wrong with a definition, or odd about it.
    pub(crate) async fn check(&self, source: Bytes) -> Result<Checked, CompileError> {
        match self.compile(source.clone()).await {
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

    async fn make(&self, source: Bytes) -> Result<Ready, CompileError> {
        let _turn = self.turns.acquire().await.map_err(|_| CompileError::Broken)?;
        let making = tokio::task::spawn_blocking(move || make(&source));
        let ready = making.await.map_err(|_| CompileError::Broken)??;
        self.remember(ready.clone());
        Ok(ready)
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
