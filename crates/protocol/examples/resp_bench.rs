//! What one core spends on the Redis protocol: reading pipelined requests and writing replies.
//!
//! `cargo run --release -p protocol --example resp_bench [seconds]`

use std::hint::black_box;
use std::time::{Duration, Instant};

use bytes::BytesMut;
use protocol::resp::client::encode_request;
use protocol::resp::reply::{write_bulk, write_integer, write_ok};
use protocol::resp::request::{Limits, RequestReader};

const SECONDS_DEFAULT: u64 = 1;
const PIPELINE: u32 = 16;
const ROUNDS: u32 = 100;
const LIMITS: Limits =
    Limits { arguments_max: 1024, argument_bytes_max: 1 << 20, request_bytes_max: 1 << 21 };

fn main() {
    let seconds = std::env::args().nth(1).and_then(|text| text.parse().ok());
    let span = Duration::from_secs(seconds.unwrap_or(SECONDS_DEFAULT));
    for arguments in [&["PING"][..], &["GET", "job:12345"], &["SET", "job:12345:status", "done"]] {
        let n_arguments = u32::try_from(arguments.len()).expect("there are three at most");
        let per_round = PIPELINE * n_arguments;
        report(&format!("read {arguments:?}, per argument"), span, per_round, reading(arguments));
    }
    let mut out = BytesMut::with_capacity(1024);
    report("write a reply", span, 3, || {
        out.clear();
        write_ok(&mut out);
        write_integer(&mut out, black_box(12_345));
        write_bulk(&mut out, black_box(b"some value"));
    });
}

/// A round copies the pipeline into a fresh place, as a socket would, and reads it.
fn reading(arguments: &[&str]) -> impl FnMut() {
    let mut wire = BytesMut::new();
    for _ in 0..PIPELINE {
        encode_request(&mut wire, arguments);
    }
    let mut reader = RequestReader::new(LIMITS);
    let mut buffer = BytesMut::new();
    move || {
        buffer.reserve(64 * 1024);
        buffer.extend_from_slice(&wire);
        while let Ok(Some(request)) = reader.next(&mut buffer) {
            black_box(request);
        }
    }
}

/// Tells the best of many short runs, which is what the work costs when nobody else has the core.
fn report(what: &str, span: Duration, per_round: u32, mut round: impl FnMut()) {
    let started = Instant::now();
    let mut best = Duration::MAX;
    while started.elapsed() < span {
        let run = Instant::now();
        (0..ROUNDS).for_each(|_| round());
        best = best.min(run.elapsed());
    }
    let nanos = best.as_nanos() / u128::from(ROUNDS * per_round);
    println!("{what}: {nanos} ns");
}
