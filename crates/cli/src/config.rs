//! Settings: flags before `ASTRA_*` before `./astra.toml` before what is built in.

use std::collections::BTreeMap;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use confique::Config as _;
use protocol::session::window::WINDOW_FRAMES;
use serde::{Deserialize, Deserializer};
use server::app::{RespOptions, Shapes};
use tracing_subscriber::filter::LevelFilter;

use crate::failure::{ExitCode, Failure, Result};

/// The file that is read, in the folder where the command is started.
pub(crate) const FILE: &str = "astra.toml";
/// Where `astra dev` keeps its data, and where clients look for a dev server.
pub(crate) const DATA_DEFAULT: &str = ".astra";
/// Where a server listens.
pub(crate) const HTTP_DEFAULT: &str = "127.0.0.1:8080";
/// Where Redis clients are served.
pub(crate) const RESP_DEFAULT: &str = "127.0.0.1:6380";

/// Every setting; each is a flag, a variable and a key of `astra.toml`.
#[derive(Clone, Debug, confique::Config)]
#[config(layer_attr(serde(deny_unknown_fields)))]
pub(crate) struct Config {
    /// The server that commands talk to. Default: the dev server of this folder
    /// (`.astra/profile.toml`), else `http://127.0.0.1:8080`. Flag: `--server`.
    #[config(env = "ASTRA_SERVER")]
    pub(crate) server: Option<String>,

    /// The token that commands show. Default: none, which a dev server accepts. Flag: `--token`.
    #[config(env = "ASTRA_TOKEN")]
    pub(crate) token: Option<String>,

    /// A file that holds the token, for secrets that must not stand in a variable. Flag:
    /// `--token-file`.
    #[config(env = "ASTRA_TOKEN_FILE")]
    pub(crate) token_file: Option<PathBuf>,

    /// The data folder of `astra dev` (default `.astra`) and of `astra server start` (no default).
    /// Flag: `--data`.
    #[config(env = "ASTRA_DATA")]
    pub(crate) data: Option<PathBuf>,

    /// Where a server listens for HTTP. Default: `127.0.0.1:8080`; `astra dev` takes the next free
    /// port when that one is taken. Flag: `--http`.
    #[config(env = "ASTRA_HTTP")]
    pub(crate) http: Option<SocketAddr>,

    /// Where a server listens for Redis clients. Default: `127.0.0.1:6380`; `astra dev` takes the
    /// next free port when that one is taken. Flag: `--resp`.
    #[config(env = "ASTRA_RESP")]
    pub(crate) resp: Option<SocketAddr>,

    /// A Unix socket for Redis clients, beside the address. Flag: `--resp-unix`.
    #[config(env = "ASTRA_RESP_UNIX")]
    pub(crate) resp_unix: Option<PathBuf>,

    /// A certificate (PEM) for Redis clients; with it and `resp_tls_key`, the address is encrypted.
    /// No flag.
    #[config(env = "ASTRA_RESP_TLS_CERT")]
    pub(crate) resp_tls_cert: Option<PathBuf>,

    /// The private key (PEM) of that certificate. No flag.
    #[config(env = "ASTRA_RESP_TLS_KEY")]
    pub(crate) resp_tls_key: Option<PathBuf>,

    /// How Redis clients are answered: `redis` as Redis does; `agq` with the shapes of the queue
    /// manager that some clients were made for: `BRPOP` gives the value alone, a missing key reads
    /// `-ERR NOAUTH`. No flag.
    #[config(env = "ASTRA_RESP_COMPAT", default = "redis")]
    pub(crate) resp_compat: Shapes,

    /// Keys of single workers, by name: `[workers]`, then `"worker-1" = "<64 hex digits>"`. A worker
    /// shows its key with `AUTH`, and can speak for no other. No flag. No variable: secrets of many
    /// workers belong into a file.
    pub(crate) workers: Option<BTreeMap<String, String>>,

    /// Frames of a worker's session that a server sends without an ack, and takes in beyond a gap:
    /// 1 to 64. Small windows bound what is repeated after a bad line, large ones keep a far worker
    /// busy. A worker has `ASTRA_WORKER_SESSION_WINDOW_SIZE`. No flag.
    #[config(env = "ASTRA_SESSION_WINDOW", default = 64)]
    pub(crate) session_window: u64,

