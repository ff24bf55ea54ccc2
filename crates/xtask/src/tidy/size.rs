//! How long files and the tests at their bottom may be. Clippy looks at functions.

use super::finding::{Finding, Rule};
use crate::rust_file::{RustFile, n_lines};

const FILE_LINES_LOOK: usize = 500;
const FILE_LINES_MAX: usize = 800;
const INLINE_TEST_LINES_MAX: usize = 200;

pub(crate) fn check(file: &RustFile) -> Vec<Finding> {
    file_length(file).into_iter().chain(inline_tests(file)).collect()
}

/// What is allowed but longer than it should be.
pub(crate) fn second_look(file: &RustFile) -> Option<String> {
    let n = file.n_lines_without_tests();
    (n > FILE_LINES_LOOK && !file.is_test)
        .then(|| format!("{}: {n} lines without tests", file.path))
}

fn file_length(file: &RustFile) -> Option<Finding> {
    let n = file.n_lines_without_tests();
    let message = format!("{n} lines without tests, at most {FILE_LINES_MAX}");
    (n > FILE_LINES_MAX && !file.is_test)
        .then(|| Finding::new(Rule::FileLength, &file.path, 1, message))
}

fn inline_tests(file: &RustFile) -> Option<Finding> {
    let n = n_lines(&file.items.inline_tests);
    let first = *file.items.inline_tests.first()?.start();
    let own_folder = file.path.trim_end_matches(".rs");
    let message = format!(
        "{n} lines of tests, at most {INLINE_TEST_LINES_MAX}; move them to {own_folder}/tests.rs"
    );
    (n > INLINE_TEST_LINES_MAX).then(|| Finding::new(Rule::InlineTests, &file.path, first, message))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_measured_without_its_tests() {
        let code = "// a\n".repeat(800);
        check(&code, &[]);
        check(&format!("{code}#[cfg(test)]\nmod tests {{\n}}\n"), &[]);
        check(&format!("{code}\n"), &["801 lines without tests, at most 800"]);
        let test_file = RustFile::read("a/tests/it.rs", &format!("{code}\n")).unwrap();
        assert_eq!(super::check(&test_file), []);
    }

    #[test]
    fn long_tests_move_to_their_own_file() {
        let tests = |n| format!("#[cfg(test)]\nmod tests {{\n{}}}\n", "// a\n".repeat(n));
        check(&tests(197), &[]);
        check(&tests(198), &["201 lines of tests, at most 200; move them to a/b/tests.rs"]);
    }

    #[test]
    fn what_is_worth_a_second_look_is_listed() {
        let look = |n| second_look(&RustFile::read("a/b.rs", &"// a\n".repeat(n)).unwrap());
        assert_eq!(look(501).as_deref(), Some("a/b.rs: 501 lines without tests"));
        assert_eq!(look(500), None);
    }

    fn check(text: &str, expected: &[&str]) {
        let findings = super::check(&RustFile::read("a/b.rs", text).unwrap());
        let messages: Vec<_> = findings.iter().map(|finding| finding.message.as_str()).collect();
        assert_eq!(messages, expected, "{text}");
    }
}
