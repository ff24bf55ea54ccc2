//! Signs of life, and what the server answers to them (seed 004 section 3).

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use protocol::resp::reply::Reply;
use serde::Serialize;
use serde_with::skip_serializing_none;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};

use super::connection::{Request, request};
use super::execution::Surroundings;
use super::reconnecting::Reconnecting;
use super::registration::Dialect;
use super::report::{Meaning, meaning};
use crate::core::load::{Load, memory_kib};

/// What the server wants of this worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Signal {
    /// It shall work.
    Work,
    /// It shall take nothing new.
    Quiet,
    /// It shall finish and leave.
    Terminate,
}

/// Beats as long as the worker is there.
pub(super) struct HeartbeatLoop {
    pub(super) around: Arc<Surroundings>,
    pub(super) signals: watch::Sender<Signal>,
}

impl HeartbeatLoop {
    pub(super) async fn beat(self) {
        let mut known = self.around.main.terms();
        loop {
            let terms = match known.wait_for(Option::is_some).await {
                Ok(terms) => terms.expect("it was waited for"),
                // The line is over, and with it the worker.
                Err(_) => return,
            };
            match terms.dialect {
                Dialect::Registered => {
                    let longest = self.around.options.timing.heartbeat_every_max;
                    let every = terms.heartbeat_every.min(longest);
                    self.tell(every).await;
                    sleep(every).await;
                }
                Dialect::Listed => {
                    let every = self.around.options.timing.ping_every;
                    sleep(every).await;
                    self.ping(every).await;
                }
            }
        }
    }

    async fn tell(&self, within: Duration) {
        let Some(reply) = ask(&self.around.side, self.heartbeat(), within).await else {
            // The next one comes at its time all the same.
            tracing::error!("a heartbeat failed: nobody answered it");
            return;
        };
        match &reply {
            Reply::Error(text) if meaning(text) == Meaning::NotRegistered => {
                tracing::info!("the server has forgotten this worker; it registers again");
                let register = self.around.options.register();
                if let Some(Reply::Error(text)) = ask(&self.around.side, register, within).await {
                    tracing::warn!(%text, "the worker cannot register again");
                }
            }
            Reply::Error(text) => tracing::error!(%text, "a heartbeat failed"),
            reply => self.on_signal(signal(reply)),
        }
    }

    fn on_signal(&self, signal: Signal) {
        let is_news = |known: &mut Signal| std::mem::replace(known, signal) != signal;
        if self.signals.send_if_modified(is_news) {
            tracing::info!(state = ?signal, "server requested a state change");
        }
    }

    async fn ping(&self, within: Duration) {
        let ping = request(&["PING", self.around.options.worker_id.as_str()]);
        match ask(&self.around.main, ping, within).await {
            None => tracing::error!("a heartbeat failed: nobody answered it"),
            Some(Reply::Error(text)) => tracing::error!(%text, "a heartbeat failed"),
            Some(_) => {}
        }
    }

    fn heartbeat(&self) -> Request {
        let stats = serde_json::to_vec(&self.around.stats.stats()).expect("numbers become JSON");
        let mut words = request(&["WORKER.HEARTBEAT", self.around.options.worker_id.as_str()]);
        words.push(Bytes::from(stats));
        words
    }
}

/// A sign of life that is late is of no use, so it is not kept for the next connection.
async fn ask(line: &Reconnecting, words: Request, within: Duration) -> Option<Reply> {
    timeout(within, line.ask(words)).await.ok()?.ok()
}

/// `OK`, `OK quiet` or `OK terminate`.
fn signal(reply: &Reply) -> Signal {
    let Reply::Simple(text) = reply else { return Signal::Work };
    match text.split_whitespace().nth(1) {
        Some("quiet") => Signal::Quiet,
        Some("terminate") => Signal::Terminate,
        Some(_) | None => Signal::Work,
    }
}

const KIB_PER_MIB: u64 = 1024;
const GIB: u64 = 1024 * 1024 * 1024;

/// The numbers of one worker.
#[derive(Debug)]
pub(super) struct JobStats {
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
#[skip_serializing_none]
#[derive(Debug, Serialize)]
pub(super) struct Stats {
    active_jobs: usize,
    completed_jobs_total: u64,
    failed_jobs_total: u64,
    avg_job_duration_ms: u64,
    uptime_seconds: u64,
    cpu_usage_percent: Option<f64>,
    memory_mb: Option<u64>,
    disk_available_gb: Option<u64>,
}

impl JobStats {
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
        Active { stats: self, job }
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
    stats: &'a JobStats,
    job: &'a str,
}

impl Drop for Active<'_> {
    fn drop(&mut self) {
        let mut active = self.stats.active.lock();
        // A job that was given anew while its former attempt ends stands there twice.
        if let Some(place) = active.iter().position(|job| job == self.job) {
            active.swap_remove(place);
        }
    }
}

/// What this machine uses, as the share of its processors is the machine's too.
fn memory_used_mb() -> Option<u64> {
    let meminfo = std::fs::read_to_string("/proc/meminfo").ok()?;
    let (total, available) = memory_kib(&meminfo)?;
    Some(total.saturating_sub(available) / KIB_PER_MIB)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processors_are_measured_from_one_heartbeat_to_the_next() {
        let jobs = JobStats::new("/".into());
        let until = std::time::Instant::now() + Duration::from_millis(200);
        while std::time::Instant::now() < until {
            std::hint::spin_loop();
        }
        let stats = serde_json::to_value(jobs.stats()).expect("JSON");
        let share = stats["cpu_usage_percent"].as_f64().expect("this machine tells it");
        assert!(share > 0.0 && share <= 100.0, "{stats}");
    }

    #[test]
    fn what_happened_is_counted() {
        let jobs = JobStats::new("/".into());
        let active = jobs.begin("j1");
        let again = jobs.begin("j1");
        drop(again);
        jobs.ended(true, Duration::from_millis(100));
        jobs.ended(true, Duration::from_millis(300));
        jobs.ended(false, Duration::from_millis(200));
        let stats = serde_json::to_value(jobs.stats()).expect("JSON");
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
        assert_eq!(jobs.active(), ["j1"]);
        drop(active);
        assert!(jobs.active().is_empty());
    }
}
