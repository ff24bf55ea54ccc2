//! Texts and expressions, taken apart: what stands there, which paths are looked at, and what is
//! left for the engine.
//!
//! Besides finding paths the scanner puts a filter behind each operand of some operators. The engine
//! would repeat a text or a list that is multiplied, a hundred million times if asked, and it would
//! do so while it reads the expression; and `~` would write lists in a notation that doubles with
//! each level. The filters let numbers through, and weigh texts.

use super::path::{Path, identifier_end, read_path, skip_blanks};
use super::{EXPRESSION_BYTES_MAX, OPERATIONS_MAX, SLICES_MAX};

/// A part of a text.
#[derive(Debug, PartialEq)]
pub(super) enum Piece<'t> {
    /// As it stands.
    Text(&'t str),
    /// What stands between `{{` and `}}`.
    Code {
        /// The expression.
        source: &'t str,
        /// Where it begins in the text.
        at: usize,
    },
}

/// Takes a text apart. As everywhere in Jinja, `{{- x -}}` takes away the blanks around it.
pub(super) fn pieces(text: &str) -> Result<Vec<Piece<'_>>, String> {
    let mut pieces = Vec::new();
    let mut done = 0;
    let mut trims = false;
    while let Some(found) = text[done..].find("{{") {
        let open = done + found;
        let close = code_end(text, open)?;
        let source = &text[open + 2..close];
        let inner = source.strip_prefix('-').unwrap_or(source);

        let before = &text[done..open];
        let before = if trims { before.trim_start() } else { before };
        let before = if inner.len() < source.len() { before.trim_end() } else { before };
        push_text(&mut pieces, before)?;

        let at = close - inner.len();
        let source = inner.strip_suffix('-').unwrap_or(inner);
        trims = source.len() < inner.len();
        pieces.push(Piece::Code { source, at });
        done = close + 2;
    }
    let after = &text[done..];
    push_text(&mut pieces, if trims { after.trim_start() } else { after })?;
    Ok(pieces)
}

/// The expression without the braces around it, where a text is nothing but one expression.
pub(crate) fn bare(text: &str) -> &str {
    let text = text.trim();
    if !text.starts_with("{{") {
        return text;
    }
    match pieces(text).as_deref() {
        Ok([Piece::Code { source, .. }]) => source.trim(),
        _ => text,
    }
}

fn push_text<'t>(pieces: &mut Vec<Piece<'t>>, text: &'t str) -> Result<(), String> {
    if text.contains("{%") {
        let hint = "write {{ a if condition else b }}";
        return Err(format!("blocks like {{% %}} are not part of expressions; {hint}"));
    }
    if !text.is_empty() {
        pieces.push(Piece::Text(text));
    }
    Ok(())
}

/// Where the `}}` is that belongs to the `{{` at `open`: braces of objects and braces in strings
/// are not it.
fn code_end(text: &str, open: usize) -> Result<usize, String> {
    let bytes = text.as_bytes();
    let mut depth = 0_usize;
    let mut here = open + 2;
    while let Some(&byte) = bytes.get(here) {
        match byte {
            b'\'' | b'"' => match string_end(bytes, here) {
                Some(end) => here = end - 1,
                None => break,
            },
            b'}' if depth == 0 && bytes.get(here + 1) == Some(&b'}') => return Ok(here),
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        here += 1;
    }
    Err(format!("the {{{{ at character {} is never closed", character(text, open)))
}

/// An expression, ready for the engine.
#[derive(Debug, Default)]
pub(super) struct Code<'s> {
    /// The expression as authored.
    pub(super) authored: &'s str,
    /// The expression, with a place holder instead of each path.
    pub(super) source: String,
    /// The paths, in the order of their place holders.
    pub(super) paths: Vec<Path>,
    /// It is one path and nothing else.
    pub(super) is_path: bool,
    /// The filters that it names.
    pub(super) filters: Vec<&'s str>,
    /// The tests that it names, behind `is`.
    pub(super) tests: Vec<&'s str>,
    /// How much it does: operators, filters, brackets.
    pub(super) operations: usize,
    /// How often it takes a part of a list.
    pub(super) slices: usize,
}

