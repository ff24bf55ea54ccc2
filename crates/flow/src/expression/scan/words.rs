//! The small words of an expression: numbers, names of arguments, what operators want.

use super::path::skip_blanks;

/// What an operator wants of the operands before and behind it.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Wants {
    /// Anything.
    #[default]
    Anything,
    /// A number, for `*` and its like.
    Number,
    /// Something that can be a text, for `~`.
    Text,
}

impl Wants {
    /// The filter that makes sure of it.
    pub(super) fn filter(self) -> &'static str {
        match self {
            Self::Anything => "",
            Self::Number => " |_number ",
            Self::Text => " |_text ",
        }
    }
}

/// Whether what ends here is the name of an argument, as in `f(name=1)`.
pub(super) fn is_argument_name(bytes: &[u8], end: usize) -> bool {
    let next = skip_blanks(bytes, end);
    bytes.get(next) == Some(&b'=') && bytes.get(next + 1) != Some(&b'=')
}

/// Behind the end of a number, which may be one like `1_000`, `0xff`, `1.5` or `1e-7`. Behind a
/// dot it is the place in a list, which has no dot of its own.
pub(super) fn number_end(bytes: &[u8], begin: usize, is_place: bool) -> usize {
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
