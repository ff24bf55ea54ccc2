//! What runs in the processes that make the load: lean, because they share the machine's cores
//! with the server that they measure.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Result, ensure};
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use tokio::task::JoinSet;
use worker::client::{Client, ClientError};

use super::{latency, resp, ws};
use crate::context::Context;
use crate::output;

/// How long a load worker waits for work; also how long it takes to notice the end.
const LEASE_WAIT: Duration = Duration::from_millis(300);
/// A server that is full is asked again after this time.
const FULL_PAUSE: Duration = Duration::from_millis(5);

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// Submit tasks as fast as the server takes them.
    Submit {
        #[arg(long)]
        tasks: u64,
        #[arg(long)]
        batch: u64,
        #[arg(long)]
        clients: u64,
        #[arg(long)]
        payload: u64,
    },
    /// Lease and complete tasks until stdin is closed and nothing is left.
    Work {
        #[arg(long)]
        id: String,
        #[arg(long)]
        batch: u64,
        #[arg(long)]
        clients: u64,
    },
    /// Submit one task at a time and execute it.
    Latency {
        #[arg(long)]
        samples: u64,
    },
    /// Hold a session and execute what is pushed, until stdin is closed and nothing comes.
    WsWork {
        #[arg(long)]
        id: String,
        #[arg(long)]
        slots: u64,
    },
    /// Submit one task at a time and execute it over a session.
    WsLatency {
        #[arg(long)]
        samples: u64,
    },
    /// Push jobs as fast as the server takes them.
    RespSubmit {
        #[arg(long)]
        tasks: u64,
        #[arg(long)]
        batch: u64,
        #[arg(long)]
        clients: u64,
        #[arg(long)]
        payload: u64,
        #[arg(long)]
        resp: SocketAddr,
    },
    /// Pop and complete jobs until stdin is closed and nothing is left.
    RespWork {
        #[arg(long)]
        batch: u64,
        #[arg(long)]
        clients: u64,
        #[arg(long)]
        resp: SocketAddr,
    },
    /// Push one job at a time, pop and complete it.
    RespLatency {
        #[arg(long)]
        samples: u64,
        #[arg(long)]
        resp: SocketAddr,
    },
    /// Hold many sessions; says when all are open, and again whenever all are back.
    WsSessions {
        #[arg(long)]
        count: u64,
    },
}

/// What a submitter says at its end. Times are nanoseconds since 1970, of this machine's clock.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Submitted {
    pub(crate) count: u64,
    pub(crate) started_ns: u64,
    pub(crate) ended_ns: u64,
}

/// What a load worker says at its end.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Worked {
    pub(crate) committed: u64,
    pub(crate) others: u64,
    pub(crate) last_verdict_ns: u64,
}

pub(crate) async fn run(command: Command, context: &Context) -> Result<()> {
    let client = context.client.clone();
    let line = match command {
        Command::Submit { tasks, batch, clients, payload } => {
            output::json(&submit(client, tasks, batch, clients, payload).await?)
        }
        Command::Work { id, batch, clients } => {
            output::json(&work(client, &id, batch, clients).await?)
        }
        Command::Latency { samples } => output::json(&latency::sample(client, samples).await?),
        Command::WsWork { id, slots } => output::json(&ws::work(context, &id, slots).await?),
        Command::WsLatency { samples } => output::json(&ws::sample(context, samples).await?),
        Command::RespSubmit { tasks, batch, clients, payload, resp } => {
            let amount = resp::Amount { tasks, batch, clients, payload };
            output::json(&resp::submit(context, resp, amount).await?)
        }
        Command::RespWork { batch, clients, resp } => {
            output::json(&resp::work(context, resp, batch, clients).await?)
        }
        Command::RespLatency { samples, resp } => {
            output::json(&resp::sample(context, resp, samples).await?)
        }
        Command::WsSessions { count } => return ws::hold_sessions(context, count).await,
    };
    context.output.line(&line);
    Ok(())
}

pub(crate) fn now_ns() -> u64 {
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since_1970.as_nanos()).unwrap_or(u64::MAX)
}

async fn submit(
    client: Client,
    tasks: u64,
    batch: u64,
    clients: u64,
    payload: u64,
) -> Result<Submitted> {
    ensure!(batch > 0, "a batch holds at least one task");
    let left = Arc::new(AtomicU64::new(tasks));
    let started_ns = now_ns();
    let mut submitters = JoinSet::new();
    for _ in 0..clients.max(1) {
        submitters.spawn(submit_batches(client.clone(), Arc::clone(&left), batch, payload));
    }
    while let Some(ended) = submitters.join_next().await {
        ended??;
    }
    Ok(Submitted { count: tasks, started_ns, ended_ns: now_ns() })
}

async fn submit_batches(
    client: Client,
    left: Arc<AtomicU64>,
    batch: u64,
    payload: u64,
) -> Result<()> {
    let body = submission(batch, payload);
    loop {
        let before = left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| {
            Some(left.saturating_sub(batch))
        });
        let body = match before.unwrap_or_else(|unchanged| unchanged) {
            0 => return Ok(()),
            few if few < batch => submission(few, payload),
            _ => body.clone(),
        };
        while let Err(error) = client.post_raw("/api/v1/tasks", body.clone(), Duration::ZERO).await
        {
            if !is_full(&error) {
                return Err(error.into());
            }
            tokio::time::sleep(FULL_PAUSE).await;
        }
    }
}

