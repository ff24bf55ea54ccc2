//! Followers see everything once, while it is written.

use std::collections::BTreeMap;
use std::sync::Arc;

use protocol::session::payload::exec::Channel;

use super::super::{FeedbackHub, LogContent, LogCursor};
use super::{lease, open, said, take, task};

const CHUNKS: u64 = 400;

/// Reads until the task is settled; gives what each attempt said.
async fn follow(hub: Arc<FeedbackHub>, page: usize) -> BTreeMap<u32, Vec<u8>> {
    let mut follower = hub.follow(task(1));
    let mut cursor = LogCursor::new(task(1), 0);
    let mut said: BTreeMap<u32, Vec<u8>> = BTreeMap::new();
    let mut offset = 0;
    loop {
        let is_settled = follower.is_settled();
        let (next, read) = hub.next_page(cursor, page).await.expect("readable");
        cursor = next;
        for entry in &read.entries {
            assert_eq!(entry.offset, offset, "nothing is missed and nothing comes twice");
            offset = entry.next_offset;
            let LogContent::Said { attempt, bytes, .. } = &entry.content else {
                panic!("nothing is lost");
            };
            said.entry(*attempt).or_default().extend_from_slice(bytes);
        }
        if read.entries.is_empty() && is_settled {
            return said;
        }
        if read.entries.is_empty() {
            assert!(follower.changed().await, "the hub lives");
        }
    }
}

fn text(epoch: u32, number: u64) -> String {
    format!("{epoch}:{number:05}\n")
}

async fn speak(hub: Arc<FeedbackHub>, epoch: u32) {
    let mut position = 0;
    for number in 0..CHUNKS {
        let text = text(epoch, number);
        let chunk = said(Channel::Stdout, Some(position), text.as_bytes());
        hub.take(lease(1, epoch), chunk, None).await.expect("taken");
        position += text.len() as u64;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn followers_see_everything_once_while_it_is_written() {
    let folder = tempfile::tempdir().expect("a folder");
    let limits = super::LogLimits::default();
    let hub = Arc::new(FeedbackHub::open(folder.path().to_owned(), limits).expect("a hub"));
    let followers: Vec<_> =
        [7, 100, 65_536].map(|page| tokio::spawn(follow(Arc::clone(&hub), page))).into();
    let speakers: Vec<_> =
        (1..=4).map(|epoch| tokio::spawn(speak(Arc::clone(&hub), epoch))).collect();
    for speaker in speakers {
        speaker.await.expect("spoken");
    }
    // Followers that have not started to follow yet would miss the end.
    while hub.followers(task(1)) < 3 {
        tokio::task::yield_now().await;
    }
    hub.settled(task(1)).await.expect("settled");
    let expected: BTreeMap<u32, Vec<u8>> = (1..=4)
        .map(|epoch| (epoch, (0..CHUNKS).flat_map(|n| text(epoch, n).into_bytes()).collect()))
        .collect();
    for follower in followers {
        assert!(follower.await.expect("followed") == expected);
    }
    assert_eq!(hub.followers(task(1)), 0, "nobody is remembered");
}

#[tokio::test]
async fn who_follows_a_requeued_task_is_not_told_of_its_earlier_end() {
    let folder = tempfile::tempdir().expect("a folder");
    let hub = open(folder.path());
    let mut early = hub.follow(task(1));
    hub.settled(task(1)).await.expect("settled");
    let mut late = hub.follow(task(1));
    assert!(early.is_settled() && !late.is_settled());
    assert!(early.changed().await);
    hub.take(lease(1, 2), said(Channel::Log, None, b"more"), None).await.expect("taken");
    assert!(late.changed().await);
    hub.stop().await;
    assert!(!late.changed().await);
    hub.stop().await;
}

#[test]
fn a_follower_that_leaves_leaves_nothing_behind() {
    let folder = tempfile::tempdir().expect("a folder");
    let hub = open(folder.path());
    let (one, other) = (hub.follow(task(1)), hub.follow(task(1)));
    drop(one);
    assert_eq!(hub.followers(task(1)), 1);
    take(&hub, lease(1, 1), None, b"x");
    drop(other);
    assert_eq!(hub.followers(task(1)), 0);
}
