//! A command line that begins with `astra run` and makes no sense: what may have been meant.

use clap::Subcommand as _;
use clap::error::{ContextKind, ContextValue};

use super::Verb;
use crate::failure::Failure;

/// A shorter word is rather a command than a mistyped verb.
const VERB_CHARS_MIN: usize = 3;

/// The failure for a word that stands where a verb or two dashes should; `None` if the mistake is
/// another one. `words` is the whole command line.
pub(crate) fn usage_hint(error: &clap::Error, words: &[String]) -> Option<Failure> {
    let kinds = [ContextKind::InvalidArg, ContextKind::InvalidSubcommand];
    let stray = kinds.into_iter().find_map(|kind| match error.get(kind) {
        Some(ContextValue::String(word)) => Some(word.as_str()),
        _ => None,
    })?;
    let run = words.iter().position(|word| word == "run")?;
    let place = run + 1 + words[run + 1..].iter().position(|word| word == stray)?;
    let flags = &words[run + 1..place];
    let is_after_verb = flags.iter().any(|word| Verb::has_subcommand(word));
    if stray.starts_with('-') || is_after_verb || words[..place].iter().any(|word| word == "--") {
        return None;
    }
    let line = [flags, &["--".to_owned()], &words[place..]].concat();
    let line = line.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ");
    let command = format!("did you mean `astra run {line}`?");
    // As `astra run` takes a command after its dashes, clap suggests no verb by itself.
    let verbs = Verb::augment_subcommands(clap::Command::new("run"));
    let error = verbs.try_get_matches_from(["run", stray]).err()?;
    let hint = match error.get(ContextKind::SuggestedSubcommand) {
        Some(ContextValue::Strings(verbs)) if stray.len() >= VERB_CHARS_MIN => {
            format!("{command} Or `astra run {}`?", verbs.last()?)
        }
        _ => command,
    };
    Some(Failure::usage(format!("`{stray}` is no verb of `astra run`"), hint))
}

/// A word as a shell wants it.
fn quoted(word: &str) -> String {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "-_./=:,@%+".contains(letter);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.into();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::args::Cli;

    #[test]
    fn a_command_without_dashes_is_told_from_a_mistyped_verb() {
        check("astra run ls -l", "did you mean `astra run -- ls -l`?");
        check("astra run --name x ls", "did you mean `astra run --name x -- ls`?");
        let both = "did you mean `astra run -- folow last`? Or `astra run follow`?";
        check("astra run folow last", both);
        check("astra run -- ls", "");
        check("astra run list x", "");
        check("astra run rebind 41 x", "");
        check("astra run --nam x", "");
        check("astra task ls", "");
    }

    #[test]
    fn words_are_quoted_for_the_shell() {
        assert_eq!(quoted("a-b/c.d"), "a-b/c.d");
        assert_eq!(quoted("it's"), r"'it'\''s'");
        assert_eq!(quoted(""), "''");
    }

    fn check(line: &str, expected: &str) {
        let words: Vec<String> = line.split(' ').map(ToOwned::to_owned).collect();
        let error = Cli::try_parse_from(&words).err();
        let hint = error.and_then(|error| usage_hint(&error, &words)).map(|failure| failure.hint);
        assert_eq!(hint.unwrap_or_default(), expected, "{line}");
    }
}
