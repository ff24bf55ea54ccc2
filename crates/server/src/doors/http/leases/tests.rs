use model::TaskId;

use crate::doors::http::leases::*;

#[test]
fn the_same_words_give_the_same_key() {
    let done = key_of(r#""outcome":"complete","result":{"a":1}"#);
    assert_eq!(done, key_of(r#""outcome":"complete","result":{"a":1}"#));
    assert_ne!(done, key_of(r#""outcome":"complete","result":{"a":2}"#));
    assert_ne!(done, key_of(r#""outcome":"complete"}"#.trim_end_matches('}')));
    let failed = key_of(r#""outcome":"fail","reason":"ab","code":"c""#);
    assert_ne!(failed, key_of(r#""outcome":"fail","reason":"a","code":"bc""#));
    assert_ne!(failed, key_of(r#""outcome":"fail","reason":"ab","code":"c","retryable":false"#));
    let detailed = key_of(r#""outcome":"fail","reason":"ab","code":"c","details":{"step":1}"#);
    assert_ne!(failed, detailed);
    assert_ne!(
        detailed,
        key_of(r#""outcome":"fail","reason":"ab","code":"c","details":{"step":2}"#)
    );
    // Reports without details keep the keys that stand in older tables.
    assert_eq!(failed, ReportKey(0x9917_8a93_1e04_a635_575d_03b7_1a4d_584d));
}

#[test]
fn a_report_id_stands_for_the_report() {
    let first = key_of(r#""outcome":"complete","result":1,"report_id":"r1""#);
    assert_eq!(first, key_of(r#""outcome":"complete","result":2,"report_id":"r1""#));
    assert_ne!(first, key_of(r#""outcome":"complete","result":1,"report_id":"r2""#));
    assert_ne!(first, key_of(r#""outcome":"complete","result":"r1""#));
}

#[test]
fn fields_of_the_other_outcome_are_refused() {
    let check = |fields: &str, message: &str| {
        assert_eq!(parse(fields).expect_err(fields).message, message);
    };
    check(
        r#""outcome":"complete","reason":"x""#,
        "reports[0].reason does not go with this outcome",
    );
    check(
        r#""outcome":"complete","details":1"#,
        "reports[0].details does not go with this outcome",
    );
    check(
        r#""outcome":"fail","reason":"x","result":1"#,
        "reports[0].result does not go with this outcome",
    );
    check(r#""outcome":"fail""#, "reports[0].reason is missing; a failed attempt says why");
    let long = "x".repeat(REASON_CHARS_MAX + 1);
    check(
        &format!(r#""outcome":"fail","reason":"{long}""#),
        "reports[0].reason is longer than 4096 characters",
    );
}

#[test]
fn a_lease_of_another_shard_is_foreign() {
    let lease_id = LeaseId { task: TaskId::of(shard(), 1), epoch: 1 };
    assert_eq!(lease(&lease_id.to_string(), shard()), Ok(lease_id));
    let other = ShardId::new(8).expect("fits");
    assert_eq!(lease(&lease_id.to_string(), other), Err(NoLease::Foreign));
    assert_eq!(lease("x", shard()), Err(NoLease::Malformed));
}

fn shard() -> ShardId {
    ShardId::new(7).expect("fits")
}

fn parse(fields: &str) -> Result<Vec<Judgeable>, ApiError> {
    let lease = LeaseId { task: TaskId::of(shard(), 1), epoch: 1 };
    let text = format!(r#"[{{"lease_id":"{lease}","worker_id":"w1",{fields}}}]"#);
    reports(serde_json::from_str(&text).expect("the documented type"), shard())
}

fn key_of(fields: &str) -> ReportKey {
    parse(fields).expect("a good report").remove(0).expect("a good lease").key
}
