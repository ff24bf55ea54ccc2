//! Keys that hold members.

use super::super::CommandSpec;
use super::super::argument::{integer, key, pattern, string};

const GROUP: &str = "set";

pub(super) const COMMANDS: &[CommandSpec] = &[
    CommandSpec::new("sadd", -3, GROUP)
        .flags(&["write", "denyoom", "fast"])
        .key_places(1, 1, 1)
        .summary("Adds members, and counts the new ones.", "O(N) for N members named")
        .arguments(&[key("key"), string("member").multiple()]),
    CommandSpec::new("scard", 2, GROUP)
        .flags(&["readonly", "fast"])
        .key_places(1, 1, 1)
        .summary("Counts the members.", "O(1)")
        .arguments(&[key("key")]),
    CommandSpec::new("sdiff", -2, GROUP)
        .flags(&["readonly"])
        .key_places(1, -1, 1)
        .summary(
            "Gives the members of the first set that are in none of the others.",
            "O(N) for all members together",
        )
        .arguments(&[key("key").multiple()]),
    CommandSpec::new("sdiffstore", -3, GROUP)
        .flags(&["write", "denyoom"])
        .key_places(1, -1, 1)
        .summary(
            "Keeps the members of the first set that are in none of the others.",
            "O(N) for all members together",
        )
        .arguments(&[key("destination"), key("key").multiple()]),
    CommandSpec::new("sinter", -2, GROUP)
        .flags(&["readonly"])
        .key_places(1, -1, 1)
        .summary(
            "Gives the members that are in all sets.",
            "O(N*M) for N members of the smallest of M sets",
        )
        .arguments(&[key("key").multiple()]),
    CommandSpec::new("sinterstore", -3, GROUP)
        .flags(&["write", "denyoom"])
        .key_places(1, -1, 1)
        .summary(
            "Keeps the members that are in all sets.",
            "O(N*M) for N members of the smallest of M sets",
        )
        .arguments(&[key("destination"), key("key").multiple()]),
    CommandSpec::new("sismember", 3, GROUP)
        .flags(&["readonly", "fast"])
        .key_places(1, 1, 1)
        .summary("Says whether a member is there.", "O(1)")
        .arguments(&[key("key"), string("member")]),
    CommandSpec::new("smembers", 2, GROUP)
        .flags(&["readonly"])
        .key_places(1, 1, 1)
        .summary("Lists the members.", "O(N) for N members")
        .arguments(&[key("key")]),
    CommandSpec::new("smismember", -3, GROUP)
        .flags(&["readonly", "fast"])
        .key_places(1, 1, 1)
        .summary("Says of several members whether they are there.", "O(N) for N members named")
        .arguments(&[key("key"), string("member").multiple()]),
    CommandSpec::new("smove", 4, GROUP)
        .flags(&["write", "fast"])
        .key_places(1, 2, 1)
        .summary("Moves a member to another set.", "O(1)")
        .arguments(&[key("source"), key("destination"), string("member")]),
    CommandSpec::new("spop", -2, GROUP)
        .flags(&["write", "fast"])
        .key_places(1, 1, 1)
        .summary("Takes any members out.", "O(N) for N members taken")
        .arguments(&[key("key"), integer("count").optional()]),
    CommandSpec::new("srandmember", -2, GROUP)
        .flags(&["readonly"])
        .key_places(1, 1, 1)
        .summary("Gives any members.", "O(N) for N members given")
        .arguments(&[key("key"), integer("count").optional()]),
    CommandSpec::new("srem", -3, GROUP)
        .flags(&["write", "fast"])
        .key_places(1, 1, 1)
        .summary("Removes members, and counts those that were there.", "O(N) for N members named")
        .arguments(&[key("key"), string("member").multiple()]),
    CommandSpec::new("sscan", -3, GROUP)
        .flags(&["readonly"])
        .key_places(1, 1, 1)
        .summary(
            "Goes through the members, a part at a time.",
            "O(N) for all parts together, N members",
        )
        .arguments(&[
            key("key"),
            integer("cursor"),
            pattern("pattern").after("MATCH").optional(),
            integer("count").after("COUNT").optional(),
        ]),
    CommandSpec::new("sunion", -2, GROUP)
        .flags(&["readonly"])
        .key_places(1, -1, 1)
        .summary("Gives the members that are in any of the sets.", "O(N) for all members together")
        .arguments(&[key("key").multiple()]),
    CommandSpec::new("sunionstore", -3, GROUP)
        .flags(&["write", "denyoom"])
        .key_places(1, -1, 1)
        .summary("Keeps the members that are in any of the sets.", "O(N) for all members together")
        .arguments(&[key("destination"), key("key").multiple()]),
];
