//! What a worker counts, for its heartbeats.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use serde::Serialize;
use tokio::time::Instant;

use crate::session::load::Load;

const KIB_PER_MIB: u64 = 1024;
const GIB: u64 = 1024 * 1024 * 1024;

/// The numbers of one worker.
#[derive(Debug)]
pub(super) struct Tally {
    began: Instant,
    /// The jobs that are under way, by their ids.
    active: Mutex<Vec<String>>,
    completed: AtomicU64,
    failed: AtomicU64,
    duration_ms: AtomicU64,
    load: Mutex<Load>,
    folder: PathBuf,
}

/// Seed 004 sections 3.3 and 9.1. What the system does not tell is left out.
#[derive(Debug, Serialize)]
pub(super) struct Stats {
    active_jobs: usize,
    completed_jobs_total: u64,
    failed_jobs_total: u64,
    avg_job_duration_ms: u64,
    uptime_seconds: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    cpu_usage_percent: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    memory_mb: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    disk_available_gb: Option<u64>,
}

impl Tally {
    /// `folder` is where programs write.
    pub(super) fn new(folder: PathBuf) -> Self {
        Self {
            began: Instant::now(),
            active: Mutex::new(Vec::new()),
            completed: AtomicU64::new(0),
            failed: AtomicU64::new(0),
            duration_ms: AtomicU64::new(0),
            load: Mutex::new(Load::new(folder.clone())),
            folder,
        }
    }

    /// A job has begun; it counts as active until what is given back is dropped.
    pub(super) fn begin<'a>(&'a self, job: &'a str) -> Active<'a> {
        self.active.lock().push(job.to_owned());
        Active { tally: self, job }
    }

    /// A job has ended by itself.
    pub(super) fn ended(&self, is_completed: bool, took: Duration) {
        let counter = if is_completed { &self.completed } else { &self.failed };
        counter.fetch_add(1, Ordering::Relaxed);
        let took_ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
        self.duration_ms.fetch_add(took_ms, Ordering::Relaxed);
    }

    /// The jobs that are under way.
    pub(super) fn active(&self) -> Vec<String> {
        self.active.lock().clone()
    }

    /// What a heartbeat tells.
    pub(super) fn stats(&self) -> Stats {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let (completed, failed) = (count(&self.completed), count(&self.failed));
        Stats {
            active_jobs: self.active.lock().len(),
            completed_jobs_total: completed,
            failed_jobs_total: failed,
            avg_job_duration_ms: count(&self.duration_ms) / (completed + failed).max(1),
            uptime_seconds: self.began.elapsed().as_secs(),
            cpu_usage_percent: self.load.lock().measure().cpu,
            memory_mb: memory_used_mb(),
            disk_available_gb: self.disk_available_gb(),
        }
    }

    fn disk_available_gb(&self) -> Option<u64> {
        let disk = rustix::fs::statvfs(&self.folder).ok()?;
        Some(disk.f_bavail.saturating_mul(disk.f_frsize) / GIB)
    }
}

/// A job that is under way.
#[derive(Debug)]
pub(super) struct Active<'a> {
    tally: &'a Tally,
    job: &'a str,
}

impl Drop for Active<'_> {
    fn drop(&mut self) {
        let mut active = self.tally.active.lock();
        // A job that was given anew while its former attempt ends stands there twice.
        if let Some(place) = active.iter().position(|job| job == self.job) {
            active.swap_remove(place);
        }
    }
}

/// What this machine uses, as the share of its processors is the machine's too.
fn memory_used_mb() -> Option<u64> {
    let meminfo = std::fs::read_to_string("/proc/meminfo").ok()?;
    let field = |name: &str| {
        let line = meminfo.lines().find_map(|line| line.strip_prefix(name))?;
        line.split_whitespace().next()?.parse::<u64>().ok()
    };
    let used_kb = field("MemTotal:")?.saturating_sub(field("MemAvailable:")?);
    Some(used_kb / KIB_PER_MIB)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processors_are_measured_from_one_heartbeat_to_the_next() {
        let tally = Tally::new("/".into());
        let until = std::time::Instant::now() + Duration::from_millis(200);
        while std::time::Instant::now() < until {
            std::hint::spin_loop();
        }
        let stats = serde_json::to_value(tally.stats()).expect("JSON");
        let share = stats["cpu_usage_percent"].as_f64().expect("this machine tells it");
        assert!(share > 0.0 && share <= 100.0, "{stats}");
    }

    #[test]
    fn what_happened_is_counted() {
        let tally = Tally::new("/".into());
        let active = tally.begin("j1");
        let again = tally.begin("j1");
        drop(again);
        tally.ended(true, Duration::from_millis(100));
        tally.ended(true, Duration::from_millis(300));
        tally.ended(false, Duration::from_millis(200));
        let stats = serde_json::to_value(tally.stats()).expect("JSON");
        let expected = [
            ("active_jobs", 1),
            ("completed_jobs_total", 2),
            ("failed_jobs_total", 1),
            ("avg_job_duration_ms", 200),
            ("uptime_seconds", 0),
        ];
        for (name, number) in expected {
            assert_eq!(stats[name], number, "{name}");
        }
        for name in ["memory_mb", "disk_available_gb"] {
            assert!(stats[name].is_u64(), "this machine tells {name}: {stats}");
        }
        assert!(stats["memory_mb"].as_u64().is_some_and(|used| used > 0), "{stats}");
        assert_eq!(tally.active(), ["j1"]);
        drop(active);
        assert!(tally.active().is_empty());
    }
}
