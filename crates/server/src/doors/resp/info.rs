//! What clients ask about the server and about themselves.

use std::fmt::Write as _;
use std::sync::atomic::Ordering;

use protocol::resp::reply::Reply;
use protocol::resp::request::Request;

use super::connection::Connection;
use super::jobs::{arity, text_of};

/// The Redis whose words are spoken here; clients decide by it what they may send.
pub(super) const REDIS_VERSION: &str = "7.0.0";
/// The version of the registration protocol that workers speak (seed 004).
const WORKER_PROTOCOL_VERSION: &str = "1.0";

/// A connection, as others may list it.
pub(super) struct OpenClient {
    tenant: Option<model::TenantId>,
    line: String,
}

impl Connection {
    /// Shows the connection to those who list connections.
    pub(super) fn list_self(&self) {
        let tenant = self.client.member.as_ref().map(|member| member.tenant().clone());
        let open = OpenClient { tenant, line: self.client.line() };
        self.app.resp.open.lock().insert(self.client.id, open);
    }

    pub(super) fn on_client(&mut self, request: &Request) -> Result<Reply, Reply> {
        let [_, verb, rest @ ..] = &request.arguments[..] else { return Err(arity(request)) };
        let verb = text_of(verb)?.to_ascii_uppercase();
        let reply = match (verb.as_str(), rest) {
            ("ID", []) => Reply::Integer(i64::try_from(self.client.id).unwrap_or(i64::MAX)),
            ("GETNAME", []) => Reply::bulk(self.client.name.clone().into_bytes()),
            ("SETNAME", [name]) => {
                let name = text_of(name)?;
                if name.bytes().any(|byte| !byte.is_ascii_graphic()) {
                    let text = "ERR Client names cannot contain spaces, newlines or special \
                                characters.";
                    return Err(Reply::error(text));
                }
                self.client.name = name.chars().take(128).collect();
                Reply::ok()
            }
            ("SETINFO", [field, value]) => {
                let value: String = text_of(value)?.chars().take(128).collect();
                match text_of(field)?.to_ascii_uppercase().as_str() {
                    "LIB-NAME" => self.client.library.0 = value,
                    "LIB-VER" => self.client.library.1 = value,
                    _ => return Err(Reply::error("ERR Unrecognized option")),
                }
                Reply::ok()
            }
            ("INFO", []) => Reply::Text(format!("{}\n", self.client.line())),
            ("LIST", _) => Reply::Text(self.clients()),
            ("NO-EVICT" | "NO-TOUCH", [_]) | ("TRACKING", [_, ..]) => Reply::ok(),
            ("REPLY", [mode]) if mode.eq_ignore_ascii_case(b"on") => Reply::ok(),
            _ => {
                let text = format!("ERR unknown subcommand '{verb}'");
                return Err(Reply::error(text));
            }
        };
        self.list_self();
        Ok(reply)
    }

    /// The connections of the client's own tenant.
    fn clients(&self) -> String {
        let open = self.app.resp.open.lock();
        let own = Some(self.member().tenant());
        let mut text = String::new();
        for client in open.values().filter(|client| client.tenant.as_ref() == own) {
            let _ = writeln!(text, "{}", client.line);
        }
        text
    }

    /// `INFO [section]`, with the lines that tools look for.
    pub(super) async fn on_info(&mut self, request: &Request) -> Result<Reply, Reply> {
        let wanted: Vec<String> = request.arguments[1..]
            .iter()
            .map(|one| String::from_utf8_lossy(one).to_lowercase())
            .collect();
        let wants = |section: &str| {
            wanted.is_empty()
                || wanted
                    .iter()
                    .any(|one| [section, "all", "everything", "default"].contains(&one.as_str()))
        };
        let mut text = String::new();
        for (section, lines) in self.info_sections().await {
            if wants(&section.to_lowercase()) {
                let _ = write!(text, "# {section}\r\n{}\r\n", lines.join("\r\n"));
                text.push_str("\r\n");
            }
        }
        Ok(Reply::Text(text))
    }

    async fn info_sections(&self) -> Vec<(&'static str, Vec<String>)> {
        let door = &self.app.resp;
        let uptime = self.app.clock.uptime().as_secs();
        let keys = self.key_count().await;
        let bytes = self.keyspace_bytes().await;
        let n_clients = door.open.lock().len();
        vec![
            (
                "Server",
                vec![
                    format!("redis_version:{REDIS_VERSION}"),
                    "redis_mode:standalone".to_owned(),
                    format!("astraflow_version:{}", self.app.version),
                    format!("worker_protocol_version:{WORKER_PROTOCOL_VERSION}"),
                    format!("process_id:{}", std::process::id()),
                    format!("uptime_in_seconds:{uptime}"),
                    format!("uptime_in_days:{}", uptime / 86_400),
                ],
            ),
            ("Clients", vec![format!("connected_clients:{n_clients}")]),
            ("Memory", vec![format!("used_memory:{bytes}"), "maxmemory:0".to_owned()]),
            ("Persistence", vec!["loading:0".to_owned(), "aof_enabled:1".to_owned()]),
            (
                "Stats",
                vec![
                    format!("total_connections_received:{}", door.accepted.load(Ordering::Relaxed)),
                    format!("total_commands_processed:{}", door.commands.load(Ordering::Relaxed)),
                ],
            ),
            ("Replication", vec!["role:master".to_owned(), "connected_slaves:0".to_owned()]),
            ("Cluster", vec!["cluster_enabled:0".to_owned()]),
            ("Keyspace", vec![format!("db0:keys={keys},expires=0,avg_ttl=0")]),
        ]
    }

    /// `METRICS`: the same text that Prometheus reads.
    pub(super) fn on_metrics(&mut self) -> Result<Reply, Reply> {
        let text = self.app.metrics.render(self.member().tenant());
        text.map(Reply::Text).map_err(|_| Reply::error("ERR the numbers cannot be written"))
    }

    pub(super) fn on_time(&self) -> Reply {
        let millis = self.app.clock.now().as_millis();
        let text = |number: u64| Reply::bulk(number.to_string().into_bytes());
        Reply::Array(vec![text(millis / 1_000), text(millis % 1_000 * 1_000)])
    }
}

/// The settings that tools ask for.
const SETTINGS: [(&str, &str); 6] = [
    ("appendfsync", "always"),
    ("appendonly", "yes"),
    ("databases", "1"),
    ("maxmemory", "0"),
    ("save", ""),
    ("timeout", "3600"),
];

/// `SELECT`: there is one database.
pub(super) fn on_select(request: &Request) -> Result<Reply, Reply> {
    match request.arguments[1].as_ref() {
        b"0" => Ok(Reply::ok()),
        _ => Err(Reply::error("ERR DB index is out of range")),
    }
}

/// `CONFIG GET`: the few settings that tools ask for.
pub(super) fn on_config(request: &Request) -> Result<Reply, Reply> {
    let [_, verb, names @ ..] = &request.arguments[..] else { return Err(arity(request)) };
    if !verb.eq_ignore_ascii_case(b"get") || names.is_empty() {
        return Err(Reply::error("ERR settings are read with CONFIG GET, and set in astra.toml"));
    }
    let wanted = |name: &str| {
        names.iter().any(|one| keyspace::matches(&one.to_ascii_lowercase(), name.as_bytes()))
    };
    let pair = |(name, value): &(&'static str, &'static str)| {
        (Reply::bulk(name.as_bytes()), Reply::bulk(value.as_bytes()))
    };
    let found = SETTINGS.iter().filter(|(name, _)| wanted(name));
    Ok(Reply::Map(found.map(pair).collect()))
}
