use serde_json::json;

use super::*;

#[test]
fn jobs_of_all_servers_become_plans() {
    let tasks = json!([{ "task_number": 1, "command": "sort" }]);
    check(&json!({ "job_id": "j", "plan_id": "p", "tasks": tasks }), "j p sort");
    check(&json!({ "id": "i", "plan": { "plan_id": "p", "tasks": tasks } }), "i p sort");
    check(&json!({ "id": "i", "plan_id": "x".repeat(128), "command": "cat" }), "i job cat");
    check(&json!({ "job_id": "j", "id": "i", "tasks": tasks, "command": "cat" }), "j job sort");
    check(&json!({ "job_id": 7, "command": "cat", "unknown": {} }), "7 job cat");
}

#[test]
fn inputs_of_all_servers_are_found() {
    input(&json!({ "input": "text" }), Some("\"text\""));
    input(&json!({ "inputs": [{ "a": 1 }] }), Some("{\"a\":1}"));
    input(&json!({ "inputs": [1, 2] }), Some("[1,2]"));
    input(&json!({ "inputs": { "a": 1 } }), Some("{\"a\":1}"));
    input(&json!({ "input": null, "inputs": [] }), None);
}

#[test]
fn what_is_no_plan_says_why_and_keeps_its_name() {
    for (body, why) in [
        (json!({ "job_id": "j" }), "neither tasks nor a command"),
        (json!({ "job_id": "j", "tasks": "sort" }), "the job cannot be read"),
        (json!({ "job_id": "j", "plan_id": "p", "command": 1 }), "the job cannot be read"),
    ] {
        let job = read(&body);
        let error = job.plan.expect_err("no plan");
        assert!(job.id == "j" && error.contains(why), "{error}");
    }
    assert!(Draft::read(b"{\"a\":1}", None).is_none(), "nobody could be told about it");
    assert!(Draft::read(b"no JSON", None).is_none());
}

#[test]
fn a_plan_that_is_only_named_is_asked_for() {
    let body = json!({ "job_id": "j", "plan_id": "p", "attempt": 2, "timeout_secs": 9 });
    let draft = draft(&body);
    assert_eq!(draft.missing_plan(), Some("p"));
    let plan = json!({ "plan_id": "p", "tasks": [{ "task_number": 1, "command": "wc" }] });
    let job = draft.finish(Claim::Leased(None), Some(Ok(plan.to_string().into())));
    assert_eq!(job.plan.as_ref().expect("a plan").tasks[0].command, "wc");
    assert_eq!((job.attempt, job.time), (2, Some(Duration::from_secs(9))));
    let job = super::tests::draft(&body).finish(Claim::Leased(None), Some(Ok("[]".into())));
    assert!(job.plan.expect_err("no plan").contains("the plan of the job cannot be read"));
}

fn check(body: &Value, expected: &str) {
    let job = read(body);
    let plan = job.plan.expect("a plan");
    assert_eq!(format!("{} {} {}", job.id, plan.plan_id, plan.tasks[0].command), expected);
}

fn read(body: &Value) -> Job {
    draft(body).finish(Claim::Leased(None), None)
}

fn draft(body: &Value) -> Draft {
    Draft::read(body.to_string().as_bytes(), None).expect("it has a name")
}

fn input(more: &Value, expected: Option<&str>) {
    let mut body = json!({ "job_id": "j", "command": "cat" });
    let fields = more.as_object().expect("an object").clone();
    body.as_object_mut().expect("an object").extend(fields);
    let plan = read(&body).plan.expect("a plan");
    assert_eq!(plan.input.as_ref().map(|input| input.get()), expected, "{more}");
}

#[test]
fn documents_are_read_whole_and_field_by_field() {
    let bulks = |items: &[&'static str]| Reply::array(items.iter().copied());
    check_lookup(&Reply::from("{}"), Some("{}"));
    let fields = bulks(&["plan_id", "7", "input", r#"{"a":1}"#]);
    check_lookup(&fields, Some(r#"{"input":{"a":1},"plan_id":"7"}"#));
    let plain = bulks(&["input", "two words"]);
    check_lookup(&plain, Some(r#"{"input":"two words"}"#));
    for nothing in [Reply::Null, Reply::NullArray, bulks(&[]), Reply::error("ERR x")] {
        check_lookup(&nothing, None);
    }
}

fn check_lookup(reply: &Reply, expected: Option<&str>) {
    assert_eq!(document(reply).as_deref(), expected.map(str::as_bytes), "{reply:?}");
}
