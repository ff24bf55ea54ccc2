//! Goes through an expression word by word.
//!
//! Besides finding paths it puts a filter behind each operand of some operators. The engine would
//! repeat a text or a list that is multiplied, a hundred million times if asked, and it would do
//! so while it reads the expression; and `~` would write lists in a notation that doubles with
//! each level. The filters let numbers through, and weigh texts.

use super::path::{identifier_end, read_path};
use super::words::{Wants, is_argument_name, number_end};
use super::{Code, Fault, Path, place_holder, string_end};

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

pub(super) struct Scanner<'s> {
    source: &'s str,
    pub(super) here: usize,
    last: Last,
    /// Open brackets (a square one with a colon behind it as `:`), and for each level what is wanted of the operand that stands there.
    brackets: Vec<u8>,
    wanted: Vec<Wants>,
    code: Code<'s>,
}

impl<'s> Scanner<'s> {
    pub(super) fn new(source: &'s str) -> Self {
        Self {
            source,
            here: 0,
            last: Last::Operator,
            brackets: Vec::new(),
            wanted: vec![Wants::Anything],
            code: Code { authored: source.trim(), ..Code::default() },
        }
    }

    /// Goes on by one word.
    pub(super) fn token(&mut self) -> Result<(), Fault> {
        let bytes = self.source.as_bytes();
        match bytes[self.here] {
            byte if byte.is_ascii_whitespace() => self.copy(1),
            b'"' | b'\'' => {
                let end = string_end(bytes, self.here)
                    .ok_or_else(|| Fault::new(self.here, "a string is never closed"))?;
                self.copy(end - self.here);
                self.last = Last::Operand;
            }
            b'0'..=b'9' => {
                self.copy(number_end(bytes, self.here, self.last == Last::Dot) - self.here);
                self.last = Last::Operand;
            }
            byte if byte.is_ascii_alphabetic() || byte == b'_' => self.word()?,
            byte if byte.is_ascii() => self.operator(byte)?,
            _ => {
                let length = self.source[self.here..].chars().next().map_or(1, char::len_utf8);
                self.copy(length);
            }
        }
        Ok(())
    }

    /// What is left for the engine, when all words were looked at.
    pub(super) fn finish(mut self) -> Result<Code<'s>, Fault> {
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
            (Last::Is, "not") => self.copy(end - begin),
            (Last::Dot | Last::Bar | Last::Is, _) => {
                match self.last {
                    Last::Bar => self.code.filters.push(word),
                    Last::Is => self.code.tests.push(word),
                    _ => {}
                }
                self.copy(end - begin);
                self.last = Last::Operand;
            }
            (_, "is") => {
                self.code.operations += 1;
                self.copy(end - begin);
                self.last = Last::Is;
            }
            (_, "and" | "or" | "not" | "in" | "if" | "else") => {
                self.end_operand();
                self.code.operations += 1;
                self.copy(end - begin);
                self.last = Last::Operator;
            }
            _ if word.starts_with('_') => {
                return Err(Fault::new(begin, format!("{word} is not known here")));
            }
            _ if is_argument_name(bytes, end) => {
                self.copy(end - begin);
                self.last = Last::Operand;
            }
            _ => {
                match read_path(self.source, begin, end)? {
                    Some((path, after)) => self.put_path(path, after),
                    None => self.copy(end - begin),
                }
                self.last = Last::Operand;
            }
        }
        Ok(())
    }

    fn put_path(&mut self, path: Path, after: usize) {
        let paths = &mut self.code.paths;
        let place = paths.iter().position(|known| *known == path).unwrap_or_else(|| {
            paths.push(path);
            paths.len() - 1
        });
        self.code.source.push_str(&place_holder(place));
        self.here = after;
    }

    fn operator(&mut self, byte: u8) -> Result<(), Fault> {
        let next = self.source.as_bytes().get(self.here + 1).copied();
        if !matches!(byte, b',' | b':' | b')' | b']' | b'}') {
            self.code.operations += 1;
        }
        let before = std::mem::replace(&mut self.last, Last::Operator);
        match byte {
            b'.' | b'|' => {
                self.last = if byte == b'.' { Last::Dot } else { Last::Bar };
                self.copy(1);
            }
            b'(' | b'[' | b'{' => {
                self.brackets.push(byte);
                self.wanted.push(Wants::Anything);
                self.copy(1);
            }
            b')' | b']' | b'}' => {
                self.close(byte)?;
                self.last = Last::Operand;
            }
            b'*' if before != Last::Operand => {
                return Err(Fault::new(self.here, "a * has nothing before it"));
            }
            b'*' | b'/' | b'%' => {
                *self.level() = Wants::Number;
                self.end_operand();
                *self.level() = Wants::Number;
                self.copy(if next == Some(byte) { 2 } else { 1 });
            }
            b'~' => {
                if *self.level() == Wants::Anything {
                    *self.level() = Wants::Text;
                }
                self.end_operand();
                *self.level() = Wants::Text;
                self.copy(1);
            }
            b'-' if before != Last::Operand => self.copy(1),
            _ => {
                if byte == b':' {
                    self.slice()?;
                }
                self.end_operand();
                self.copy(1);
            }
        }
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
        self.copy(1);
        Ok(())
    }

    /// An operand ends where an operator stands that binds less.
    fn end_operand(&mut self) {
        let wanted = std::mem::take(self.level());
        self.code.source.push_str(wanted.filter());
    }

    fn level(&mut self) -> &mut Wants {
        self.wanted.last_mut().expect("the outermost level is never closed")
    }

    fn copy(&mut self, length: usize) {
        self.code.source.push_str(&self.source[self.here..self.here + length]);
        self.here += length;
    }
}
