//! Which server a command talks to, and how a missing one is explained.

use std::fs;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use client::{Client, ClientError};
use protocol::error_code::ErrorCode;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::config::{Config, DATA_DEFAULT, HTTP_DEFAULT};
use crate::failure::{ExitCode, Failure, Result};
use crate::output::Output;

/// A server that does not answer for so long is given up.
pub(crate) const AWAY_MAX: Duration = Duration::from_mins(1);
const AWAY_PAUSE: Duration = Duration::from_millis(200);

/// What every command that asks a server has at hand.
#[derive(Clone)]
pub(crate) struct Context {
    pub(crate) client: Client,
    pub(crate) output: Output,
    origin: Origin,
}

/// Where the address came from, for the sentence when nobody answers.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Origin {
    /// A flag, a variable or the file.
    Setting,
    /// The dev server of this folder.
    Profile,
    /// Nothing said otherwise.
    BuiltIn,
}

impl Context {
    pub(crate) fn new(config: &Config, output: Output) -> Result<Self> {
        let data = config.data.as_deref().unwrap_or(Path::new(DATA_DEFAULT));
        let (url, origin) = match (&config.server, Profile::read(data)) {
            (Some(url), _) => (url.clone(), Origin::Setting),
            (None, Some(profile)) if profile.is_current() => (profile.url, Origin::Profile),
            (None, Some(profile)) => return Err(stale(&profile, data)),
            (None, None) => (format!("http://{HTTP_DEFAULT}"), Origin::BuiltIn),
        };
        let endpoint = url.parse().map_err(|error| {
            Failure::usage(error, "check --server, ASTRA_SERVER and astra.toml")
        })?;
        let token = config.token()?;
        let client = Client::new(endpoint, token.as_deref())?;
        Ok(Self { client, output, origin })
    }

    /// Waits for an answer; an absent server is explained by how its address was found.
    pub(crate) async fn ask<T>(
        &self,
        answer: impl Future<Output = std::result::Result<T, ClientError>>,
    ) -> Result<T> {
        answer.await.map_err(|error| self.explain(error))
    }

    /// Asks until there is an answer: a server that restarts comes back.
    pub(crate) async fn ask_patiently<T, F>(&self, ask: impl Fn() -> F) -> Result<T>
    where
        F: Future<Output = std::result::Result<T, ClientError>>,
    {
        let started = Instant::now();
        loop {
            match ask().await {
                Err(error) if error.is_passing() && started.elapsed() < AWAY_MAX => {
                    tokio::time::sleep(AWAY_PAUSE).await;
                }
                answer => return answer.map_err(|error| self.explain(error)),
            }
        }
    }

    pub(crate) async fn get<A: DeserializeOwned>(&self, path: &str) -> Result<A> {
        self.ask(self.client.get(path)).await
    }

    pub(crate) async fn post<A: DeserializeOwned>(
        &self,
        path: &str,
        body: &impl Serialize,
    ) -> Result<A> {
        self.ask(self.client.post(path, body)).await
    }

    /// Asks for what the path alone says.
    pub(crate) async fn command<A: DeserializeOwned>(&self, path: &str) -> Result<A> {
        self.post(path, &serde_json::json!({})).await
    }

    pub(crate) async fn delete<A: DeserializeOwned>(&self, path: &str) -> Result<A> {
        self.ask(self.client.delete(path)).await
    }

    pub(crate) fn explain(&self, error: ClientError) -> Failure {
        let is_unreachable = matches!(error, ClientError::Unreachable { .. });
        let is_stranger = error.refusal() == Some(ErrorCode::AuthInvalidToken);
        let failure = Failure::from(error);
        if is_stranger {
            return failure.with_hint(
                "show one with --token or ASTRA_TOKEN; whoever runs the server makes one with \
                 `astra token create`",
            );
        }
        if !is_unreachable {
            return failure;
        }
        failure.with_hint(match self.origin {
            Origin::Setting => {
                "check the address and that `astra server start` or `astra dev` runs"
            }
            Origin::Profile => {
                "the dev server of this folder has ended; start it again with `astra dev`, or name \
                 another with --server URL"
            }
            Origin::BuiltIn => {
                "start one with `astra dev` in this folder, or name another with --server URL"
            }
        })
    }
}

fn stale(profile: &Profile, data: &Path) -> Failure {
    let path = Profile::path(data);
    Failure::new(
        ExitCode::Unreachable,
        format!(
            "the dev server of this folder ({}, from {}) does not run any more",
            profile.url,
            path.display()
        ),
        "start it again with `astra dev`, or name another server with --server URL",
    )
}

/// The file's name, inside the data folder.
const PROFILE_FILE: &str = "profile.toml";

/// Where the dev server of a folder is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Profile {
    /// Its address.
    pub(crate) url: String,
    /// Its process, so that a profile that was left behind is recognised: its port may belong to
    /// somebody else by then.
    pub(crate) pid: i32,
}

impl Profile {
    pub(crate) fn path(data: &Path) -> PathBuf {
        data.join(PROFILE_FILE)
    }

    pub(crate) fn read(data: &Path) -> Option<Self> {
        toml::from_str(&fs::read_to_string(Self::path(data)).ok()?).ok()
    }

    pub(crate) fn write(&self, data: &Path) -> std::io::Result<()> {
        let text = toml::to_string(self).expect("two plain fields");
        let note = "# Written by `astra dev`; clients in the folder above read it.\n";
        fs::write(Self::path(data), format!("{note}{text}"))
    }

    pub(crate) fn remove(data: &Path) {
        // Left behind, it is recognised by its process.
        let _ = fs::remove_file(Self::path(data));
    }

    /// Whether the process that wrote it is alive.
    pub(crate) fn is_current(&self) -> bool {
        match rustix::process::Pid::from_raw(self.pid) {
            // Someone else's process cannot be signalled, and is alive.
            Some(pid) => {
                !matches!(rustix::process::test_kill_process(pid), Err(rustix::io::Errno::SRCH))
            }
            None => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_profile_comes_back_and_knows_its_process() {
        let folder = tempfile::tempdir().expect("folder");
        let own = i32::try_from(std::process::id()).expect("a process number");
        let profile = Profile { url: "http://127.0.0.1:8081".into(), pid: own };
        profile.write(folder.path()).expect("written");
        assert_eq!(Profile::read(folder.path()), Some(profile.clone()));
        assert!(profile.is_current());
        assert!(!Profile { pid: i32::MAX, ..profile }.is_current());
        Profile::remove(folder.path());
        assert_eq!(Profile::read(folder.path()), None);
    }
}
