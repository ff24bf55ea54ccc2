use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use coordinator::{Grant, Load};
use model::{Demand, LeaseId, RetryPolicy, ShardId, TaskId, TaskSpec, Timestamp};
use shard::projection::Publication;

use super::*;

#[test]
fn every_metric_of_the_table_is_exposed_and_no_other() {
    let metrics = busy_metrics();
    let text = metrics.render(&tenant("a")).expect("text");
    let exposed: BTreeSet<&str> = text
        .lines()
        .filter_map(|line| line.strip_prefix("# TYPE "))
        .filter_map(|line| line.split(' ').next())
        .collect();
    let table: BTreeSet<&str> =
        METRICS.iter().map(|row| row.name.trim_end_matches("_total")).collect();
    assert_eq!(exposed, table);
    for row in METRICS {
        let line = text.lines().find(|line| !line.starts_with('#') && line.starts_with(row.name));
        let line = line.unwrap_or_else(|| panic!("{} has a series", row.name));
        for label in row.labels {
            assert!(line.contains(&format!("{label}=\"")), "{line} has the label {label}");
        }
    }
}

#[test]
fn a_committed_report_is_measured_from_its_grant() {
    let text = busy_metrics().render(&tenant("a")).expect("text");
    let labels = r#"{tenant="a",node_type="core.echo"}"#;
    assert!(text.contains(&format!("cmd_dispatch_total{labels} 2\n")), "{text}");
    assert!(text.contains(&format!("result_latency_ms_sum{labels} 750.0\n")), "{text}");
    assert!(text.contains("cmd_retry_total{reason=\"failed\"} 1\n"), "{text}");
}

#[test]
fn a_tenant_sees_no_series_of_another() {
    let text = busy_metrics().render(&tenant("b")).expect("text");
    assert!(!text.contains("tenant=\"a\""), "{text}");
    assert!(text.contains("tenant=\"b\""), "{text}");
    assert!(text.contains("store_available 1\n") && text.ends_with("# EOF\n"), "{text}");
}

#[test]
fn types_beyond_the_limit_count_as_other() {
    let metrics = Metrics::default();
    let own = metrics.tenant(&tenant("a"));
    for number in 0..NODE_TYPES_PER_TENANT_MAX + 20 {
        let grant = grant(number as u64, &format!("t{number}"));
        own.observe_grants(&[grant], at(0));
    }
    let text = metrics.render(&tenant("a")).expect("text");
    let series = text.lines().filter(|line| line.starts_with("cmd_dispatch_total")).count();
    assert_eq!(series, NODE_TYPES_PER_TENANT_MAX + 1);
    assert!(text.contains(r#"cmd_dispatch_total{tenant="a",node_type="other"} 20"#), "{text}");
}

fn busy_metrics() -> Metrics {
    let metrics = Metrics::default();
    let tenant_a = tenant("a");
    let own = metrics.tenant(&tenant_a);
    own.observe_grants(&[grant(1, "core.echo"), grant(2, "core.echo")], at(1_000));
    let mut turn = Publication { at: at(1_375), n_facts: 3, ..Publication::default() };
    turn.numbers.failed = 1;
    turn.numbers.ended = vec![(task(1), true), (task(2), true)];
    own.observe_turn(&turn, Duration::from_micros(900));
    metrics.observe_request("/api/v1/tasks", 201, Duration::from_millis(1));
    metrics.set_store_available(true);
    let ws = metrics.ws(&tenant_a);
    ws.connected();
    ws.count_bytes(&mut 100, &mut 50);
    ws.missed_heartbeat("w1");
    ws.answered_after(Duration::from_millis(3));
    let load = Load { live: 3, ready: 2, in_flight: 1 };
    let turn = Publication { load, ..Publication::default() };
    metrics.tenant(&tenant("b")).observe_turn(&turn, Duration::ZERO);
    let worker = WorkerView {
        drain: None,
        drained_by: [].into(),
        worker: "w1".parse().expect("name"),
        health: WorkerHealth::Warn,
        last_seen: at(0),
        in_flight: 0,
        granted: 0,
        is_asking: false,
        offer: Arc::default(),
        verified: [].into(),
    };
    metrics.set_workers(&tenant_a, &[worker]);
    metrics.set_known(&tenant_a, "ws", SessionCounts { known: 2, evicted: 1 });
    metrics
}

fn grant(number: u64, task_type: &str) -> Grant {
    let demand = Demand {
        queue: "default".parse().expect("name"),
        task_type: task_type.parse().expect("name"),
        tools: BTreeSet::new(),
        tags: BTreeMap::new(),
        package: None,
    };
    let spec = TaskSpec {
        demand,
        priority: 0,
        lease_ttl: Duration::from_secs(30),
        timeout: None,
        retry: RetryPolicy::default(),
    };
    Grant {
        run: None,
        concurrency_key: None,
        link: None,
        chain: None,
        fact: None,
        lease: LeaseId { task: task(number), epoch: 1 },
        attempt: 1,
        spec: Arc::new(spec),
        parameters: Bytes::from_static(b"{}"),
        expires_at: at(31_000),
        heartbeat_every: Duration::from_secs(10),
    }
}

fn task(number: u64) -> TaskId {
    TaskId::of(ShardId::new(0).expect("fits"), number)
}

fn tenant(name: &str) -> TenantId {
    name.parse().expect("name")
}

fn at(millis: u64) -> Timestamp {
    Timestamp::from_millis(millis)
}
