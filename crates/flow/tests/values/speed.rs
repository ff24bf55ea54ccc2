//! How long it takes: `cargo test --release -p flow --test values speed -- --nocapture`.

use std::hint::black_box;
use std::time::{Duration, Instant};

use bytes::Bytes;
use flow::{Expression, Parameters, Step};
use serde_json::{Value, json};

use crate::world::{World, step, wire};

const ROUNDS: u32 = 500;
const SERIES: u32 = 20;

/// A busy machine and a build without optimisation are slower; what grows with the run is slower
/// by far more.
const PATIENCE: u32 = 20;

/// The best of some series: what it takes when nobody else wants the processor.
fn time(name: &str, most: Duration, mut work: impl FnMut()) {
    let series = (0..SERIES).map(|_| {
        let began = Instant::now();
        (0..ROUNDS).for_each(|_| work());
        began.elapsed() / ROUNDS
    });
    let took = series.min().expect("there are some series");
    println!("{name:<28} {took:>10.1?}   (wanted: {most:?})");
    assert!(took < most * PATIENCE, "{name} takes {took:?}");
}

#[test]
fn filling_in_is_quick() {
    // A run with many nodes and large results, of which little is looked at.
    let mut nodes = serde_json::Map::new();
    for place in 0..1000 {
        let results = json!({"url": "http://example.org/a", "n": 5, "list": [1, 2, 3], "rest": {"a": "b".repeat(1000)}});
        nodes.insert(format!("node{place:04}"), json!({"status": "succeeded", "results": results}));
    }
    let large: Vec<Value> = (0..10_000).map(|n| json!({"n": n})).collect();
    nodes.insert(
        "a_large".to_owned(),
        json!({"status": "succeeded", "results": {"rows": large, "n": 1}}),
    );
    let world = World::new(Value::Object(nodes));
    let authored = json!({"method": "GET", "timeout": 30, "headers": {"accept": "text/html"}});

    let fill = |step: &Step| world.ask(|scope| flow::fill(step, scope)).unwrap();
    let filled = |name: &str, most: u64, step: &Step| {
        time(name, Duration::from_nanos(most), || drop(black_box(fill(black_box(step)))));
    };
    let text = |text: &str| {
        let mut authored = authored.clone();
        authored["url"] = Value::from(text);
        Step { references: vec![1, 0, 3], ..world.step(authored) }
    };

    let plain = Parameters::Plain(Bytes::from(authored.to_string()));
    filled("plain", 100, &step(0, plain));
    let wires = vec![wire(1, "results.url", "url"), wire(2, "results.n", "headers.n")];
    filled("two wires", 5_000, &Step { wires, ..world.step(authored.clone()) });
    filled("a path", 10_000, &text("{{ nodes.node0000.results.url }}"));
    filled("a path of a large result", 10_000, &text("{{ nodes.a_large.results.n }}"));
    filled(
        "a text with two paths",
        10_000,
        &text("{{ nodes.node0000.results.url }}?n={{ nodes.node0002.results.n }}"),
    );
    filled("an expression", 10_000, &text("{{ nodes.node0000.results.n + 1 }}"));
    filled("a filter", 15_000, &text("{{ nodes.node0000.results.url|upper|default('x') }}"));
    let source = "nodes.node0000.results.n > 3 and nodes.node0000.status == 'succeeded'".to_owned();
    let when = Expression { source, references: vec![1] };
    time("a condition", Duration::from_micros(10), || {
        let _ = black_box(world.ask(|scope| flow::says_yes(black_box(&when), scope)));
    });
}
