//! Dependencies between our crates point down only.

use super::finding::{Finding, Rule};
use crate::tools::{Dependency, Package};

/// Every crate of the workspace and which others it may know.
const MAY_KNOW: [(&str, &[&str]); 14] = [
    ("model", &[]),
    ("flow", &["model"]),
    ("coordinator", &["flow", "model"]),
    ("keyspace", &["model"]),
    ("protocol", &["model"]),
    ("shard", &["coordinator", "flow", "protocol", "model"]),
    ("store", &["shard", "coordinator", "keyspace", "model"]),
    ("client", &["protocol"]),
    ("worker", &["client", "protocol", "flow", "model"]),
    ("server", &["store", "shard", "coordinator", "flow", "keyspace", "protocol", "model"]),
    ("cli", &["client", "server", "worker", "store", "flow", "protocol", "model"]),
    ("sim", &["shard", "coordinator", "flow", "keyspace", "protocol", "store", "model"]),
    ("harness", &["cli", "client", "server", "worker", "store", "protocol", "model"]),
    ("xtask", &[]),
];

/// These stay free of a runtime, and their tests too: what needs one is not pure.
pub(crate) const PURE: [&str; 6] =
    ["model", "flow", "coordinator", "keyspace", "protocol", "shard"];

const RUNTIME: &str = "tokio";

pub(crate) fn check(packages: &[Package]) -> Vec<Finding> {
    packages.iter().flat_map(check_package).collect()
}

fn check_package(package: &Package) -> Vec<Finding> {
    let name = &package.name;
    let Some((_, may_know)) = MAY_KNOW.iter().find(|(known, _)| known == name) else {
        let place = "crates/xtask/src/tidy/dependencies.rs";
        return vec![finding(name, format!("new crate {name}; say in {place} what it may know"))];
    };
    let is_pure = PURE.contains(&name.as_str());
    let mut findings = Vec::new();
    // A test may look sideways, except where purity is the point.
    for other in package.dependencies.iter().filter(|other| is_pure || !other.is_for_tests()) {
        let is_ours = MAY_KNOW.iter().any(|(known, _)| *known == other.name);
        if is_ours && !may_know.contains(&other.name.as_str()) {
            findings.push(finding(name, format!("{name} must not depend on {}", other.name)));
        }
        if is_pure && other.name == RUNTIME {
            findings
                .push(finding(name, format!("{name} is pure and must not depend on {RUNTIME}")));
        }
    }
    findings
}

impl Dependency {
    fn is_for_tests(&self) -> bool {
        self.kind.as_deref() == Some("dev")
    }
}

fn finding(package: &str, message: String) -> Finding {
    Finding::new(Rule::DependencyDirection, &format!("crates/{package}/Cargo.toml"), 1, message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::Workspace;

    #[test]
    fn dependencies_that_point_down_are_fine() {
        check(
            "server",
            r#"[{"name": "store", "kind": null}, {"name": "tokio", "kind": null}]"#,
            &[],
        );
        check("coordinator", r#"[{"name": "model", "kind": null}]"#, &[]);
        check("server", r#"[{"name": "worker", "kind": "dev"}]"#, &[]);
    }

    #[test]
    fn dependencies_that_point_up_or_sideways_are_found() {
        for (package, other, kind) in [
            ("coordinator", "protocol", "null"),
            ("protocol", "coordinator", "null"),
            ("protocol", "coordinator", "\"dev\""),
            ("model", "protocol", "null"),
            ("store", "protocol", "null"),
            ("worker", "coordinator", "null"),
            ("worker", "store", "\"build\""),
            ("server", "worker", "null"),
            ("cli", "coordinator", "null"),
            ("sim", "server", "null"),
            ("cli", "harness", "null"),
            ("client", "worker", "null"),
            ("xtask", "model", "null"),
        ] {
            let dependencies = format!(r#"[{{"name": "{other}", "kind": {kind}}}]"#);
            check(package, &dependencies, &[&format!("{package} must not depend on {other}")]);
        }
    }

    #[test]
    fn the_pure_crates_stay_free_of_the_runtime() {
        for package in PURE {
            let sentence = format!("{package} is pure and must not depend on tokio");
            check(package, r#"[{"name": "tokio", "kind": "dev"}]"#, &[&sentence]);
        }
    }

    #[test]
    fn a_new_crate_must_say_what_it_may_know() {
        let place = "crates/xtask/src/tidy/dependencies.rs";
        check("shop", "[]", &[&format!("new crate shop; say in {place} what it may know")]);
    }

    fn check(package: &str, dependencies: &str, expected: &[&str]) {
        let text = format!(
            r#"{{"packages": [{{"name": "{package}", "dependencies": {dependencies}}}],
                "target_directory": "target"}}"#
        );
        let workspace: Workspace = serde_json::from_str(&text).unwrap();
        let findings = super::check(&workspace.packages);
        let messages: Vec<_> = findings.iter().map(|finding| finding.message.as_str()).collect();
        assert_eq!(messages, expected);
    }
}
