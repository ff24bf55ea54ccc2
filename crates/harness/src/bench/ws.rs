//! The load over sessions: the worker of `astra worker start`, with nothing to do.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use protocol::rest::leases::VerdictWord;
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;
use worker::builtin::Builtin;
use worker::core::identity::Identity;
use worker::core::verdict::{Judgement, Listener};
use worker::transport::ws::worker::{Credential, State};
use worker::{Options, RunningWorker};

use super::figures::Percentiles;
use super::load::{Target, Worked, now_ns, sample_with, submit_one, watch_stdin};

/// A worker that hears no verdict for so long, once nothing more is submitted, is done.
const QUIET: Duration = Duration::from_millis(500);
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// How long all sessions may take to be open.
const OPEN_WITHIN: Duration = Duration::from_mins(2);

fn options(target: &Target, name: &str, slots: u64, listener: Listener) -> Result<Options> {
    let address = target.client.endpoint().clone().into();
    let executor = Arc::new(Builtin);
    let mut options = Options::new(address, name, Identity::passing()?, executor);
    options.offer.slots = usize::try_from(slots).unwrap_or(1);
    options.listener = listener;
    options.credential = Credential::Token(target.token.clone());
    Ok(options)
}

#[derive(Default)]
struct Tally {
    committed: AtomicU64,
    others: AtomicU64,
    last_ns: AtomicU64,
}

pub(super) async fn work(target: &Target, id: &str, slots: u64) -> Result<Worked> {
    let tally = Arc::new(Tally::default());
    let counting = Arc::clone(&tally);
    let listener: Listener = Arc::new(move |judgement: &Judgement| {
        let is_committed = judgement.verdict == VerdictWord::Committed;
        let count = if is_committed { &counting.committed } else { &counting.others };
        count.fetch_add(1, Ordering::Relaxed);
        counting.last_ns.store(now_ns(), Ordering::Relaxed);
    });
    let running = RunningWorker::start(options(target, id, slots, listener)?).await?;
    let is_last = Arc::new(AtomicBool::new(false));
    watch_stdin(Arc::clone(&is_last));
    let quiet_ns = u64::try_from(QUIET.as_nanos()).unwrap_or(u64::MAX);
    loop {
        tokio::time::sleep(LOOK_EVERY).await;
        let last_ns = tally.last_ns.load(Ordering::Relaxed);
        if is_last.load(Ordering::Acquire) && now_ns().saturating_sub(last_ns) > quiet_ns {
            drop(running);
            return Ok(Worked {
                committed: tally.committed.load(Ordering::Relaxed),
                others: tally.others.load(Ordering::Relaxed),
                last_verdict_ns: last_ns,
            });
        }
    }
}

pub(super) async fn sample(target: &Target, samples: u64) -> Result<Percentiles> {
    let (tell, verdicts) = mpsc::channel(1);
    let listener: Listener = Arc::new(move |_: &Judgement| {
        // The sampler waits for each verdict, so there is always room.
        let _ = tell.try_send(Instant::now());
    });
    let running = RunningWorker::start(options(target, "latency", 1, listener)?).await?;
    until(&running, State::Ready).await?;
    sample_with(samples, verdicts, async || submit_one(&target.client).await).await
}

/// What the holder of many sessions says each time that all of them are open.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct AllOpen {
    pub(super) at_ns: u64,
}

/// Opens sessions; says when all are open, and again after each time that they were cut.
pub(super) async fn hold_sessions(target: &Target, count: u64) -> Result<()> {
    let mut workers = Vec::new();
    for number in 0..count {
        let nobody: Listener = Arc::new(|_| {});
        workers
            .push(RunningWorker::start(options(target, &format!("s-{number}"), 1, nobody)?).await?);
    }
    let is_last = Arc::new(AtomicBool::new(false));
    watch_stdin(Arc::clone(&is_last));
    while !is_last.load(Ordering::Acquire) {
        for worker in &workers {
            until(worker, State::Ready).await?;
        }
        println!("{}", serde_json::to_string(&AllOpen { at_ns: now_ns() })?);
        // Until one of them is cut, which all are when the server is.
        while workers.iter().all(|worker| *worker.state().borrow() == State::Ready) {
            if is_last.load(Ordering::Acquire) {
                return Ok(());
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }
    Ok(())
}

async fn until(worker: &RunningWorker, wanted: State) -> Result<()> {
    let mut state = worker.state();
    let waiting = state.wait_for(|state| *state == wanted);
    tokio::time::timeout(OPEN_WITHIN, waiting).await.context("a session does not open")??;
    Ok(())
}
