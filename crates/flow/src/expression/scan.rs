//! One expression, taken apart: which paths it looks at, and what is left for the engine.

mod path;
mod scanner;

use super::{EXPRESSION_BYTES_MAX, OPERATIONS_MAX, SLICES_MAX};
pub(super) use path::{Origin, Path};
use scanner::Scanner;

/// An expression, ready for the engine.
#[derive(Debug, Default)]
pub(super) struct Code {
    /// The expression, with a place holder instead of each path.
    pub(super) source: String,
    /// The paths, in the order of their place holders.
    pub(super) paths: Vec<Path>,
    /// It is one path and nothing else.
    pub(super) is_path: bool,
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

pub(super) fn is_place_holder(name: &str) -> bool {
    place_of(name).is_some()
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
pub(super) fn scan(source: &str) -> Result<Code, Fault> {
    if source.len() > EXPRESSION_BYTES_MAX {
        let reason = format!("an expression has at most {EXPRESSION_BYTES_MAX} bytes");
        return Err(Fault::new(0, reason));
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
