//! Every `astra ...` in hints, messages, help and documents is a command line that exists.

use std::fs;
use std::path::{Path, PathBuf};

use clap::Parser as _;
use clap::error::ErrorKind;

use crate::args::Cli;

#[test]
fn every_command_line_that_people_are_told_exists() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut n_checked = 0;
    let mut wrong = Vec::new();
    for path in files(&root) {
        let text = fs::read_to_string(&path).expect("reads");
        let texts = match path.extension().and_then(|ending| ending.to_str()) {
            Some("rs") => rust_texts(&text),
            Some("txt") => vec![text],
            _ => document_texts(&text),
        };
        for line in texts.iter().flat_map(|text| command_lines(text)) {
            n_checked += 1;
            if let Err(why) = check(&line) {
                wrong.push(format!("{}: astra {line}\n    {why}", path.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(n_checked > 400, "only {n_checked} command lines were found");
}

#[test]
fn a_command_line_that_does_not_exist_is_found() {
    for right in
        ["run show {run}", "run -- ls | wc", "task show", "token create --role ROLE", "dev"]
    {
        assert_eq!(check(right), Ok(()), "{right}");
    }
    for wrong in ["run cancel", "run show 41 --all", "tasks list", "token create --role boss"] {
        assert!(check(wrong).is_err(), "{wrong}");
    }
    let source =
        "/// See `astra a`.\nfn f() { x('\"', \"b; it is\\\n    `astra b {c}`\") } // astra no";
    let found: Vec<_> = rust_texts(source).iter().flat_map(|text| command_lines(text)).collect();
    assert_eq!(found, ["a", "b {c}"]);
    let found = command_lines("$ X=1 astra a | xargs -n1 astra b  # not astra c\nthe astra d");
    assert_eq!(found, ["a | xargs -n1 astra b  # not astra c", "b  # not astra c"]);
}

/// Documents, and sources without their tests.
fn files(root: &Path) -> Vec<PathBuf> {
    let mut found = vec![root.join("README.md"), root.join("crates/cli/src/examples.txt")];
    let mut folders = vec![root.join("docs"), root.join("examples"), root.join("crates")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry")) {
            let (path, name) = (entry.path(), entry.file_name());
            let in_crates = path.starts_with(root.join("crates"));
            if path.is_dir() {
                if !["tests", "target", "testdata"].iter().any(|other| name == *other) {
                    folders.push(path);
                }
            } else if path.extension().is_some_and(|ending| ending == "rs") && in_crates {
                found.extend((name != "tests.rs").then_some(path));
            } else if path.extension().is_some_and(|ending| ending == "md") && !in_crates {
                found.push(path);
            }
        }
    }
    found
}

/// String literals and documentation, without the tests at the bottom.
fn rust_texts(source: &str) -> Vec<String> {
    let source = source.split("#[cfg(test)]").next().unwrap_or_default();
    let mut texts = vec![String::new()];
    let mut rest = source;
    while let Some(letter) = rest.chars().next() {
        let hashes = rest.strip_prefix('r').map(|raw| raw.trim_start_matches('#'));
        let after = if let Some(comment) = rest.strip_prefix("//") {
            let line = comment.lines().next().unwrap_or_default();
            if let Some(text) = line.strip_prefix(['/', '!']) {
                texts[0].push_str(text);
            }
            &comment[line.len()..]
        } else if let Some(raw) = hashes.filter(|raw| raw.starts_with('"')) {
            let end = format!("\"{}", "#".repeat(rest.len() - 1 - raw.len()));
            let (text, after) = raw[1..].split_once(&end).expect("an end");
            texts.push(text.into());
            after
        } else if letter == '"' {
            let (text, after) = literal(&rest[1..]);
            // Bytes are for programs.
            let is_bytes = source[..source.len() - rest.len()].ends_with('b');
            texts.extend((!is_bytes).then_some(text));
            after
        } else if letter == '\'' && rest.chars().nth(2) == Some('\'') {
            &rest[2 + rest[1..].chars().next().map_or(0, char::len_utf8)..]
        } else if rest.starts_with("'\\") {
            rest[3..].split_once('\'').expect("an end").1
        } else {
            &rest[letter.len_utf8()..]
        };
        rest = after;
    }
    texts
}

/// What a literal means, and what comes after it.
fn literal(source: &str) -> (String, &str) {
    let mut text = String::new();
    let mut letters = source.char_indices();
    while let Some((place, letter)) = letters.next() {
        match letter {
            '"' => return (text, &source[place + 1..]),
            '\\' => match letters.next() {
                Some((_, 'n')) => text.push('\n'),
                Some((place, '\n')) => {
                    let indent = source[place..].len() - source[place..].trim_start().len();
                    let (more, after) = literal(&source[place + indent..]);
                    return (text + &more, after);
                }
                Some((_, other)) => text.push(other),
                None => {}
            },
            letter => text.push(letter),
        }
    }
    panic!("a literal without an end");
}

/// Prose between backticks, and what stands in fences.
fn document_texts(text: &str) -> Vec<String> {
    let mut parts = Vec::new();
    for (index, part) in text.split("```").enumerate() {
        if index % 2 == 1 {
            parts.push(part.split_once('\n').map_or("", |(_, code)| code).replace("\\\n", " "));
        } else {
            parts.extend(part.split('`').skip(1).step_by(2).map(ToOwned::to_owned));
        }
    }
    parts
}

/// What stands after `astra ` where a command can begin.
fn command_lines(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (place, _) in text.match_indices("astra ") {
        let before = text[..place].rsplit('\n').next().unwrap_or_default();
        let after = &text[place + "astra ".len()..];
        let last_word = before.split_whitespace().last().unwrap_or_default();
        let begins = before.ends_with(['`', '('])
            || ["", "$", "|", "&&", "xargs", "-n1"].contains(&last_word)
            || last_word.ends_with([':', ';'])
            || last_word.contains('=');
        let is_word = before.is_empty() || before.ends_with([' ', '`', '(']);
        if begins && is_word && after.starts_with(|first: char| first.is_ascii_lowercase()) {
            let is_quoted = before.ends_with('`');
            let line = after.split(if is_quoted { '`' } else { '\n' }).next().unwrap_or_default();
            found.push(line.to_owned());
        }
    }
    found
}

/// Parses it as clap does; what a placeholder stands for is not known.
fn check(line: &str) -> Result<(), String> {
    let words = words(line);
    let parsed = parse(words.iter().map(|word| plausible(word)));
    // A flag may be named without its value.
    let valued =
        || parse(words.iter().map(|word| plausible(word)).chain(["127.0.0.1:1".to_owned()]));
    let is_flag = words.last().is_some_and(|word| word.starts_with('-'));
    let parsed = parsed.or_else(|kind| if is_flag { valued() } else { Err(kind) });
    let has_placeholder = words.iter().any(|word| plausible(word) != *word);
    let without = || parse(words.iter().filter(|word| plausible(word) == **word).cloned());
    match parsed.or_else(|kind| if has_placeholder { without() } else { Err(kind) }) {
        // A hint may name a command alone, without what it is about.
        Ok(())
        | Err((
            ErrorKind::MissingRequiredArgument
            | ErrorKind::MissingSubcommand
            | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
            | ErrorKind::DisplayHelp
            | ErrorKind::DisplayVersion,
            _,
        )) => Ok(()),
        Err((ErrorKind::ValueValidation | ErrorKind::InvalidValue, _)) if has_placeholder => Ok(()),
        Err((_, why)) => Err(why),
    }
}

fn parse(words: impl Iterator<Item = String>) -> Result<(), (ErrorKind, String)> {
    let words = std::iter::once("astra".to_owned()).chain(words);
    match Cli::try_parse_from(words) {
        Ok(_) => Ok(()),
        Err(error) => {
            Err((error.kind(), error.to_string().lines().next().unwrap_or_default().into()))
        }
    }
}

/// A word for a placeholder like `RUN`, `{run}`, `<run>` or `$RUN`.
fn plausible(word: &str) -> String {
    let is_capital = |part: &str| part.len() > 1 && part.bytes().all(|b| b.is_ascii_uppercase());
    if word.contains(['{', '<', '$']) && !word.contains(' ') {
        return "1".into();
    }
    let parts = word.split_inclusive(|letter: char| !letter.is_ascii_alphabetic());
    let parts = parts.map(|part| {
        let letters = part.trim_end_matches(|letter: char| !letter.is_ascii_alphabetic());
        if is_capital(letters) { format!("1{}", &part[letters.len()..]) } else { part.into() }
    });
    parts.collect()
}

/// The words of the first command of a line, as a shell splits them; a comment stands apart.
fn words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut letters = line.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            '\'' | '"' => {
                let inside = letters.by_ref().take_while(|inner| *inner != letter);
                word.get_or_insert_default().extend(inside);
            }
            '$' if letters.peek() == Some(&'(') => {
                letters.by_ref().find(|inner| *inner == ')');
                word.get_or_insert_default().push('$');
            }
            ' ' | '\n' => {
                words.extend(word.take());
                if letters.peek().is_some_and(|next| [' ', '#'].contains(next)) {
                    break;
                }
            }
            '|' | ';' | '&' | '>' | ')' => break,
            '<' => {
                letters.by_ref().find(|inner| *inner == '>');
                word.get_or_insert_default().push('<');
            }
            '…' | ',' if word.is_none() => break,
            letter => word.get_or_insert_default().push(letter),
        }
    }
    words.extend(word);
    words
}
