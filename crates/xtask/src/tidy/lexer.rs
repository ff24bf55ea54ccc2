//! Rust text to tokens: enough to know code from comments and strings.

/// What a token is; the finer kinds of the language do not matter here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Names and keywords.
    Ident,
    Lifetime,
    Number,
    /// String, byte string and character literals.
    Text,
    /// Every kind of comment, documentation too.
    Comment,
    Punct,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Token<'a> {
    pub(crate) kind: Kind,
    pub(crate) text: &'a str,
    /// The first and the last line, counted from 1.
    pub(crate) line: usize,
    pub(crate) end_line: usize,
}

impl Token<'_> {
    /// Whether this is exactly this piece of code, and not a string that looks like it.
    pub(crate) fn is(&self, code: &str) -> bool {
        matches!(self.kind, Kind::Ident | Kind::Punct) && self.text == code
    }
}

/// Signs of several characters that must not be taken apart: `->` ends no type, `=>` is no `=`.
const LONG_SIGNS: [&str; 8] = ["..=", "=>", "->", "::", "==", "!=", "<=", ">="];

/// Never fails: text that is no Rust still becomes some tokens, and the compiler reports it better.
pub(crate) fn lex(text: &str) -> Vec<Token<'_>> {
    let mut tokens = Vec::new();
    let (mut rest, mut line) = (text, 1);
    while let Some(first) = rest.chars().next() {
        let (kind, length) = next(rest, first);
        let (piece, after) = rest.split_at(length);
        let end_line = line + piece.matches('\n').count();
        if let Some(kind) = kind {
            tokens.push(Token { kind, text: piece, line, end_line });
        }
        (rest, line) = (after, end_line);
    }
    tokens
}

/// The kind (nothing for white space) and the length in bytes of what `rest` starts with.
fn next(rest: &str, first: char) -> (Option<Kind>, usize) {
    if first.is_whitespace() {
        return (None, run_length(rest, char::is_whitespace));
    }
    if let Some(length) = comment_length(rest) {
        return (Some(Kind::Comment), length);
    }
    if let Some(length) = text_length(rest) {
        return (Some(Kind::Text), length);
    }
    if first == '\'' {
        return (Some(Kind::Lifetime), 1 + run_length(&rest[1..], is_name_part));
    }
    if first.is_ascii_digit() {
        return (Some(Kind::Number), number_length(rest));
    }
    if is_name_part(first) {
        let prefix = if rest.starts_with("r#") { 2 } else { 0 };
        return (Some(Kind::Ident), prefix + run_length(&rest[prefix..], is_name_part));
    }
    let long = LONG_SIGNS.iter().find(|sign| rest.starts_with(**sign));
    (Some(Kind::Punct), long.map_or(first.len_utf8(), |sign| sign.len()))
}

fn is_name_part(character: char) -> bool {
    character == '_' || character.is_alphanumeric()
}

fn run_length(text: &str, belongs: impl Fn(char) -> bool) -> usize {
    text.find(|character| !belongs(character)).unwrap_or(text.len())
}

fn comment_length(rest: &str) -> Option<usize> {
    if rest.starts_with("//") {
        return Some(rest.find('\n').unwrap_or(rest.len()));
    }
    rest.starts_with("/*").then(|| block_comment_length(rest))
}

/// Block comments nest.
fn block_comment_length(rest: &str) -> usize {
    let (mut at, mut depth) = (0, 0_usize);
    while at < rest.len() {
        let here = &rest.as_bytes()[at..];
        if here.starts_with(b"/*") {
            depth += 1;
            at += 2;
        } else if here.starts_with(b"*/") {
            depth -= 1;
            at += 2;
        } else {
            at += 1;
        }
        if depth == 0 {
            return at;
        }
    }
    rest.len()
}

fn text_length(rest: &str) -> Option<usize> {
    let prefix = ["br", "cr", "r", "b", "c", ""].into_iter().find(|prefix| {
        rest.strip_prefix(prefix).is_some_and(|after| after.starts_with(['"', '\'', '#']))
    })?;
    let after = &rest[prefix.len()..];
    let length = match after.as_bytes()[0] {
        b'\'' if matches!(prefix, "" | "b") => character_length(after),
        b'"' if !prefix.ends_with('r') => Some(quoted_length(after)),
        b'"' | b'#' if prefix.ends_with('r') => raw_length(after),
        _ => None,
    }?;
    Some(prefix.len() + length)
}

