//! What the error replies of servers mean to a worker. Servers differ in their words, so all of
//! them are read here.

/// What an error reply means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Meaning {
    /// The key is wrong, or missing.
    WrongKey,
    /// The key does not allow it.
    NotAllowed,
    /// The server does not know such a command.
    UnknownCommand,
    /// The work is not wanted any more.
    Cancelled,
    /// What was said breaks the contract.
    Rejected,
    /// The server does not know this worker.
    NotRegistered,
    /// The same request may be answered later.
    Passing,
    /// Something else, which asking again would not change.
    Other,
}

/// Parts of texts, and what they mean; the first that is found counts.
const PARTS: [(&str, Meaning); 11] = [
    ("noauth", Meaning::WrongKey),
    ("invalid authentication key", Meaning::WrongKey),
    ("auth key cannot be empty", Meaning::WrongKey),
    ("invalid password", Meaning::WrongKey),
    ("unknown command", Meaning::UnknownCommand),
    ("worker not registered", Meaning::NotRegistered),
    ("try again", Meaning::Passing),
    ("connect again", Meaning::Passing),
    ("max number of clients", Meaning::Passing),
    ("internal error", Meaning::Passing),
    ("rate limit", Meaning::Passing),
];

/// Reads an error reply.
pub(super) fn meaning(text: &str) -> Meaning {
    let code = text.split_whitespace().next().unwrap_or_default();
    match code {
        "NOAUTH" | "WRONGPASS" => return Meaning::WrongKey,
        "NOPERM" => return Meaning::NotAllowed,
        "CANCELLED" => return Meaning::Cancelled,
        "REJECTED" => return Meaning::Rejected,
        "BUSY" | "LOADING" | "TRYAGAIN" => return Meaning::Passing,
        _ => {}
    }
    let text = text.to_lowercase();
    let found = PARTS.iter().find(|(part, _)| text.contains(part));
    found.map_or(Meaning::Other, |(_, meaning)| *meaning)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_of_all_servers_are_understood() {
        for (text, expected) in [
            ("NOAUTH Authentication required.", Meaning::WrongKey),
            ("ERR NOAUTH Authentication required", Meaning::WrongKey),
            ("WRONGPASS invalid username-password pair or user is disabled.", Meaning::WrongKey),
            ("ERR Invalid authentication key", Meaning::WrongKey),
            ("NOPERM this key does not speak for worker w2", Meaning::NotAllowed),
            ("ERR unknown command 'WORKER.REGISTER'", Meaning::UnknownCommand),
            ("ERR Unknown command `JOB.GET`, with args beginning with:", Meaning::UnknownCommand),
            ("CANCELLED expired: the lease ended before the report came", Meaning::Cancelled),
            ("REJECTED duplicate_report: reported before, try again", Meaning::Rejected),
            ("ERR Worker not registered: w1", Meaning::NotRegistered),
            ("ERR too many failed AUTH attempts; try again in 3 s", Meaning::Passing),
            ("BUSY more requests than the server can take now", Meaning::Passing),
            ("ERR the server is stopping; connect again", Meaning::Passing),
            ("ERR Internal error", Meaning::Passing),
            ("ERR Worker ID already registered", Meaning::Other),
            ("ERR Job not found: j", Meaning::Other),
            ("", Meaning::Other),
        ] {
            assert_eq!(meaning(text), expected, "{text}");
        }
    }
}