/// What is wrong with an expression, and where.
#[derive(Debug)]
pub(super) struct Fault {
    at: usize,
    reason: String,
}

impl Fault {
    pub(super) fn new(at: usize, reason: impl Into<String>) -> Self {
        Self { at, reason: reason.into() }
    }

    /// As a sentence, where the expression begins at a place of a text.
    pub(super) fn sentence(&self, text: &str, begin: usize) -> String {
        format!("{}, at character {}", self.reason, character(text, begin + self.at))
    }
}

/// People count characters, and from one.
pub(super) fn character(text: &str, at: usize) -> usize {
    text.char_indices().take_while(|(index, _)| *index < at).count() + 1
}

/// The place of the path behind a place holder, like `_0`; `None` where a name is none.
pub(super) fn place_of(name: &str) -> Option<usize> {
    name.strip_prefix('_')?.parse().ok()
}

/// Behind the end of the string literal that begins at `begin`.
pub(super) fn string_end(bytes: &[u8], begin: usize) -> Option<usize> {
    let quote = bytes[begin];
    let mut here = begin + 1;
    loop {
        match *bytes.get(here)? {
            b'\\' => here += 2,
            byte if byte == quote => return Some(here + 1),
            _ => here += 1,
        }
    }
}

/// Takes an expression apart.
pub(super) fn scan(source: &str) -> Result<Code<'_>, Fault> {
    if source.len() > EXPRESSION_BYTES_MAX {
        let reason = format!("an expression has at most {EXPRESSION_BYTES_MAX} bytes");
        return Err(Fault::new(0, reason));
    }
    if let Some(code) = only_path(source) {
        return Ok(code);
    }
    let mut scanner = Scanner {
        source,
        here: 0,
        last: Last::Operator,
        brackets: Vec::new(),
        wanted: vec![""],
        code: Code { authored: source.trim(), ..Code::default() },
    };
    while scanner.here < source.len() {
        scanner.token()?;
    }
    let code = scanner.finish()?;
    for (what, count, most) in
        [("operations", code.operations, OPERATIONS_MAX), ("slices", code.slices, SLICES_MAX)]
    {
        if count > most {
            return Err(Fault::new(0, format!("an expression has at most {most} {what}")));
        }
    }
    Ok(code)
}

/// Most expressions are one path and nothing else.
fn only_path(source: &str) -> Option<Code<'_>> {
    let authored = source.trim();
    let name = identifier_end(authored.as_bytes(), 0);
    // What is wrong with it is said by the scanner.
    let (path, end) = read_path(authored, 0, name).ok()??;
    (end == authored.len()).then(|| Code {
        authored,
        source: "_0".to_owned(),
        paths: vec![path],
        is_path: true,
        ..Code::default()
    })
}

/// What came before the current word, as far as it matters.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Last {
    /// A value, or the end of one.
    Operand,
    /// Something that wants a value behind it.
    Operator,
    /// A dot: the name of a field follows.
    Dot,
    /// A bar: the name of a filter follows.
    Bar,
    /// `is` or `is not`: a test follows.
    Is,
}

/// The filter that makes sure of a number, for `*` and its like.
const NUMBER: &str = " |_number ";
/// The filter that makes sure of something that can be a text, for `~`.
const TEXT: &str = " |_text ";

struct Scanner<'s> {
    source: &'s str,
    here: usize,
    last: Last,
    /// Open brackets; a square one with a colon behind it as `:`.
    brackets: Vec<u8>,
    /// For each level the filter that the operand there is given, if any.
    wanted: Vec<&'static str>,
    code: Code<'s>,
}

impl<'s> Scanner<'s> {
    /// Goes on by one word.
    fn token(&mut self) -> Result<(), Fault> {
        let bytes = self.source.as_bytes();
        let end = match bytes[self.here] {
            byte if byte.is_ascii_whitespace() => self.here + 1,
            byte if byte.is_ascii_alphabetic() || byte == b'_' => return self.word(),
            b'"' | b'\'' => {
                self.last = Last::Operand;
                string_end(bytes, self.here)
                    .ok_or_else(|| Fault::new(self.here, "a string is never closed"))?
            }
            b'0'..=b'9' => {
                let is_place = std::mem::replace(&mut self.last, Last::Operand) == Last::Dot;
                number_end(bytes, self.here, is_place)
            }
            byte if byte.is_ascii() => return self.operator(byte),
            _ => self.here + self.source[self.here..].chars().next().map_or(1, char::len_utf8),
        };
        self.copy_to(end);
        Ok(())
    }

