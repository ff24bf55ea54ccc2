//! What runs in the processes that make the load: lean, because they share the machine's cores
//! with the server that they measure.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, Result, ensure};
use bytes::Bytes;
use client::{Client, ClientError};
use protocol::rest::leases::{GrantedLeases, RequestLeases, Verdicts};
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::figures::Percentiles;
use super::{resp, ws};

/// How long a load worker waits for work; also how long it takes to notice the end.
const LEASE_WAIT: Duration = Duration::from_millis(300);
/// A server that is full is asked again after this time.
const FULL_PAUSE: Duration = Duration::from_millis(5);
/// How long the worker waits that has one task at a time.
const LONG_WAIT: Duration = Duration::from_secs(20);
/// Between two samples, so that the worker waits at the server again.
const PAUSE: Duration = Duration::from_millis(2);
/// The first samples warm up what is warm in a server that has been running.
const WARM_UP: u64 = 50;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[arg(long)]
    server: String,
    #[arg(long, env = "ASTRA_TOKEN")]
    token: String,
    #[command(subcommand)]
    command: Command,
}

/// The server that gets the load, and the token that it asks for.
pub(super) struct Target {
    pub(super) client: Client,
    pub(super) token: String,
}

/// How much is submitted, and how.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(super) struct Amount {
    #[arg(long)]
    pub(super) tasks: u64,
    #[arg(long)]
    pub(super) batch: u64,
    #[arg(long)]
    pub(super) clients: u64,
    #[arg(long)]
    pub(super) payload: u64,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Submit tasks as fast as the server takes them.
    Submit(Amount),
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
        #[command(flatten)]
        amount: Amount,
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
pub(super) struct Submitted {
    pub(super) count: u64,
    pub(super) started_ns: u64,
    pub(super) ended_ns: u64,
}

/// What a load worker says at its end.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(super) struct Worked {
    pub(super) committed: u64,
    pub(super) others: u64,
    pub(super) last_verdict_ns: u64,
}

impl Worked {
    pub(super) fn add(&mut self, other: Self) {
        self.committed += other.committed;
        self.others += other.others;
        self.last_verdict_ns = self.last_verdict_ns.max(other.last_verdict_ns);
    }
}

pub(crate) async fn run(Arguments { server, token, command }: Arguments) -> Result<()> {
    let client = Client::new(server.parse()?, Some(&token))?;
    let target = Target { client: client.clone(), token };
    let line = match command {
        Command::Submit(amount) => serde_json::to_string(&submit(client, amount).await?),
        Command::Work { id, batch, clients } => {
            serde_json::to_string(&work(client, &id, batch, clients).await?)
        }
        Command::Latency { samples } => serde_json::to_string(&sample(client, samples).await?),
        Command::WsWork { id, slots } => {
            serde_json::to_string(&ws::work(&target, &id, slots).await?)
        }
        Command::WsLatency { samples } => {
            serde_json::to_string(&ws::sample(&target, samples).await?)
        }
        Command::RespSubmit { amount, resp } => {
            serde_json::to_string(&resp::submit(&target, resp, amount).await?)
        }
        Command::RespWork { batch, clients, resp } => {
            serde_json::to_string(&resp::work(&target, resp, batch, clients).await?)
        }
        Command::RespLatency { samples, resp } => {
            serde_json::to_string(&resp::sample(&target, resp, samples).await?)
        }
        Command::WsSessions { count } => return ws::hold_sessions(&target, count).await,
    };
    println!("{}", line?);
    Ok(())
}

pub(super) fn now_ns() -> u64 {
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since_1970.as_nanos()).unwrap_or(u64::MAX)
}

async fn submit(client: Client, amount: Amount) -> Result<Submitted> {
    let Amount { tasks, batch, clients, payload } = amount;
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
    let mut all = Worked::default();
    while let Some(ended) = loops.join_next().await {
        all.add(ended??);
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
    let mut worked = Worked::default();
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

/// A submitter and a worker, on one connection each.
async fn sample(client: Client, samples: u64) -> Result<Percentiles> {
    let (tell, verdicts) = mpsc::channel(1);
    let working = tokio::spawn(execute(client.clone(), tell));
    let times = sample_with(samples, verdicts, async || submit_one(&client).await).await;
    working.abort();
    times
}

pub(super) async fn submit_one(client: &Client) -> Result<()> {
    let task = Bytes::from_static(br#"{"type":"core.noop","parameters":{}}"#);
    client.post_raw("/api/v1/tasks", task, Duration::ZERO).await?;
    Ok(())
}

/// Submits one task at a time; `verdicts` tells when the worker heard that it was committed.
pub(super) async fn sample_with(
    samples: u64,
    mut verdicts: mpsc::Receiver<Instant>,
    mut submit: impl AsyncFnMut() -> Result<()>,
) -> Result<Percentiles> {
    let mut times = Vec::new();
    for number in 0..samples + WARM_UP {
        tokio::time::sleep(PAUSE).await;
        let start = Instant::now();
        let (submitted, verdict) = tokio::join!(submit(), verdicts.recv());
        submitted?;
        let heard: Instant = verdict.context("the worker ended")?;
        if number >= WARM_UP {
            times.push(heard.duration_since(start).as_secs_f64() * 1_000.0);
        }
    }
    Percentiles::of(times).context("no samples")
}

async fn execute(client: Client, tell: mpsc::Sender<Instant>) -> Result<()> {
    let request = RequestLeases {
        worker_id: "latency".into(),
        max: Some(1),
        wait_ms: i64::try_from(LONG_WAIT.as_millis()).ok(),
        ..RequestLeases::default()
    };
    loop {
        let granted: GrantedLeases =
            client.post_waiting("/api/v1/leases", &request, LONG_WAIT).await?;
        for lease in granted.leases {
            let report = serde_json::json!({ "reports": [{
                "lease_id": lease.lease_id, "worker_id": "latency", "outcome": "complete",
            }]});
            let _: Verdicts = client.post("/api/v1/reports", &report).await?;
            tell.send(Instant::now()).await?;
        }
    }
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
