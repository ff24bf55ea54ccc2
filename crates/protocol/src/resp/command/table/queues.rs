//! What waits.

use super::super::CommandSpec;
use super::super::argument::{integer, key};

const GROUP: &str = "queue";

pub(super) const COMMANDS: &[CommandSpec] = &[
    CommandSpec::new("queue.pause", 2, GROUP)
        .flags(&["write", "fast"])
        .key_places(1, 1, 1)
        .summary("Stops handing out the jobs of a queue.", "O(1)")
        .arguments(&[key("queue")]),
    CommandSpec::new("queue.peek", -2, GROUP)
        .flags(&["readonly"])
        .key_places(1, 1, 1)
        .summary("Shows what waits in a queue, without taking it.", "O(N) for N jobs given")
        .arguments(&[key("queue"), integer("count").optional()]),
    CommandSpec::new("queue.resume", 2, GROUP)
        .flags(&["write", "fast"])
        .key_places(1, 1, 1)
        .summary("Hands out the jobs of a queue again.", "O(1)")
        .arguments(&[key("queue")]),
    CommandSpec::new("queue.stats", -1, GROUP)
        .flags(&["readonly", "fast"])
        .key_places(1, 1, 1)
        .summary("Counts what waits and what runs, in all queues or in one.", "O(N) for N queues")
        .arguments(&[key("queue").optional()]),
];
