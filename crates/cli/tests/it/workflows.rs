//! `astra flow` and what `astra run` knows of workflows, against a real server and a real worker.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::support::{Ended, Site, until_line};

#[test]
fn every_example_ends_as_it_says() {
    let site = Site::with_worker();
    let expected = json_of(&examples().join("expected.json"));
    for (file, expected) in expected.as_object().expect("by file") {
        let run = run_example(&site, file, expected);
        assert_eq!(run["status"], expected["status"], "{file}: {run}");
        assert_eq!(run["outputs"], expected["outputs"], "{file}: {run}");
        for (alias, status) in expected["nodes"].as_object().expect("by alias") {
            let nodes = run["nodes"].as_array().expect("nodes");
            let mut found = nodes.iter().filter(|node| node["alias"] == **alias).peekable();
            assert!(found.peek().is_some(), "{file}: no node {alias}");
            assert!(found.all(|node| node["status"] == *status), "{file}: {alias}: {run}");
        }
    }
    let files = std::fs::read_dir(examples()).expect("a folder").filter_map(Result::ok);
    let files = files.map(|file| file.path());
    let workflows = files.filter(|path| path.extension().is_some_and(|end| end == "json"));
    let n_files = workflows.count();
    assert_eq!(n_files, expected.as_object().map_or(0, serde_json::Map::len) + 1, "one is it");
}

/// Starts an example, answers what it waits for, and gives the run at its end.
fn run_example(site: &Site, file: &str, expected: &Value) -> Value {
    let path = examples().join(file);
    let inputs: Vec<String> = expected["inputs"]
        .as_object()
        .into_iter()
        .flatten()
        .flat_map(|(name, value)| ["-i".to_owned(), format!("{name}={value}")])
        .collect();
    let mut words = vec!["flow", "run", path.to_str().expect("text"), "-d", "-o", "quiet"];
    words.extend(inputs.iter().map(String::as_str));
    let number = site.run(&words).with_code(0).text().to_owned();
    for signal in expected["signals"].as_array().into_iter().flatten() {
        send(site, &number, signal);
    }
    let ended = site.run(&["run", "wait", &number, "-o", "json"]);
    serde_json::from_slice(&ended.stdout).expect("JSON")
}

/// Sends a signal as soon as the node waits for it.
fn send(site: &Site, number: &str, signal: &Value) {
    let mut words = vec!["run", "signal", number, signal["node"].as_str().expect("a node")];
    if signal["approved"] == true {
        words.push("--approve");
    }
    if let Some(event) = signal["event"].as_str() {
        words.extend(["--event", event]);
    }
    let payload = signal["payload"].to_string();
    if !signal["payload"].is_null() {
        words.extend(["--payload", &payload]);
    }
    words.extend(["-o", "quiet"]);
    site.until(&words, |said| said.trim() == number);
}

#[test]
fn a_run_is_told_node_by_node_and_gives_its_outputs() {
    let site = Site::with_worker();
    let diamond = examples().join("diamond.json");
    let ended = site.run(&["flow", "run", diamond.to_str().expect("text")]).with_code(0);
    let outputs: Value = serde_json::from_slice(&ended.stdout).expect("JSON alone on stdout");
    assert_eq!(outputs, json!({"text": "12.0 °C on average, between 9 and 16"}));
    assert!(ended.stderr.starts_with("run 1 · Weather report · 4 nodes\n"), "{}", ended.stderr);
    for name in ["measure", "average", "extremes", "report"] {
        let line = |line: &str| line.contains(&format!("✓ {name}")) && line.contains("Succeeded");
        assert!(ended.stderr.lines().any(line), "{name}: {}", ended.stderr);
    }
    assert!(ended.stderr.contains("✓ run 1 succeeded in "), "{}", ended.stderr);
    assert!(!ended.stderr.contains('\x1b'), "no colours without a terminal");
    let shown = site.run(&["run", "show", "last"]).with_code(0);
    assert!(shown.text().contains("✓ Succeeded  run 1  Weather report"), "{}", shown.text());
    let listed = site.run(&["run", "list", "-o", "quiet"]).with_code(0);
    assert_eq!(listed.text(), "1");
}

#[test]
fn a_workflow_with_problems_is_refused_with_all_of_them() {
    let site = Site::new();
    let path = site.work().join("bad.json");
    let mut workflow = json_of(&examples().join("diamond.json"));
    workflow["nodes"][1]["parameters"]["value"] = json!("{{ nodes.nobody.results.x }}");
    workflow["nodes"][2]["id"] = json!("no-uuid");
    std::fs::write(&path, workflow.to_string()).expect("written");
    let path = path.to_str().expect("text");
    for words in [["flow", "validate", path], ["flow", "run", path]] {
        let ended = site.run(&words).with_code(7);
        let said = format!("{}{}", String::from_utf8_lossy(&ended.stdout), ended.stderr);
        assert!(said.contains("nobody") && said.contains("no-uuid"), "{words:?}: {said}");
        assert!(said.contains("/nodes/1/parameters/value"), "{words:?}: {said}");
    }
    let ended = site.run(&["flow", "run", path, "-o", "json"]).with_code(7);
    let refusal: Value = serde_json::from_slice(&ended.stdout).expect("JSON");
    assert_eq!(refusal["error"]["code"], "E.FLOW.INVALID");
    assert!(refusal["error"]["problems"].as_array().is_some_and(|all| all.len() >= 2), "{refusal}");
}