fn is_full(error: &ClientError) -> bool {
    matches!(error, ClientError::Refused { status: 429, .. })
}

/// `count` tasks with `payload` bytes of parameters each.
pub(super) fn submission(count: u64, payload: u64) -> Bytes {
    let frame = r#"{"p":""}"#.len() as u64;
    let filling = "x".repeat(usize::try_from(payload.saturating_sub(frame)).unwrap_or(0));
    let task =
        format!(r#"{{"type":"core.noop","lease_ttl_ms":600000,"parameters":{{"p":"{filling}"}}}}"#);
    let tasks: Vec<&str> = (0..count).map(|_| task.as_str()).collect();
    format!(r#"{{"tasks":[{}]}}"#, tasks.join(",")).into()
}

async fn work(client: Client, id: &str, batch: u64, clients: u64) -> Result<Worked> {
    let is_last = Arc::new(AtomicBool::new(false));
    watch_stdin(Arc::clone(&is_last));
    let mut loops = JoinSet::new();
    for number in 0..clients.max(1) {
        let worker_id = format!("{id}-{number}");
        loops.spawn(work_batches(client.clone(), worker_id, batch, Arc::clone(&is_last)));
    }
    let mut all = Worked { committed: 0, others: 0, last_verdict_ns: 0 };
    while let Some(ended) = loops.join_next().await {
        let one = ended??;
        all.committed += one.committed;
        all.others += one.others;
        all.last_verdict_ns = all.last_verdict_ns.max(one.last_verdict_ns);
    }
    Ok(all)
}

/// Our parent closes stdin when nothing more will be submitted.
pub(super) fn watch_stdin(is_last: Arc<AtomicBool>) {
    std::thread::spawn(move || {
        let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
        is_last.store(true, Ordering::Release);
    });
}

#[derive(Deserialize)]
struct LeasesRead<'a> {
    #[serde(borrow)]
    leases: Vec<LeaseRead<'a>>,
}

#[derive(Deserialize)]
struct LeaseRead<'a> {
    lease_id: &'a str,
}

#[derive(Deserialize)]
struct VerdictsRead<'a> {
    #[serde(borrow)]
    verdicts: Vec<VerdictRead<'a>>,
}

#[derive(Deserialize)]
struct VerdictRead<'a> {
    verdict: &'a str,
}

async fn work_batches(
    client: Client,
    worker_id: String,
    batch: u64,
    is_last: Arc<AtomicBool>,
) -> Result<Worked> {
    let mut worked = Worked { committed: 0, others: 0, last_verdict_ns: 0 };
    let wait_ms = LEASE_WAIT.as_millis();
    let request: Bytes =
        format!(r#"{{"worker_id":"{worker_id}","max":{batch},"wait_ms":{wait_ms}}}"#).into();
    loop {
        let was_last = is_last.load(Ordering::Acquire);
        let answer = client.post_raw("/api/v1/leases", request.clone(), LEASE_WAIT).await?;
        let granted: LeasesRead<'_> = serde_json::from_slice(&answer)?;
        if granted.leases.is_empty() {
            if was_last {
                return Ok(worked);
            }
            continue;
        }
        let reports = reports(&granted, &worker_id);
        let answer = client.post_raw("/api/v1/reports", reports, Duration::ZERO).await?;
        let heard: VerdictsRead<'_> = serde_json::from_slice(&answer)?;
        let committed = heard.verdicts.iter().filter(|v| v.verdict == "COMMITTED").count() as u64;
        worked.committed += committed;
        worked.others += heard.verdicts.len() as u64 - committed;
        worked.last_verdict_ns = now_ns();
    }
}

fn reports(granted: &LeasesRead<'_>, worker_id: &str) -> Bytes {
    let mut body = String::with_capacity(granted.leases.len() * 128 + 16);
    body.push_str(r#"{"reports":["#);
    for (index, lease) in granted.leases.iter().enumerate() {
        if index > 0 {
            body.push(',');
        }
        body.push_str(r#"{"lease_id":""#);
        body.push_str(lease.lease_id);
        body.push_str(r#"","worker_id":""#);
        body.push_str(worker_id);
        body.push_str(r#"","outcome":"complete"}"#);
    }
    body.push_str("]}");
    body.into()
}

#[cfg(test)]
mod tests {
    use protocol::rest::leases::Reports;
    use protocol::rest::tasks::SubmitTasks;

    use super::*;

    #[test]
    fn the_handmade_bodies_are_what_the_server_reads() {
        let tasks: SubmitTasks = serde_json::from_slice(&submission(3, 100)).expect("reads");
        assert_eq!(tasks.tasks.len(), 3);
        let parameters = tasks.tasks[0].parameters.as_ref().expect("given");
        assert_eq!(parameters.get().len(), 100);

        let granted = LeasesRead { leases: vec![LeaseRead { lease_id: "a-1" }] };
        let reports: Reports = serde_json::from_slice(&reports(&granted, "w")).expect("reads");
        assert_eq!(reports.reports[0].lease_id, "a-1");
    }
}
