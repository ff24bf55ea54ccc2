use super::*;

#[test]
fn equal_neighbours_share_one_specification() {
    let tasks = made(r#"[{"type":"a"},{"type":"a","parameters":1},{"type":"b"},{"type":"a"}]"#);
    assert!(Arc::ptr_eq(&tasks[0].spec, &tasks[1].spec));
    assert!(!Arc::ptr_eq(&tasks[1].spec, &tasks[2].spec));
    assert_eq!(tasks[0].spec, tasks[3].spec);
    assert_eq!(tasks[0].parameters, "{}");
    assert_eq!(tasks[1].parameters, "1");
}

#[test]
fn numbers_outside_their_range_are_refused_with_the_range() {
    check_refused(
        r#"[{"type":"a"},{"type":"a","priority":1001}]"#,
        "tasks[1].priority is 1001; it must be a whole number from -1000 to 1000",
    );
    check_refused(
        r#"[{"type":"a","retry":{"max_attempts":0}}]"#,
        "tasks[0].retry.max_attempts is 0; it must be a whole number from 1 to 1000",
    );
    check_refused(
        r#"[{"type":"a","timeout_ms":-1}]"#,
        "tasks[0].timeout_ms is -1; it must be a whole number from 1 to 2592000000",
    );
    check_refused(
        r#"[{"type":"a","lease_ttl_ms":9223372036854775807}]"#,
        "tasks[0].lease_ttl_ms is 9223372036854775807; it must be a whole number from 100 to \
         86400000",
    );
}

#[test]
fn texts_that_break_their_rule_are_refused_with_the_rule() {
    let rule = "must be 1 to 128 characters of A-Z a-z 0-9 _ - . : / @ +";
    check_refused(r#"[{"type":""}]"#, &format!("tasks[0].type {rule}"));
    check_refused(r#"[{"type":"a","queue":"a b"}]"#, &format!("tasks[0].queue {rule}"));
    check_refused(
        r#"[{"type":"a","requires":{"tools":["a b"]}}]"#,
        &format!("tasks[0].requires.tool {rule}"),
    );
    check_refused(
        r#"[{"type":"a","not_before":"soon"}]"#,
        "tasks[0].not_before is not a moment in RFC 3339, like 2026-01-31T12:00:00Z",
    );
    check_refused(r#"[{"type":"a","after":["x"]}]"#, "tasks[0].after names no task id");
    check_refused("[]", "tasks is empty; at least one task is needed");
}

#[test]
fn a_cap_shorter_than_the_pause_is_refused() {
    check_refused(
        r#"[{"type":"a","retry":{"backoff_ms":10,"backoff_max_ms":5}}]"#,
        "tasks[0].retry.backoff_max_ms must not be shorter than backoff_ms",
    );
    let tasks = made(r#"[{"type":"a","retry":{"backoff_max_ms":5}}]"#);
    assert_eq!(tasks[0].spec.retry.backoff, Duration::from_millis(5));
    let tasks = made(r#"[{"type":"a","retry":{"backoff_ms":90000}}]"#);
    assert_eq!(tasks[0].spec.retry.backoff_max, Duration::from_secs(90));
}

#[test]
fn the_fingerprint_covers_all_but_the_key() {
    let of = |text: &str| made(text)[0].idempotency.clone().expect("a mark").fingerprint;
    let first = of(r#"[{"type":"a","idempotency_key":"k","parameters":{"x":1}}]"#);
    assert_eq!(first, of(r#"[{"idempotency_key":"other","type":"a","parameters":{"x":1}}]"#));
    for other in [
        r#"[{"type":"b","idempotency_key":"k","parameters":{"x":1}}]"#,
        r#"[{"type":"a","idempotency_key":"k","parameters":{"x":2}}]"#,
        r#"[{"type":"a","idempotency_key":"k","parameters":{"x":1},"priority":1}]"#,
        r#"[{"type":"a","idempotency_key":"k","parameters":{"x":1},"queue":"q"}]"#,
        r#"[{"type":"a","idempotency_key":"k","parameters":{"x":1},
             "after":["50c3e51a-8512-8674-a1b6-07675936185d"]}]"#,
        r#"[{"type":"a","idempotency_key":"k","parameters":{"x":1},"concurrency_key":"q"}]"#,
    ] {
        assert_ne!(first, of(other), "{other}");
    }
}

fn parse(text: &str) -> Result<Vec<NewTask>, ApiError> {
    new_tasks(serde_json::from_str(text).expect("the documented type"))
}

fn made(text: &str) -> Vec<NewTask> {
    parse(text).expect("good tasks")
}

fn check_refused(text: &str, message: &str) {
    assert_eq!(parse(text).expect_err(text).message, message);
}