    /// What is left for the engine, when all words were looked at.
    fn finish(mut self) -> Result<Code<'s>, Fault> {
        if !self.brackets.is_empty() {
            return Err(Fault::new(self.source.len(), "a bracket is never closed"));
        }
        self.end_operand();
        Ok(self.code)
    }

    fn word(&mut self) -> Result<(), Fault> {
        let bytes = self.source.as_bytes();
        let (begin, end) = (self.here, identifier_end(bytes, self.here));
        let word: &'s str = &self.source[begin..end];
        match (self.last, word) {
            (Last::Is, "not") => {}
            (Last::Dot | Last::Bar | Last::Is, _) => {
                match self.last {
                    Last::Bar => self.code.filters.push(word),
                    Last::Is => self.code.tests.push(word),
                    _ => {}
                }
                self.last = Last::Operand;
            }
            (_, "is") => {
                self.code.operations += 1;
                self.last = Last::Is;
            }
            (_, "and" | "or" | "not" | "in" | "if" | "else") => {
                self.end_operand();
                self.code.operations += 1;
                self.last = Last::Operator;
            }
            _ if word.starts_with('_') => {
                return Err(Fault::new(begin, format!("{word} is not known here")));
            }
            _ => {
                self.last = Last::Operand;
                if !is_argument_name(bytes, end)
                    && let Some((path, after)) = read_path(self.source, begin, end)?
                {
                    self.put_path(path, after);
                    return Ok(());
                }
            }
        }
        self.copy_to(end);
        Ok(())
    }

    fn put_path(&mut self, path: Path, after: usize) {
        let paths = &mut self.code.paths;
        let place = paths.iter().position(|known| *known == path).unwrap_or_else(|| {
            paths.push(path);
            paths.len() - 1
        });
        self.code.source.extend(["_", &place.to_string()]);
        self.here = after;
    }

    fn operator(&mut self, byte: u8) -> Result<(), Fault> {
        if !matches!(byte, b',' | b':' | b')' | b']' | b'}') {
            self.code.operations += 1;
        }
        let mut end = self.here + 1;
        let before = std::mem::replace(&mut self.last, Last::Operator);
        match byte {
            b'.' => self.last = Last::Dot,
            b'|' => self.last = Last::Bar,
            b'(' | b'[' | b'{' => {
                self.brackets.push(byte);
                self.wanted.push("");
            }
            b')' | b']' | b'}' => {
                self.close(byte)?;
                self.last = Last::Operand;
            }
            b'*' if before != Last::Operand => {
                return Err(Fault::new(self.here, "a * has nothing before it"));
            }
            b'*' | b'/' | b'%' => {
                *self.level() = NUMBER;
                self.end_operand();
                *self.level() = NUMBER;
                // Powers, and division without a rest, have two of them.
                end += usize::from(self.source.as_bytes().get(end) == Some(&byte));
            }
            b'~' => {
                if self.level().is_empty() {
                    *self.level() = TEXT;
                }
                self.end_operand();
                *self.level() = TEXT;
            }
            b'-' if before != Last::Operand => {}
            _ => {
                if byte == b':' {
                    self.slice()?;
                }
                self.end_operand();
            }
        }
        self.copy_to(end);
        Ok(())
    }

    /// A colon between square brackets. A second one would give a step, with which the engine goes
    /// beyond the end of what is empty.
    fn slice(&mut self) -> Result<(), Fault> {
        match self.brackets.last_mut() {
            Some(bracket @ b'[') => {
                *bracket = b':';
                self.code.slices += 1;
                Ok(())
            }
            Some(b':') => {
                Err(Fault::new(self.here, "a part of a list has no step (there is |reverse)"))
            }
            _ => Ok(()),
        }
    }

    fn close(&mut self, byte: u8) -> Result<(), Fault> {
        let is_matched = match self.brackets.pop() {
            Some(b'(') => byte == b')',
            Some(b'[' | b':') => byte == b']',
            Some(_) => byte == b'}',
            None => false,
        };
        if !is_matched {
            let reason = format!("a {} closes nothing", char::from(byte));
            return Err(Fault::new(self.here, reason));
        }
        self.end_operand();
        self.wanted.pop();
        Ok(())
    }

    /// An operand ends where an operator stands that binds less.
    fn end_operand(&mut self) {
        let wanted = std::mem::take(self.level());
        self.code.source.push_str(wanted);
    }

    fn level(&mut self) -> &mut &'static str {
        self.wanted.last_mut().expect("the outermost level is never closed")
    }

    fn copy_to(&mut self, end: usize) {
        self.code.source.push_str(&self.source[self.here..end]);
        self.here = end;
    }
}

