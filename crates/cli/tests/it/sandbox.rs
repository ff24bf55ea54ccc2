//! What holds programs: real programs, the real launcher, the real kernel.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;
use worker::core::executor::{Assignment, Context, Outcome};
use worker::runner::command::{CommandRunner, Options};
use worker::sandbox::cell::{Sandbox, SandboxError};
use worker::sandbox::profile::{Level, Profile};

#[tokio::test]
async fn a_program_has_a_folder_of_its_own_that_is_gone_afterwards() {
    for level in [Level::Basic, Level::Strict] {
        let script = "pwd; echo $TMPDIR; echo $HOME; echo x > file; cat file; mktemp";
        let said = stdout(level, script).await;
        let lines: Vec<_> = said.lines().collect();
        assert_eq!((lines[0], lines[1], lines[3]), (lines[1], lines[2], "x"), "{said}");
        assert!(lines[4].starts_with(lines[0]), "{said}");
        assert!(!Path::new(lines[0]).exists(), "{said} remains");
        assert!(!Path::new(lines[0]).parent().expect("inside").exists(), "{said} remains");
    }
}

#[tokio::test]
async fn limits_are_set_and_rights_are_given_up() {
    let script = "ulimit -c; ulimit -n; ulimit -f; ulimit -v; ulimit -t; \
                  grep NoNewPrivs /proc/self/status";
    let profile = Profile { memory_bytes: 1 << 30, ..profile(Level::Basic) };
    let parameters = json!({"argv": ["sh", "-c", script], "timeout_ms": 5000});
    let (outcome, result) = run(profile, &parameters).await;
    assert_eq!(outcome, "completed", "{result}");
    let said = result["stdout"].as_str().expect("text");
    let lines: Vec<_> = said.lines().collect();
    assert_eq!(&lines[..4], ["0", "1024", "2097152", "1048576"], "{said}");
    let cpu_seconds: u64 = lines[4].parse().expect("a number");
    assert!((16..6 * 1024).contains(&cpu_seconds), "{said}");
    assert_eq!(lines[5].split_whitespace().last(), Some("1"), "{said}");
}

#[tokio::test]
async fn only_the_strict_sandbox_hides_files() {
    let reads = ["cat", "/etc/passwd"];
    let (outcome, _) = run(profile(Level::Basic), &json!({ "argv": reads })).await;
    assert_eq!(outcome, "completed");
    let (outcome, _) = run(profile(Level::Strict), &json!({ "argv": reads })).await;
    assert_eq!(
        outcome,
        "E.RUNNER.EXIT again: the program exited with code 1: cat: /etc/passwd: Permission denied"
    );
    let shown = Profile { read_only: vec!["/etc/passwd".into()], ..profile(Level::Strict) };
    let (outcome, _) = run(shown, &json!({ "argv": reads })).await;
    assert_eq!(outcome, "completed");
}

#[tokio::test]
async fn the_strict_sandbox_writes_where_it_may_only() {
    let outside = Outside::new();
    let file = outside.path("file");
    let write = json!({"argv": ["sh", "-c", format!("echo x > {}", file.display())]});
    for read_only in [vec![], vec![outside.folder.path().to_owned()]] {
        let (outcome, _) = run(Profile { read_only, ..profile(Level::Strict) }, &write).await;
        assert!(outcome.contains("Permission denied"), "{outcome}");
        assert!(!file.exists());
    }
    let read_write = vec![outside.folder.path().to_owned()];
    let (outcome, _) = run(Profile { read_write, ..profile(Level::Strict) }, &write).await;
    assert_eq!(outcome, "completed");
    assert_eq!(std::fs::read_to_string(&file).expect("written"), "x\n");
    // What can be written can also be cut, and what cannot be written cannot.
    let cut = json!({"argv": ["truncate", "-s", "0", file]});
    let (outcome, _) = run(profile(Level::Strict), &cut).await;
    assert!(outcome.starts_with("E.RUNNER.EXIT"), "{outcome}");
    assert_eq!(std::fs::read_to_string(&file).expect("written"), "x\n");
}

#[tokio::test]
async fn tools_of_the_system_work_in_the_strict_sandbox() {
    let script = "seq 100000 | sort -R --parallel=4 | sort -n | uniq | awk '{n += $1} END {print n / 100000}' \
                  > sum; cat sum; echo hidden > /dev/null; head -c 4 /dev/urandom | wc -c; \
                  echo err > /dev/stderr; (echo child)";
    assert_eq!(stdout(Level::Strict, script).await, "50000.5\n4\nchild\n");
}

#[tokio::test]
async fn dangerous_calls_are_refused_in_the_strict_sandbox() {
    for script in ["unshare -U true", "unshare -m true"] {
        let (outcome, _) =
            run(profile(Level::Strict), &json!({"argv": ["sh", "-c", script]})).await;
        assert!(outcome.contains("Operation not permitted"), "{script}: {outcome}");
    }
}

