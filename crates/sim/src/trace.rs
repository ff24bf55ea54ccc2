//! What happened, as a hash that two runs of one seed must share, and as text for people.

use crate::faults::Fault;
use crate::rng::scatter;

/// The record of one run.
#[derive(Clone, Debug, Default)]
pub struct Trace {
    hash: u64,
    is_kept: bool,
    lines: Vec<String>,
    faults: Vec<String>,
}

impl Trace {
    /// A trace that also keeps its text.
    pub(crate) fn new(is_kept: bool) -> Self {
        Self { is_kept, ..Self::default() }
    }

    /// Equal for equal runs.
    pub fn hash(&self) -> u64 {
        self.hash
    }

    /// Everything that happened, a line each, if the text was kept.
    pub fn lines(&self) -> &[String] {
        &self.lines
    }

    /// The faults alone, with their times, if the text was kept.
    pub fn faults(&self) -> &[String] {
        &self.faults
    }

    /// Notes one event: its numbers always, its words only where someone will read them.
    pub(crate) fn note(&mut self, now: u64, numbers: &[u64], words: impl FnOnce() -> String) {
        self.hash = scatter(self.hash ^ now);
        for number in numbers {
            self.hash = scatter(self.hash ^ number);
        }
        if self.is_kept {
            self.lines.push(format!("{} {}", time(now), words()));
        }
    }

    pub(crate) fn fault(&mut self, now: u64, fault: Fault, words: impl FnOnce() -> String) {
        self.hash = scatter(self.hash ^ now ^ (fault.position() as u64) << 48);
        if self.is_kept {
            let (number, name) = fault.name();
            let line = format!("{} {number} {name}: {}", time(now), words());
            self.lines.push(line.clone());
            self.faults.push(line);
        }
    }
}

fn time(now: u64) -> String {
    format!("{:>5}.{:03}s", now / 1_000, now % 1_000)
}
