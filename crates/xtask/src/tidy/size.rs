//! How long functions, files and inline tests may be, and how many arguments a function takes.

use std::ops::Range;

use super::finding::{Finding, Rule};
use super::lexer::{Kind, Token};
use super::source::{Function, Source, TestItemKind, closing};

const FUNCTION_LINES_LOOK: usize = 40;
const FUNCTION_LINES_MAX: usize = 70;
const FILE_LINES_LOOK: usize = 500;
const FILE_LINES_MAX: usize = 800;
const INLINE_TEST_LINES_MAX: usize = 200;
const ARGUMENTS_MAX: usize = 5;

pub(crate) fn check(source: &Source<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    for function in &source.functions {
        findings.extend(function_length(source, function));
        findings.extend(function_arguments(source, function));
    }
    findings.extend(file_length(source));
    findings.extend(inline_tests(source));
    findings
}

/// What is allowed but longer than it should be.
pub(crate) fn second_looks(source: &Source<'_>) -> Vec<String> {
    let mut looks = Vec::new();
    for function in &source.functions {
        let n = counted_lines(source, function);
        if n > FUNCTION_LINES_LOOK && !is_flat_match(source, function) {
            looks.push(format!(
                "{}:{}: {} has {n} lines",
                source.path, function.line, function.name
            ));
        }
    }
    let n = source.text.lines().count() - n_inline_test_lines(source);
    if n > FILE_LINES_LOOK && !source.is_test {
        looks.push(format!("{}: {n} lines without tests", source.path));
    }
    looks
}

fn function_length(source: &Source<'_>, function: &Function<'_>) -> Option<Finding> {
    let n = counted_lines(source, function);
    if n <= FUNCTION_LINES_MAX || is_flat_match(source, function) {
        return None;
    }
    let message = format!("{} has {n} lines, at most {FUNCTION_LINES_MAX}", function.name);
    Some(about(Rule::FunctionLength, source, function, message))
}

/// From the line of `fn` to the closing brace. A text over several lines counts as one: the story
/// of a test and an SQL statement are data, and splitting a function does not make them shorter.
fn counted_lines(source: &Source<'_>, function: &Function<'_>) -> usize {
    let body = function.body.clone().unwrap_or_default();
    let texts = source.code[body].iter().filter(|token| token.kind == Kind::Text);
    let n_inside_texts: usize = texts.map(|token| token.end_line - token.line).sum();
    function.end_line - function.line + 1 - n_inside_texts
}

/// A body that is one `match` whose arms decide nothing further: a table, however long.
fn is_flat_match(source: &Source<'_>, function: &Function<'_>) -> bool {
    let Some(body) = function.body.clone() else {
        return false;
    };
    if !source.reads(body.start + 1, &["match"]) {
        return false;
    }
    // The language forbids struct literals there, so the next brace opens the arms.
    let open = (body.start + 2..body.end).find(|at| source.code[*at].is("{"));
    open.is_some_and(|open| {
        let close = closing(&source.code, open);
        close + 2 == body.end && arms_are_flat(&source.code, open + 1..close)
    })
}

