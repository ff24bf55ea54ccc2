//! Settings: flags before `ASTRA_*` before `./astra.toml` before what is built in.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use confique::Config as _;
use serde::Deserialize;

use crate::exit_code::ExitCode;
use crate::failure::{Failure, Result};

/// The file that is read, in the folder where the command is started.
pub(crate) const FILE: &str = "astra.toml";
/// Where `astra dev` keeps its data, and where clients look for a dev server.
pub(crate) const DATA_DEFAULT: &str = ".astra";
/// Where a server listens.
pub(crate) const HTTP_DEFAULT: &str = "127.0.0.1:8080";
/// Where the Redis door will listen.
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

    /// Where a server is to listen for Redis clients, which are not served yet. Default:
    /// `127.0.0.1:6380`. Flag: `--resp`.
    #[config(env = "ASTRA_RESP")]
    pub(crate) resp: Option<SocketAddr>,

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
    #[config(env = "ASTRA_LOG_LEVEL")]
    pub(crate) level: Option<LogLevel>,
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

/// How much is logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum LogLevel {
    // Nothing.
    Off,
    // What went wrong.
    Error,
    // What may go wrong.
    Warn,
    // What happens.
    Info,
    // What happens inside.
    Debug,
    // Everything.
    Trace,
}

/// The flags that are settings.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "Settings (flag, or ASTRA_* variable, or astra.toml)")]
pub(crate) struct Flags {
    /// The server to talk to, like `http://127.0.0.1:8080`.
    #[arg(long, global = true, value_name = "URL")]
    pub(crate) server: Option<String>,
    /// The token to show.
    #[arg(long, global = true, value_name = "TOKEN")]
    pub(crate) token: Option<String>,
    /// A file that holds the token.
    #[arg(long, global = true, value_name = "FILE", conflicts_with = "token")]
    pub(crate) token_file: Option<PathBuf>,
    /// How log lines look.
    #[arg(long, global = true, value_name = "FORMAT")]
    pub(crate) log: Option<LogFormat>,
    /// How much is logged.
    #[arg(long, global = true, value_name = "LEVEL")]
    pub(crate) log_level: Option<LogLevel>,
}

/// Flags of commands that open a server; settings too.
#[derive(Clone, Debug, Default)]
pub(crate) struct ServerFlags {
    pub(crate) data: Option<PathBuf>,
    pub(crate) http: Option<SocketAddr>,
    pub(crate) resp: Option<SocketAddr>,
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
        log: LogLayer { format: flags.log, level: flags.log_level },
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

impl Config {
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

    fn check(toml: &str, flags: &Flags) -> Result<Config> {
        let folder = tempfile::tempdir().expect("folder");
        let file = folder.path().join(FILE);
        fs::write(&file, toml).expect("written");
        load_from(flags, ServerFlags::default(), &file)
    }
}
