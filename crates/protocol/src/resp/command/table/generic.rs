//! Keys, whatever they hold.

use super::super::CommandSpec;
use super::super::argument::{integer, key, one_of, pattern, string, unix_time, word};

const GROUP: &str = "generic";

pub(super) const COMMANDS: &[CommandSpec] = &[
    CommandSpec::new("del", -2, GROUP)
        .flags(&["write"])
        .key_places(1, -1, 1)
        .summary("Removes keys, and counts those that were there.", "O(N) for N values inside")
        .arguments(&[key("key").multiple()]),
    CommandSpec::new("exists", -2, GROUP)
        .flags(&["readonly", "fast"])
        .key_places(1, -1, 1)
        .summary(
            "Counts how many of the keys are there; one named twice counts twice.",
            "O(N) for N keys",
        )
        .arguments(&[key("key").multiple()]),
    CommandSpec::new("expire", -3, GROUP)
        .flags(&["write", "fast"])
        .key_places(1, 1, 1)
        .summary("Lets a key live for so many seconds.", "O(1)")
        .arguments(&[
            key("key"),
            integer("seconds"),
            one_of(
                "condition",
                &[word("nx", "NX"), word("xx", "XX"), word("gt", "GT"), word("lt", "LT")],
            )
            .optional(),
        ]),
    CommandSpec::new("expireat", -3, GROUP)
        .flags(&["write", "fast"])
        .key_places(1, 1, 1)
        .summary("Lets a key live until a second since 1970.", "O(1)")
        .arguments(&[
            key("key"),
            unix_time("unix-time-seconds"),
            one_of(
                "condition",
                &[word("nx", "NX"), word("xx", "XX"), word("gt", "GT"), word("lt", "LT")],
            )
            .optional(),
        ]),
    CommandSpec::new("expiretime", 2, GROUP)
        .flags(&["readonly", "fast"])
        .key_places(1, 1, 1)
        .summary("Gives the second at which a key ends.", "O(1)")
        .arguments(&[key("key")]),
    CommandSpec::new("keys", 2, GROUP)
        .flags(&["readonly"])
        .summary("Lists all keys that fit a pattern.", "O(N) for N keys there are")
        .arguments(&[pattern("pattern")]),
    CommandSpec::new("persist", 2, GROUP)
        .flags(&["write", "fast"])
        .key_places(1, 1, 1)
        .summary("Lets a key live for ever.", "O(1)")
        .arguments(&[key("key")]),
    CommandSpec::new("pexpire", -3, GROUP)
        .flags(&["write", "fast"])
        .key_places(1, 1, 1)
        .summary("Lets a key live for so many milliseconds.", "O(1)")
        .arguments(&[
            key("key"),
            integer("milliseconds"),
            one_of(
                "condition",
                &[word("nx", "NX"), word("xx", "XX"), word("gt", "GT"), word("lt", "LT")],
            )
            .optional(),
        ]),
    CommandSpec::new("pexpireat", -3, GROUP)
        .flags(&["write", "fast"])
        .key_places(1, 1, 1)
        .summary("Lets a key live until a millisecond since 1970.", "O(1)")
        .arguments(&[
            key("key"),
            unix_time("unix-time-milliseconds"),
            one_of(
                "condition",
                &[word("nx", "NX"), word("xx", "XX"), word("gt", "GT"), word("lt", "LT")],
            )
            .optional(),
        ]),
    CommandSpec::new("pexpiretime", 2, GROUP)
        .flags(&["readonly", "fast"])
        .key_places(1, 1, 1)
        .summary("Gives the millisecond at which a key ends.", "O(1)")
        .arguments(&[key("key")]),
    CommandSpec::new("pttl", 2, GROUP)
        .flags(&["readonly", "fast"])
        .key_places(1, 1, 1)
        .summary("Gives the milliseconds that a key has left.", "O(1)")
        .arguments(&[key("key")]),
    CommandSpec::new("randomkey", 1, GROUP).flags(&["readonly"]).summary("Gives any key.", "O(1)"),
    CommandSpec::new("rename", 3, GROUP)
        .flags(&["write"])
        .key_places(1, 2, 1)
        .summary("Gives a key another name, over what was there.", "O(1)")
        .arguments(&[key("key"), key("newkey")]),
    CommandSpec::new("renamenx", 3, GROUP)
        .flags(&["write", "fast"])
        .key_places(1, 2, 1)
        .summary("Gives a key another name, unless that is taken.", "O(1)")
        .arguments(&[key("key"), key("newkey")]),
    CommandSpec::new("scan", -2, GROUP)
        .flags(&["readonly"])
        .summary("Goes through the keys, a part at a time.", "O(N) for all parts together, N keys")
        .arguments(&[
            integer("cursor"),
            pattern("pattern").after("MATCH").optional(),
            integer("count").after("COUNT").optional(),
            string("type").after("TYPE").optional(),
        ]),
    CommandSpec::new("ttl", 2, GROUP)
        .flags(&["readonly", "fast"])
        .key_places(1, 1, 1)
        .summary("Gives the seconds that a key has left.", "O(1)")
        .arguments(&[key("key")]),
    CommandSpec::new("type", 2, GROUP)
        .flags(&["readonly", "fast"])
        .key_places(1, 1, 1)
        .summary("Says what kind of value a key holds.", "O(1)")
        .arguments(&[key("key")]),
    CommandSpec::new("unlink", -2, GROUP)
        .flags(&["write", "fast"])
        .key_places(1, -1, 1)
        .summary("Removes keys, as DEL does.", "O(N) for N values inside")
        .arguments(&[key("key").multiple()]),
];
