//! Messages for whoever listens.

use super::super::CommandSpec;
use super::super::argument::{block, pattern, string};

const GROUP: &str = "pubsub";

pub(super) const COMMANDS: &[CommandSpec] = &[
    CommandSpec::new("psubscribe", -2, GROUP)
        .flags(&["pubsub"])
        .summary("Listens to all channels whose names fit a pattern.", "O(N) for N patterns")
        .arguments(&[block("pattern", &[pattern("pattern")]).multiple()]),
    CommandSpec::new("punsubscribe", -1, GROUP)
        .flags(&["pubsub"])
        .summary("Stops listening to patterns, or to all of them.", "O(N) for N patterns")
        .arguments(&[pattern("pattern").optional().multiple()]),
    CommandSpec::new("subscribe", -2, GROUP)
        .flags(&["pubsub"])
        .summary("Listens to channels.", "O(N) for N channels")
        .arguments(&[string("channel").multiple()]),
    CommandSpec::new("unsubscribe", -1, GROUP)
        .flags(&["pubsub"])
        .summary("Stops listening to channels, or to all of them.", "O(N) for N channels")
        .arguments(&[string("channel").optional().multiple()]),
];
