//! How long it takes to read the frames of which there are most: the envelope, and what it says.
//!
//! `cargo run --release -p protocol --example decode_bench`

use std::hint::black_box;
use std::time::{Duration, Instant};

use protocol::session::envelope::Reader;
use protocol::session::kind::{Kind, Payload};

const GOLDENS: [(&str, &str); 6] = [
    ("dispatch", include_str!("../testdata/session/prefixed-exec.dispatch.json")),
    ("result", include_str!("../testdata/session/prefixed-exec.result.json")),
    ("verdict", include_str!("../testdata/session/prefixed-exec.verdict.json")),
    ("heartbeat", include_str!("../testdata/session/prefixed-heartbeat.json")),
    ("ack", include_str!("../testdata/session/prefixed-ack.json")),
    ("cancel", include_str!("../testdata/session/prefixed-exec.cancel.json")),
];

fn main() {
    for (name, text) in GOLDENS {
        let mut reader = Reader::default();
        let frame = reader.read_text(text).expect("a good frame");
        let kind = Kind::from_name(&frame.kind).expect("a known kind");
        let envelope = nanoseconds(|| drop(black_box(reader.read_text(black_box(text)))));
        let payload =
            nanoseconds(|| drop(black_box(Payload::decode(kind, black_box(&frame.payload)))));
        println!("{name:10} envelope {envelope:7.0} ns   payload {payload:7.0} ns");
    }
}

/// The best of many rounds: others use the machine as well.
fn nanoseconds(mut decode: impl FnMut()) -> f64 {
    const TIMES: u32 = 2_000;
    let mut best = Duration::MAX;
    for _ in 0..200 {
        let started = Instant::now();
        (0..TIMES).for_each(|_| decode());
        best = best.min(started.elapsed());
    }
    best.as_secs_f64() * 1e9 / f64::from(TIMES)
}
