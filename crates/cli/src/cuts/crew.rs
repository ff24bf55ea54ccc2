//! Workers, each behind a proxy of its own.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};
use serde::Serialize;
use worker::client::Client;

use crate::lab::Lab;
use crate::process::Process;
use crate::proxy::{Kind, Proxy};

/// Short, so that a connection that is open and dead is found soon.
const HEARTBEAT_SECONDS: &str = "0.5";
/// A worker that has not said where its metrics are by then has failed.
const METRICS_WITHIN: Duration = Duration::from_secs(20);
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// What a worker says about them.
const METRICS_AT: &str = "metrics at http://";

/// A worker and its way to the server.
pub(super) struct Member {
    // Before the proxy: without it the worker would connect in vain.
    pub(super) process: Process,
    pub(super) proxy: Proxy,
    pub(super) name: String,
    log: PathBuf,
}

/// What became of a worker's sessions.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(super) struct Sessions {
    /// Connections that went on with a session.
    pub(super) resumed: usize,
    /// Sessions that began.
    pub(super) begun: usize,
    /// Sessions that ended openly.
    pub(super) reset: usize,
}

/// Verdicts that a worker was told.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Verdicts {
    pub(super) committed: u64,
    pub(super) cancelled: u64,
    pub(super) rejected: u64,
}

impl Member {
    pub(super) async fn start(lab: &Lab, name: &str, slots: usize) -> Result<Self> {
        let proxy = Proxy::start(lab.address()).await?;
        let server = format!("http://{}", proxy.address());
        let process = lab.session_worker(name, &server, slots, HEARTBEAT_SECONDS)?;
        let log = lab.folder().join(format!("{name}.log"));
        Ok(Self { process, proxy, name: name.into(), log })
    }

    fn log(&self) -> Result<String> {
        std::fs::read_to_string(&self.log).with_context(|| format!("{} has no log", self.name))
    }

    pub(super) fn sessions(&self) -> Result<Sessions> {
        let log = self.log()?;
        let count = |words: &str| log.lines().filter(|line| line.contains(words)).count();
        Ok(Sessions {
            resumed: count("is_resumed=true"),
            begun: count("is_resumed=false"),
            reset: count("the session is lost"),
        })
    }

    /// Asks the worker itself.
    pub(super) async fn verdicts(&self) -> Result<Verdicts> {
        let text = self.metrics().await?.get_text("/metrics").await?;
        let count = |word: &str| {
            let name = format!("results_total{{verdict=\"{word}\"}} ");
            let value = text.lines().find_map(|line| line.strip_prefix(&name));
            value.and_then(|value| value.parse().ok()).unwrap_or(0)
        };
        Ok(Verdicts {
            committed: count("COMMITTED"),
            cancelled: count("CANCELLED"),
            rejected: count("REJECTED"),
        })
    }

    async fn metrics(&self) -> Result<Client> {
        let found = tokio::time::timeout(METRICS_WITHIN, async {
            loop {
                let log = self.log()?;
                let found = log.lines().find_map(|line| line.strip_prefix(METRICS_AT));
                if let Some(address) = found.and_then(|found| found.strip_suffix("/metrics")) {
                    return anyhow::Ok(address.to_owned());
                }
                tokio::time::sleep(LOOK_EVERY).await;
            }
        });
        let address = found.await.with_context(|| format!("{} shows no metrics", self.name))??;
        Ok(Client::new(address.parse()?, None)?)
    }
}

/// What happened to all connections, by kind.
pub(super) fn happened(crew: &[Member]) -> BTreeMap<&'static str, u64> {
    let mut sum = BTreeMap::new();
    for (kind, count) in crew.iter().flat_map(|member| member.proxy.happened()) {
        *sum.entry(Kind::word(kind)).or_default() += count;
    }
    sum
}
