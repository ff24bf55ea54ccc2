//! Who speaks, and how.

use super::super::CommandSpec;
use super::super::argument::{block, integer, one_of, string, word};

const GROUP: &str = "connection";

pub(super) const COMMANDS: &[CommandSpec] = &[
    CommandSpec::new("auth", -2, GROUP)
        .flags(&["fast", "no_auth"])
        .summary("Says who the client is; a worker or a tool gives its key.", "O(1)")
        .arguments(&[string("username").optional(), string("password")]),
    CommandSpec::new("client", -2, GROUP)
        .summary("Asks about connections, or names this one.", "Depends on the subcommand")
        .subcommands(&[
            CommandSpec::new("client|getname", 2, GROUP)
                .summary("Gives the name of this connection.", "O(1)"),
            CommandSpec::new("client|id", 2, GROUP)
                .summary("Gives the number of this connection.", "O(1)"),
            CommandSpec::new("client|info", 2, GROUP)
                .summary("Describes this connection in one line.", "O(1)"),
            CommandSpec::new("client|list", -2, GROUP)
                .flags(&["admin"])
                .summary("Describes all connections, one per line.", "O(N) for N connections"),
            CommandSpec::new("client|no-evict", 3, GROUP)
                .summary("Is accepted and changes nothing: connections are never evicted.", "O(1)")
                .arguments(&[one_of("enabled", &[word("on", "ON"), word("off", "OFF")])]),
            CommandSpec::new("client|no-touch", 3, GROUP)
                .summary(
                    "Is accepted and changes nothing: keys do not remember their readers.",
                    "O(1)",
                )
                .arguments(&[one_of("enabled", &[word("on", "ON"), word("off", "OFF")])]),
            CommandSpec::new("client|setinfo", 4, GROUP)
                .summary("Notes the name or version of the client's library.", "O(1)")
                .arguments(&[one_of(
                    "attr",
                    &[string("libname").after("LIB-NAME"), string("libver").after("LIB-VER")],
                )]),
            CommandSpec::new("client|setname", 3, GROUP)
                .summary("Gives this connection a name.", "O(1)")
                .arguments(&[string("connection-name")]),
        ]),
    CommandSpec::new("echo", 2, GROUP)
        .flags(&["fast"])
        .summary("Gives its argument back.", "O(1)")
        .arguments(&[string("message")]),
    CommandSpec::new("hello", -1, GROUP)
        .flags(&["fast", "no_auth"])
        .summary("Chooses the version of the protocol, and may say who the client is.", "O(1)")
        .arguments(&[block(
            "arguments",
            &[
                integer("protover"),
                block("username_password", &[string("username"), string("password")])
                    .after("AUTH")
                    .optional(),
                string("clientname").after("SETNAME").optional(),
            ],
        )
        .optional()]),
    CommandSpec::new("ping", -1, GROUP)
        .flags(&["fast"])
        .summary("Answers PONG, or its argument; from a worker it is a sign of life.", "O(1)")
        .arguments(&[string("message").optional()]),
    CommandSpec::new("quit", -1, GROUP)
        .flags(&["fast", "no_auth"])
        .summary("Answers OK and closes the connection.", "O(1)"),
    CommandSpec::new("reset", 1, GROUP)
        .flags(&["fast", "no_auth"])
        .summary("Puts the connection back into the state it began with.", "O(1)"),
    CommandSpec::new("select", 2, GROUP)
        .flags(&["fast"])
        .summary("Chooses a database; there is only number 0.", "O(1)")
        .arguments(&[integer("index")]),
];
