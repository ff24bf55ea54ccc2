//! How fast keys and values are: `cargo run --release -p server --example keyspace_bench`.
//!
//! Many tasks, each with a batch of commands at a time, wait until what they were answered is
//! durable. Prints commands per second, how long a batch took, and the CPU time of one command,
//! which other programs on the machine disturb less than the clock.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use keyspace::{Answer, Operation, lists, strings};
use server::app::{Options, Server};
use server::keyspace::{CommitPoint, TenantKeyspace};
use store::{SqliteStore, Store};

const TASKS: usize = 50;
const BATCH: usize = 16;
const RUN_FOR: Duration = Duration::from_secs(3);
/// Different keys, so that a batch touches many pages.
const KEYS: usize = 10_000;

type MakeCommand = fn(usize) -> Vec<Bytes>;

#[tokio::main]
async fn main() {
    let base =
        std::env::args().nth(1).unwrap_or_else(|| std::env::temp_dir().display().to_string());
    let folder = tempfile::tempdir_in(base).expect("a folder to write to");
    let store: Arc<dyn Store> = Arc::new(SqliteStore::open(folder.path()).expect("opens"));
    let http = "127.0.0.1:0".parse().expect("an address");
    let options = Options { dev: true, ..Options::new(folder.path(), http) };
    let server = Server::start_on(store, options).await.expect("starts");
    let tenant = "bench".parse().expect("a name");
    let handle = server.app().directory.of(&tenant).await.expect("a shard");
    let keyspace = handle.keyspace().await.expect("a keyspace");
    measure_one(&keyspace).await;
    measure("SET one key", &keyspace, |_| command(&[b"SET", b"key", b"xxx"])).await;
    measure("SET 10,000 keys", &keyspace, |n| command(&[b"SET", &key(n), b"xxx"])).await;
    measure("GET 10,000 keys", &keyspace, |n| command(&[b"GET", &key(n)])).await;
    // Many lists: the row of one that grows without end would reach its limit.
    measure("LPUSH 10,000 lists", &keyspace, |n| command(&[b"LPUSH", &list(n), b"xxx"])).await;
    measure("RPOP 10,000 lists", &keyspace, |n| command(&[b"RPOP", &list(n)])).await;
    measure("INCR", &keyspace, |_| command(&[b"INCR", b"counter"])).await;
    println!("{:?}", keyspace.load());
    server.stop().await;
}

fn execute(keyspace: &TenantKeyspace, commands: &[Vec<Bytes>]) -> (Vec<Answer>, CommitPoint) {
    let with_operation = |command: &'_ Vec<Bytes>| match &command[0][..] {
        b"SET" => strings::set,
        b"GET" => strings::get,
        b"INCR" => strings::incr,
        b"LPUSH" => lists::lpush,
        _ => lists::rpop,
    };
    let commands = commands.iter().map(|one| (with_operation(one) as Operation, &one[..]));
    keyspace.execute(commands).expect("carried out")
}

fn command(words: &[&[u8]]) -> Vec<Bytes> {
    words.iter().map(|word| Bytes::copy_from_slice(word)).collect()
}

/// Spread over all keys.
fn key(n: usize) -> Vec<u8> {
    format!("key:{:012}", n.wrapping_mul(7_919) % KEYS).into_bytes()
}

fn list(n: usize) -> Vec<u8> {
    [b"list:", &key(n)[..]].concat()
}

/// One client, one command at a time: the price of a sync.
async fn measure_one(keyspace: &TenantKeyspace) {
    let set = [command(&[b"SET", b"key", b"xxx"])];
    let mut waits = Vec::new();
    let (began, cpu) = (Instant::now(), Cpu::now());
    while began.elapsed() < RUN_FOR / 3 {
        let asked = Instant::now();
        let (_, point) = execute(keyspace, &set);
        point.durable().await.expect("kept");
        waits.push(asked.elapsed());
    }
    report("SET alone", waits.len(), began.elapsed(), cpu, waits);
}

async fn measure(name: &str, keyspace: &Arc<TenantKeyspace>, make: MakeCommand) {
    let (began, cpu) = (Instant::now(), Cpu::now());
    let tasks: Vec<_> = (0..TASKS)
        .map(|task| tokio::spawn(run(Arc::clone(keyspace), task, make, began + RUN_FOR)))
        .collect();
    let mut waits = Vec::new();
    for task in tasks {
        waits.extend(task.await.expect("no task fails"));
    }
    report(name, waits.len() * BATCH, began.elapsed(), cpu, waits);
}

async fn run(
    keyspace: Arc<TenantKeyspace>,
    task: usize,
    make: MakeCommand,
    until: Instant,
) -> Vec<Duration> {
    let mut waits = Vec::new();
    let mut n = task * 1_000;
    while Instant::now() < until {
        let batch: Vec<_> = (n..n + BATCH).map(make).collect();
        n += BATCH;
        let asked = Instant::now();
        let (answers, point) = execute(&keyspace, &batch);
        point.durable().await.expect("kept");
        waits.push(asked.elapsed());
        assert_eq!(answers.len(), BATCH);
        // A connection would read from its socket now, and let others run.
        tokio::task::yield_now().await;
    }
    waits
}

/// Nanoseconds that threads have computed; 0 where the kernel does not tell.
#[derive(Clone, Copy, Default)]
struct Cpu {
    writer: u64,
    others: u64,
}

impl Cpu {
    fn now() -> Self {
        let mut cpu = Self::default();
        let Ok(threads) = std::fs::read_dir("/proc/self/task") else { return cpu };
        for thread in threads.flatten() {
            let name = std::fs::read_to_string(thread.path().join("comm")).unwrap_or_default();
            let times = std::fs::read_to_string(thread.path().join("schedstat"));
            let times = times.unwrap_or_default();
            let computed = times.split_whitespace().next().and_then(|text| text.parse().ok());
            let of = if name.trim() == "store-writer" { &mut cpu.writer } else { &mut cpu.others };
            *of += computed.unwrap_or(0_u64);
        }
        cpu
    }
}

fn report(name: &str, n_commands: usize, took: Duration, cpu: Cpu, mut waits: Vec<Duration>) {
    let now = Cpu::now();
    let each = |before: u64, after: u64| (after - before) / (n_commands as u64).max(1);
    let (writer, others) = (each(cpu.writer, now.writer), each(cpu.others, now.others));
    waits.sort_unstable();
    let percentile = |share: usize| waits[waits.len() * share / 1_000].as_secs_f64() * 1_000.0;
    #[expect(clippy::cast_precision_loss, reason = "a figure for people")]
    let per_second = n_commands as f64 / took.as_secs_f64();
    println!(
        "{name:16} {per_second:9.0}/s   batch p50 {:6.2} ms  p99 {:6.2} ms   \
         CPU {others:6} ns + writer {writer:6} ns",
        percentile(500),
        percentile(990),
    );
}
