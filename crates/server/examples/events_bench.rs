//! What watchers cost a run: `cargo run --release -p server --example events_bench [FOLDER]`.
//!
//! Runs of 10,000 nodes are executed inside the process, as fast as the coordinator gives them out,
//! with nobody watching, one watcher and twenty. Watchers are processes of their own that read over
//! loopback. Prints nodes per second, the CPU time of the server per node, and how long after the
//! end of a run the last watcher heard of it.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command as Process, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use coordinator::LeaseRequest;
use model::{Offer, Report, ReportKey, ReportedOutcome, WorkerId};
use serde_json::{Value, json};
use server::app::{Options, Server};
use server::handle::ShardHandle;
use uuid::Uuid;

const NODES: u128 = 10_000;
const WIDTH: u128 = 1_000;
const WORKERS: usize = 4;
const LEASES: u32 = 256;
const TURNS: usize = 5;
const END: &[u8] = b"\"status\":\"succeeded\"";

fn main() {
    let mut arguments = std::env::args().skip(1);
    match arguments.next().as_deref() {
        Some("watch") => watch(&arguments.next().expect("an address")),
        folder => measure(folder.map(str::to_owned)),
    }
}

#[tokio::main]
async fn measure(folder: Option<String>) {
    let base = folder.unwrap_or_else(|| std::env::temp_dir().display().to_string());
    let folder = tempfile::tempdir_in(base).expect("a folder to write to");
    let http = "127.0.0.1:0".parse().expect("an address");
    let options = Options { dev: true, ..Options::new(folder.path(), http) };
    let server = Server::start(options).await.expect("starts");
    server.until_ready().await;
    let address = server.http_addr();
    let tenant = "default".parse().expect("a name");
    let handle = server.app().directory.of(&tenant).await.expect("a coordinator");
    for worker in 0..WORKERS {
        tokio::spawn(work(handle.clone(), format!("w{worker}").parse().expect("a name")));
    }
    run(address).await;
    for n_watchers in [0, 1, 20, 0] {
        let mut times = Vec::new();
        let mut late = Duration::ZERO;
        let cpu = cpu_now();
        for _ in 0..TURNS {
            let watchers: Vec<Child> = (0..n_watchers).map(|_| watcher(address)).collect();
            times.push(run(address).await);
            let ended = Instant::now();
            for mut watcher in watchers {
                watcher.wait().expect("a watcher");
            }
            late = late.max(ended.elapsed());
        }
        times.sort_unstable();
        report(n_watchers, times[TURNS / 2], (cpu_now() - cpu) / TURNS as u64, late);
    }
    server.stop().await;
}

fn report(n_watchers: usize, took: Duration, cpu: u64, late: Duration) {
    let nodes = u64::try_from(NODES).expect("a small number");
    let per_second = nodes * 1_000_000 / u64::try_from(took.as_micros()).expect("short");
    println!(
        "{n_watchers:3} watchers: {per_second:7} nodes/s, CPU {:6} ns per node, the last watcher \
         {late:?} after the end",
        cpu / nodes
    );
}

/// Takes what there is and completes it.
async fn work(handle: ShardHandle, worker: WorkerId) {
    let offer = Arc::new(Offer { all_tools: true, ..Offer::default() });
    loop {
        let request = LeaseRequest {
            worker: worker.clone(),
            offer: Arc::clone(&offer),
            max: LEASES,
            slots: None,
            wait_until: model::Timestamp::MAX,
            confirm_within: None,
            timeout_grace: Duration::ZERO,
            is_loss_noticed: true,
        };
        let Ok(grants) = handle.request_leases(request).await else { return };
        let report = |grant: &coordinator::Grant| Report {
            lease: grant.lease,
            worker: worker.clone(),
            key: ReportKey(u128::from(grant.lease.epoch)),
            outcome: ReportedOutcome::Completed { result: Bytes::from_static(b"{}"), extra: None },
        };
        let reports = grants.iter().map(report).collect();
        if handle.report(reports).await.is_err() {
            return;
        }
    }
}

/// From the answer to the start of a run to its end.
async fn run(address: SocketAddr) -> Duration {
    let id = |node: u128| Uuid::from_u128(0x4000_8000_0000_0000_0000 + node);
    let nodes: Vec<Value> =
        (0..NODES).map(|node| json!({"id": id(node), "type": "core.noop"})).collect();
    let edge =
        |node: u128| json!({"source": {"node": id(node - WIDTH)}, "target": {"node": id(node)}});
    let edges: Vec<Value> = (WIDTH..NODES).map(edge).collect();
    let workflow = json!({
        "id": id(NODES), "schemaVersion": "2025-10", "metadata": {"name": "bench"},
        "nodes": nodes, "edges": edges,
    });
    let body = json!({"workflow": workflow}).to_string();
    let ask = move || {
        let head = format!(
            "POST /api/v1/runs?wait=60 HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\
             content-type: application/json\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        let mut stream = TcpStream::connect(address).expect("a connection");
        let began = Instant::now();
        stream.write_all(head.as_bytes()).expect("sent");
        stream.write_all(body.as_bytes()).expect("sent");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        assert!(answer.contains("\"status\":\"succeeded\""), "{answer}");
        began.elapsed()
    };
    tokio::task::spawn_blocking(ask).await.expect("no panic")
}

fn watcher(address: SocketAddr) -> Child {
    let own = std::env::current_exe().expect("this program");
    let mut child = Process::new(own)
        .args(["watch", &address.to_string()])
        .stdout(Stdio::piped())
        .spawn()
        .expect("a watcher");
    let mut ready = [0];
    let out = child.stdout.as_mut().expect("piped");
    out.read_exact(&mut ready).expect("it watches");
    child
}

/// Reads events until a run has ended.
fn watch(address: &str) {
    let mut stream = TcpStream::connect(address).expect("a connection");
    let head = format!("GET /api/v1/events HTTP/1.1\r\nhost: {address}\r\n\r\n");
    stream.write_all(head.as_bytes()).expect("sent");
    let mut buffer = vec![0; 256 * 1024];
    let mut kept = 0;
    let mut is_told = false;
    loop {
        let n = stream.read(&mut buffer[kept..]).expect("readable");
        assert!(n > 0, "cut off");
        if !is_told {
            is_told = true;
            print!("r");
            std::io::stdout().flush().expect("said");
        }
        let end = kept + n;
        if buffer[..end].windows(END.len()).any(|bytes| bytes == END) {
            return;
        }
        // What is looked for may come in two pieces.
        kept = end.min(END.len() - 1);
        buffer.copy_within(end - kept..end, 0);
    }
}

/// Nanoseconds that this process has computed; 0 where the kernel does not tell.
fn cpu_now() -> u64 {
    let Ok(threads) = std::fs::read_dir("/proc/self/task") else { return 0 };
    let computed = |path: std::path::PathBuf| {
        let times = std::fs::read_to_string(path.join("schedstat")).unwrap_or_default();
        times.split_whitespace().next().and_then(|text| text.parse().ok()).unwrap_or(0_u64)
    };
    threads.flatten().map(|thread| computed(thread.path())).sum()
}
