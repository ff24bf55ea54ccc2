//! Keys that hold items in a row.

use super::super::CommandSpec;
use super::super::argument::{double, integer, key, one_of, string, word};

const GROUP: &str = "list";

pub(super) const COMMANDS: &[CommandSpec] = &[
    CommandSpec::new("blmove", 6, GROUP)
        .flags(&["write", "denyoom", "blocking"])
        .key_places(1, 2, 1)
        .summary("Moves an item between lists, and waits for one.", "O(1)")
        .arguments(&[
            key("source"),
            key("destination"),
            one_of("wherefrom", &[word("left", "LEFT"), word("right", "RIGHT")]),
            one_of("whereto", &[word("left", "LEFT"), word("right", "RIGHT")]),
            double("timeout"),
        ]),
    CommandSpec::new("blpop", -3, GROUP)
        .flags(&["write", "blocking"])
        .key_places(1, -2, 1)
        .summary(
            "Takes an item from the head of the first list that has one, and waits for it.",
            "O(N) for N keys",
        )
        .arguments(&[key("key").multiple(), double("timeout")]),
    CommandSpec::new("brpop", -3, GROUP)
        .flags(&["write", "blocking"])
        .key_places(1, -2, 1)
        .summary(
            "Takes an item from the tail of the first list that has one, and waits for it.",
            "O(N) for N keys",
        )
        .arguments(&[key("key").multiple(), double("timeout")]),
    CommandSpec::new("brpoplpush", 4, GROUP)
        .flags(&["write", "denyoom", "blocking"])
        .key_places(1, 2, 1)
        .summary(
            "Moves an item from a tail to a head, and waits for one; workers fetch jobs so.",
            "O(1)",
        )
        .arguments(&[key("source"), key("destination"), double("timeout")]),
    CommandSpec::new("lindex", 3, GROUP)
        .flags(&["readonly"])
        .key_places(1, 1, 1)
        .summary("Gives the item at a place.", "O(N) for N items up to it")
        .arguments(&[key("key"), integer("index")]),
    CommandSpec::new("linsert", 5, GROUP)
        .flags(&["write", "denyoom"])
        .key_places(1, 1, 1)
        .summary("Puts an item next to another one.", "O(N) for N items up to it")
        .arguments(&[
            key("key"),
            one_of("where", &[word("before", "BEFORE"), word("after", "AFTER")]),
            string("pivot"),
            string("element"),
        ]),
    CommandSpec::new("llen", 2, GROUP)
        .flags(&["readonly", "fast"])
        .key_places(1, 1, 1)
        .summary("Counts the items.", "O(1)")
        .arguments(&[key("key")]),
    CommandSpec::new("lmove", 5, GROUP)
        .flags(&["write", "denyoom"])
        .key_places(1, 2, 1)
        .summary("Moves an item between the ends of two lists.", "O(1)")
        .arguments(&[
            key("source"),
            key("destination"),
            one_of("wherefrom", &[word("left", "LEFT"), word("right", "RIGHT")]),
            one_of("whereto", &[word("left", "LEFT"), word("right", "RIGHT")]),
        ]),
    CommandSpec::new("lpop", -2, GROUP)
        .flags(&["write", "fast"])
        .key_places(1, 1, 1)
        .summary("Takes items from the head.", "O(N) for N items taken")
        .arguments(&[key("key"), integer("count").optional()]),
    CommandSpec::new("lpos", -3, GROUP)
        .flags(&["readonly"])
        .key_places(1, 1, 1)
        .summary("Finds where items stand.", "O(N) for N items")
        .arguments(&[
            key("key"),
            string("element"),
            integer("rank").after("RANK").optional(),
            integer("num-matches").after("COUNT").optional(),
            integer("len").after("MAXLEN").optional(),
        ]),
    CommandSpec::new("lpush", -3, GROUP)
        .flags(&["write", "denyoom", "fast"])
        .key_places(1, 1, 1)
        .summary("Puts items at the head.", "O(N) for N items put")
        .arguments(&[key("key"), string("element").multiple()]),
    CommandSpec::new("lpushx", -3, GROUP)
        .flags(&["write", "denyoom", "fast"])
        .key_places(1, 1, 1)
        .summary("Puts items at the head of a list that is there.", "O(N) for N items put")
        .arguments(&[key("key"), string("element").multiple()]),
    CommandSpec::new("lrange", 4, GROUP)
        .flags(&["readonly"])
        .key_places(1, 1, 1)
        .summary("Gives the items from one place to another.", "O(S+N) for N items after S others")
        .arguments(&[key("key"), integer("start"), integer("stop")]),
    CommandSpec::new("lrem", 4, GROUP)
        .flags(&["write"])
        .key_places(1, 1, 1)
        .summary("Removes items that are equal to one.", "O(N) for N items")
        .arguments(&[key("key"), integer("count"), string("element")]),
    CommandSpec::new("lset", 4, GROUP)
        .flags(&["write", "denyoom"])
        .key_places(1, 1, 1)
        .summary("Writes over the item at a place.", "O(N) for N items up to it")
        .arguments(&[key("key"), integer("index"), string("element")]),
    CommandSpec::new("ltrim", 4, GROUP)
        .flags(&["write"])
        .key_places(1, 1, 1)
        .summary("Keeps the items from one place to another.", "O(N) for N items removed")
        .arguments(&[key("key"), integer("start"), integer("stop")]),
    CommandSpec::new("rpop", -2, GROUP)
        .flags(&["write", "fast"])
        .key_places(1, 1, 1)
        .summary("Takes items from the tail.", "O(N) for N items taken")
        .arguments(&[key("key"), integer("count").optional()]),
    CommandSpec::new("rpoplpush", 3, GROUP)
        .flags(&["write", "denyoom"])
        .key_places(1, 2, 1)
        .summary("Moves an item from the tail of a list to the head of another.", "O(1)")
        .arguments(&[key("source"), key("destination")]),
    CommandSpec::new("rpush", -3, GROUP)
        .flags(&["write", "denyoom", "fast"])
        .key_places(1, 1, 1)
        .summary("Puts items at the tail.", "O(N) for N items put")
        .arguments(&[key("key"), string("element").multiple()]),
    CommandSpec::new("rpushx", -3, GROUP)
        .flags(&["write", "denyoom", "fast"])
        .key_places(1, 1, 1)
        .summary("Puts items at the tail of a list that is there.", "O(N) for N items put")
        .arguments(&[key("key"), string("element").multiple()]),
];
