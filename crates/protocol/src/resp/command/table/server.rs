//! The server about itself.

use super::super::CommandSpec;
use super::super::argument::{one_of, pattern, string};

const GROUP: &str = "server";

pub(super) const COMMANDS: &[CommandSpec] = &[
    CommandSpec::new("command", -1, GROUP)
        .summary("Describes all commands, or those that are asked for.", "O(N) for N commands")
        .subcommands(&[
            CommandSpec::new("command|count", 2, GROUP).summary("Counts the commands.", "O(1)"),
            CommandSpec::new("command|docs", -2, GROUP)
                .summary("Says what commands are for and what they take.", "O(N) for N names")
                .arguments(&[string("command-name").optional().multiple()]),
            CommandSpec::new("command|getkeys", -3, GROUP)
                .summary("Picks the keys out of a full command.", "O(N) for N arguments")
                .arguments(&[string("command"), string("arg").optional().multiple()]),
            CommandSpec::new("command|info", -2, GROUP)
                .summary("Says how commands are called.", "O(N) for N names")
                .arguments(&[string("command-name").optional().multiple()]),
            CommandSpec::new("command|list", -2, GROUP)
                .summary(
                    "Lists the names of commands, all or those that fit.",
                    "O(N) for N commands",
                )
                .arguments(&[one_of(
                    "filterby",
                    &[
                        string("module-name").after("MODULE"),
                        string("category").after("ACLCAT"),
                        pattern("pattern").after("PATTERN"),
                    ],
                )
                .after("FILTERBY")
                .optional()]),
        ]),
    CommandSpec::new("config", -2, GROUP)
        .summary("Shows the configuration.", "Depends on the subcommand")
        .subcommands(&[CommandSpec::new("config|get", -3, GROUP)
            .flags(&["admin"])
            .summary("Gives the settings whose names fit a pattern.", "O(N) for N settings")
            .arguments(&[pattern("parameter").multiple()])]),
    CommandSpec::new("dbsize", 1, GROUP)
        .flags(&["readonly", "fast"])
        .summary("Counts the keys.", "O(1)"),
    CommandSpec::new("info", -1, GROUP)
        .summary("Describes the server and its load, in sections.", "O(1)")
        .arguments(&[string("section").optional().multiple()]),
    CommandSpec::new("metrics", 1, GROUP)
        .summary("Gives all metrics in the text format of Prometheus.", "O(N) for N series"),
    CommandSpec::new("module", -2, GROUP)
        .summary("Lists modules, of which there are none.", "Depends on the subcommand")
        .subcommands(&[CommandSpec::new("module|list", 2, GROUP)
            .flags(&["admin"])
            .summary("Gives an empty list.", "O(1)")]),
    CommandSpec::new("time", 1, GROUP)
        .flags(&["fast"])
        .summary("Gives the server's clock: seconds since 1970, then microseconds.", "O(1)"),
];
