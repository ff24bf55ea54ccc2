//! What `lib.rs` and `mod.rs` are for: a map with its purpose, without logic.

use super::finding::{Finding, Rule};
use super::source::Source;

pub(crate) fn check(source: &Source<'_>) -> Vec<Finding> {
    let name = source.file_name();
    let mut findings = Vec::new();
    if matches!(name, "lib.rs" | "mod.rs") && !source.text.starts_with("//!") {
        let message = format!("{name} starts with `//!`: its purpose, then the reading order");
        findings.push(Finding::new(Rule::ModuleDoc, source.path, 1, message));
    }
    if name == "mod.rs" {
        let misplaced = source.functions.iter().map(|function| {
            let message = format!("mod.rs holds no logic; move {} to a named file", function.name);
            Finding::new(Rule::ModLogic, source.path, function.line, message)
                .in_function(function.name)
        });
        findings.extend(misplaced);
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_map_starts_with_its_purpose() {
        check("a/lib.rs", "//! Sells.\n", &[]);
        check("a/lib.rs", "mod a;\n", &["module-doc"]);
        check("a/b/mod.rs", "// Sells.\n", &["module-doc"]);
        check("a/b.rs", "mod a;\n", &[]);
    }

    #[test]
    fn a_mod_file_holds_no_logic() {
        check("a/b/mod.rs", "//! Sells.\nmod a;\npub use a::{A, b};\n", &[]);
        check("a/b/mod.rs", "//! Sells.\nfn a() {}\n", &["mod-logic"]);
        check("a/b/mod.rs", "//! Sells.\nimpl A {\n    fn a(&self) {}\n}\n", &["mod-logic"]);
        check("a/lib.rs", "//! Sells.\nfn a() {}\n", &[]);
    }

    fn check(path: &str, text: &str, expected: &[&str]) {
        let findings = super::check(&Source::read(path, text));
        let rules: Vec<_> = findings.iter().map(|finding| finding.rule.name()).collect();
        assert_eq!(rules, expected, "{path}: {text}");
    }
}
