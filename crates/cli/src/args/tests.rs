//! The command line, and every command line that somebody is told to type.

mod told;

use super::*;

/// What clap itself asserts in builds without optimisation alone, and a help page for each
/// command.
#[test]
fn the_command_line_is_consistent() {
    let mut root = command();
    root.build();
    let n_commands = check_command(&mut root);
    assert!(n_commands > 50, "only {n_commands} commands were looked at");
}

#[test]
fn a_command_line_that_is_not_consistent_is_found() {
    use clap::{Arg, Command};
    let arg = |id: &'static str| Arg::new(id).long(id).help("Does it.");
    let one = |arg: Arg| Command::new("astra").about("Runs.").arg(arg);
    for wrong in [
        Command::new("astra"),
        one(arg("data")).arg(arg("other").long("data")),
        one(arg("data").short('d')).arg(arg("dir").short('d')),
        one(arg("data").help("")),
        one(arg("data").conflicts_with("datum")),
        one(arg("data"))
            .subcommand(Command::new("run").alias("go").about("A."))
            .subcommand(Command::new("go").about("B.")),
        one(Arg::new("a").index(1).help("A.")).arg(Arg::new("b").index(2).required(true)),
    ] {
        let text = format!("{wrong:?}");
        let mut wrong = std::panic::AssertUnwindSafe(wrong);
        let looked_at = std::panic::catch_unwind(move || {
            wrong.build();
            check_command(&mut wrong)
        });
        assert!(looked_at.is_err(), "{text}");
    }
}

/// Fails on a command that contradicts itself; gives how many it looked at.
fn check_command(command: &mut clap::Command) -> usize {
    let path = command.get_bin_name().unwrap_or(command.get_name()).to_owned();
    assert!(command.get_about().is_some(), "{path} says what it does");
    check_flags(command, &path);
    check_positionals(command, &path);
    for page in [command.render_help(), command.render_long_help()] {
        let page = page.to_string();
        assert!(page.contains(&format!("Usage: {path}")), "{path}: {page}");
    }
    let words = command.get_subcommands().flat_map(|sub| {
        std::iter::once(sub.get_name()).chain(sub.get_all_aliases()).map(str::to_owned)
    });
    assert_unique(words.collect(), &path);
    let visible = command.get_subcommands_mut().filter(|sub| !sub.is_hide_set());
    1 + visible.map(check_command).sum::<usize>()
}

fn check_flags(command: &clap::Command, path: &str) {
    let mut words = Vec::new();
    for arg in command.get_arguments() {
        let longs = arg.get_long_and_visible_aliases().unwrap_or_default();
        words.extend(longs.iter().map(|long| format!("--{long}")));
        let shorts = arg.get_short_and_visible_aliases().unwrap_or_default();
        words.extend(shorts.iter().map(|short| format!("-{short}")));
        let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
        assert!(arg.is_hide_set() || !help.is_empty(), "{path}: {} has no help", arg.get_id());
        // Panics where an argument that it names does not exist.
        command.get_arg_conflicts_with(arg);
    }
    assert_unique(words, path);
}

/// What is optional comes last, or a value would be taken for another one.
fn check_positionals(command: &clap::Command, path: &str) {
    let mut may_be_missing = false;
    for arg in command.get_positionals() {
        let is_required = arg.is_required_set();
        assert!(!(may_be_missing && is_required), "{path}: {} comes too late", arg.get_id());
        may_be_missing |= !is_required;
    }
}

fn assert_unique(mut words: Vec<String>, path: &str) {
    words.sort();
    let twice = words.windows(2).find(|pair| pair[0] == pair[1]);
    assert_eq!(twice, None, "{path} has a word twice");
}

#[test]
fn every_visible_command_starts_its_help_with_examples() {
    fn check(command: &clap::Command) {
        let is_group = command.has_subcommands();
        let has_examples =
            command.get_before_help().is_some_and(|text| text.to_string().starts_with("Examples:"));
        let is_plain = ["version", "help"].contains(&command.get_name());
        assert!(is_group || is_plain || has_examples, "{}", command.get_name());
        command.get_subcommands().filter(|sub| !sub.is_hide_set()).for_each(check);
    }
    check(&command());
}
