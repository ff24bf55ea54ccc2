//! Crashes in the middle of a write.

use std::fs::{self, OpenOptions};
use std::path::{Path, PathBuf};

use super::{bytes_of, dropped_of, lease, open, read_all, take, task};

/// All files of logs, those with a lower base first.
pub(super) fn files_of(folder: &Path) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).expect("readable") {
            let path = entry.expect("readable").path();
            if path.is_dir() { folders.push(path) } else { files.push(path) }
        }
    }
    files.sort_by_key(|path| {
        let name = path.file_stem().and_then(|name| name.to_str()).expect("text");
        name.rsplit('.').next().and_then(|base| base.parse::<u64>().ok())
    });
    files
}

#[test]
fn a_write_that_was_cut_off_anywhere_is_as_if_it_never_was() {
    let folder = tempfile::tempdir().expect("a folder");
    let hub = open(folder.path());
    take(&hub, lease(1, 1), Some(0), b"first ");
    let before = file_bytes(folder.path());
    take(&hub, lease(1, 1), Some(6), b"second");
    let after = file_bytes(folder.path());
    drop(hub);
    for length in before..after {
        cut(folder.path(), length);
        let hub = open(folder.path());
        let (entries, end) = (read_all(&hub, task(1), 0, 100), hub.read(task(1), 99, 9));
        assert_eq!(bytes_of(&entries), b"first ", "cut at {length}");
        assert_eq!(end.expect("readable").next_offset, 6);
        // The worker sends again what was not confirmed, and a little more than that.
        take(&hub, lease(1, 1), Some(3), b"st second");
        let entries = read_all(&hub, task(1), 0, 100);
        assert_eq!(
            (bytes_of(&entries).as_slice(), dropped_of(&entries)),
            (&b"first second"[..], 0)
        );
        drop(hub);
        assert_eq!(file_bytes(folder.path()), after, "nothing of the cut write is left");
    }
}

#[test]
fn a_file_that_was_cut_off_at_its_beginning_says_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let hub = open(folder.path());
    take(&hub, lease(1, 1), Some(0), &[b'a'; 7000]);
    take(&hub, lease(1, 1), Some(7000), &[b'b'; 7000]);
    drop(hub);
    let files = files_of(folder.path());
    assert!(files.len() >= 2, "{files:?}");
    cut(folder.path(), 5);
    let hub = open(folder.path());
    take(&hub, lease(1, 1), Some(0), &[b'a'; 7000]);
    take(&hub, lease(1, 1), Some(7000), &[b'b'; 7000]);
    let entries = read_all(&hub, task(1), 0, 1000);
    let whole = [[b'a'; 7000], [b'b'; 7000]].concat();
    assert_eq!((bytes_of(&entries), dropped_of(&entries)), (whole, 0));
}

#[test]
fn damage_in_the_middle_is_a_gap_and_the_rest_is_there() {
    let folder = tempfile::tempdir().expect("a folder");
    let hub = open(folder.path());
    for position in 0..4 {
        take(&hub, lease(1, 1), Some(position * 5000), &[b'a'; 5000]);
    }
    drop(hub);
    let files = files_of(folder.path());
    let mut bytes = fs::read(&files[0]).expect("readable");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&files[0], bytes).expect("written");
    let hub = open(folder.path());
    let entries = read_all(&hub, task(1), 0, 1000);
    let dropped = dropped_of(&entries);
    assert!(dropped > 0 && dropped < 10_000, "{dropped}");
    assert_eq!(bytes_of(&entries).len() as u64 + dropped, 20_000);
}

fn file_bytes(folder: &Path) -> u64 {
    let last = files_of(folder).pop().expect("a file");
    fs::metadata(last).expect("readable").len()
}

fn cut(folder: &Path, length: u64) {
    let last = files_of(folder).pop().expect("a file");
    OpenOptions::new().write(true).open(last).and_then(|file| file.set_len(length)).expect("cut");
}
