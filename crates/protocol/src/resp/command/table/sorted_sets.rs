//! Keys that hold members by score.

use super::super::CommandSpec;
use super::super::argument::{block, double, integer, key, one_of, pattern, string, word};

const GROUP: &str = "sorted-set";

pub(super) const COMMANDS: &[CommandSpec] = &[
    CommandSpec::new("zadd", -4, GROUP)
        .flags(&["write", "denyoom", "fast"])
        .key_places(1, 1, 1)
        .summary(
            "Adds members with scores, or changes the scores of those there.",
            "O(log(N)) for each, N members",
        )
        .arguments(&[
            key("key"),
            one_of("condition", &[word("nx", "NX"), word("xx", "XX")]).optional(),
            one_of("comparison", &[word("gt", "GT"), word("lt", "LT")]).optional(),
            word("change", "CH").optional(),
            word("increment", "INCR").optional(),
            block("score_member", &[double("score"), string("member")]).multiple(),
        ]),
    CommandSpec::new("zcard", 2, GROUP)
        .flags(&["readonly", "fast"])
        .key_places(1, 1, 1)
        .summary("Counts the members.", "O(1)")
        .arguments(&[key("key")]),
    CommandSpec::new("zcount", 4, GROUP)
        .flags(&["readonly", "fast"])
        .key_places(1, 1, 1)
        .summary("Counts the members between two scores.", "O(log(N)) for N members")
        .arguments(&[key("key"), double("min"), double("max")]),
    CommandSpec::new("zincrby", 4, GROUP)
        .flags(&["write", "denyoom", "fast"])
        .key_places(1, 1, 1)
        .summary("Adds so much to the score of a member.", "O(log(N)) for N members")
        .arguments(&[key("key"), integer("increment"), string("member")]),
    CommandSpec::new("zmscore", -3, GROUP)
        .flags(&["readonly", "fast"])
        .key_places(1, 1, 1)
        .summary("Gives the scores of several members.", "O(N) for N members named")
        .arguments(&[key("key"), string("member").multiple()]),
    CommandSpec::new("zpopmax", -2, GROUP)
        .flags(&["write", "fast"])
        .key_places(1, 1, 1)
        .summary(
            "Takes the members with the highest scores.",
            "O(log(N)*M) for M taken of N members",
        )
        .arguments(&[key("key"), integer("count").optional()]),
    CommandSpec::new("zpopmin", -2, GROUP)
        .flags(&["write", "fast"])
        .key_places(1, 1, 1)
        .summary(
            "Takes the members with the lowest scores.",
            "O(log(N)*M) for M taken of N members",
        )
        .arguments(&[key("key"), integer("count").optional()]),
    CommandSpec::new("zrange", -4, GROUP)
        .flags(&["readonly"])
        .key_places(1, 1, 1)
        .summary(
            "Gives members by place, by score or by name.",
            "O(log(N)+M) for M given of N members",
        )
        .arguments(&[
            key("key"),
            string("start"),
            string("stop"),
            one_of("sortby", &[word("byscore", "BYSCORE"), word("bylex", "BYLEX")]).optional(),
            word("rev", "REV").optional(),
            block("offset_count", &[integer("offset"), integer("count")]).after("LIMIT").optional(),
            word("withscores", "WITHSCORES").optional(),
        ]),
    CommandSpec::new("zrangebyscore", -4, GROUP)
        .flags(&["readonly"])
        .key_places(1, 1, 1)
        .summary(
            "Gives the members between two scores, lowest first.",
            "O(log(N)+M) for M given of N members",
        )
        .arguments(&[
            key("key"),
            double("min"),
            double("max"),
            word("withscores", "WITHSCORES").optional(),
            block("offset_count", &[integer("offset"), integer("count")]).after("LIMIT").optional(),
        ]),
    CommandSpec::new("zrank", 3, GROUP)
        .flags(&["readonly", "fast"])
        .key_places(1, 1, 1)
        .summary(
            "Gives the place of a member, counted from the lowest score.",
            "O(log(N)) for N members",
        )
        .arguments(&[key("key"), string("member")]),
    CommandSpec::new("zrem", -3, GROUP)
        .flags(&["write", "fast"])
        .key_places(1, 1, 1)
        .summary(
            "Removes members, and counts those that were there.",
            "O(log(N)*M) for M removed of N members",
        )
        .arguments(&[key("key"), string("member").multiple()]),
    CommandSpec::new("zremrangebyrank", 4, GROUP)
        .flags(&["write"])
        .key_places(1, 1, 1)
        .summary(
            "Removes the members between two places.",
            "O(log(N)+M) for M removed of N members",
        )
        .arguments(&[key("key"), integer("start"), integer("stop")]),
    CommandSpec::new("zremrangebyscore", 4, GROUP)
        .flags(&["write"])
        .key_places(1, 1, 1)
        .summary(
            "Removes the members between two scores.",
            "O(log(N)+M) for M removed of N members",
        )
        .arguments(&[key("key"), double("min"), double("max")]),
    CommandSpec::new("zrevrange", -4, GROUP)
        .flags(&["readonly"])
        .key_places(1, 1, 1)
        .summary(
            "Gives the members between two places, highest score first.",
            "O(log(N)+M) for M given of N members",
        )
        .arguments(&[
            key("key"),
            integer("start"),
            integer("stop"),
            word("withscores", "WITHSCORES").optional(),
        ]),
    CommandSpec::new("zrevrangebyscore", -4, GROUP)
        .flags(&["readonly"])
        .key_places(1, 1, 1)
        .summary(
            "Gives the members between two scores, highest first.",
            "O(log(N)+M) for M given of N members",
        )
        .arguments(&[
            key("key"),
            double("max"),
            double("min"),
            word("withscores", "WITHSCORES").optional(),
            block("offset_count", &[integer("offset"), integer("count")]).after("LIMIT").optional(),
        ]),
    CommandSpec::new("zrevrank", 3, GROUP)
        .flags(&["readonly", "fast"])
        .key_places(1, 1, 1)
        .summary(
            "Gives the place of a member, counted from the highest score.",
            "O(log(N)) for N members",
        )
        .arguments(&[key("key"), string("member")]),
    CommandSpec::new("zscan", -3, GROUP)
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
    CommandSpec::new("zscore", 3, GROUP)
        .flags(&["readonly", "fast"])
        .key_places(1, 1, 1)
        .summary("Gives the score of a member.", "O(1)")
        .arguments(&[key("key"), string("member")]),
];
