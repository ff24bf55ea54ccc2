//! A disk that does not take logs costs logs, and they say how much.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use protocol::session::payload::exec::{Channel, Feedback};

use super::super::{FeedbackError, FeedbackHub, LogContent};
use super::{block_on, bytes_of, dropped_of, lease, open, read_all, said, silence, take, task};

#[test]
fn what_a_full_disk_did_not_take_is_marked_once_it_takes_more() {
    let folder = tempfile::tempdir().expect("a folder");
    let hub = open(folder.path());
    // The device is full: it opens, and takes nothing.
    let drawer = folder.path().join("1/01");
    let log = drawer.join(format!("{}.0.log", task(1)));
    fs::create_dir_all(&drawer).expect("a folder");
    symlink("/dev/full", &log).expect("linked");
    let lost = Feedback { progress: Some(0.5), ..said(Channel::Stdout, Some(0), b"lost") };
    assert_eq!(block_on(hub.take(lease(1, 1), lost, None)), Err(FeedbackError::Unwritable));
    assert_eq!(hub.snapshot(task(1)).and_then(|seen| seen.progress), Some(0.5));
    assert_eq!(block_on(hub.take(lease(1, 1), silence(), None)), Ok(()));
    fs::remove_file(&log).expect("removed");
    take(&hub, lease(1, 1), Some(4), b"after");
    let entries = read_all(&hub, task(1), 0, 100);
    let gap = entries.iter().find(|entry| entry.content == LogContent::Dropped);
    assert_eq!(gap.map(|gap| (gap.offset, gap.next_offset)), Some((0, 4)));
    assert_eq!(bytes_of(&entries), b"after");
    assert!(fs::metadata(&log).is_ok_and(|about| about.is_file()), "the log lies where it should");
}

#[test]
fn what_is_sent_again_after_all_is_not_lost() {
    let folder = tempfile::tempdir().expect("a folder");
    let hub = open(folder.path());
    break_shard(folder.path());
    let first = said(Channel::Stdout, Some(0), b"first");
    assert_eq!(block_on(hub.take(lease(1, 1), first, None)), Err(FeedbackError::Unwritable));
    mend_shard(folder.path());
    take(&hub, lease(1, 1), Some(0), b"first second");
    let entries = read_all(&hub, task(1), 0, 100);
    assert_eq!((bytes_of(&entries).as_slice(), dropped_of(&entries)), (&b"first second"[..], 0));
}

#[test]
fn a_loss_is_marked_although_nothing_follows_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let hub = open(folder.path());
    break_shard(folder.path());
    for (epoch, position) in [(1, Some(0)), (2, None), (2, None)] {
        let lost = said(Channel::Stdout, position, b"12345");
        assert_eq!(block_on(hub.take(lease(1, epoch), lost, None)), Err(FeedbackError::Unwritable));
    }
    mend_shard(folder.path());
    let mut follower = hub.follow(task(1));
    block_on(async {
        while end(&hub) < 15 {
            assert!(follower.changed().await, "the hub lives");
        }
    });
    let entries = read_all(&hub, task(1), 0, 100);
    assert_eq!((dropped_of(&entries), bytes_of(&entries).len()), (15, 0));
}

#[test]
fn a_log_whose_file_was_removed_goes_on_in_a_new_one() {
    let folder = tempfile::tempdir().expect("a folder");
    let hub = open(folder.path());
    take(&hub, lease(1, 1), Some(0), b"12345");
    // So many other logs are written that this one's file is closed.
    for number in 2..200 {
        take(&hub, lease(number, 1), Some(0), b"x");
    }
    fs::remove_dir_all(folder.path().join("1/01")).expect("removed");
    let lost = said(Channel::Stdout, Some(5), b"678");
    assert_eq!(block_on(hub.take(lease(1, 1), lost, None)), Err(FeedbackError::Unwritable));
    take(&hub, lease(1, 1), Some(8), b"90");
    let entries = read_all(&hub, task(1), 0, 100);
    assert_eq!((dropped_of(&entries), bytes_of(&entries).as_slice()), (8, &b"90"[..]));
}

#[test]
fn a_hub_starts_although_the_logs_of_a_shard_cannot_be_read() {
    let folder = tempfile::tempdir().expect("a folder");
    break_shard(folder.path());
    let hub = open(folder.path());
    assert_eq!(end(&hub), 0);
}

fn end(hub: &FeedbackHub) -> u64 {
    hub.read(task(1), u64::MAX, 1).expect("readable").next_offset
}

/// A file stands where the shard's folder belongs.
fn break_shard(folder: &Path) {
    fs::write(folder.join("1"), b"in the way").expect("written");
}

fn mend_shard(folder: &Path) {
    fs::remove_file(folder.join("1")).expect("removed");
}
