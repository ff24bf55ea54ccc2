//! The doors of the server know nothing of each other, and nothing below knows them.
//!
//! What two doors share is in `wire_words`. An answer of the coordinator is taken apart by the
//! handle of the shard, so that no door has to say what it does with the wrong one.

use super::finding::{Finding, Rule};
use crate::rust_file::RustFile;

const SERVER: &str = "crates/server/src/";
const DOORS: [&str; 3] = ["http", "resp", "ws"];
/// The places that start the doors.
const STARTERS: [&str; 2] = ["app.rs", "lib.rs"];
/// Those who carry answers of the coordinator to whoever asked.
const CARRIERS: [&str; 3] = ["handle.rs", "handle/", "shard_task.rs"];

/// Some names with `::` between them, as they stand in an expression or are joined by a `use`.
struct Path<'a> {
    names: Vec<&'a str>,
    /// The token of its last name.
    at: usize,
}

pub(crate) fn check(source: &RustFile) -> Vec<Finding> {
    let Some(file) = source.path.strip_prefix(SERVER) else { return Vec::new() };
    let is_carrier = CARRIERS.iter().any(|carrier| file.starts_with(carrier));
    let breaches = paths(source).into_iter().filter_map(|path| {
        let line = *source.code[path.at].lines.start();
        let may_answer = is_carrier || source.is_test_at(line);
        let message = door_breach(file, &path.names)
            .or_else(|| answer_breach(&path.names).filter(|_| !may_answer))?;
        Some(Finding::new(Rule::DoorImport, &source.path, line, message))
    });
    breaches.collect()
}

fn door_breach(file: &str, names: &[&str]) -> Option<String> {
    let own = file.strip_prefix("doors/").map(|rest| rest.split('/').next().unwrap_or(rest));
    let doors = names.iter().position(|name| *name == "doors");
    match own {
        // A file beside the doors, such as their table of contents, may name all of them.
        Some(own) if !DOORS.contains(&own) => None,
        Some(own) => {
            let after_doors = doors.and_then(|at| names.get(at + 1)).copied();
            let parents = names.iter().take_while(|name| **name == "super").count();
            let after_parents = (parents > 0).then(|| names.get(parents).copied()).flatten();
            let mut meant = [after_doors, after_parents].into_iter().flatten();
            let other = meant.find(|name| *name != own && DOORS.contains(name))?;
            Some(format!("door `{own}` imports door `{other}`; share the words in wire_words"))
        }
        None if STARTERS.contains(&file) => None,
        None => doors.filter(|at| *at > 0).map(|_| {
            "a module outside of the doors imports a door; share the words in wire_words".to_owned()
        }),
    }
}

fn answer_breach(names: &[&str]) -> Option<String> {
    names.starts_with(&["coordinator", "Answer"]).then(|| {
        "the coordinator's Answer is for the handle of a shard; call the method of the command"
            .to_owned()
    })
}

/// Every path of a file. A group after `use` gives one path for each of its names.
fn paths(file: &RustFile) -> Vec<Path<'_>> {
    let mut found = Vec::new();
    let mut at = 0;
    while at < file.code.len() {
        at = read(file, at, &[], &mut found).max(at + 1);
    }
    found
}

/// Reads what begins here, behind the names of the groups around it; gives where that ends.
fn read<'a>(
    file: &'a RustFile,
    mut at: usize,
    before: &[&'a str],
    found: &mut Vec<Path<'a>>,
) -> usize {
    let mut names = before.to_vec();
    while let Some(token) = file.code.get(at).filter(|token| token.is_name) {
        names.push(&token.text);
        if !file.reads(at + 1, &["::"]) {
            found.push(Path { names, at });
            return at + 1;
        }
        at += 2;
    }
    if names.len() == before.len() {
        return at;
    }
    if !file.reads(at, &["{"]) {
        // All of a module (`*`), or a function with its types.
        found.push(Path { names, at: at - 2 });
        return at;
    }
    at += 1;
    while at < file.code.len() && !file.reads(at, &["}"]) {
        at = read(file, at, &names, found).max(at + 1);
    }
    at + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_door_imports_no_other_door() {
        for text in [
            "use crate::doors::http::problem::ApiError;",
            "use crate::doors::http;",
            "use crate::doors::{http, tls};",
            "use crate::{app::App, doors::{tls, http::problem}};",
            "use super::super::http::problem;",
            "use super::{super::http::problem, log};",
            "fn a() { crate::doors::http::b() }",
            "fn a() { crate::doors::http::b::<u8>() }",
            "use crate::doors::http::*;",
        ] {
            check("doors/ws/listener.rs", text, 1);
            check("doors/resp/listener.rs", text, 1);
            check("doors/other.rs", text, 0);
            check("doors/mod.rs", text, 0);
        }
        for text in [
            "use crate::doors::tls;",
            "use crate::doors::ws::wire;",
            "use crate::wire_words::problem::ApiError;",
            "use super::super::log;",
            "use axum::http::StatusCode;",
            "use crate::metrics::ws::WsMetrics;",
            "// crate::doors::http says how.",
        ] {
            check("doors/ws/listener.rs", text, 0);
        }
    }

    #[test]
    fn only_those_who_start_the_doors_import_them() {
        for text in [
            "use crate::doors::http::problem::ApiError;",
            "use crate::{doors, events};",
            "use crate::{events, doors::tls};",
            "fn a() { crate::doors::tls::b() }",
        ] {
            check("plans/job.rs", text, 1);
            check("app.rs", text, 0);
            check("lib.rs", text, 0);
        }
        check("plans/job.rs", "fn a(doors: u8) { doors.b(); }", 0);
        check("plans/job.rs", "use crate::{events, keyspace};", 0);
    }

    #[test]
    fn answers_of_the_coordinator_are_taken_apart_by_the_handle() {
        for text in [
            "use coordinator::{Answer, Command};",
            "use coordinator::Answer;",
            "pub use coordinator::Answer as Said;",
            "fn a(b: coordinator::Answer) {}",
            "fn a() { coordinator::Answer::NotLive }",
        ] {
            check("doors/http/tasks.rs", text, 1);
            check("bulk.rs", text, 1);
            check("handle.rs", text, 0);
            check("handle/commands.rs", text, 0);
            check("shard_task.rs", text, 0);
            check("events/tests.rs", text, 0);
        }
        check("keyspace/memory.rs", "use keyspace::Answer;", 0);
        check("bulk.rs", "use coordinator::{Refusal, Verdict};", 0);
    }

    fn check(file: &str, text: &str, expected: usize) {
        let path = format!("{SERVER}{file}");
        let findings = super::check(&RustFile::read(&path, text).unwrap());
        assert_eq!(findings.len(), expected, "{path}: {text}");
    }
}