#[tokio::test]
async fn others_cannot_be_signalled_from_the_strict_sandbox() {
    let script = format!("kill -0 {}", std::process::id());
    let (outcome, _) = run(profile(Level::Strict), &json!({"argv": ["sh", "-c", script]})).await;
    assert!(outcome.contains("Operation not permitted"), "{outcome}");
}

#[tokio::test]
async fn the_network_is_away_if_it_is_not_wanted() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("bound");
    let port = listener.local_addr().expect("bound").port();
    let script = format!("exec 3<>/dev/tcp/127.0.0.1/{port} && echo connected");
    let connect = json!({"argv": ["bash", "-c", script]});
    let (outcome, result) = run(profile(Level::Strict), &connect).await;
    assert_eq!((outcome.as_str(), &result["stdout"]), ("completed", &json!("connected\n")));
    let no_network = Profile { no_network: true, ..profile(Level::Strict) };
    let (outcome, result) = run(no_network, &connect).await;
    assert!(outcome.contains("Operation not permitted"), "{outcome}");
    assert_eq!(result["stdout"], "");
}

#[tokio::test]
async fn a_program_that_does_not_start_is_told_as_without_a_sandbox() {
    let outside = Outside::new();
    let script = outside.program("script", "echo from a shell\n");
    let (outcome, result) = run(profile(Level::Basic), &json!({"argv": [script]})).await;
    assert!(
        outcome.starts_with("E.RUNNER.SPAWN final") && outcome.contains("did not start"),
        "{outcome}"
    );
    assert_eq!(result, Value::Null);
    let hidden = outside.program("hidden", "#!/bin/sh\necho hidden\n");
    let (outcome, _) = run(profile(Level::Strict), &json!({"argv": [hidden]})).await;
    assert!(outcome.contains("is not shown in the sandbox"), "{outcome}");
    let (outcome, _) = run(profile(Level::Basic), &json!({"argv": ["sh", "-c", "exit 125"]})).await;
    assert_eq!(outcome, "E.RUNNER.EXIT again: the program exited with code 125");
}

#[tokio::test]
async fn a_sandbox_that_was_not_tried_is_none() {
    let without = Profile { launcher: "/bin/true".into(), ..profile(Level::Basic) };
    let refused = Sandbox::open(without).expect_err("true is no launcher");
    assert!(matches!(refused, SandboxError::Unavailable { .. }), "{refused}");
    assert!(Sandbox::open(Profile::default()).expect("nothing to try").is_none());
    let sandbox = Sandbox::open(profile(Level::Strict)).expect("this kernel has it");
    assert_eq!(sandbox.map(|sandbox| sandbox.level()), Some(Level::Strict));
}

/// A folder that everybody could use, if it were not for the sandbox.
struct Outside {
    folder: TempDir,
}

impl Outside {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("folder");
        set_mode(folder.path(), 0o777);
        Self { folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn program(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        std::fs::write(&path, text).expect("written");
        set_mode(&path, 0o755);
        path
    }
}

fn set_mode(path: &Path, mode: u32) {
    let permissions = std::os::unix::fs::PermissionsExt::from_mode(mode);
    std::fs::set_permissions(path, permissions).expect("set");
}

async fn stdout(level: Level, script: &str) -> String {
    let (outcome, result) = run(profile(level), &json!({"argv": ["sh", "-c", script]})).await;
    assert_eq!(outcome, "completed", "{result}");
    result["stdout"].as_str().expect("text").to_owned()
}

pub(crate) fn profile(level: Level) -> Profile {
    Profile { level, launcher: env!("CARGO_BIN_EXE_astra").into(), ..Profile::default() }
}

pub(crate) async fn run(profile: Profile, parameters: &Value) -> (String, Value) {
    let sandbox = Sandbox::open(profile).expect("this kernel has it");
    let grace = Duration::from_millis(300);
    let runner = CommandRunner::new(Options { sandbox, grace, ..Options::default() });
    let assignment = Assignment {
        lease_id: "t-1".into(),
        task_id: "t".into(),
        attempt: 1,
        task_type: "command".into(),
        parameters: serde_json::value::to_raw_value(parameters).expect("JSON"),
    };
    let finished = runner.run(&assignment, &Context::detached()).await;
    let outcome = match finished.outcome {
        Outcome::Completed { .. } => "completed".into(),
        Outcome::Failed { code, reason, retryable, .. } => {
            format!("{code} {}: {reason}", if retryable { "again" } else { "final" })
        }
    };
    let result = finished.result.map(|result| serde_json::from_str(result.get()).expect("JSON"));
    (outcome, result.unwrap_or_default())
}
