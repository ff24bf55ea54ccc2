//! The load over the Redis protocol: pipelined pushes, pops and updates, as a plain client sends
//! them.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use anyhow::{Context as _, Result, bail, ensure};
use bytes::{Bytes, BytesMut};
use protocol::resp::client::{ReplyReader, encode_request};
use protocol::resp::reply::Reply;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::figures::Percentiles;
use super::load::{Amount, Submitted, Target, Worked, now_ns, sample_with, watch_stdin};

const QUEUE: &str = "queue:bench";
/// How long a pop waits, in seconds; also how long a worker takes to notice the end.
const POP_SECONDS: &str = "0.05";
/// The same where there is one job at a time.
const LONG_POP_SECONDS: &str = "20";
const DONE: &str = r#"{"status":"completed"}"#;
const REPLY_BYTES_MAX: usize = 16 << 20;

/// One connection.
struct Wire {
    stream: TcpStream,
    input: BytesMut,
    output: BytesMut,
    reader: ReplyReader,
}

impl Wire {
    async fn open(address: SocketAddr, token: &str) -> Result<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let (input, output) = (BytesMut::new(), BytesMut::new());
        let mut wire = Self { stream, input, output, reader: ReplyReader::new(REPLY_BYTES_MAX) };
        wire.ask(&["AUTH", token]);
        ensure!(wire.answers(1).await?[0] == Reply::ok(), "the token is refused");
        Ok(wire)
    }

    fn ask(&mut self, arguments: &[&str]) {
        encode_request(&mut self.output, arguments);
    }

    /// Sends what was asked, and reads so many replies.
    async fn answers(&mut self, count: usize) -> Result<Vec<Reply>> {
        self.stream.write_all_buf(&mut self.output).await?;
        let mut replies = Vec::with_capacity(count);
        while replies.len() < count {
            match self.reader.next(&mut self.input)? {
                Some(Reply::Error(text)) => bail!("the server says: {text}"),
                Some(reply) => replies.push(reply),
                None => {
                    let n_bytes = self.stream.read_buf(&mut self.input).await?;
                    ensure!(n_bytes > 0, "the server closed the connection");
                }
            }
        }
        Ok(replies)
    }
}

fn payload(bytes: u64) -> String {
    let bytes = usize::try_from(bytes).unwrap_or(0);
    format!(r#"{{"d":"{}"}}"#, "x".repeat(bytes.saturating_sub(8)))
}

/// Pushes jobs as fast as the server takes them.
pub(super) async fn submit(
    target: &Target,
    address: SocketAddr,
    Amount { tasks, batch, clients, payload: bytes }: Amount,
) -> Result<Submitted> {
    let left = Arc::new(AtomicU64::new(tasks));
    let started_ns = now_ns();
    let mut submitters = JoinSet::new();
    for _ in 0..clients.max(1) {
        let mut wire = Wire::open(address, &target.token).await?;
        let (left, job) = (Arc::clone(&left), payload(bytes));
        submitters.spawn(async move {
            loop {
                let take = |left: u64| left.checked_sub(batch.min(left)).filter(|_| left > 0);
                let Ok(before) = left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take)
                else {
                    return anyhow::Ok(());
                };
                let count = usize::try_from(batch.min(before))?;
                (0..count).for_each(|_| wire.ask(&["LPUSH", QUEUE, &job]));
                wire.answers(count).await?;
            }
        });
    }
    while let Some(ended) = submitters.join_next().await {
        ended??;
    }
    Ok(Submitted { count: tasks, started_ns, ended_ns: now_ns() })
}

/// Pops and completes jobs until stdin is closed and nothing is left.
pub(super) async fn work(
    target: &Target,
    address: SocketAddr,
    batch: u64,
    clients: u64,
) -> Result<Worked> {
    let is_last = Arc::new(AtomicBool::new(false));
    watch_stdin(Arc::clone(&is_last));
    let mut workers = JoinSet::new();
    for _ in 0..clients.max(1) {
        let mut wire = Wire::open(address, &target.token).await?;
        let is_last = Arc::clone(&is_last);
        let batch = usize::try_from(batch)?;
        workers.spawn(async move {
            let (mut committed, mut last_ns) = (0_u64, 0);
            loop {
                let was_last = is_last.load(Ordering::Acquire);
                (0..batch).for_each(|_| wire.ask(&["BRPOP", QUEUE, POP_SECONDS]));
                let popped = wire.answers(batch).await?;
                let jobs: Vec<Bytes> = popped.into_iter().filter_map(job_in).collect();
                if jobs.is_empty() && was_last {
                    return anyhow::Ok((committed, last_ns));
                }
                for job in &jobs {
                    wire.ask(&["JOB.UPDATE", name_in(job)?, DONE]);
                }
                committed += wire.answers(jobs.len()).await?.len() as u64;
                last_ns = if jobs.is_empty() { last_ns } else { now_ns() };
            }
        });
    }
    let mut all = Worked::default();
    while let Some(ended) = workers.join_next().await {
        let (committed, last_verdict_ns) = ended??;
        all.add(Worked { committed, others: 0, last_verdict_ns });
    }
    Ok(all)
}

/// The value of `[key, value]`.
fn job_in(reply: Reply) -> Option<Bytes> {
    match reply {
        Reply::Array(pair) => match pair.into_iter().nth(1) {
            Some(Reply::Bulk(job)) => Some(job),
            _ => None,
        },
        _ => None,
    }
}

/// `{"job_id":"...` is what every job begins with.
fn name_in(job: &[u8]) -> Result<&str> {
    let text = std::str::from_utf8(job)?;
    let name = text.strip_prefix(r#"{"job_id":""#).and_then(|rest| rest.split('"').next());
    name.context("a job without a name")
}

/// Pushes one job at a time; another connection waits for it and completes it.
pub(super) async fn sample(
    target: &Target,
    address: SocketAddr,
    samples: u64,
) -> Result<Percentiles> {
    let mut submitter = Wire::open(address, &target.token).await?;
    let mut worker = Wire::open(address, &target.token).await?;
    let (tell, verdicts) = mpsc::channel(1);
    let working = tokio::spawn(async move {
        loop {
            worker.ask(&["BRPOP", QUEUE, LONG_POP_SECONDS]);
            let popped = worker.answers(1).await?;
            let Some(job) = popped.into_iter().next().and_then(job_in) else { continue };
            worker.ask(&["JOB.UPDATE", name_in(&job)?, DONE]);
            worker.answers(1).await?;
            if tell.send(Instant::now()).await.is_err() {
                return anyhow::Ok(());
            }
        }
    });
    let times = sample_with(samples, verdicts, async || {
        submitter.ask(&["LPUSH", QUEUE, "{}"]);
        submitter.answers(1).await.map(drop)
    });
    let times = times.await;
    working.abort();
    times
}
