//! What `lib.rs` and `mod.rs` are for: a map with its purpose, without logic. And tests are run.

use super::finding::{Finding, Rule};
use crate::rust_file::RustFile;

pub(crate) fn check(file: &RustFile, text: &str) -> Vec<Finding> {
    let name = file.file_name();
    let mut findings = Vec::new();
    if matches!(name, "lib.rs" | "mod.rs") && !text.starts_with("//!") {
        let message = format!("{name} starts with `//!`: its purpose, then the reading order");
        findings.push(Finding::new(Rule::ModuleDoc, &file.path, 1, message));
    }
    if name == "mod.rs" {
        findings.extend(file.items.functions.iter().map(|(function, line)| {
            let message = format!("mod.rs holds no logic; move {function} to a named file");
            Finding::new(Rule::ModLogic, &file.path, *line, message)
        }));
    }
    let message = "an ignored test; assert what happens today, or remove it";
    let ignored = file.items.ignored.iter();
    findings
        .extend(ignored.map(|line| Finding::new(Rule::IgnoredTest, &file.path, *line, message)));
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

    #[test]
    fn ignored_tests_are_found() {
        check("a.rs", "#[test] #[ignore] fn a() {}", &["ignored-test"]);
        check("a.rs", "#[test] #[ignore = \"slow\"] fn a() {}", &["ignored-test"]);
        check("a.rs", "#[cfg_attr(windows, ignore)] fn a() {}", &["ignored-test"]);
        check("a.rs", "#[serde(ignore)] struct A; // #[ignore]", &[]);
    }

    fn check(path: &str, text: &str, expected: &[&str]) {
        let findings = super::check(&RustFile::read(path, text).unwrap(), text);
        let rules: Vec<_> = findings.iter().map(|finding| finding.rule.name()).collect();
        assert_eq!(rules, expected, "{path}: {text}");
    }
}
