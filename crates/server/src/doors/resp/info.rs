//! What clients ask about the server and about themselves.

use std::fmt::Write as _;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use protocol::resp::reply::Reply;
use protocol::resp::request::Request;

use super::answers::{Answered, RespError, whole};
use super::connection::Connection;
use super::jobs::{text_at, text_of};

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

    pub(super) fn on_client(&mut self, request: &Request) -> Answered {
        let verb = text_at(request, 1)?.to_ascii_uppercase();
        let reply = match (verb.as_str(), &request.arguments[2..]) {
            ("ID", []) => whole(self.client.id),
            ("GETNAME", []) => Reply::from(self.client.name.clone()),
            ("SETNAME", [name]) => {
                let name = text_of(name)?;
                if name.bytes().any(|byte| !byte.is_ascii_graphic()) {
                    let text = "ERR Client names cannot contain spaces, newlines or special \
                                characters.";
                    return Err(RespError::new(text));
                }
                self.client.name = name.chars().take(128).collect();
                Reply::ok()
            }
            ("SETINFO", [field, value]) => {
                let value: String = text_of(value)?.chars().take(128).collect();
                match text_of(field)?.to_ascii_uppercase().as_str() {
                    "LIB-NAME" => self.client.library.0 = value,
                    "LIB-VER" => self.client.library.1 = value,
                    _ => return Err(RespError::new("ERR Unrecognized option")),
                }
                Reply::ok()
            }
            ("INFO", []) => Reply::Text(format!("{}\n", self.client.line())),
            ("LIST", _) => Reply::Text(self.clients()),
            ("NO-EVICT" | "NO-TOUCH", [_]) | ("TRACKING", [_, ..]) => Reply::ok(),
            ("REPLY", [mode]) if mode.eq_ignore_ascii_case(b"on") => Reply::ok(),
            _ => return Err(format!("unknown subcommand '{verb}'").into()),
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
    pub(super) async fn on_info(&mut self, request: &Request) -> Answered {
        let wanted = &request.arguments[1..];
        let wants = |section: &str| {
            let names = [section, "all", "everything", "default"].map(str::as_bytes);
            let is_named = |one: &Bytes| names.iter().any(|name| one.eq_ignore_ascii_case(name));
            wanted.is_empty() || wanted.iter().any(is_named)
        };
        let mut text = String::new();
        for (section, lines) in self.info_sections().await {
            if wants(section) {
                let _ = write!(text, "# {section}\r\n{lines}\r\n");
            }
        }
        Ok(Reply::Text(text))
    }

    /// Each section with its lines.
    async fn info_sections(&self) -> [(&'static str, String); 8] {
        let door = &self.app.resp;
        let uptime = self.app.clock.uptime().as_secs();
        let (keys, bytes) = self.keyspace_load().await;
        let server = format!(
            "redis_version:{REDIS_VERSION}\r\nredis_mode:standalone\r\n\
             astraflow_version:{}\r\nworker_protocol_version:{WORKER_PROTOCOL_VERSION}\r\n\
             process_id:{}\r\nuptime_in_seconds:{uptime}\r\nuptime_in_days:{}\r\n",
            self.app.version,
            std::process::id(),
            uptime / 86_400
        );
        let stats = format!(
            "total_connections_received:{}\r\ntotal_commands_processed:{}\r\n",
            door.accepted.load(Ordering::Relaxed),
            door.commands.load(Ordering::Relaxed)
        );
        [
            ("Server", server),
            ("Clients", format!("connected_clients:{}\r\n", door.open.lock().len())),
            ("Memory", format!("used_memory:{bytes}\r\nmaxmemory:0\r\n")),
            ("Persistence", "loading:0\r\naof_enabled:1\r\n".to_owned()),
            ("Stats", stats),
            ("Replication", "role:master\r\nconnected_slaves:0\r\n".to_owned()),
            ("Cluster", "cluster_enabled:0\r\n".to_owned()),
            ("Keyspace", format!("db0:keys={keys},expires=0,avg_ttl=0\r\n")),
        ]
    }

    /// `METRICS`: the same text that Prometheus reads.
    pub(super) fn on_metrics(&mut self) -> Answered {
        let text = self.app.metrics.render(self.member().tenant());
        text.map(Reply::Text).map_err(|_| RespError::new("ERR the numbers cannot be written"))
    }

    pub(super) fn on_time(&self) -> Reply {
        let millis = self.app.clock.now().as_millis();
        Reply::array([millis / 1_000, millis % 1_000 * 1_000].map(|number| number.to_string()))
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
pub(super) fn on_select(request: &Request) -> Answered {
    match request.arguments[1].as_ref() {
        b"0" => Ok(Reply::ok()),
        _ => Err(RespError::new("ERR DB index is out of range")),
    }
}

/// `CONFIG GET`: the few settings that tools ask for.
pub(super) fn on_config(request: &Request) -> Answered {
    let names = &request.arguments[2..];
    if !request.arguments[1].eq_ignore_ascii_case(b"get") {
        let text = "ERR settings are read with CONFIG GET, and set in astra.toml";
        return Err(RespError::new(text));
    }
    let wanted = |name: &str| {
        names.iter().any(|one| keyspace::matches(&one.to_ascii_lowercase(), name.as_bytes()))
    };
    let found = SETTINGS.into_iter().filter(|(name, _)| wanted(name));
    Ok(Reply::Map(found.map(|(name, value)| (name.into(), value.into())).collect()))
}
