//! `docs/reference/cli.md`, from clap's own definition.

use clap::{Arg, ArgAction, Command, CommandFactory, ValueEnum};

use crate::args::Cli;
use crate::exit_code::ExitCode;
use crate::words;

const INTRODUCTION: &str = "\
# Command line

Generated from the program itself by `cargo xtask generate`; do not edit.

Data goes to stdout, progress and warnings to stderr.
Colours appear only on a terminal, and never with `NO_COLOR` or `--color never`.
With `-o json` (or `--json`) stdout holds exactly one JSON value: the answer, or `{\"error\":{\"code\",\"message\",\"hint\"}}`.
With `-o jsonl` it holds one JSON value per line, and with `-o quiet` ids and words alone.
A task is named by its id, by the first letters of a recent one, or by `last`.
Durations are written like `250ms`, `90s`, `2m`, `1h30m` or `2h 15m`.
";

pub(super) fn text() -> String {
    let mut cli = Cli::command().term_width(100);
    cli.build();
    let mut page = INTRODUCTION.to_owned();
    page.push_str("\n## Exit codes\n\n| code | meaning |\n|---|---|\n");
    for code in ExitCode::value_variants() {
        line(&mut page, format_args!("| {} | {} |", code.number(), code.meaning()));
    }
    page.push_str("\n## Options of every command\n\n");
    options(&mut page, cli.get_arguments().filter(|argument| argument.is_global_set()));
    for command in cli.get_subcommands() {
        section(&mut page, command, "astra");
    }
    page
}

fn section(page: &mut String, command: &Command, parent: &str) {
    if command.is_hide_set() || command.get_name() == "help" {
        return;
    }
    let name = format!("{parent} {}", command.get_name());
    if command.has_subcommands() {
        for sub in command.get_subcommands() {
            section(page, sub, &name);
        }
        return;
    }
    line(page, format_args!("\n## {name}\n"));
    if let Some(about) = command.get_long_about().or(command.get_about()) {
        line(page, format_args!("{}.\n", about.to_string().trim_end_matches('.')));
    }
    if let Some(examples) = command.get_before_help() {
        let examples = examples.to_string();
        let examples = examples.trim_start_matches("Examples:\n");
        line(page, format_args!("```sh\n{}\n```\n", unindented(examples)));
    }
    let own = command.get_arguments().filter(|argument| !argument.is_global_set());
    options(page, own.filter(|argument| argument.get_id() != "help"));
}

fn unindented(text: &str) -> String {
    let lines: Vec<_> = text.lines().map(|line| line.strip_prefix("  ").unwrap_or(line)).collect();
    lines.join("\n")
}

fn options<'a>(page: &mut String, arguments: impl Iterator<Item = &'a Arg>) {
    let arguments: Vec<_> = arguments.filter(|argument| !argument.is_hide_set()).collect();
    if arguments.is_empty() {
        return;
    }
    page.push_str("| option | meaning |\n|---|---|\n");
    for argument in arguments {
        let help = argument.get_help().map(|help| format!("{help}.")).unwrap_or_default();
        let (name, values) = (name(argument), values(argument));
        line(page, format_args!("| `{name}` | {}{values} |", help.replace('|', "\\|")));
    }
}

fn name(argument: &Arg) -> String {
    let value_names: Vec<_> = argument.get_value_names().unwrap_or_default().iter().collect();
    let value = match (argument.get_action(), value_names.as_slice()) {
        (ArgAction::SetTrue | ArgAction::Help | ArgAction::Version, _) | (_, []) => String::new(),
        (_, names) => {
            let names: Vec<_> = names.iter().map(|name| name.as_str()).collect();
            names.join(" ").to_uppercase()
        }
    };
    let value = value.replace('|', "\\|");
    match (argument.get_short(), argument.get_long()) {
        (Some(short), Some(long)) => format!("-{short}, --{long} {value}").trim_end().to_owned(),
        (None, Some(long)) => format!("--{long} {value}").trim_end().to_owned(),
        (_, None) => value,
    }
}

fn values(argument: &Arg) -> String {
    let takes_value = !matches!(argument.get_action(), ArgAction::SetTrue);
    let mut text = String::new();
    let possible: Vec<_> = argument.get_possible_values();
    if takes_value && !possible.is_empty() {
        let names: Vec<_> =
            possible.iter().map(|value| format!("`{}`", value.get_name())).collect();
        words::push(&mut text, format_args!(" One of {}.", names.join(", ")));
    }
    if let (true, [default]) = (takes_value, argument.get_default_values()) {
        words::push(&mut text, format_args!(" Default `{}`.", default.to_string_lossy()));
    }
    text
}

fn line(page: &mut String, text: std::fmt::Arguments<'_>) {
    words::push(page, text);
    page.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_has_every_visible_command_and_no_hidden_one() {
        let page = text();
        for name in ["astra dev", "astra task submit", "astra token create", "astra bench tasks"] {
            assert!(page.contains(&format!("\n## {name}\n")), "{name}");
        }
        assert!(!page.contains("internal"));
        assert!(!page.lines().any(|line| line.ends_with(' ')), "no white space at line ends");
    }
}
