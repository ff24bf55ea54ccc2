//! Words that have no place in finished code.

use super::finding::{Finding, Rule};
use super::source::{Attribute, Source};

const LEFTOVER_MACROS: [&str; 3] = ["todo", "unimplemented", "dbg"];

pub(crate) fn check(source: &Source<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    for at in 0..source.code.len() {
        findings.extend(leftover_macro(source, at));
        findings.extend(unwrap(source, at));
    }
    for attribute in &source.attributes {
        findings.extend(ignored_test(source, attribute));
        findings.extend(allow_attribute(source, attribute));
    }
    findings.extend(fixmes(source));
    findings
}

fn leftover_macro(source: &Source<'_>, at: usize) -> Option<Finding> {
    let name = LEFTOVER_MACROS.iter().find(|name| source.reads(at, &[name, "!"]))?;
    Some(here(source, at, Rule::LeftoverMacro, format!("{name}! is for unfinished code")))
}

fn unwrap(source: &Source<'_>, at: usize) -> Option<Finding> {
    let is_call = source.reads(at, &[".", "unwrap", "(", ")"]);
    let message = "unwrap() outside of tests; use expect(\"why it cannot fail\") or handle it";
    (is_call && !source.is_test_at(at)).then(|| here(source, at, Rule::Unwrap, message.into()))
}

fn ignored_test(source: &Source<'_>, attribute: &Attribute) -> Option<Finding> {
    let message = "an ignored test; assert what happens today, or remove it";
    names(source, attribute, "ignore")
        .then(|| here(source, attribute.at, Rule::IgnoredTest, message.into()))
}

fn allow_attribute(source: &Source<'_>, attribute: &Attribute) -> Option<Finding> {
    let message = "use #[expect(.., reason = \"..\")]: it complains when it is no longer needed";
    names(source, attribute, "allow")
        .then(|| here(source, attribute.at, Rule::AllowAttribute, message.into()))
}

/// Whether this is the attribute `name`, on its own or behind `cfg_attr`.
fn names(source: &Source<'_>, attribute: &Attribute, name: &str) -> bool {
    let inside = &source.code[attribute.inside.clone()];
    match inside.first() {
        Some(first) if first.is("cfg_attr") => inside.iter().any(|token| token.is(name)),
        Some(first) => first.is(name),
        None => false,
    }
}

fn fixmes(source: &Source<'_>) -> Vec<Finding> {
    let marked = source.comments.iter().filter(|comment| comment.text.contains("FIXME"));
    let message = "FIXME; fix it, or describe the limit where users find it";
    marked.map(|comment| Finding::new(Rule::Fixme, source.path, comment.line, message)).collect()
}

fn here(source: &Source<'_>, at: usize, rule: Rule, message: String) -> Finding {
    Finding::new(rule, source.path, source.code[at].line, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn macros_of_unfinished_code_are_found() {
        check("fn a() { todo!() }", &["leftover-macro"]);
        check("fn a() { unimplemented!(\"b\") }", &["leftover-macro"]);
        check("fn a() { dbg!(b); dbg! [c]; }", &["leftover-macro", "leftover-macro"]);
        check("fn todo() { b(todo); } // todo!()", &[]);
    }

    #[test]
    fn unwrap_is_for_tests() {
        check("fn a() { b.unwrap(); }", &["unwrap"]);
        check("fn a() { b\n.unwrap\n() }", &["unwrap"]);
        check("fn a() { b.unwrap_or_default(); b.expect(\"c\"); } // b.unwrap()", &[]);
        check("#[cfg(test)] mod tests { fn a() { b.unwrap(); } }", &[]);
        check("#[test] fn a() { b.unwrap(); } fn c() { d.unwrap(); }", &["unwrap"]);
    }

    #[test]
    fn ignored_tests_are_found() {
        check("#[test] #[ignore] fn a() {}", &["ignored-test"]);
        check("#[test] #[ignore = \"slow\"] fn a() {}", &["ignored-test"]);
        check("#[cfg_attr(windows, ignore)] fn a() {}", &["ignored-test"]);
        check("#[serde(ignore)] struct A; // #[ignore]", &[]);
    }

    #[test]
    fn allow_is_expect() {
        check("#[allow(dead_code)] fn a() {}", &["allow-attribute"]);
        check("#![allow(dead_code)]", &["allow-attribute"]);
        check("#[cfg_attr(test, allow(dead_code))] fn a() {}", &["allow-attribute"]);
        check("#[expect(dead_code, reason = \"b\")] fn a() { allow(c) }", &[]);
    }

    #[test]
    fn fixme_is_found_in_comments() {
        check("// FIXME: later", &["fixme"]);
        check("/* a\n FIXME */ fn a() {}", &["fixme"]);
        check("const A: &str = \"FIXME\"; // fixme", &[]);
    }

    fn check(text: &str, expected: &[&str]) {
        let findings = super::check(&Source::read("a.rs", text));
        let rules: Vec<_> = findings.iter().map(|finding| finding.rule.name()).collect();
        assert_eq!(rules, expected, "{text}");
    }
}
