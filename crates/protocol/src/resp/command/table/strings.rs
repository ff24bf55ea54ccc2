//! Keys that hold bytes.

use super::super::CommandSpec;
use super::super::argument::{block, double, integer, key, one_of, string, unix_time, word};

const GROUP: &str = "string";

pub(super) const COMMANDS: &[CommandSpec] = &[
    CommandSpec::new("append", 3, GROUP)
        .flags(&["write", "denyoom", "fast"])
        .key_places(1, 1, 1)
        .summary("Adds bytes to the end of a value, and gives its new length.", "O(1)")
        .arguments(&[key("key"), string("value")]),
    CommandSpec::new("decr", 2, GROUP)
        .flags(&["write", "denyoom", "fast"])
        .key_places(1, 1, 1)
        .summary("Takes one from a number.", "O(1)")
        .arguments(&[key("key")]),
    CommandSpec::new("decrby", 3, GROUP)
        .flags(&["write", "denyoom", "fast"])
        .key_places(1, 1, 1)
        .summary("Takes so much from a number.", "O(1)")
        .arguments(&[key("key"), integer("decrement")]),
    CommandSpec::new("get", 2, GROUP)
        .flags(&["readonly", "fast"])
        .key_places(1, 1, 1)
        .summary("Gives the value of a key.", "O(1)")
        .arguments(&[key("key")]),
    CommandSpec::new("getdel", 2, GROUP)
        .flags(&["write", "fast"])
        .key_places(1, 1, 1)
        .summary("Gives the value of a key and removes it.", "O(1)")
        .arguments(&[key("key")]),
    CommandSpec::new("getex", -2, GROUP)
        .flags(&["write", "fast"])
        .key_places(1, 1, 1)
        .summary("Gives the value of a key and changes how long it lives.", "O(1)")
        .arguments(&[
            key("key"),
            one_of(
                "expiration",
                &[
                    integer("seconds").after("EX"),
                    integer("milliseconds").after("PX"),
                    unix_time("unix-time-seconds").after("EXAT"),
                    unix_time("unix-time-milliseconds").after("PXAT"),
                    word("persist", "PERSIST"),
                ],
            )
            .optional(),
        ]),
    CommandSpec::new("getrange", 4, GROUP)
        .flags(&["readonly"])
        .key_places(1, 1, 1)
        .summary("Gives a part of a value.", "O(N) for N bytes")
        .arguments(&[key("key"), integer("start"), integer("end")]),
    CommandSpec::new("getset", 3, GROUP)
        .flags(&["write", "denyoom", "fast"])
        .key_places(1, 1, 1)
        .summary("Writes a value and gives the one before.", "O(1)")
        .arguments(&[key("key"), string("value")]),
    CommandSpec::new("incr", 2, GROUP)
        .flags(&["write", "denyoom", "fast"])
        .key_places(1, 1, 1)
        .summary("Adds one to a number.", "O(1)")
        .arguments(&[key("key")]),
    CommandSpec::new("incrby", 3, GROUP)
        .flags(&["write", "denyoom", "fast"])
        .key_places(1, 1, 1)
        .summary("Adds so much to a number.", "O(1)")
        .arguments(&[key("key"), integer("increment")]),
    CommandSpec::new("incrbyfloat", 3, GROUP)
        .flags(&["write", "denyoom", "fast"])
        .key_places(1, 1, 1)
        .summary("Adds so much to a number that may have a fraction.", "O(1)")
        .arguments(&[key("key"), double("increment")]),
    CommandSpec::new("mget", -2, GROUP)
        .flags(&["readonly", "fast"])
        .key_places(1, -1, 1)
        .summary("Gives the values of several keys.", "O(N) for N keys")
        .arguments(&[key("key").multiple()]),
    CommandSpec::new("mset", -3, GROUP)
        .flags(&["write", "denyoom"])
        .key_places(1, -1, 2)
        .summary("Writes several keys at once.", "O(N) for N keys")
        .arguments(&[block("key_value", &[key("key"), string("value")]).multiple()]),
    CommandSpec::new("msetnx", -3, GROUP)
        .flags(&["write", "denyoom"])
        .key_places(1, -1, 2)
        .summary("Writes several keys at once, unless one of them is there.", "O(N) for N keys")
        .arguments(&[block("key_value", &[key("key"), string("value")]).multiple()]),
    CommandSpec::new("psetex", 4, GROUP)
        .flags(&["write", "denyoom"])
        .key_places(1, 1, 1)
        .summary("Writes a value that lives for so many milliseconds.", "O(1)")
        .arguments(&[key("key"), integer("milliseconds"), string("value")]),
    CommandSpec::new("set", -3, GROUP)
        .flags(&["write", "denyoom"])
        .key_places(1, 1, 1)
        .summary("Writes a value, whatever the key held.", "O(1)")
        .arguments(&[
            key("key"),
            string("value"),
            one_of("condition", &[word("nx", "NX"), word("xx", "XX")]).optional(),
            word("get", "GET").optional(),
            one_of(
                "expiration",
                &[
                    integer("seconds").after("EX"),
                    integer("milliseconds").after("PX"),
                    unix_time("unix-time-seconds").after("EXAT"),
                    unix_time("unix-time-milliseconds").after("PXAT"),
                    word("keepttl", "KEEPTTL"),
                ],
            )
            .optional(),
        ]),
    CommandSpec::new("setex", 4, GROUP)
        .flags(&["write", "denyoom"])
        .key_places(1, 1, 1)
        .summary("Writes a value that lives for so many seconds.", "O(1)")
        .arguments(&[key("key"), integer("seconds"), string("value")]),
    CommandSpec::new("setnx", 3, GROUP)
        .flags(&["write", "denyoom", "fast"])
        .key_places(1, 1, 1)
        .summary("Writes a value, unless the key is there.", "O(1)")
        .arguments(&[key("key"), string("value")]),
    CommandSpec::new("setrange", 4, GROUP)
        .flags(&["write", "denyoom"])
        .key_places(1, 1, 1)
        .summary("Writes over a part of a value.", "O(N) for N bytes")
        .arguments(&[key("key"), integer("offset"), string("value")]),
    CommandSpec::new("strlen", 2, GROUP)
        .flags(&["readonly", "fast"])
        .key_places(1, 1, 1)
        .summary("Counts the bytes of a value.", "O(1)")
        .arguments(&[key("key")]),
];
