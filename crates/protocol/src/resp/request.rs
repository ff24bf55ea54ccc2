//! What a client sends.

use bytes::Bytes;

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

/// One command: its name first, as it was sent. Never empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// The name and what follows it.
    pub arguments: Vec<Bytes>,
}