#[test]
fn a_failed_run_is_taken_up_again_and_compared() {
    let site = Site::with_worker();
    let path = site.work().join("flow.json");
    let mut workflow = json_of(&examples().join("linear.json"));
    workflow["nodes"][1]["type"] = json!("core.fail");
    workflow["nodes"][1]["parameters"] = json!({"reason": "no luck", "retryable": false});
    std::fs::write(&path, workflow.to_string()).expect("written");
    let path = path.to_str().expect("text");
    let failed = site.run(&["flow", "run", path]).with_code(1);
    assert!(failed.stderr.contains("✗ run 1 failed: wait: no luck"), "{}", failed.stderr);
    let again = site.run(&["run", "retry", "1", "-p", "wait.times=0"]).with_code(0);
    assert!(again.stderr.contains("run 2 takes up run 1"), "{}", again.stderr);
    assert!(again.stderr.contains("reused from the run before"), "{}", again.stderr);
    let diff = site.run(&["run", "diff", "1", "2", "-o", "json"]).with_code(0);
    let diff: Value = serde_json::from_slice(&diff.stdout).expect("JSON");
    let wait = &diff["nodes"][1];
    assert_eq!(
        (&wait["a"]["status"], &wait["b"]["status"]),
        (&json!("failed"), &json!("succeeded"))
    );
    let explained = site.run(&["explain", "1/wait"]).with_code(0);
    assert!(explained.text().starts_with("run 1 · node wait · Failed"), "{}", explained.text());
    for (run, why) in [
        ("1", "node wait · Failed\n\n  it has failed: no luck (E.RUNNER.FAILURE)"),
        ("2", "run 2 · Greeting · ✓ Succeeded\n\n  no node of it waits for anything"),
    ] {
        let explained = site.run(&["explain", run]).with_code(0);
        assert!(explained.text().contains(why), "{}", explained.text());
    }
}

#[test]
fn ctrl_c_leaves_a_run_alone() {
    let site = Site::with_worker();
    let approval = examples().join("approval.json");
    let (process, _stdout) = site.start(&["flow", "run", approval.to_str().expect("text")]);
    until_line(&mut process.stderr(), "astra run signal 1 approve --approve");
    process.signal(rustix::process::Signal::INT);
    let (status, _, said) = process.end();
    assert_eq!(status.code(), Some(130), "{said}");
    assert_eq!(site.run(&["run", "show", "1", "-o", "quiet"]).with_code(0).text(), "running");
    site.run(&["run", "signal", "1", "approve", "--deny"]).with_code(0);
    let ended = site.run(&["run", "follow", "1"]).with_code(1);
    assert!(ended.stderr.contains("said no"), "{}", ended.stderr);
}

#[test]
fn workflows_are_kept_with_their_versions() {
    let site = Site::new();
    let (linear, path) = (examples().join("linear.json"), site.work().join("linear.json"));
    let source = std::fs::read_to_string(linear).expect("text");
    std::fs::write(&path, &source).expect("written");
    let import = |words: &[&str]| site.run(&[&["flow", "import", "linear.json"], words].concat());
    import(&[]).with_code(0);
    std::fs::write(&path, source.replace("Send it", "Send it now")).expect("written");
    import(&["--base-version", "1"]).with_code(0);
    std::fs::write(&path, source.replace("Send it", "Send it later")).expect("written");
    import(&["--base-version", "1"]).with_code(6);
    let exported = site.run(&["flow", "export", "greeting", "--version", "1"]).with_code(0);
    assert_eq!(exported.text(), source.trim_end(), "as authored, byte for byte");
    let diff = site.run(&["flow", "diff", "greeting"]).with_code(0);
    assert!(diff.text().contains("label: \"Send it\" → \"Send it now\""), "{}", diff.text());
    site.run(&["flow", "rollback", "greeting", "1"]).with_code(0);
    assert_eq!(site.run(&["flow", "versions", "greeting", "-o", "quiet"]).text(), "3\n2\n1");
    site.run(&["flow", "rm", "greeting"]).with_code(0);
    site.run(&["flow", "export", "greeting"]).with_code(3);
}

#[test]
fn the_guide_shows_workflows_that_can_run() {
    let guide = repository().join("docs/guides/workflows.md");
    let guide = std::fs::read_to_string(guide).expect("text");
    let blocks = guide.split("```json\n").skip(1).filter_map(|rest| rest.split("```").next());
    let workflows: Vec<&str> = blocks.filter(|block| block.contains("\"nodes\"")).collect();
    assert!(!workflows.is_empty());
    let site = Site::new();
    for workflow in workflows {
        std::fs::write(site.work().join("guide.json"), workflow).expect("written");
        let said: Ended = site.run(&["flow", "validate", "guide.json"]);
        assert_eq!(said.with_code(0).text(), "guide.json: ✓ valid");
    }
}

fn json_of(path: &Path) -> Value {
    serde_json::from_str(&std::fs::read_to_string(path).expect("text")).expect("JSON")
}

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn examples() -> PathBuf {
    repository().join("examples/workflows")
}
