//! Memory that several tasks of the server share stands in a written list, with a reason.
//!
//! What is true of a tenant belongs to its shard. A lock or a channel in the server is where facts
//! would gather beside it.

use std::collections::BTreeMap;

use super::finding::{Finding, Rule};
use super::repository::Repository;
use crate::rust_file::RustFile;

/// Lines of the form `path type reason`; `#` starts a comment.
const LIST: &str = "crates/xtask/tidy-locks.txt";
const SERVER: &str = "crates/server/src/";

const TYPES: [&str; 6] = ["Mutex", "RwLock", "OnceLock", "OnceCell", "Notify", "DashMap"];
/// Names of modules that are names of functions elsewhere, too.
const CHANNELS: [&str; 4] = ["mpsc", "oneshot", "watch", "broadcast"];

pub(crate) fn check(repository: &Repository, files: &[RustFile]) -> Vec<Finding> {
    let mut found = BTreeMap::new();
    for file in files.iter().filter(|file| file.path.starts_with(SERVER)) {
        for at in 0..file.code.len() {
            let line = *file.code[at].lines.start();
            if let Some(name) = shared(file, at).filter(|_| !file.is_test_at(line)) {
                found.entry((&*file.path, name)).or_insert(line);
            }
        }
    }
    let list = repository.texts.iter().find(|file| file.path == LIST);
    let mut findings = Vec::new();
    for (index, line) in list.map_or("", |file| &file.text).lines().enumerate() {
        let Some((path, name, reason)) = entry(line) else { continue };
        let message = if reason.is_empty() {
            "an entry is `path type reason`".to_owned()
        } else if found.remove(&(path, name)).is_none() {
            format!("{path} has no {name} any more; remove the entry")
        } else {
            continue;
        };
        findings.push(Finding::new(Rule::Lock, LIST, index + 1, message));
    }
    findings.extend(found.into_iter().map(|((path, name), line)| {
        let message = format!("{name} is not in {LIST}; what is true of a tenant is its shard's");
        Finding::new(Rule::Lock, path, line, message)
    }));
    findings
}

fn entry(line: &str) -> Option<(&str, &str, &str)> {
    let line = line.split('#').next().unwrap_or_default().trim();
    let mut words = line.splitn(2, char::is_whitespace);
    let (path, rest) = (words.next().filter(|path| !path.is_empty())?, words.next().unwrap_or(""));
    let (name, reason) = rest.trim().split_once(char::is_whitespace).unwrap_or((rest.trim(), ""));
    Some((path, name, reason.trim()))
}

fn shared(file: &RustFile, at: usize) -> Option<&'static str> {
    let is = |name: &&&str| file.reads(at, &[**name]);
    let channel = || CHANNELS.iter().find(is).filter(|_| file.reads(at + 1, &["::"]));
    TYPES.iter().find(is).or_else(channel).copied()
}

#[cfg(test)]
mod tests {
    use super::super::repository::TextFile;
    use super::*;

    #[test]
    fn locks_and_channels_of_the_server_are_found_once_a_file() {
        check("use parking_lot::Mutex;\nfn a(b: Mutex<u8>) {}\n", "", &["a.rs:1 Mutex"]);
        check("use tokio::sync::mpsc::Sender;\n", "", &["a.rs:1 mpsc"]);
        check(
            "fn a(b: watch::Receiver<u8>) { oneshot::channel() }",
            "",
            &["a.rs:1 oneshot", "a.rs:1 watch"],
        );
        check("fn watch() { events::watch(broadcast) } // Mutex\n", "", &[]);
        check("#[cfg(test)]\nmod tests { fn a(b: Mutex<u8>) {} }\n", "", &[]);
    }

    #[test]
    fn the_list_silences_one_type_of_one_file_and_has_no_entry_too_many() {
        let both = "use parking_lot::{Mutex, RwLock};\n";
        let listed = "crates/server/src/a.rs Mutex reply senders\n";
        check(both, listed, &["a.rs:1 RwLock"]);
        check("fn a() {}\n", &format!("# why\n\n{listed}"), &["tidy-locks.txt:3 any more"]);
        check(
            "use b::Mutex;\n",
            "crates/server/src/a.rs Mutex\n",
            &["a.rs:1 Mutex", "tidy-locks.txt:1 reason"],
        );
    }

    fn check(text: &str, list: &str, expected: &[&str]) {
        let mut repository = Repository::default();
        repository.texts.push(TextFile { path: LIST.into(), text: list.into() });
        let file = RustFile::read("crates/server/src/a.rs", text).unwrap();
        let mut findings = super::check(&repository, &[file]);
        findings.sort();
        assert_eq!(findings.len(), expected.len(), "{findings:?}");
        for (finding, expected) in findings.iter().zip(expected) {
            let (place, word) = expected.split_once(' ').expect("place and word");
            let told = format!("{}:{} {}", finding.path, finding.line, finding.message);
            assert!(told.contains(place) && told.contains(word), "{told}: {expected}");
        }
    }
}
