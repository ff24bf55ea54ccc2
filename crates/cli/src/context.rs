//! Which server a command talks to, and how a missing one is explained.

use std::future::Future;
use std::path::Path;

use protocol::error_code::ErrorCode;
use worker::client::{Client, ClientError};

use crate::config::{Config, DATA_DEFAULT, HTTP_DEFAULT};
use crate::exit_code::ExitCode;
use crate::failure::{Failure, Result};
use crate::output::Output;
use crate::profile::Profile;

/// What every command that asks a server has at hand.
#[derive(Clone)]
pub(crate) struct Context {
    pub(crate) client: Client,
    pub(crate) output: Output,
    origin: Origin,
    /// What proves who asks, where something else than the client must show it.
    pub(crate) token: Option<String>,
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
        Ok(Self { client, output, origin, token })
    }

    /// Waits for an answer; an absent server is explained by how its address was found.
    pub(crate) async fn ask<T>(
        &self,
        answer: impl Future<Output = std::result::Result<T, ClientError>>,
    ) -> Result<T> {
        answer.await.map_err(|error| self.explain(error))
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