    /// What the log looks like and how much it says.
    #[config(nested)]
    pub(crate) log: LogConfig,
}

/// What the log looks like and how much it says. It goes to stderr.
#[derive(Clone, Debug, confique::Config)]
#[config(layer_attr(serde(deny_unknown_fields)))]
pub(crate) struct LogConfig {
    /// `text` for people, `json` for machines: one object per line. Flag: `--log`.
    #[config(env = "ASTRA_LOG_FORMAT", default = "text")]
    pub(crate) format: LogFormat,

    /// `off`, `error`, `warn`, `info`, `debug` or `trace`. Default: `info` for servers and workers,
    /// `warn` for the rest. Flag: `--log-level`.
    #[config(env = "ASTRA_LOG_LEVEL", deserialize_with = level)]
    pub(crate) level: Option<LevelFilter>,
}

/// How log lines are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum LogFormat {
    // For people.
    Text,
    // For machines.
    Json,
}

fn levels() -> impl TypedValueParser<Value = LevelFilter> {
    let names = PossibleValuesParser::new(["off", "error", "warn", "info", "debug", "trace"]);
    names.map(|name| name.parse().expect("one of these"))
}

fn level<'de, D: Deserializer<'de>>(level: D) -> std::result::Result<LevelFilter, D::Error> {
    let name = String::deserialize(level)?;
    name.parse().map_err(serde::de::Error::custom)
}

/// The flags that are settings.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "Settings (flag, or ASTRA_* variable, or astra.toml)")]
pub(crate) struct Flags {
    /// The server to talk to, like `http://127.0.0.1:8080`.
    #[arg(long, global = true, value_name = "URL")]
    pub(crate) server: Option<String>,
    /// The token to use.
    #[arg(long, global = true, value_name = "TOKEN")]
    pub(crate) token: Option<String>,
    /// A file that holds the token.
    #[arg(long, global = true, value_name = "FILE", conflicts_with = "token")]
    pub(crate) token_file: Option<PathBuf>,
    /// How log lines look.
    #[arg(long, global = true, value_name = "FORMAT")]
    pub(crate) log: Option<LogFormat>,
    /// How much is logged.
    #[arg(long, global = true, value_name = "LEVEL", value_parser = levels())]
    pub(crate) log_level: Option<LevelFilter>,
}

/// Flags of commands that open a server; settings too.
#[derive(Clone, Debug, Default)]
pub(crate) struct ServerFlags {
    pub(crate) data: Option<PathBuf>,
    pub(crate) http: Option<SocketAddr>,
    pub(crate) resp: Option<SocketAddr>,
    pub(crate) resp_unix: Option<PathBuf>,
}

/// Puts the settings together.
pub(crate) fn load(flags: &Flags, server_flags: ServerFlags) -> Result<Config> {
    load_from(flags, server_flags, Path::new(FILE))
}

fn load_from(flags: &Flags, server_flags: ServerFlags, file: &Path) -> Result<Config> {
    type Layer = <Config as confique::Config>::Layer;
    type LogLayer = <LogConfig as confique::Config>::Layer;
    let layer = Layer {
        server: flags.server.clone(),
        token: flags.token.clone(),
        token_file: flags.token_file.clone(),
        data: server_flags.data,
        http: server_flags.http,
        resp: server_flags.resp,
        resp_unix: server_flags.resp_unix,
        log: LogLayer { format: flags.log, level: flags.log_level },
        ..confique::Layer::empty()
    };
    let loaded = Config::builder().preloaded(layer).env().file(file).load();
    loaded.map_err(|error| {
        let error = anyhow::Error::from(error);
        Failure::new(
            ExitCode::Usage,
            format!("{error:#}"),
            "docs/reference/config.md lists all settings",
        )
    })
}

/// Starts the log. A second call changes nothing.
pub(crate) fn start_log(config: &LogConfig, level_default: LevelFilter) {
    let level = config.level.unwrap_or(level_default);
    let builder = tracing_subscriber::fmt().with_max_level(level).with_writer(std::io::stderr);
    let _ = match config.format {
        LogFormat::Text => builder.with_ansi(crate::output::stderr_is_terminal()).try_init(),
        LogFormat::Json => builder.json().flatten_event(true).try_init(),
    };
}