fn arms_are_flat(code: &[Token<'_>], arms: Range<usize>) -> bool {
    let (mut is_in_pattern, mut depth) = (true, 0_usize);
    for token in &code[arms] {
        let decides =
            ["match", "if", "for", "while", "loop", ";"].iter().any(|word| token.is(word));
        if decides && !(is_in_pattern && token.is("if")) {
            return false;
        }
        if token.is("(") || token.is("[") || token.is("{") {
            depth += 1;
        } else if token.is(")") || token.is("]") || token.is("}") {
            depth = depth.saturating_sub(1);
            is_in_pattern |= depth == 0 && token.is("}");
        } else if depth == 0 && (token.is("=>") || token.is(",")) {
            is_in_pattern = token.is(",");
        }
    }
    true
}

fn function_arguments(source: &Source<'_>, function: &Function<'_>) -> Option<Finding> {
    let n = function.n_arguments;
    let message = format!("{} takes {n} arguments, at most {ARGUMENTS_MAX}", function.name);
    (n > ARGUMENTS_MAX).then(|| about(Rule::FunctionArguments, source, function, message))
}

fn file_length(source: &Source<'_>) -> Option<Finding> {
    let n = source.text.lines().count() - n_inline_test_lines(source);
    let message = format!("{n} lines without tests, at most {FILE_LINES_MAX}");
    (n > FILE_LINES_MAX && !source.is_test)
        .then(|| Finding::new(Rule::FileLength, source.path, 1, message))
}

fn inline_tests(source: &Source<'_>) -> Option<Finding> {
    let n = n_inline_test_lines(source);
    let first = source.test_items.iter().find(|item| item.kind == TestItemKind::InlineModule)?;
    let own_folder = source.path.trim_end_matches(".rs");
    let message = format!(
        "{n} lines of tests, at most {INLINE_TEST_LINES_MAX}; move them to {own_folder}/tests.rs"
    );
    (n > INLINE_TEST_LINES_MAX)
        .then(|| Finding::new(Rule::InlineTests, source.path, first.line, message))
}

fn n_inline_test_lines(source: &Source<'_>) -> usize {
    let modules = source.test_items.iter().filter(|item| item.kind == TestItemKind::InlineModule);
    modules.map(|item| item.end_line - item.line + 1).sum()
}

fn about(rule: Rule, source: &Source<'_>, function: &Function<'_>, message: String) -> Finding {
    Finding::new(rule, source.path, function.line, message).in_function(function.name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seventy_lines_are_allowed_and_one_more_is_not() {
        check(&function_of("    a();\n", 68), &[]);
        check(&function_of("    a();\n", 69), &["f has 71 lines, at most 70"]);
    }

    #[test]
    fn a_long_text_is_one_line() {
        let story = format!("    tell(\"{}\");\n", "line\n".repeat(5));
        check(&function_of(&story, 68), &[]);
        check(&function_of(&story, 69), &["f has 71 lines, at most 70"]);
    }

    #[test]
    fn one_flat_match_may_be_long() {
        let arms = |arm: &str| format!("fn f() {{ match x.y() {{\n{} }} }}", arm.repeat(80));
        check(&arms("A::B { c, .. } if c > 1 => g(c, H { c }),\n"), &[]);
        check(&arms("A::B(c) => {\n g(c)\n }\n"), &[]);
        check(&arms("A => { let b = c; d(b) }\n"), &["f has 82 lines, at most 70"]);
        check(&arms("A => if b { c } else { d },\n"), &["f has 82 lines, at most 70"]);
        check(&arms("A => match b { _ => c },\n"), &["f has 82 lines, at most 70"]);
        check(
            &format!("fn f() {{ let x = y; match x {{\n{} }} }}", "A => b,\n".repeat(80)),
            &["f has 82 lines, at most 70"],
        );
    }

    #[test]
    fn five_arguments_are_allowed_and_six_are_not() {
        check("fn f(&self, a: A<B, C>, b: B, c: C, d: D) {}", &[]);
        check("fn f(&self, a: A, b: B, c: C, d: D, e: E);", &["f takes 6 arguments, at most 5"]);
    }

    #[test]
    fn a_file_is_measured_without_its_tests() {
        let code = "// a\n".repeat(800);
        check(&code, &[]);
        check(&format!("{code}#[cfg(test)]\nmod tests {{\n}}\n"), &[]);
        check(&format!("{code}\n"), &["801 lines without tests, at most 800"]);
        let test_file = format!("{code}\n");
        assert_eq!(super::check(&Source::read("a/tests/it.rs", &test_file)), []);
    }

    #[test]
    fn long_tests_move_to_their_own_file() {
        let tests = |n| format!("#[cfg(test)]\nmod tests {{\n{}}}\n", "// a\n".repeat(n));
        check(&tests(197), &[]);
        check(&tests(198), &["201 lines of tests, at most 200; move them to a/b/tests.rs"]);
    }

    #[test]
    fn what_is_worth_a_second_look_is_listed() {
        let text = function_of("    a();\n", 39);
        assert_eq!(second_looks(&Source::read("a/b.rs", &text)), ["a/b.rs:1: f has 41 lines"]);
        let text = function_of("    a();\n", 38);
        assert_eq!(second_looks(&Source::read("a/b.rs", &text)), [""; 0]);
    }

    fn function_of(line: &str, n: usize) -> String {
        format!("fn f() {{\n{}}}\n", line.repeat(n))
    }

    fn check(text: &str, expected: &[&str]) {
        let findings = super::check(&Source::read("a/b.rs", text));
        let messages: Vec<_> = findings.iter().map(|finding| finding.message.as_str()).collect();
        assert_eq!(messages, expected, "{text}");
    }
}
