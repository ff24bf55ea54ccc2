use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use model::{Demand, RetryPolicy, ShardId, TaskId, TaskSpec};
use protocol::rest::leases::GrantedLeases;

use super::*;

#[test]
fn a_hand_written_answer_reads_back_as_its_type() {
    let grants: Vec<Grant> = (1..=3).map(grant).collect();
    let body = granted_leases(&grants);
    let read: GrantedLeases = serde_json::from_slice(&body).expect("the documented type");
    assert_eq!(serde_json::to_vec(&read).expect("JSON"), body, "the same fields in the same order");
    for (lease, grant) in read.leases.iter().zip(&grants) {
        assert_eq!(lease.lease_id, grant.lease.to_string());
        assert_eq!(lease.task_id, grant.lease.task.to_string());
        assert_eq!(lease.attempt, grant.attempt);
        assert_eq!(lease.task_type, "core.echo");
        assert_eq!(lease.parameters.get().as_bytes(), grant.parameters);
        assert_eq!(lease.expires_at, grant.expires_at.to_string());
        assert_eq!(lease.heartbeat_ms, 10_000);
    }
}

#[test]
fn no_leases_are_an_empty_list() {
    assert_eq!(granted_leases(&[]), br#"{"leases":[]}"#);
}

fn grant(number: u64) -> Grant {
    let demand = Demand {
        queue: "default".parse().expect("name"),
        task_type: "core.echo".parse().expect("name"),
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
    let shard = ShardId::new(1).expect("fits");
    Grant {
        run: None,
        concurrency_key: None,
        link: None,
        chain: None,
        fact: None,
        lease: LeaseId { task: TaskId::of(shard, number), epoch: 7 },
        attempt: 2,
        spec: Arc::new(spec),
        parameters: Bytes::from(format!("{{\"n\": [{number}, \"\\\"\"]}}")),
        expires_at: Timestamp::from_millis(1_790_000_000_000 + number / 3),
        heartbeat_every: Duration::from_secs(10),
    }
}
