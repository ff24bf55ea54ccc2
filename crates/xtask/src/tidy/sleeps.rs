//! No test sleeps: it waits for the event itself, with a deadline.
//!
//! A sleep is too long on a fast machine and too short on a busy one. Each language has one file
//! of helpers that may sleep between two looks. Time that a runtime skips costs nothing, so tests
//! with `start_paused` may sleep as long as they like.

use super::finding::{Finding, Rule};
use super::repository::TextFile;
use crate::rust_file::{RustFile, holds};

const RUST_HELPERS: &str = "tests/waiting.rs";
const PYTHON_HELPERS: &str = "tests/waiting.py";
const PYTHON_TESTS: &str = "tests/";
const PYTHON_SLEEPS: [&str; 3] = ["time.sleep(", "asyncio.sleep(", "from time import sleep"];

/// The sleeps of a Python file.
pub(crate) fn check_python(file: &TextFile) -> Vec<Finding> {
    let is_test = file.path.starts_with(PYTHON_TESTS) && file.has_extension("py");
    if !is_test || file.path == PYTHON_HELPERS {
        return Vec::new();
    }
    let lines = file.text.lines().enumerate();
    let sleeps = lines.filter(|(_, line)| PYTHON_SLEEPS.iter().any(|sleep| line.contains(sleep)));
    let message = format!("a test sleeps; wait for the event with {PYTHON_HELPERS}");
    sleeps
        .map(|(index, _)| Finding::new(Rule::TestSleep, &file.path, index + 1, message.as_str()))
        .collect()
}

/// The sleeps of a Rust file's tests.
pub(crate) fn check(file: &RustFile) -> Vec<Finding> {
    if file.path == RUST_HELPERS {
        return Vec::new();
    }
    let message = format!("a test sleeps; wait for the event with {RUST_HELPERS}");
    let calls = (0..file.code.len())
        .filter(|at| file.reads(*at, &["sleep", "("]) && !(*at > 0 && file.reads(at - 1, &["fn"])));
    calls
        .map(|at| *file.code[at].lines.start())
        .filter(|line| file.is_test_at(*line) && !holds(&file.items.paused_tests, *line))
        .map(|line| Finding::new(Rule::TestSleep, &file.path, line, message.as_str()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sleeps_of_rust_tests_are_found() {
        rust("crates/a/tests/it.rs", "fn a() { std::thread::sleep(b); }", &[1]);
        rust(
            "crates/a/src/b/tests.rs",
            "async fn a() {\n    tokio::time::sleep(b).await;\n}",
            &[2],
        );
        rust("crates/a/tests/it.rs", "use tokio::time::sleep;\nfn a() { sleep(b) }", &[2]);
        rust("crates/a/src/b.rs", "#[cfg(test)] mod tests { fn a() { sleep(b) } }", &[1]);
        rust("crates/a/src/b.rs", "#[tokio::test]\nasync fn a() { sleep(b).await }", &[2]);
    }

    #[test]
    fn products_helpers_and_paused_clocks_may_sleep() {
        rust("crates/a/src/b.rs", "fn a() { thread::sleep(b); }", &[]);
        rust(RUST_HELPERS, "fn a() { sleep(b); }", &[]);
        rust("crates/a/tests/it.rs", "fn sleep(b: u8) {} // sleep(b)\nfn sleeper() {}", &[]);
        rust("crates/a/tests/it.rs", "const A: &str = \"sleep(1)\";", &[]);
        let paused = "#[tokio::test(start_paused = true)]\nasync fn a() { sleep(b).await }\n";
        rust("crates/a/tests/it.rs", paused, &[]);
        rust("crates/a/src/b.rs", &format!("#[cfg(test)] mod tests {{ {paused} }}"), &[]);
        let both = format!("#[cfg(test)] mod tests {{ {paused}\nfn c() {{ sleep(d) }} }}");
        rust("crates/a/src/b.rs", &both, &[4]);
    }

    #[test]
    fn sleeps_of_python_tests_are_found() {
        python("tests/test_a.py", "import time\ntime.sleep(1)\n", &[2]);
        python("tests/fixtures/a.py", "    await asyncio.sleep(0.1)\n", &[1]);
        python("tests/test_a.py", "from time import sleep\n", &[1]);
        python("tests/test_a.py", "run({\"type\": \"core.sleep\"}, \"sleep 1\")\n", &[]);
        python("bench/a.py", "time.sleep(1)\n", &[]);
        python(PYTHON_HELPERS, "time.sleep(1)\n", &[]);
    }

    fn rust(path: &str, text: &str, expected: &[usize]) {
        check_lines(&check(&RustFile::read(path, text).unwrap()), text, expected);
    }

    fn python(path: &str, text: &str, expected: &[usize]) {
        let file = TextFile { path: path.into(), text: text.into() };
        check_lines(&check_python(&file), text, expected);
    }

    fn check_lines(findings: &[Finding], text: &str, expected: &[usize]) {
        let lines: Vec<_> = findings.iter().map(|finding| finding.line).collect();
        assert_eq!(lines, expected, "{text}");
    }
}
