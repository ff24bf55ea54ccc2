use serde_json::{Value, json};

use super::*;

#[test]
fn the_plan_of_the_documents_is_good() {
    let plan = json!({"plan_id": "plan_1-a", "description": "sorts", "tasks": [
        {"task_number": 1, "command": "sort", "args": ["-r", "a/b..c", "{{input.x}}", "ä*?<>()"]},
        {"task_number": 2, "command": "/usr/bin/uniq", "timeout_secs": 1, "input_from_task": 1},
        {"task_number": 3, "command": "bin/own tool", "timeout_secs": 86400, "input_from_task": 1},
    ]});
    let plan: Plan = serde_json::from_value(plan).expect("a plan");
    plan.check().expect("good");
}

#[test]
fn limits_are_inclusive() {
    let task = json!({"task_number": 1, "command": "c".repeat(COMMAND_BYTES_MAX),
        "args": vec!["ä".repeat(ARGUMENT_CHARS_MAX); ARGUMENTS_MAX]});
    check(&json!({"tasks": [task]})).expect("good");
    let tasks: Vec<_> =
        (1..=100).map(|number| json!({"task_number": number, "command": "true"})).collect();
    check(&json!({"tasks": tasks, "plan_id": "x".repeat(64)})).expect("good");
}

#[test]
fn every_problem_names_its_field_and_what_is_allowed() {
    refused(&json!({"plan_id": ""}), "plan_id: it wants 1 to 64 characters of A-Z a-z 0-9 - _");
    refused(&json!({"plan_id": "x".repeat(65)}), "plan_id: ");
    refused(&json!({"plan_id": "a:b"}), "plan_id: ");
    refused(&json!({"plan_id": "ä"}), "plan_id: ");
    refused(&json!({"job_id": "a:b"}), "job_id: ");
    refused(&json!({"action_id": ""}), "action_id: ");
    refused(&json!({"tasks": []}), "tasks: there are 0 tasks; a plan has 1 to 100");
    refused_task(&json!({"task_number": 2}), "tasks[0].task_number: it is 2 where 1 is next");
    refused_task(&json!({"command": ""}), "tasks[0].command: it has 0 bytes; a program has 1 to");
    refused_task(&json!({"command": "x".repeat(257)}), "tasks[0].command: it has 257 bytes");
    refused_task(&json!({"args": vec![""; 257]}), "tasks[0].args: there are 257 arguments");
    refused_task(&json!({"args": ["", "x".repeat(4097)]}), "tasks[0].args[1]: it has 4097 char");
    for seconds in [0, 86_401] {
        refused_task(&json!({"timeout_secs": seconds}), "tasks[0].timeout_secs: it is ");
    }
    for earlier in [0, 1, 2] {
        refused_task(&json!({"input_from_task": earlier}), "tasks[0].input_from_task: it is ");
    }
    refused(&json!({"env": {"A=B": ""}}), "env: it wants names");
    refused(&json!({"env": {"1A": ""}}), "env: it wants names");
    refused(&json!({"env": {"A": "\0"}}), "env.A: it contains a NUL");
    refused(&json!({"env": {"A": "x".repeat(65_537)}}), "env.A: it has 65537 bytes");
}

#[test]
fn a_command_is_a_name_or_a_path_that_leads_downwards() {
    for command in ["..", "../a", "a/../b", "a/..", "/..", "a/", "/", ".", "a/.", "-x", "..a"] {
        for rules in [Rules::Strict, Rules::Direct] {
            let problem = job(&with_task(&json!({"command": command}))).check_by(rules);
            let problem = problem.expect_err(command).to_string();
            assert!(problem.starts_with("tasks[0].command: it "), "{command}: {problem}");
        }
    }
}

/// An AGX worker that pops a job with one of these ends its process.
#[test]
fn what_kills_an_agx_worker_is_refused() {
    let words = [
        "a&b",
        "|",
        ";",
        "$(id)",
        "`id`",
        "a\rb",
        "a\nb",
        "\0",
        "\x1b[1m",
        "\x7f",
        "\u{85}",
        "a/../b",
        "..\\x",
        "..",
        "..x",
        "\u{202E}gpj",
        "\u{200B}",
        "\u{FEFF}",
        "\u{2066}",
        "\u{200D}",
        "\u{61C}",
    ];
    for word in words {
        refused_task(&json!({"args": ["good", word]}), "tasks[0].args[1]: it ");
        refused_task(&json!({"command": word}), "tasks[0].command: it ");
        let parameters = with_task(&json!({"args": ["good", word]}));
        let direct = job(&parameters).check_by(Rules::Direct);
        assert_eq!(direct.is_err(), word.contains('\0'), "{word:?} is harmless without a shell");
    }
}

#[test]
fn what_cannot_be_seen_is_named() {
    let named =
        |word: &str| check(&with_task(&json!({"args": [word]}))).expect_err(word).to_string();
    assert_eq!(
        named("\u{202E}"),
        "tasks[0].args[0]: it contains the character U+202E, which is not allowed there"
    );
    assert!(named("a\nb").contains("a line break") && named("\0").contains("a NUL"));
    assert!(named("a;b").contains("contains ;, which"));
}

fn with_task(extra: &Value) -> Value {
    let mut task = json!({"task_number": 1, "command": "true"});
    extend(&mut task, extra);
    json!({"tasks": [task]})
}

fn refused_task(extra: &Value, expected: &str) {
    refused(&with_task(extra), expected);
}

fn refused(extra: &Value, expected: &str) {
    let problem = check(extra).expect_err(expected).to_string();
    assert!(problem.starts_with(expected), "{problem}");
}

fn check(extra: &Value) -> Result<(), PlanProblem> {
    job(extra).check()
}

fn job(extra: &Value) -> PlanJob {
    let mut job = json!({"plan_id": "p", "tasks": [{"task_number": 1, "command": "true"}]});
    extend(&mut job, extra);
    serde_json::from_str(&job.to_string()).expect("a job")
}

fn extend(object: &mut Value, extra: &Value) {
    let extra = extra.as_object().expect("an object").clone();
    object.as_object_mut().expect("an object").extend(extra);
}
