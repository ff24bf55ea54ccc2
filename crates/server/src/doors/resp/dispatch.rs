//! Which requests are answered together and which alone, as the table of commands says.

use std::ops::Deref;

use keyspace::Operation;
use protocol::resp::reply::Reply;
use protocol::resp::request::Request;
use protocol::rest::tokens::Role;

use super::answers::{Answered, QUEUE_PREFIX, RespError};
use super::command_spec::{CommandSpec, Need, Run};
use super::commands;
use super::connection::Connection;
use super::jobs::arity;
use super::listener::Shapes;

/// As much of a name as a refusal repeats.
const SHOWN_CHARS_MAX: usize = 64;

impl Need {
    fn is_met(self, role: Role, is_read: bool) -> bool {
        match (self, role) {
            (_, Role::Admin)
            | (Self::Nothing | Self::Look, _)
            | (Self::Submit | Self::Keep, Role::Client)
            | (Self::Work | Self::Keep, Role::Worker) => true,
            (Self::Keep, Role::Viewer) => is_read,
            _ => false,
        }
    }
}

impl Connection {
    /// Refuses a command with too few arguments or too many, and one that the client's role does
    /// not reach for.
    pub(super) fn allow(&self, request: &Invocation) -> Answered<()> {
        let Some(spec) = request.spec else { return Ok(()) };
        if !spec.takes(request.arguments.len()) {
            return Err(arity(request));
        }
        let on_queue = spec.on_queue.filter(|_| is_on_queue(request));
        let need = on_queue.map_or(spec.need, |(_, need)| need);
        // A client that may send this without a proof has no role yet.
        if need == Need::Nothing {
            return Ok(());
        }
        let role = self.member().caller.role;
        if need.is_met(role, spec.is("readonly")) {
            return Ok(());
        }
        let (name, role) = (spec.name, role.word());
        Err(RespError::new(format!(
            "NOPERM a {role} key has no permissions to run the '{name}' command"
        )))
    }

    /// One command in its own way; `None` when it has replied itself.
    pub(super) async fn answer_alone(&mut self, request: &Invocation) -> Option<Reply> {
        if let Some(reply) = self.refuse_transaction(request) {
            return Some(reply);
        }
        let Some(spec) = request.spec else { return Some(unknown(request)) };
        let allowed = self.allow(request).and_then(|()| self.allow_while_listening(request));
        let reply = match (allowed, spec.run) {
            (Err(error), _) => Err(error),
            (Ok(()), Run::Subscribe) => return self.on_subscribe(request),
            (Ok(()), Run::Door(handler)) => handler(self, request).await,
            (Ok(()), Run::Keys(_) | Run::Wait(_) | Run::Submit | Run::Update) => {
                self.answer_own_key(spec.name, request).await
            }
        };
        Some(reply.unwrap_or_else(Reply::from))
    }

    /// There are no transactions. Clients send `MULTI`, the commands and `EXEC` in one go, so the
    /// commands of a refused `MULTI` are refused too.
    fn refuse_transaction(&mut self, request: &Invocation) -> Option<Reply> {
        let is_end = ["EXEC", "DISCARD", "RESET", "QUIT"].iter().any(|end| request.name_is(end));
        if is_end || request.name_is("MULTI") {
            self.is_transaction_refused = !is_end;
            return None;
        }
        let text = "ERR MULTI was refused, so nothing is carried out up to EXEC or DISCARD";
        self.is_transaction_refused.then(|| Reply::error(text))
    }

    /// As after connecting: no name, no channels, no proof.
    pub(super) async fn on_reset(&mut self) -> Reply {
        self.unsubscribe_all();
        self.unbind();
        self.client.reset();
        self.wire.distrust();
        self.let_in_without_key().await;
        Reply::simple("RESET")
    }
}

/// Clients recognise the first words; people read the rest.
fn unknown(request: &Invocation) -> Reply {
    let name = String::from_utf8_lossy(request.name());
    let name: String = name.chars().take(SHOWN_CHARS_MAX).collect();
    Reply::error(format!(
        "ERR unknown command '{name}': this port takes the commands of AstraFlow's workers, plans \
         and jobs, and some for keys; COMMAND LIST names them all"
    ))
}

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
    /// By the keyspace, at once.
    Keys,
    /// By the keyspace, perhaps later.
    Wait,
    /// A job to submit.
    Submit,
    /// A word about a job.
    Update,
    /// A job to take.
    Pop,
    /// In its own way.
    Alone,
}

/// A request with its command, which is looked up once.
#[derive(Clone, Debug)]
pub(super) struct Invocation {
    request: Request,
    /// `None` if there is no such command.
    pub(super) spec: Option<&'static CommandSpec>,
    class: Class,
}

impl Invocation {
    pub(super) fn new(request: Request) -> Self {
        let spec = commands::find(request.name());
        let class = spec.map_or(Class::Alone, |spec| class_of(spec, &request));
        Self { request, spec, class }
    }

    /// The command's name in small letters; nothing if there is no such command.
    pub(super) fn command(&self) -> &'static str {
        self.spec.map_or("", |spec| spec.name)
    }

    /// How it is answered to a client that proved who it is.
    pub(super) fn class(&self) -> Class {
        self.class
    }

    /// The request with one more argument.
    pub(super) fn with(&self, argument: &'static [u8]) -> Self {
        let mut longer = self.clone();
        longer.request.arguments.push(argument.into());
        longer
    }

    /// What carries it out in the keyspace, and with what; only a request of [`Class::Keys`] or
    /// [`Class::Wait`] has it.
    pub(super) fn operation(&self) -> Option<Operation> {
        self.spec.and_then(CommandSpec::operation)
    }

    /// Whether a client may send it that has not proved who it is.
    pub(super) fn needs_no_auth(&self) -> bool {
        self.spec.is_some_and(|spec| spec.is("no_auth"))
    }
}