/// `'a'` is a character, `'a` a lifetime: the second quote tells.
fn character_length(rest: &str) -> Option<usize> {
    let mut characters = rest[1..].char_indices();
    let (_, first) = characters.next()?;
    if first == '\\' {
        // The escaped character may itself be a quote.
        characters.next()?;
        return characters.find(|(_, character)| *character == '\'').map(|(at, _)| at + 2);
    }
    characters.next().filter(|(_, character)| *character == '\'').map(|(at, _)| at + 2)
}

fn quoted_length(rest: &str) -> usize {
    let mut characters = rest.char_indices().skip(1);
    while let Some((at, character)) = characters.next() {
        match character {
            '\\' => drop(characters.next()),
            '"' => return at + 1,
            _ => {}
        }
    }
    rest.len()
}

/// `#"..."#` with as many `#` at the end as at the start; nothing for a raw name such as `r#type`.
fn raw_length(rest: &str) -> Option<usize> {
    let hashes = run_length(rest, |character| character == '#');
    let inside = rest[hashes..].strip_prefix('"')?;
    let end = format!("\"{}", &rest[..hashes]);
    let length = inside.find(&end).map_or(inside.len(), |at| at + end.len());
    Some(hashes + 1 + length)
}

/// `1.5` is one number, `1..5` and `1.max(2)` are not.
fn number_length(rest: &str) -> usize {
    let whole = run_length(rest, is_name_part);
    let fraction = rest[whole..]
        .strip_prefix('.')
        .filter(|after| after.starts_with(|character: char| character.is_ascii_digit()));
    fraction.map_or(whole, |after| whole + 1 + run_length(after, is_name_part))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_is_told_from_strings_and_comments() {
        check("a // b \"c\n d", "Ident:a Comment:// b \"c Ident:d");
        check("/* a /* b */ c */ d", "Comment:/* a /* b */ c */ Ident:d");
        check(
            r#"f("a \" // b", x)"#,
            r#"Ident:f Punct:( Text:"a \" // b" Punct:, Ident:x Punct:)"#,
        );
        check(r#""\\" a"#, r#"Text:"\\" Ident:a"#);
    }

    #[test]
    fn raw_and_byte_strings_end_where_they_should() {
        check(r##"r#"a " b"# c"##, r##"Text:r#"a " b"# Ident:c"##);
        check(r#"r"a\" c"#, r#"Text:r"a\" Ident:c"#);
        check(r##"br#"a"# b"x" c"y" cr"z""##, r##"Text:br#"a"# Text:b"x" Text:c"y" Text:cr"z""##);
        check("r#type r b br", "Ident:r#type Ident:r Ident:b Ident:br");
    }

    #[test]
    fn characters_are_told_from_lifetimes() {
        check(
            "'a' 'a b'x' '\\'' '{' 'ä'",
            "Text:'a' Lifetime:'a Text:b'x' Text:'\\'' Text:'{' Text:'ä'",
        );
        check("&'static str", "Punct:& Lifetime:'static Ident:str");
        check("'\\u{1F600}' x", "Text:'\\u{1F600}' Ident:x");
    }

    #[test]
    fn numbers_leave_ranges_and_methods_alone() {
        check(
            "1.5 1..5 0xFF 1_000u64",
            "Number:1.5 Number:1 Punct:. Punct:. Number:5 Number:0xFF Number:1_000u64",
        );
        check("1.max(2)", "Number:1 Punct:. Ident:max Punct:( Number:2 Punct:)");
    }

    #[test]
    fn signs_that_matter_stay_whole() {
        check(
            "a->b=>c::d..=e",
            "Ident:a Punct:-> Ident:b Punct:=> Ident:c Punct::: Ident:d Punct:..= Ident:e",
        );
        check("a>>b", "Ident:a Punct:> Punct:> Ident:b");
    }

    #[test]
    fn lines_are_counted_through_everything() {
        let tokens = lex("a\n\"x\ny\"\n/* \n */ b");
        let lines: Vec<_> = tokens.iter().map(|token| (token.line, token.end_line)).collect();
        assert_eq!(lines, [(1, 1), (2, 3), (4, 5), (5, 5)]);
    }

    #[test]
    fn text_that_never_ends_is_lexed_to_its_end() {
        for text in ["\"a", "r#\"a", "/* a", "'\\", "b'", "'"] {
            let length: usize = lex(text).iter().map(|token| token.text.len()).sum();
            assert!(length <= text.len(), "{text}");
        }
    }

    fn check(text: &str, expected: &str) {
        let tokens = lex(text);
        let shown: Vec<_> =
            tokens.iter().map(|token| format!("{:?}:{}", token.kind, token.text)).collect();
        assert_eq!(shown.join(" "), expected);
    }
}
