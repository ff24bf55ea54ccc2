//! Nothing grows without bound.

use std::fs;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::super::{FeedbackHub, LogContent, LogLimits};
use super::torn::files_of;
use super::{block_on, bytes_of, lease, open, read_all, small, take, task};
use crate::waiting::wait_until;

#[test]
fn the_log_of_one_task_is_bounded_and_says_what_is_gone() {
    let folder = tempfile::tempdir().expect("a folder");
    let hub = open(folder.path());
    let line = b"a line of forty characters, newline too\n";
    for number in 0..10_000 {
        take(&hub, lease(1, 1), Some(number * 40), line);
    }
    let limit = small().task_bytes_max;
    assert!(disk_bytes(folder.path()) <= limit, "{}", disk_bytes(folder.path()));
    let entries = read_all(&hub, task(1), 0, 10_000);
    assert_eq!((entries[0].offset, &entries[0].content), (0, &LogContent::Dropped));
    let kept = bytes_of(&entries);
    assert_eq!(kept.len() as u64 + entries[0].next_offset, 400_000);
    // Most of what little lines take are their heads.
    assert!(kept.len() as u64 > limit / 3, "{}", kept.len());
    assert!(kept.ends_with(line));
}

#[test]
fn all_logs_together_are_bounded_and_the_oldest_go_first() {
    let folder = tempfile::tempdir().expect("a folder");
    let limits = LogLimits { total_bytes_max: 1024 * 1024, ..small() };
    let hub = FeedbackHub::open(folder.path().to_owned(), limits).expect("a hub");
    let said = vec![b'x'; 30_000];
    for number in 0..100 {
        take(&hub, lease(number, 1), Some(0), &said);
        next_millisecond();
    }
    take(&hub, lease(70, 1), Some(30_000), b"again");
    for number in 100..115 {
        take(&hub, lease(number, 1), Some(0), &said);
        next_millisecond();
    }
    block_on(hub.settled(task(0))).expect("settled");
    assert!(disk_bytes(folder.path()) <= limits.total_bytes_max);
    let is_there = |number| !read_all(&hub, task(number), 0, 100_000).is_empty();
    let there: Vec<u64> = (0..115).filter(|number| is_there(*number)).collect();
    assert!(there.len() >= 25, "{there:?}");
    assert!(there.contains(&70), "it was written lately: {there:?}");
    let others: Vec<u64> = there.iter().copied().filter(|number| *number != 70).collect();
    assert_eq!(others, (115 - others.len() as u64..115).collect::<Vec<_>>());
    // A live log that was removed goes on where it was, and says what is gone.
    take(&hub, lease(1, 1), Some(30_000), b"late");
    let entries = read_all(&hub, task(1), 0, 100);
    assert_eq!((entries[0].next_offset, bytes_of(&entries)), (30_000, b"late".to_vec()));
}

#[test]
fn a_restarted_hub_knows_what_lies_there() {
    let folder = tempfile::tempdir().expect("a folder");
    let hub = open(folder.path());
    for number in 0..40 {
        take(&hub, lease(number, 1), Some(0), b"x");
        next_millisecond();
    }
    drop(hub);
    let limits = LogLimits { logs_max: 10, ..small() };
    let hub = FeedbackHub::open(folder.path().to_owned(), limits).expect("a hub");
    take(&hub, lease(40, 1), Some(0), b"x");
    while files_of(folder.path()).len() > 10 {
        block_on(hub.settled(task(0))).expect("settled");
    }
    let is_there = |number| !read_all(&hub, task(number), 0, 100).is_empty();
    let there: Vec<u64> = (0..41).filter(|number| is_there(*number)).collect();
    assert_eq!(there, (31..41).collect::<Vec<_>>());
}

/// Logs are as old as the millisecond in which they were last written, and the clock of the file
/// system may lag behind: waits until a file that is written is younger than all before.
fn next_millisecond() {
    let millis = |at: SystemTime| at.duration_since(UNIX_EPOCH).expect("after 1970").as_millis();
    let before = millis(SystemTime::now());
    let probe = tempfile::NamedTempFile::new().expect("a file");
    let younger = async || {
        fs::write(probe.path(), "x").expect("written");
        let written = fs::metadata(probe.path()).and_then(|metadata| metadata.modified());
        let written = millis(written.expect("a time"));
        if written > before { Ok(()) } else { Err(written) }
    };
    block_on(wait_until("the next millisecond", Duration::from_secs(5), younger));
}

fn disk_bytes(folder: &Path) -> u64 {
    files_of(folder).iter().map(|path| fs::metadata(path).expect("readable").len()).sum()
}
