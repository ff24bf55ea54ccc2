//! A command line that begins with `astra run` and makes no sense: what may have been meant.

use clap::error::{ContextKind, ContextValue};

use crate::failure::Failure;

/// The verbs, for whoever mistypes one.
const VERBS: [&str; 9] =
    ["list", "show", "follow", "logs", "wait", "stop", "retry", "diff", "signal"];
/// Words that differ in more letters are other words.
const TYPOS_MAX: usize = 2;

/// The failure for a word that stands where a verb or two dashes should; `None` if the mistake is
/// another one. `words` is the whole command line.
pub(crate) fn stray(error: &clap::Error, words: &[String]) -> Option<Failure> {
    let kinds = [ContextKind::InvalidArg, ContextKind::InvalidSubcommand];
    let stray = kinds.into_iter().find_map(|kind| match error.get(kind) {
        Some(ContextValue::String(word)) => Some(word.as_str()),
        _ => None,
    })?;
    meant(words, stray)
}

fn meant(words: &[String], stray: &str) -> Option<Failure> {
    let run = words.iter().position(|word| word == "run")?;
    let place = run + 1 + words[run + 1..].iter().position(|word| word == stray)?;
    let is_after_verb = words[run + 1..place].iter().any(|word| VERBS.contains(&word.as_str()));
    if stray.starts_with('-') || is_after_verb || words[..place].iter().any(|word| word == "--") {
        return None;
    }
    let flags = &words[run + 1..place];
    let line =
        |words: &[String]| words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ");
    let flags = if flags.is_empty() { String::new() } else { format!("{} ", line(flags)) };
    let command = format!("did you mean `astra run {flags}-- {}`?", line(&words[place..]));
    let nearest = VERBS.into_iter().min_by_key(|verb| distance(verb, stray));
    let hint = match nearest.filter(|verb| distance(verb, stray) <= TYPOS_MAX && stray.len() > 2) {
        Some(verb) => format!("{command} Or `astra run {verb}`?"),
        None => command,
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
        check("astra run ls -l", "ls", "did you mean `astra run -- ls -l`?");
        check("astra run --name x ls", "ls", "did you mean `astra run --name x -- ls`?");
        let both = "did you mean `astra run -- folow last`? Or `astra run follow`?";
        check("astra run folow last", "folow", both);
        check("astra run -- ls", "ls", "");
        check("astra run list x", "x", "");
        check("astra run --nam x", "--nam", "");
        check("astra task ls", "ls", "");
    }

    #[test]
    fn words_are_quoted_for_the_shell() {
        assert_eq!(quoted("a-b/c.d"), "a-b/c.d");
        assert_eq!(quoted("it's"), r"'it'\''s'");
        assert_eq!(quoted(""), "''");
    }

    #[test]
    fn distances_are_counted_in_letters() {
        for (one, other, expected) in
            [("list", "list", 0), ("list", "lst", 1), ("stop", "shop", 1), ("wait", "", 4)]
        {
            assert_eq!(distance(one, other), expected, "{one} {other}");
        }
    }

    fn check(line: &str, stray: &str, expected: &str) {
        let words: Vec<String> = line.split(' ').map(ToOwned::to_owned).collect();
        let hint = meant(&words, stray).map(|failure| failure.hint);
        assert_eq!(hint.unwrap_or_default(), expected, "{line}");
    }
}
