//! One command with its arguments, the answer to it, and why it may be refused.

use std::borrow::Cow;
use std::time::Duration;

use bytes::Bytes;
use model::Timestamp;

use crate::keyspace::Keyspace;

/// Arguments below this size are copied, so that a small value does not hold on to the large
/// buffer in which it came from the network.
const SHARED_BYTES_MIN: usize = 64 << 10;

/// A command, as the table of commands names it: what carries it out.
pub type Operation = fn(&mut Keyspace, &Call<'_>) -> Outcome;

/// What carrying out a command comes to. A failure has changed nothing.
pub type Outcome = Result<Answer, Failure>;

/// The answer to one command; how it looks on the wire is the door's business.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// The command is done.
    Ok,
    /// The key, field, member or element does not exist.
    Null,
    /// The pop found no element, where an array of them was asked for.
    NullArray,
    /// A number, a count or a flag.
    Integer(i64),
    /// A score.
    Double(f64),
    /// A value.
    Bulk(Bytes),
    /// A word of Redis, such as the name of a type.
    Word(&'static str),
    /// Several answers.
    Array(Vec<Answer>),
    /// An element, and the list from which a pop that may wait took it.
    Popped(Popped),
    /// The fields of a hash with their values.
    Map(Vec<(Bytes, Bytes)>),
    /// Members of a sorted set with their scores.
    Scored(Vec<(Bytes, f64)>),
    /// The lists are empty: the client waits until one of them gains an element, and asks again.
    /// Nothing was changed.
    Block {
        /// The lists, in the order in which the command names them.
        keys: Vec<Bytes>,
        /// The longest wait; `None` is for ever.
        timeout: Option<Duration>,
    },
    /// The command was refused and changed nothing. Redis' own words, with their prefix, like
    /// `WRONGTYPE Operation against a key holding the wrong kind of value`.
    Error(Cow<'static, str>),
}

impl Answer {
    /// A length or a count; what fits into memory fits into an integer.
    pub(crate) fn count(n: usize) -> Self {
        Self::Integer(i64::try_from(n).unwrap_or(i64::MAX))
    }

    pub(crate) fn bulk_or_null(value: Option<&Bytes>) -> Self {
        value.map_or(Self::Null, |value| Self::Bulk(value.clone()))
    }
}

/// An element that was popped, and its place before that.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Popped {
    /// The list.
    pub key: Bytes,
    /// The element.
    pub element: Bytes,
    /// The end of the list at which it stood.
    pub end: End,
}

/// One end of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The front, where `LPUSH` adds.
    Left,
    /// The back, where `RPUSH` adds.
    Right,
}

/// Why a command is refused: the sentence that the client reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure(Cow<'static, str>);

pub(crate) const SYNTAX: Failure = Failure::new("ERR syntax error");
pub(crate) const WRONG_TYPE: Failure =
    Failure::new("WRONGTYPE Operation against a key holding the wrong kind of value");
pub(crate) const NOT_AN_INTEGER: Failure =
    Failure::new("ERR value is not an integer or out of range");
pub(crate) const OVERFLOW: Failure = Failure::new("ERR increment or decrement would overflow");

impl Failure {
    /// A sentence that is always the same.
    pub(crate) const fn new(sentence: &'static str) -> Self {
        Self(Cow::Borrowed(sentence))
    }

    /// A sentence that names what it is about.
    pub(crate) fn with(sentence: String) -> Self {
        Self(Cow::Owned(sentence))
    }

    pub(crate) fn wrong_arity(name: &str) -> Self {
        Self::with(format!("ERR wrong number of arguments for '{name}' command"))
    }
}

impl From<Failure> for Answer {
    fn from(failure: Failure) -> Self {
        Self::Error(failure.0)
    }
}

/// One command with its arguments; its name is at position 0. The door has checked how many
/// arguments there are; one that is missing nevertheless reads as empty.
#[derive(Clone, Copy, Debug)]
pub struct Call<'a> {
    pub(crate) now: Timestamp,
    pub(crate) arguments: &'a [Bytes],
}

static EMPTY: Bytes = Bytes::new();

/// The bytes, in memory of their own.
pub(crate) fn own(bytes: &Bytes) -> Bytes {
    if bytes.len() < SHARED_BYTES_MIN { Bytes::copy_from_slice(bytes) } else { bytes.clone() }
}

impl<'a> Call<'a> {
    /// How many arguments there are, with the name.
    pub(crate) fn len(&self) -> usize {
        self.arguments.len()
    }

