//! The verbs of `astra run`, and the command without one.

use super::flags::RunFlags;
use super::{follow, list, logs, show, start, stop, wait};
use crate::context::Context;
use crate::exit_code::ExitCode;
use crate::failure::{Failure, Result};

const EXAMPLES: &str = "\
Examples:
  astra run -- make test
  astra run --on gpu=true --timeout 1h --env MODEL=small -- python3 train.py
  astra run --each 'photos/*.jpg' --max-parallel 8 -- convert {} -resize 256 thumbs/{name}
";

/// The verbs, for whoever mistypes one.
const VERBS: [&str; 6] = ["list", "show", "follow", "logs", "wait", "stop"];
/// Words that differ in more letters are other words.
const TYPOS_MAX: usize = 2;

/// Run a command on a worker, as if it ran here; look at runs, follow them, stop them.
#[derive(Debug, clap::Args)]
#[command(before_help = EXAMPLES)]
#[command(override_usage = "astra run [FLAGS] -- COMMAND [ARGUMENT]...\n       \
                            astra run list|show|follow|logs|wait|stop ...")]
pub(crate) struct Arguments {
    #[command(subcommand)]
    verb: Option<Verb>,
    #[command(flatten)]
    flags: Box<RunFlags>,
    /// The command and its arguments, after `--`. No shell is involved.
    #[arg(last = true, value_name = "COMMAND")]
    argv: Vec<String>,
}

#[derive(Debug, clap::Subcommand)]
enum Verb {
    List(list::Arguments),
    Show(show::Arguments),
    Follow(follow::Arguments),
    Logs(logs::Arguments),
    Wait(wait::Arguments),
    Stop(stop::Arguments),
    #[command(external_subcommand)]
    Other(Vec<String>),
}

pub(crate) async fn run(arguments: Arguments, context: &Context) -> Result<ExitCode> {
    let Arguments { verb, flags, argv } = arguments;
    let has_flags = *flags != RunFlags::default();
    match verb {
        None if argv.is_empty() => Err(Failure::usage(
            "there is no command to run",
            "write it after two dashes: `astra run -- echo hello`",
        )),
        None => start::run(*flags, argv, context).await,
        Some(Verb::Other(words)) => Err(stray(&words)),
        Some(_) if has_flags => Err(Failure::usage(
            "flags of a run stand before a verb that starts none",
            "leave them out, or write the command after two dashes: `astra run FLAGS -- COMMAND`",
        )),
        Some(Verb::List(arguments)) => list::run(&arguments, context).await,
        Some(Verb::Show(arguments)) => show::run(&arguments, context).await,
        Some(Verb::Follow(arguments)) => follow::run(&arguments, context).await,
        Some(Verb::Logs(arguments)) => logs::run(&arguments, context).await,
        Some(Verb::Wait(arguments)) => wait::run(&arguments, context).await,
        Some(Verb::Stop(arguments)) => stop::run(&arguments, context).await,
    }
}

/// A word that is no verb: a command without its dashes, or a typing error.
fn stray(words: &[String]) -> Failure {
    let word = words.first().map_or("", String::as_str);
    let command = format!("did you mean `astra run -- {}`?", words.join(" "));
    let nearest = VERBS.into_iter().min_by_key(|verb| distance(verb, word));
    let hint = match nearest.filter(|verb| distance(verb, word) <= TYPOS_MAX && word.len() > 2) {
        Some(verb) => format!("{command} Or `astra run {verb}`?"),
        None => command,
    };
    Failure::usage(format!("`{word}` is no verb of `astra run`"), hint)
}

/// How many letters must be added, removed or changed to make one word of the other.
fn distance(one: &str, other: &str) -> usize {
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (line, letter) in one.bytes().enumerate() {
        let mut diagonal = row[0];
        row[0] = line + 1;
        for (column, against) in other.bytes().enumerate() {
            let changed = diagonal + usize::from(letter != against);
            diagonal = row[column + 1];
            row[column + 1] = changed.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row[other.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_without_dashes_is_told_from_a_mistyped_verb() {
        let hint =
            |words: &[&str]| stray(&words.iter().map(ToString::to_string).collect::<Vec<_>>()).hint;
        assert_eq!(hint(&["ls", "-l"]), "did you mean `astra run -- ls -l`?");
        assert!(hint(&["folow", "last"]).ends_with("Or `astra run follow`?"));
        assert!(!hint(&["make"]).contains("Or"));
    }

    #[test]
    fn distances_are_counted_in_letters() {
        for (one, other, expected) in
            [("list", "list", 0), ("list", "lst", 1), ("stop", "shop", 1), ("wait", "", 4)]
        {
            assert_eq!(distance(one, other), expected, "{one} {other}");
        }
    }
}