impl Deref for Invocation {
    type Target = Request;

    fn deref(&self) -> &Request {
        &self.request
    }
}

/// What a client hears that has not proved who it is.
pub(super) fn no_auth(shapes: Shapes) -> &'static str {
    match shapes {
        Shapes::Redis => "NOAUTH Authentication required.",
        Shapes::Agq => "ERR NOAUTH Authentication required",
    }
}

/// Whether a key belongs to the server.
pub(super) fn is_own(key: &[u8]) -> bool {
    let may_be = matches!(key.first(), Some(b'q' | b'j' | b'p' | b'a' | b'w' | b'c'));
    may_be && (OWN_PREFIXES.iter().any(|prefix| key.starts_with(prefix)) || OWN_KEYS.contains(&key))
}

/// Whether the first key of a request is a queue.
pub(super) fn is_on_queue(request: &Request) -> bool {
    request.arguments.get(1).is_some_and(|key| key.starts_with(QUEUE_PREFIX))
}

fn class_of(spec: &CommandSpec, request: &Request) -> Class {
    let class = match spec.run {
        Run::Keys(_) => Class::Keys,
        Run::Wait(_) => Class::Wait,
        Run::Submit => return Class::Submit,
        Run::Update => return Class::Update,
        Run::Subscribe | Run::Door(_) => return Class::Alone,
    };
    if is_on_queue(request) {
        return spec.on_queue.map_or(Class::Alone, |(class, _)| class);
    }
    let is_served_alone = !spec.takes(request.arguments.len())
        || spec.keys_in(&request.arguments).iter().any(|key| is_own(key));
    if is_served_alone { Class::Alone } else { class }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use bytes::Bytes;

    use super::super::command_spec::CommandSpec;
    use super::super::commands::{COMMANDS, find};

    #[test]
    fn each_command_is_found_by_its_name_in_any_case() {
        for spec in COMMANDS {
            for name in [spec.name.to_owned(), spec.name.to_uppercase()] {
                assert_eq!(find(name.as_bytes()).map(|found| found.name), Some(spec.name));
            }
            assert!(find(format!("{}_", spec.name).as_bytes()).is_none());
            assert!(find(&spec.name.as_bytes()[1..]).is_none_or(|found| found.name != spec.name));
        }
        for nothing in [&b""[..], b"\0", b"\xff\xfe", b"flushall", b"eval", b"multi", b"sadd"] {
            assert!(find(nothing).is_none());
        }
    }

    #[test]
    fn every_command_is_described() {
        let mut names = BTreeSet::new();
        for spec in COMMANDS {
            assert!(names.insert(spec.name), "{} stands twice", spec.name);
            assert_eq!(spec.name, spec.name.to_lowercase());
            assert!(!spec.summary.is_empty() && spec.summary.len() < 90, "{}", spec.name);
            assert!(!spec.group.is_empty() && spec.arity != 0, "{}", spec.name);
            assert!(!(spec.is("write") && spec.is("readonly")), "{}", spec.name);
        }
    }

    #[test]
    fn arity_and_syntax_agree() {
        for spec in COMMANDS.iter().filter(|spec| spec.name != "quit") {
            // Words outside of brackets must be there; whole brackets may be left out.
            let (mut depth, mut least) = (0, 1);
            for word in spec.syntax.split_whitespace() {
                let opens = word.matches('[').count();
                least += usize::from(depth == 0 && opens == 0);
                depth += opens;
                depth -= word.matches(']').count();
            }
            let is_open = spec.syntax.contains('[');
            if spec.name == "client" {
                // A choice of subcommands, of which some take arguments.
                assert_eq!(spec.arity, -2);
                continue;
            }
            assert_eq!(spec.arity.unsigned_abs() as usize, least, "{}", spec.name);
            let may_vary = is_open || ["module", "expire"].contains(&spec.name);
            assert_eq!(spec.arity < 0, may_vary, "{}", spec.name);
            assert!(spec.takes(least) && !spec.takes(least - 1), "{}", spec.name);
        }
    }

    #[test]
    fn keys_are_picked_out() {
        check_keys(&["GET", "a"], &["a"]);
        check_keys(&["MGET", "a", "b", "c"], &["a", "b", "c"]);
        check_keys(&["BLPOP", "a", "b", "5"], &["a", "b"]);
        check_keys(&["BRPOPLPUSH", "a", "b", "5"], &["a", "b"]);
        check_keys(&["QUEUE.PEEK", "queue:ready", "5"], &["queue:ready"]);
        check_keys(&["QUEUE.STATS"], &[]);
        check_keys(&["PING", "a"], &[]);
        check_keys(&["JOB.GET", "a"], &[]);
        // Fewer than there must be.
        check_keys(&["GET"], &[]);
        check_keys(&["BLPOP"], &[]);
        check_keys(&["BLPOP", "5"], &[]);
    }

    fn check_keys(words: &[&'static str], keys: &[&str]) {
        let spec: &CommandSpec = find(words[0].as_bytes()).expect("a command of the table");
        let arguments: Vec<Bytes> =
            words.iter().map(|word| Bytes::from_static(word.as_bytes())).collect();
        assert_eq!(spec.keys_in(&arguments), keys, "{words:?}");
    }
}
