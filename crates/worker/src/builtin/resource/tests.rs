use super::*;
use crate::builtin::Builtin;
use crate::core::executor::{Assignment, Executor};
use crate::resources::Limits;

const HELLO: &str = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824";

#[tokio::test]
async fn a_file_is_left_behind_and_can_be_looked_at() {
    let data = tempfile::tempdir().expect("folder");
    let resources = Registry::open(data.path(), "w1", Limits::default());
    let resources = Arc::new(resources.expect("opens"));
    let outcome = run("core.file", r#"{"text":"hello","scope":"s"}"#, Some(&resources)).await;
    let Outcome::Completed { result, extra: Some(extra) } = outcome else { panic!("{outcome:?}") };
    let result: serde_json::Value = serde_json::from_str(result.get()).expect("JSON");
    assert_eq!((&result["sha256"], &result["sizeBytes"]), (&json!(HELLO), &json!(5)));
    assert_eq!(result["resourceRef"]["workerName"], "w1");
    let id = result["resourceRef"]["resourceId"].as_str().expect("a name");
    let artifact = &extra.artifacts[0];
    assert_eq!((artifact.resource_id.as_str(), artifact.size_bytes), (id, Some(5)));
    assert_eq!((artifact.inline, resources.list().len()), (Some(false), 1));
    let parameters = json!({ "resourceRef": result["resourceRef"] }).to_string();
    let looked = run("core.read_resource", &parameters, Some(&resources)).await;
    let Outcome::Completed { result, .. } = looked else { panic!("{looked:?}") };
    assert_eq!(result.get(), json!({ "sizeBytes": 5, "sha256": HELLO }).to_string());
}

#[tokio::test]
async fn so_many_bytes_are_the_same_ones_each_time() {
    let data = tempfile::tempdir().expect("folder");
    let resources = Registry::open(data.path(), "w1", Limits::default());
    let resources = Arc::new(resources.expect("opens"));
    let mut digests = Vec::new();
    for bytes in [100_000, 100_000, 100_001] {
        let parameters = json!({ "bytes": bytes }).to_string();
        let outcome = run("core.file", &parameters, Some(&resources)).await;
        let Outcome::Completed { result, .. } = outcome else { panic!("{outcome:?}") };
        let result: serde_json::Value = serde_json::from_str(result.get()).expect("JSON");
        assert_eq!(result["sizeBytes"], bytes);
        digests.push(result["sha256"].clone());
    }
    assert_eq!(digests[0], digests[1]);
    assert_ne!(digests[0], digests[2]);
}

#[tokio::test]
async fn what_is_not_here_is_a_failure_at_once() {
    let data = tempfile::tempdir().expect("folder");
    let resources = Registry::open(data.path(), "w1", Limits::default());
    let resources = Arc::new(resources.expect("opens"));
    let parameters = r#"{"resourceRef":{"resourceId":"gone"}}"#;
    for (name, parameters, resources, code) in [
        ("core.read_resource", parameters, Some(&resources), RESOURCE_MISSING),
        ("core.read_resource", parameters, None, RESOURCE_MISSING),
        ("core.read_resource", "{}", Some(&resources), PARAMETERS_INVALID),
        ("core.file", "{}", Some(&resources), PARAMETERS_INVALID),
        ("core.file", r#"{"text":"a","bytes":1}"#, Some(&resources), PARAMETERS_INVALID),
        ("core.file", r#"{"bytes":1073741825}"#, Some(&resources), PARAMETERS_INVALID),
    ] {
        match run(name, parameters, resources).await {
            Outcome::Failed { code: said, retryable: false, .. } => assert_eq!(said, code),
            other => panic!("{name} {parameters}: {other:?}"),
        }
    }
}

async fn run(name: &str, parameters: &str, resources: Option<&Arc<Registry>>) -> Outcome {
    let assignment = Assignment {
        lease_id: "l".into(),
        task_id: "t".into(),
        attempt: 1,
        task_type: name.into(),
        parameters: RawValue::from_string(parameters.into()).expect("JSON"),
    };
    let context = Context { resources: resources.cloned(), ..Context::detached() };
    Builtin.execute(assignment, context).await
}