/// Whether what ends here is the name of an argument, as in `f(name=1)`.
fn is_argument_name(bytes: &[u8], end: usize) -> bool {
    let next = skip_blanks(bytes, end);
    bytes.get(next) == Some(&b'=') && bytes.get(next + 1) != Some(&b'=')
}

/// Behind the end of a number, which may be one like `1_000`, `0xff`, `1.5` or `1e-7`. Behind a
/// dot it is the place in a list, which has no dot of its own.
fn number_end(bytes: &[u8], begin: usize, is_place: bool) -> usize {
    let is_digit = |at: usize| bytes.get(at).is_some_and(u8::is_ascii_digit);
    let is_plain = !matches!(bytes.get(begin + 1), Some(b'x' | b'X' | b'b' | b'B' | b'o' | b'O'));
    let mut here = begin;
    loop {
        match bytes.get(here) {
            Some(b'.') if !is_place && is_plain && is_digit(here + 1) => here += 1,
            Some(b'e' | b'E')
                if is_plain
                    && matches!(bytes.get(here + 1), Some(b'+' | b'-'))
                    && is_digit(here + 2) =>
            {
                here += 2;
            }
            Some(byte) if byte.is_ascii_alphanumeric() || *byte == b'_' => here += 1,
            _ => return here,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn show(text: &str) -> String {
        let shown = |piece: &Piece<'_>| match piece {
            Piece::Text(text) => format!("[{text}]"),
            Piece::Code { source, at } => {
                assert!(text[*at..].starts_with(source), "{at} in {text}");
                format!("<{source}>")
            }
        };
        pieces(text).unwrap().iter().map(shown).collect()
    }

    #[test]
    fn a_text_comes_apart() {
        for (text, expected) in [
            ("", ""),
            ("plain } }} text", "[plain } }} text]"),
            ("{{ a }}", "< a >"),
            ("a{{b}}c{{d}}", "[a]<b>[c]<d>"),
            ("{{ '}}' }}", "< '}}' >"),
            ("{{ \"\\\"}}\" }}", "< \"\\\"}}\" >"),
            ("{{ {'a': {'b': 1}} }}", "< {'a': {'b': 1}} >"),
            ("{{ {'a': {'b': 1}}}}", "< {'a': {'b': 1}}>"),
            ("a {{- b -}} c {{ d }}", "[a]< b >[c ]< d >"),
            ("a {{ -1 }} {{-1-}} ", "[a ]< -1 ><1>"),
            ("{# fff #} {{ ü }}", "[{# fff #} ]< ü >"),
        ] {
            assert_eq!(show(text), expected, "{text}");
        }
    }

    #[test]
    fn braces_go_only_where_nothing_else_stands() {
        for (text, expected) in [
            (" {{ a == 1 }} ", "a == 1"),
            ("a == 1", "a == 1"),
            ("{{ a }} {{ b }}", "{{ a }} {{ b }}"),
            ("{{ a }}x", "{{ a }}x"),
            ("{{ a", "{{ a"),
        ] {
            assert_eq!(bare(text), expected, "{text}");
        }
    }
}
