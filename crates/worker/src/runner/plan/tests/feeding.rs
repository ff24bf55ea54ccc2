//! What steps read: output of others, text of the input, fields in arguments.

use super::*;
use crate::runner::output::SPOOL_MEMORY_BYTES;

#[tokio::test]
async fn output_is_fed_byte_for_byte_however_long() {
    for n_bytes in [0, 100, SPOOL_MEMORY_BYTES + 4096] {
        let tasks = json!([
            ["head", "-c", n_bytes.to_string(), "/dev/urandom"],
            {"command": "sha256sum", "input_from_task": 1},
            {"command": "tee", "args": ["/dev/null"], "input_from_task": 1},
            {"command": "sha256sum", "input_from_task": 3},
            {"command": "wc", "args": ["-c"], "input_from_task": 1},
        ]);
        let steps = completed(&plan(&tasks, &Value::Null)).await;
        assert_eq!(steps[1].stdout, steps[3].stdout, "each reader gets all of it");
        assert_eq!(steps[4].stdout.trim(), n_bytes.to_string());
    }
}

#[tokio::test]
async fn output_that_is_too_long_to_be_fed_is_a_failure_and_ends_the_program() {
    let mut runner = runner();
    runner.spool_bytes_max = 100_000;
    let tasks = json!([["yes"], {"command": "wc", "input_from_task": 1}]);
    let (outcome, steps) = run_in(&runner, &plan(&tasks, &Value::Null), Context::detached()).await;
    let expected = "E.RUNNER.EXIT final: task 1 (yes) gave nothing to go on with: it wrote more than \
                    100000 bytes, which is more than can be handed to another task";
    assert_eq!(outcome, expected);
    assert_eq!((steps.len(), steps[0].exit_code), (1, -1));
    // The last bytes come when the program has ended: still no shorter text for anyone.
    let tasks = json!([["seq", "20000"], {"command": "wc", "input_from_task": 1}]);
    let (outcome, _) = run_in(&runner, &plan(&tasks, &Value::Null), Context::detached()).await;
    assert_eq!(outcome, expected.replace("yes", "seq"));
    // Nobody reads it, so its length is nobody's business.
    let (outcome, _) =
        run_in(&runner, &plan(&json!([["seq", "20000"]]), &Value::Null), Context::detached()).await;
    assert_eq!(outcome, "completed");
}

#[tokio::test]
async fn output_that_a_stray_process_still_holds_is_not_fed() {
    let script = "setsid sleep 2 & echo half";
    let tasks = json!([["sh", "-c", script], {"command": "wc", "input_from_task": 1}]);
    let (outcome, steps) = run(&plan(&tasks, &Value::Null)).await;
    assert!(
        outcome.contains("task 1 (sh) gave nothing to go on with: its output was not read"),
        "{outcome}"
    );
    assert_eq!(steps.len(), 1);
}

#[tokio::test]
async fn the_text_of_the_input_is_what_steps_without_a_source_read() {
    let tasks = json!([["cat"], {"command": "cat", "input_from_task": 1}, ["cat"]]);
    for (input, expected) in [
        (json!("a\nb"), "a\nb"),
        (json!({"text": "t", "stdin": "s"}), "t"),
        (json!({"stdin": "s\0"}), "s\0"),
        (json!({"other": "x"}), ""),
        (json!(7), ""),
        (Value::Null, ""),
    ] {
        let steps = completed(&plan(&tasks, &input)).await;
        assert!(steps.iter().all(|step| step.stdout == expected), "{input}: {steps:?}");
    }
}

#[tokio::test]
async fn fields_of_the_input_stand_in_arguments() {
    let tasks = json!([["printf", "[%s]", "{{input.a.b}}", "n={{input.n}}", "{{.Other}}"]]);
    let steps = completed(&plan(&tasks, &json!({"a": {"b": "x y"}, "n": 5}))).await;
    assert_eq!(steps[0].stdout, "[x y][n=5][{{.Other}}]");
    let (outcome, steps) = run(&plan(&tasks, &json!({"a": {}}))).await;
    let expected = "E.PARAMETERS.INVALID final: task 1 (printf) cannot be given its arguments: \
                    args[1]: the input has no field a.b";
    assert_eq!(outcome, expected);
    assert_eq!(steps, [], "it was never begun");
}

/// What a shell would act upon is text, and an option comes from the plan only.
#[tokio::test]
async fn an_input_cannot_make_a_program_do_something_else() {
    let folder = tempfile::tempdir().expect("folder");
    let witness = folder.path().join("witness");
    let touch = format!("touch {}", witness.display());
    for text in [
        format!("; {touch}"),
        format!("$({touch})"),
        format!("`{touch}`"),
        format!("\n{touch}\n"),
        format!("| {touch}"),
        "a b  c".into(),
        "{{input.x}}".into(),
    ] {
        let tasks = json!([["printf", "[%s]", "{{input.x}}"], ["sh", "-c", ":", "{{input.x}}"]]);
        let steps = completed(&plan(&tasks, &json!({"x": text}))).await;
        assert_eq!(steps[0].stdout, format!("[{text}]"));
    }
    let option = format!("--output={}", witness.display());
    let tasks = json!([["sort", "{{input.x}}"]]);
    let (outcome, _) = run(&plan(&tasks, &json!({"x": option, "text": "a"}))).await;
    assert!(outcome.contains("would take it for an option"), "{outcome}");
    assert!(!witness.exists());
}