/// The shortest key of a worker, in characters: 16 random bytes in hexadecimal.
const WORKER_KEY_CHARS_MIN: usize = 32;

impl Config {
    /// How Redis clients are served at this address.
    pub(crate) fn resp_options(&self, tcp: Option<SocketAddr>) -> Result<RespOptions> {
        let tls = match (&self.resp_tls_cert, &self.resp_tls_key) {
            (Some(certificate), Some(key)) => Some((certificate.clone(), key.clone())),
            (None, None) => None,
            (Some(_), None) | (None, Some(_)) => {
                let message = "a certificate goes with its key";
                return Err(Failure::usage(message, "set resp_tls_cert and resp_tls_key"));
            }
        };
        let mut worker_keys = Vec::new();
        for (name, key) in self.workers.iter().flatten() {
            let worker = name.parse().map_err(|error| {
                Failure::usage(format!("[workers] {name:?}: {error}"), "rename the worker")
            })?;
            if key.len() < WORKER_KEY_CHARS_MIN {
                let message = format!("the key of worker {name} is too short to be a secret");
                return Err(Failure::usage(message, "make one: openssl rand -hex 32"));
            }
            worker_keys.push((worker, key.clone()));
        }
        Ok(RespOptions {
            tcp,
            unix: self.resp_unix.clone(),
            tls,
            shapes: self.resp_compat,
            worker_keys,
        })
    }

    /// The window of sessions.
    pub(crate) fn session_window(&self) -> Result<u64> {
        let window = self.session_window;
        if !(1..=WINDOW_FRAMES).contains(&window) {
            let message = format!("session_window is {window}; it must be 1 to {WINDOW_FRAMES}");
            return Err(Failure::usage(message, "change session_window or ASTRA_SESSION_WINDOW"));
        }
        Ok(window)
    }

    /// The token, from wherever it is.
    pub(crate) fn token(&self) -> Result<Option<String>> {
        match (&self.token, &self.token_file) {
            (Some(token), _) => Ok(Some(token.trim().to_owned())),
            (None, Some(path)) => read_token(path).map(Some),
            (None, None) => Ok(None),
        }
    }
}

fn read_token(path: &Path) -> Result<String> {
    let text = fs::read_to_string(path).map_err(|error| {
        let message = format!("cannot read the token file {}: {error}", path.display());
        Failure::usage(message, "check --token-file and ASTRA_TOKEN_FILE")
    })?;
    Ok(text.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_go_before_the_file() {
        let flags = Flags { server: Some("http://flag:1".into()), ..Flags::default() };
        let config =
            check("server = 'http://file:1'\nhttp = '127.0.0.1:9'", &flags).expect("reads");
        assert_eq!(config.server.as_deref(), Some("http://flag:1"));
        assert_eq!(config.http.map(|http| http.port()), Some(9));
        assert_eq!(config.log.format, LogFormat::Text);
    }

    #[test]
    fn a_typing_error_in_the_file_is_named() {
        for (text, named) in [("sever = 'x'", "sever"), ("http = 'x'", "http"), ("log = 1", "log")]
        {
            let failure = check(text, &Flags::default()).expect_err(text);
            assert!(failure.message.contains(named), "{}", failure.message);
            assert_eq!(failure.exit, ExitCode::Usage);
        }
    }

    #[test]
    fn a_window_that_no_ack_can_describe_is_refused() {
        for (toml, window) in [("", Some(64)), ("session_window = 1", Some(1))] {
            let config = check(toml, &Flags::default()).expect("reads");
            assert_eq!(config.session_window().ok(), window);
        }
        for toml in ["session_window = 0", "session_window = 65"] {
            let config = check(toml, &Flags::default()).expect("reads");
            let refused = config.session_window().expect_err("out of range");
            assert!(refused.message.ends_with("it must be 1 to 64"), "{}", refused.message);
        }
    }

    fn check(toml: &str, flags: &Flags) -> Result<Config> {
        let folder = tempfile::tempdir().expect("folder");
        let file = folder.path().join(FILE);
        fs::write(&file, toml).expect("written");
        load_from(flags, ServerFlags::default(), &file)
    }
}
