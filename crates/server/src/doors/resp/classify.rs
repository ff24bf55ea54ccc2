//! Which requests are answered together, which alone, and which not at all.

use keyspace::Keyspace;
use protocol::resp::command;
use protocol::resp::request::Request;

use super::convert::QUEUE_PREFIX;
use super::listener::Shapes;

/// What keys of the server itself begin with; nobody else's keys may.
const OWN_PREFIXES: [&[u8]; 8] = [
    QUEUE_PREFIX,
    b"job:",
    b"plan:",
    b"action:",
    b"worker:",
    b"capability:",
    b"agq:internal:",
    b"astra:",
];
const OWN_KEYS: [&[u8]; 3] = [b"plans:all", b"actions:all", b"workers:all"];

/// How a request is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    /// By the scratch keyspace, at once.
    Keys,
    /// By the scratch keyspace, perhaps later.
    Wait,
    /// A job to submit.
    Submit,
    /// A word about a job.
    Update,
    /// A job to take.
    Pop,
    /// In its own way.
    Alone,
    /// Not at all.
    Refused(Refused),
}

/// Why a request is not even looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refused {
    /// The client has not proved who it is.
    NoAuth,
}

impl Refused {
    pub(super) fn text(self, shapes: Shapes) -> &'static str {
        match (self, shapes) {
            (Self::NoAuth, Shapes::Redis) => "NOAUTH Authentication required.",
            (Self::NoAuth, Shapes::Agq) => "ERR NOAUTH Authentication required",
        }
    }
}

/// Whether a key belongs to the server.
pub(super) fn is_own(key: &[u8]) -> bool {
    let may_be = matches!(key.first(), Some(b'q' | b'j' | b'p' | b'a' | b'w' | b'c'));
    may_be && (OWN_PREFIXES.iter().any(|prefix| key.starts_with(prefix)) || OWN_KEYS.contains(&key))
}

/// How a request is answered. `is_member` is whether its client proved who it is.
pub(super) fn classify(request: &Request, is_member: bool) -> Class {
    if !is_member {
        let may = ["AUTH", "HELLO", "QUIT", "RESET"].iter().any(|name| request.name_is(name));
        return if may { Class::Alone } else { Class::Refused(Refused::NoAuth) };
    }
    let Some(name) = request.upper_name() else { return Class::Alone };
    let name = name.as_str();
    if !Keyspace::knows(name.as_bytes()) {
        return match name {
            "JOB.SUBMIT" => Class::Submit,
            "JOB.UPDATE" => Class::Update,
            _ => Class::Alone,
        };
    }
    let Some(spec) = command::find(request.name()) else { return Class::Alone };
    let key = request.arguments.get(1).map_or(&b""[..], AsRef::as_ref);
    if key.starts_with(QUEUE_PREFIX) {
        return match name {
            "LPUSH" | "RPUSH" => Class::Submit,
            "BRPOP" | "BLPOP" | "RPOP" | "LPOP" | "BRPOPLPUSH" | "RPOPLPUSH" | "BLMOVE"
            | "LMOVE" => Class::Pop,
            _ => Class::Alone,
        };
    }
    if matches!(name, "KEYS" | "SCAN" | "DBSIZE")
        || spec.keys(&request.arguments).any(|key| is_own(key))
    {
        return Class::Alone;
    }
    match name {
        "BLPOP" | "BRPOP" | "BLMOVE" | "BRPOPLPUSH" => Class::Wait,
        _ => Class::Keys,
    }
}
