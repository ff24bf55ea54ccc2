//! What a client sends.
//!
//! The reader takes arrays of bulks and lines typed by hand. It goes over each byte once, however
//! small the pieces are in which a request comes.

mod inline;
mod line;
mod multibulk;

use bytes::{Bytes, BytesMut};

use line::LineFinder;
use multibulk::Multibulk;

/// How much one request may be. Nothing is ever sized by a length that a client declares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Arguments, the name of the command included.
    pub arguments_max: usize,
    /// One argument.
    pub argument_bytes_max: usize,
    /// All of one request, as it stands on the wire.
    pub request_bytes_max: usize,
}

impl Limits {
    /// For who has not said yet who he is. The first two are Redis' own, and so are the words of
    /// the refusal while these limits hold.
    pub const STRANGER: Self =
        Self { arguments_max: 10, argument_bytes_max: 16 * 1024, request_bytes_max: 64 * 1024 };

    /// The error for a stranger, or for anybody else.
    fn refuse(&self, stranger: ProtocolError, other: ProtocolError) -> ProtocolError {
        if *self == Self::STRANGER { stranger } else { other }
    }
}

/// One command: its name first, as it was sent. Never empty.
///
/// The arguments are views of the buffer that they came in. Who keeps a small one for long should
/// copy it, or the whole buffer stays.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// The name and what follows it.
    pub arguments: Vec<Bytes>,
}

impl Request {
    /// The name of the command, as it was sent.
    pub fn name(&self) -> &Bytes {
        &self.arguments[0]
    }

    /// Whether the command has this name; case does not matter.
    pub fn name_is(&self, name: &str) -> bool {
        self.name().eq_ignore_ascii_case(name.as_bytes())
    }
}

/// Why a connection cannot be read any further. The words are Redis' own where it has some.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProtocolError {
    /// The number of arguments is none, or beyond the limit.
    #[error("Protocol error: invalid multibulk length")]
    InvalidMultibulkLength,
    /// The length of an argument is none, is negative, or is beyond the limit.
    #[error("Protocol error: invalid bulk length")]
    InvalidBulkLength,
    /// More arguments than a stranger may send.
    #[error("Protocol error: unauthenticated multibulk length")]
    UnauthenticatedMultibulkLength,
    /// A longer argument than a stranger may send.
    #[error("Protocol error: unauthenticated bulk length")]
    UnauthenticatedBulkLength,
    /// Something else than a bulk stands where an argument should begin.
    #[error("Protocol error: expected '$', got '{}'", .0.escape_ascii())]
    ExpectedBulk(u8),
    /// An argument is longer than was said.
    #[error("Protocol error: expected CRLF after an argument")]
    ExpectedLineEnd,
    /// The line with the number of arguments does not end.
    #[error("Protocol error: too big mbulk count string")]
    TooBigMultibulkHeader,
    /// The line with the length of an argument does not end.
    #[error("Protocol error: too big bulk count string")]
    TooBigBulkHeader,
    /// A command typed by hand is beyond a limit.
    #[error("Protocol error: too big inline request")]
    TooBigInline,
    /// All arguments together are beyond the limit.
    #[error("Protocol error: too big request")]
    TooBigRequest,
    /// A quote is not closed, or something sticks to its end.
    #[error("Protocol error: unbalanced quotes in request")]
    UnbalancedQuotes,
    /// A browser was made to speak to us. Such a connection is closed without a word.
    #[error("possible attack: the request speaks HTTP")]
    CrossProtocol,
}

/// Where the reader is in the stream.
///
/// ```text
/// Between --*N--> Inside --last argument--> Between
/// Between, Inside --error--> Broken
/// ```
#[derive(Debug)]
enum Place {
    /// Before the first byte of a request.
    Between,
    /// Between the arguments of a request, or in one.
    Inside(Multibulk),
    /// After an error, which is final: nobody knows where the next request begins.
    Broken(ProtocolError),
}

/// What came of looking at the buffer once.
enum Step {
    /// More bytes are needed.
    Starved,
    /// The head of a request was there.
    Opened(Multibulk),
    /// A request without arguments, which Redis takes without a word.
    Skipped,
    /// The last byte of a request was there.
    Complete(Vec<Bytes>),
}

/// Cuts requests out of a stream. It never waits: who owns the socket adds to the buffer.
#[derive(Debug)]
pub struct RequestReader {
    limits: Limits,
    place: Place,
    lines: LineFinder,
}

impl RequestReader {
    /// A reader at the start of a stream.
    pub fn new(limits: Limits) -> Self {
        Self { limits, place: Place::Between, lines: LineFinder::default() }
    }

    /// Changes the limits, from the next head of a request or argument on.
    pub fn set_limits(&mut self, limits: Limits) {
        self.limits = limits;
    }

    /// Takes the next request off the buffer, or what is there of it. None asks for more bytes.
    ///
    /// Between two calls bytes may be added to the end of the buffer and nothing else. An error is
    /// final; each further call gives it again.
    pub fn next(&mut self, buffer: &mut BytesMut) -> Result<Option<Request>, ProtocolError> {
        loop {
            let step = match &mut self.place {
                Place::Broken(error) => return Err(*error),
                Place::Inside(request) => request.read(buffer, &mut self.lines, &self.limits),
                Place::Between => match buffer.first() {
                    None => return Ok(None),
                    Some(b'*') => Multibulk::open(buffer, &mut self.lines, &self.limits),
                    Some(_) => inline::read(buffer, &mut self.lines, &self.limits),
                },
            };
            match step {
                Ok(Step::Starved) => return Ok(None),
                Ok(Step::Opened(request)) => self.place = Place::Inside(request),
                Ok(Step::Skipped) => self.place = Place::Between,
                Ok(Step::Complete(arguments)) => {
                    self.place = Place::Between;
                    return Ok(Some(Request { arguments }));
                }
                Err(error) => self.place = Place::Broken(error),
            }
        }
    }
}
