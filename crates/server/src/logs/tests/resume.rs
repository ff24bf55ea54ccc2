//! Random histories: whatever is sent again, cut or restarted, every offset reads as it should.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;

use proptest::prelude::*;
use protocol::session::payload::exec::Channel;

use super::super::{FeedbackHub, LogContent};
use super::model_log::ModelLog;
use super::{block_on, lease, open, read_all, said, task};

/// One thing that happens to a hub.
#[derive(Clone, Debug)]
enum Deed {
    /// The attempt sends bytes from so far behind, or so far ahead of, what it sent last.
    Send { epoch: u32, channel: Channel, shift: i64, bytes: Vec<u8> },
    /// It sends bytes without saying where they belong.
    SendLoose { epoch: u32, channel: Channel, bytes: Vec<u8> },
    /// The server is killed; the next one finds these bytes of an unfinished write.
    Kill { torn: Vec<u8> },
    /// The server is stopped and started.
    Restart,
}

fn channels() -> impl Strategy<Value = Channel> {
    prop::sample::select(vec![Channel::Stdout, Channel::Stderr, Channel::Llm])
}

/// Text, half characters, bytes.
fn contents(max: usize) -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        3 => "[a-zé€😀\n]{0,20}".prop_map(String::into_bytes),
        1 => prop::collection::vec(any::<u8>(), 0..max),
    ]
}

fn deeds(max: usize) -> impl Strategy<Value = Deed> {
    let shift = prop_oneof![6 => Just(0), 3 => -60_i64..0, 1 => 1_i64..20];
    prop_oneof![
        8 => (1_u32..4, channels(), shift, contents(max)).prop_map(
            |(epoch, channel, shift, bytes)| Deed::Send { epoch, channel, shift, bytes }
        ),
        2 => (1_u32..4, channels(), contents(max))
            .prop_map(|(epoch, channel, bytes)| Deed::SendLoose { epoch, channel, bytes }),
        1 => prop::collection::vec(any::<u8>(), 0..50).prop_map(|torn| Deed::Kill { torn }),
        1 => Just(Deed::Restart),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn every_offset_reads_on_from_where_it_is(
        deeds in prop::collection::vec(deeds(40), 1..40),
        page in 1_usize..200,
    ) {
        let folder = tempfile::tempdir().expect("a folder");
        let (hub, model) = play(folder.path(), &deeds);
        for offset in 0..=model.cells.len() as u64 {
            model.check(&read_all(&hub, task(7), offset, page), offset, 0);
        }
        let end = model.cells.len() as u64;
        for beyond in [end, end + 1, end + 1000] {
            let empty = hub.read(task(7), beyond, page).expect("readable");
            prop_assert_eq!((empty.entries.len(), empty.next_offset), (0, end));
        }
    }

    #[test]
    fn a_log_that_outgrows_its_bound_keeps_its_youngest_part(
        deeds in prop::collection::vec(deeds(12_000), 40..80),
        offsets in prop::collection::vec(0_u64..300_000, 20),
    ) {
        let folder = tempfile::tempdir().expect("a folder");
        let (hub, model) = play(folder.path(), &deeds);
        let end = model.cells.len() as u64;
        let first = hub.read(task(7), 0, 1).expect("readable");
        let kept_from = match first.entries.first() {
            Some(gap) if gap.content == LogContent::Dropped => model.cut_at(gap.next_offset),
            Some(_) | None => 0,
        };
        prop_assert!(end - kept_from >= end.min(40 * 1024), "{kept_from} of {end}");
        for offset in offsets.into_iter().filter(|offset| *offset <= end) {
            model.check(&read_all(&hub, task(7), offset, 5000), offset, kept_from);
        }
    }
}

/// Plays the history to a hub and to the model.
fn play(folder: &Path, deeds: &[Deed]) -> (FeedbackHub, ModelLog) {
    let (mut hub, mut model) = (open(folder), ModelLog::default());
    for deed in deeds {
        match deed {
            Deed::Send { epoch, channel, shift, bytes } => {
                let position = model.next_of(*epoch).saturating_add_signed(*shift);
                let position = if *shift < 0 && model.next_of(*epoch) < shift.unsigned_abs() {
                    0
                } else {
                    position
                };
                send(&hub, &mut model, (*epoch, *channel), Some(position), bytes);
            }
            Deed::SendLoose { epoch, channel, bytes } => {
                send(&hub, &mut model, (*epoch, *channel), None, bytes);
            }
            Deed::Kill { torn } => {
                // A killed process runs no destructors.
                std::mem::forget(hub);
                tear(folder, torn);
                hub = open(folder);
            }
            Deed::Restart => {
                drop(hub);
                hub = open(folder);
            }
        }
    }
    (hub, model)
}

fn send(
    hub: &FeedbackHub,
    model: &mut ModelLog,
    (epoch, channel): (u32, Channel),
    position: Option<u64>,
    bytes: &[u8],
) {
    block_on(hub.take(lease(7, epoch), said(channel, position, bytes), None)).expect("taken");
    model.take(epoch, channel, position, bytes);
}

/// Adds what an unfinished write leaves behind to the youngest file.
fn tear(folder: &Path, torn: &[u8]) {
    if let Some(path) = super::torn::files_of(folder).pop() {
        let mut file = OpenOptions::new().append(true).open(path).expect("a file");
        file.write_all(torn).expect("written");
    }
}
