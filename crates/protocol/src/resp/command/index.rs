//! From a name to its command, in a few nanoseconds. The index is made by the compiler.

use super::CommandSpec;
use super::table::ALL;

/// A few times as many as there are commands, so that most names are found where they hash to.
const SLOTS: usize = 1024;
/// The place of no command.
const FREE: u16 = u16::MAX;
/// Places of commands in the table, each at the first free slot from its hash on.
static INDEX: [u16; SLOTS] = fill();

pub(super) fn find(name: &[u8]) -> Option<&'static CommandSpec> {
    let mut slot = hash(name);
    // There are fewer commands than slots, so that each search meets a free one.
    while INDEX[slot] != FREE {
        let spec = ALL[usize::from(INDEX[slot])];
        if spec.name.as_bytes().eq_ignore_ascii_case(name) {
            return Some(spec);
        }
        slot = (slot + 1) % SLOTS;
    }
    None
}

/// FNV-1a over the small letters, folded. It need not resist anybody: the table never grows.
const fn hash(name: &[u8]) -> usize {
    let mut sum: u32 = 0x811c_9dc5;
    let mut i = 0;
    while i < name.len() {
        sum = (sum ^ name[i].to_ascii_lowercase() as u32).wrapping_mul(0x0100_0193);
        i += 1;
    }
    (sum ^ (sum >> 16)) as usize % SLOTS
}

const fn fill() -> [u16; SLOTS] {
    assert!(ALL.len() < SLOTS / 2, "make room for more commands");
    let mut index = [FREE; SLOTS];
    let mut i: u16 = 0;
    while (i as usize) < ALL.len() {
        let mut slot = hash(ALL[i as usize].name.as_bytes());
        while index[slot] != FREE {
            slot = (slot + 1) % SLOTS;
        }
        index[slot] = i;
        i += 1;
    }
    index
}
