//! One expression, taken apart: which paths it looks at, and what is left for the engine.

mod path;
mod scanner;
mod words;

use super::{EXPRESSION_BYTES_MAX, OPERATIONS_MAX, SLICES_MAX};
pub(super) use path::{Origin, Path};
use scanner::Scanner;

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
    fn new(at: usize, reason: impl Into<String>) -> Self {
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

/// The place holder of the path at a place.
fn place_holder(place: usize) -> String {
    format!("_{place}")
}

/// The place of a path; `None` where a name is no place holder.
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
    let mut scanner = Scanner::new(source);
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
    let name = path::identifier_end(authored.as_bytes(), 0);
    // What is wrong with it is said by the scanner.
    let (path, end) = path::read_path(authored, 0, name).ok()??;
    (end == authored.len()).then(|| Code {
        authored,
        source: place_holder(0),
        paths: vec![path],
        is_path: true,
        ..Code::default()
    })
}
