//! `generate`: writes the files that are made from the code and checked in, for `cargo xtask generate`.

mod limits;
mod reference;

use std::fmt::{self, Write as _};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::{Arg, ArgAction, Command, Parser};
use confique::meta::{Expr, FieldKind, LeafKind, Meta};
use server::REDIS_COMMANDS;

const CLI_INTRODUCTION: &str = "\
# Command line

Generated from the program itself by `cargo xtask generate`; do not edit.

Data goes to stdout, progress and warnings to stderr.
Colours appear only on a terminal, and never with `NO_COLOR` or `--color never`.
With `-o json` (or `--json`) stdout holds exactly one JSON value: the answer, or `{\"error\":{\"code\",\"message\",\"hint\"}}`.
With `-o jsonl` it holds one JSON value per line, and with `-o quiet` ids and words alone.
A task is named by its id, by the first letters of a recent one, or by `last`.
Durations are written like `250ms`, `90s`, `2m`, `1h30m` or `2h 15m`.
";

const CONFIG_INTRODUCTION: &str = "\
# Configuration

Generated from the program itself by `cargo xtask generate`; do not edit.

A setting is a flag, or an `ASTRA_*` variable, or a key of `./astra.toml`; the first one found counts.
A key that is not listed here is an error, so that a typing error is not silently ignored.

| key | variable | meaning |
|---|---|---|
";

const CONFIG_EXAMPLE: &str = "
## Example

```toml
# astra.toml
server = \"http://10.0.0.5:8080\"
token_file = \"token.secret\"

[log]
format = \"json\"
level = \"info\"
```

## Profile of a folder

`astra dev` writes `profile.toml` into its data folder, with its address and its process.
Commands that are started in the same folder find the server by it, whatever its port.
";

/// Writes every generated file.
#[derive(Parser)]
struct Arguments {
    /// The folder that is the repository's root.
    out: PathBuf,
}

fn main() -> Result<()> {
    let Arguments { out } = Arguments::parse();
    let openapi = serde_json::to_string_pretty(&server::doors::http::openapi())?;
    put(&out, "openapi/v1.json", &format!("{openapi}\n"))?;
    put(&out, "docs/reference/cli.md", &cli_page())?;
    put(&out, "docs/reference/config.md", &config_page())?;
    put(&out, "docs/reference/redis.md", &redis_page())?;
    let sources = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    for (path, text) in reference::pages(&limits::all(sources)?) {
        put(&out, path, &text)?;
    }
    Ok(())
}

fn put(root: &Path, path: &str, text: &str) -> Result<()> {
    let path = root.join(path);
    let folder = path.parent().context("every file is in a folder")?;
    fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))
}

/// `docs/reference/cli.md`, from the definition of the command line.
fn cli_page() -> String {
    let mut cli = cli::command().term_width(100);
    cli.build();
    let mut page = CLI_INTRODUCTION.to_owned();
    page.push_str("\n## Exit codes\n\n| code | meaning |\n|---|---|\n");
    for (number, meaning) in cli::exit_codes() {
        line(&mut page, format_args!("| {number} | {meaning} |"));
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
        push(&mut text, format_args!(" One of {}.", names.join(", ")));
    }
    if let (true, [default]) = (takes_value, argument.get_default_values()) {
        push(&mut text, format_args!(" Default `{}`.", default.to_string_lossy()));
    }
    text
}

fn line(page: &mut String, text: fmt::Arguments<'_>) {
    push(page, text);
    page.push('\n');
}

fn push(page: &mut String, text: fmt::Arguments<'_>) {
    page.write_fmt(text).expect("a String takes everything");
}

/// `docs/reference/config.md`, from the struct that holds the settings.
fn config_page() -> String {
    let mut page = CONFIG_INTRODUCTION.to_owned();
    rows(&mut page, cli::settings(), "");
    page.push_str(CONFIG_EXAMPLE);
    page
}

fn rows(page: &mut String, meta: &Meta, prefix: &str) {
    for field in meta.fields {
        let key = format!("{prefix}{}", field.name);
        match field.kind {
            FieldKind::Nested { meta } => rows(page, meta, &format!("{key}.")),
            FieldKind::Leaf { env, kind } => {
                let words: Vec<_> = field.doc.iter().map(|line| line.trim()).collect();
                let (meaning, default) = (words.join(" "), default(kind));
                let variable = env.unwrap_or("-");
                line(page, format_args!("| `{key}` | `{variable}` | {meaning}{default} |"));
            }
        }
    }
}

fn default(kind: LeafKind) -> String {
    match kind {
        LeafKind::Required { default: Some(Expr::Str(text)) } => format!(" Default: `{text}`."),
        LeafKind::Required { default: Some(Expr::Integer(n)) } => format!(" Default: {n}."),
        LeafKind::Required { default: Some(_) | None } | LeafKind::Optional => String::new(),
    }
}

/// `docs/reference/redis.md`, from the table by which the server carries commands out.
fn redis_page() -> String {
    let mut text = "# Redis commands\n\n\
        <!-- Generated by `cargo xtask generate`; do not edit. -->\n\n\
        What the server answers on its Redis port, and what each command takes.\n\
        `HELP <command>` in `redis-cli` shows the same; `docs/guides/redis.md` tells how to use \
        them.\n"
        .to_owned();
    let mut group = "";
    for spec in REDIS_COMMANDS {
        if spec.group != group {
            group = spec.group;
            let _ = write!(text, "\n## {group}\n\n| command | meaning |\n|---|---|\n");
        }
        let syntax = format!("{} {}", spec.name.to_uppercase(), spec.syntax);
        let syntax = syntax.trim_end().replace('|', "\\|");
        let _ = writeln!(text, "| `{syntax}` | {} |", spec.summary);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_has_every_visible_command_and_no_hidden_one() {
        let page = cli_page();
        for name in ["astra dev", "astra task submit", "astra token create", "astra demo"] {
            assert!(page.contains(&format!("\n## {name}\n")), "{name}");
        }
        assert!(!page.contains("internal"));
        assert!(!page.lines().any(|line| line.ends_with(' ')), "no white space at line ends");
    }

    #[test]
    fn every_setting_has_a_variable_and_a_flag_or_says_why_not() {
        let page = config_page();
        let rows: Vec<_> = page.lines().filter(|line| line.starts_with("| `")).collect();
        assert_eq!(rows.len(), 14);
        for row in rows {
            assert!(row.contains("`ASTRA_") || row.contains("No variable"), "{row}");
            assert!(row.contains("Flag: `--") || row.contains("No flag"), "{row}");
        }
    }
}
