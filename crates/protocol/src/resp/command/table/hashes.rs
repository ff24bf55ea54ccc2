//! Keys that hold fields.

use super::super::CommandSpec;
use super::super::argument::{block, double, integer, key, pattern, string, word};

const GROUP: &str = "hash";

pub(super) const COMMANDS: &[CommandSpec] = &[
    CommandSpec::new("hdel", -3, GROUP)
        .flags(&["write", "fast"])
        .key_places(1, 1, 1)
        .summary("Removes fields, and counts those that were there.", "O(N) for N fields named")
        .arguments(&[key("key"), string("field").multiple()]),
    CommandSpec::new("hexists", 3, GROUP)
        .flags(&["readonly", "fast"])
        .key_places(1, 1, 1)
        .summary("Says whether a field is there.", "O(1)")
        .arguments(&[key("key"), string("field")]),
    CommandSpec::new("hget", 3, GROUP)
        .flags(&["readonly", "fast"])
        .key_places(1, 1, 1)
        .summary("Gives the value of a field.", "O(1)")
        .arguments(&[key("key"), string("field")]),
    CommandSpec::new("hgetall", 2, GROUP)
        .flags(&["readonly"])
        .key_places(1, 1, 1)
        .summary("Gives all fields with their values.", "O(N) for N fields")
        .arguments(&[key("key")]),
    CommandSpec::new("hincrby", 4, GROUP)
        .flags(&["write", "denyoom", "fast"])
        .key_places(1, 1, 1)
        .summary("Adds so much to the number in a field.", "O(1)")
        .arguments(&[key("key"), string("field"), integer("increment")]),
    CommandSpec::new("hincrbyfloat", 4, GROUP)
        .flags(&["write", "denyoom", "fast"])
        .key_places(1, 1, 1)
        .summary("Adds so much to the number in a field, which may have a fraction.", "O(1)")
        .arguments(&[key("key"), string("field"), double("increment")]),
    CommandSpec::new("hkeys", 2, GROUP)
        .flags(&["readonly"])
        .key_places(1, 1, 1)
        .summary("Lists the fields.", "O(N) for N fields")
        .arguments(&[key("key")]),
    CommandSpec::new("hlen", 2, GROUP)
        .flags(&["readonly", "fast"])
        .key_places(1, 1, 1)
        .summary("Counts the fields.", "O(1)")
        .arguments(&[key("key")]),
    CommandSpec::new("hmget", -3, GROUP)
        .flags(&["readonly", "fast"])
        .key_places(1, 1, 1)
        .summary("Gives the values of several fields.", "O(N) for N fields named")
        .arguments(&[key("key"), string("field").multiple()]),
    CommandSpec::new("hmset", -4, GROUP)
        .flags(&["write", "denyoom", "fast"])
        .key_places(1, 1, 1)
        .summary("Writes several fields and answers OK.", "O(N) for N fields named")
        .arguments(&[
            key("key"),
            block("field_value", &[string("field"), string("value")]).multiple(),
        ]),
    CommandSpec::new("hrandfield", -2, GROUP)
        .flags(&["readonly"])
        .key_places(1, 1, 1)
        .summary("Gives any fields.", "O(N) for N fields given")
        .arguments(&[
            key("key"),
            block("options", &[integer("count"), word("withvalues", "WITHVALUES").optional()])
                .optional(),
        ]),
    CommandSpec::new("hscan", -3, GROUP)
        .flags(&["readonly"])
        .key_places(1, 1, 1)
        .summary(
            "Goes through the fields, a part at a time.",
            "O(N) for all parts together, N fields",
        )
        .arguments(&[
            key("key"),
            integer("cursor"),
            pattern("pattern").after("MATCH").optional(),
            integer("count").after("COUNT").optional(),
        ]),
    CommandSpec::new("hset", -4, GROUP)
        .flags(&["write", "denyoom", "fast"])
        .key_places(1, 1, 1)
        .summary("Writes fields, and counts the new ones.", "O(N) for N fields named")
        .arguments(&[
            key("key"),
            block("field_value", &[string("field"), string("value")]).multiple(),
        ]),
    CommandSpec::new("hsetnx", 4, GROUP)
        .flags(&["write", "denyoom", "fast"])
        .key_places(1, 1, 1)
        .summary("Writes a field, unless it is there.", "O(1)")
        .arguments(&[key("key"), string("field"), string("value")]),
    CommandSpec::new("hstrlen", 3, GROUP)
        .flags(&["readonly", "fast"])
        .key_places(1, 1, 1)
        .summary("Counts the bytes of the value in a field.", "O(1)")
        .arguments(&[key("key"), string("field")]),
    CommandSpec::new("hvals", 2, GROUP)
        .flags(&["readonly"])
        .key_places(1, 1, 1)
        .summary("Lists the values.", "O(N) for N fields")
        .arguments(&[key("key")]),
];