    pub(crate) fn argument(&self, position: usize) -> &'a Bytes {
        self.arguments.get(position).unwrap_or(&EMPTY)
    }

    /// All arguments from a position on.
    pub(crate) fn from(&self, position: usize) -> &'a [Bytes] {
        self.arguments.get(position..).unwrap_or_default()
    }

    /// Whether the argument is this word, in any case.
    pub(crate) fn is(&self, position: usize, word: &str) -> bool {
        self.argument(position).eq_ignore_ascii_case(word.as_bytes())
    }

    pub(crate) fn integer(&self, position: usize) -> Result<i64, Failure> {
        integer(self.argument(position)).ok_or(NOT_AN_INTEGER)
    }

    /// A count; Redis says the same sentence of negative ones and of texts that are no number.
    pub(crate) fn count(&self, position: usize) -> Result<usize, Failure> {
        let count = integer(self.argument(position)).and_then(|count| usize::try_from(count).ok());
        count.ok_or(Failure::new("ERR value is out of range, must be positive"))
    }

    /// The last argument as a span: seconds, and parts of them. Zero is for ever.
    pub(crate) fn timeout(&self) -> Result<Option<Duration>, Failure> {
        let seconds = any_float(self.argument(self.len().saturating_sub(1)));
        let seconds = seconds.ok_or(Failure::new("ERR timeout is not a float or out of range"))?;
        let millis = (seconds * 1_000.0).ceil();
        // Redis takes for negative what has no room in 64 bits.
        if !(0.0..9.2e18).contains(&millis) {
            return Err(Failure::new("ERR timeout is negative"));
        }
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "just checked")]
        let millis = millis as u64;
        Ok((millis > 0).then(|| Duration::from_millis(millis)))
    }
}

/// An integer, written in the one way in which Redis would write it.
pub(crate) fn integer(text: &[u8]) -> Option<i64> {
    let digits = text.strip_prefix(b"-").unwrap_or(text);
    if text != b"0" && !matches!(digits.first(), Some(b'1'..=b'9')) {
        return None;
    }
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// A decimal number that is no NaN; `None` if it is too large or too small for a double.
pub(crate) fn float(text: &[u8]) -> Option<f64> {
    let number = any_float(text)?;
    let digits = text.strip_prefix(b"-").or(text.strip_prefix(b"+")).unwrap_or(text);
    let says_infinity = !matches!(digits.first(), Some(b'0'..=b'9' | b'.'));
    let mantissa = digits.split(|byte| matches!(byte, b'e' | b'E')).next().unwrap_or(digits);
    let says_zero = mantissa.iter().all(|byte| matches!(byte, b'0' | b'.'));
    let is_out_of_range = number.is_infinite() && !says_infinity || number == 0.0 && !says_zero;
    (!is_out_of_range).then_some(number)
}

/// A number as C reads it where nobody asks whether it fitted: the end of a range of scores.
pub(crate) fn lenient_float(text: &[u8]) -> Option<f64> {
    let text = until_zero(text);
    let blank = |byte: &u8| byte.is_ascii_whitespace() || *byte == 0x0b;
    let start = text.iter().position(|byte| !blank(byte));
    match start {
        None => text.is_empty().then_some(0.0),
        Some(start) => any_float(&text[start..]),
    }
}

fn any_float(text: &[u8]) -> Option<f64> {
    let number: f64 = std::str::from_utf8(text).ok()?.parse().ok()?;
    (!number.is_nan()).then_some(number)
}

/// A text as C sees it.
pub(crate) fn until_zero(text: &[u8]) -> &[u8] {
    text.split(|byte| *byte == 0).next().unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_are_written_in_one_way() {
        for number in [0, 1, -1, 10, i64::MAX, i64::MIN] {
            assert_eq!(integer(number.to_string().as_bytes()), Some(number));
        }
        for text in ["", "-", "-0", "01", "+1", " 1", "1 ", "9223372036854775808", "1.0", "a"] {
            assert_eq!(integer(text.as_bytes()), None, "{text}");
        }
        assert_eq!(integer(b"-9223372036854775809"), None);
    }

    #[test]
    fn doubles_are_read_as_c_reads_them() {
        for (text, number) in [("1.5", 1.5), ("-.5e1", -5.0), ("1e-310", 1e-310), ("0e9", 0.0)] {
            assert_eq!(float(text.as_bytes()), Some(number), "{text}");
        }
        assert_eq!(float(b"-inf"), Some(f64::NEG_INFINITY));
        for text in ["1e400", "1e-400", "nan", " 1", "1 ", "0x10", "e5", "."] {
            assert_eq!(float(text.as_bytes()), None, "{text}");
        }
        assert_eq!(lenient_float(b" 1e400"), Some(f64::INFINITY));
        assert_eq!(lenient_float(b""), Some(0.0));
        assert_eq!(lenient_float(b" "), None);
    }

    #[test]
    fn a_missing_argument_is_empty() {
        let call = Call { now: Timestamp::default(), arguments: &[] };
        assert_eq!((call.argument(1), call.from(2).len()), (&Bytes::new(), 0));
        assert!(call.timeout().is_err());
    }
}
