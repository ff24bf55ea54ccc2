//! A worker and its server.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::time::timeout;

use super::keys::Keys;
use super::leases::Leases;
use super::server::{Cut, Play, Server, State};
use crate::core::executor::Toolbox;
use crate::core::handle::{WorkerError, WorkerHandle};
use crate::core::verdict::Summary;
use crate::runner::command::{self, CommandRunner};
use crate::transport::resp::worker::Timing;
use crate::transport::resp::worker::{self, Options};

/// Longer than anything here takes on a busy machine.
pub(super) const PATIENCE: Duration = Duration::from_secs(20);
pub(super) const KEY: &str = "a key of some length";

pub(super) struct Scene {
    pub(super) worker: WorkerHandle,
    pub(super) server: Server,
}

impl Scene {
    /// A worker at our own server.
    pub(super) async fn leases() -> Self {
        Self::start(ours(), None, |_| {}).await
    }

    /// A worker at another server.
    pub(super) async fn keys(keys: Keys) -> Self {
        Self::start(Play::Keys(keys), None, |_| {}).await
    }

    pub(super) async fn start(
        play: Play,
        cut: Option<Cut>,
        change: impl FnOnce(&mut Options),
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("bound");
        let address = listener.local_addr().expect("bound").to_string();
        let mut state = State::new(play, KEY);
        state.cut = cut;
        let server = Server { state: Arc::new(Mutex::new(state)), moves: watch::channel(0).0 };
        tokio::spawn(server.clone().serve(listener));
        let mut options = options(&address);
        change(&mut options);
        Self { worker: worker::start(options), server }
    }

    /// Waits until the server is in a state that gives something.
    pub(super) async fn until<T>(&self, mut look: impl FnMut(&mut State) -> Option<T>) -> T {
        let mut moves = self.server.moves.subscribe();
        let waiting = async {
            loop {
                if let Some(found) = look(&mut self.server.state.lock()) {
                    return found;
                }
                moves.changed().await.expect("the server serves");
            }
        };
        let waited = timeout(PATIENCE, waiting).await;
        waited.unwrap_or_else(|_| panic!("not seen: {:#?}", self.server.state.lock().seen))
    }

    /// The report that counts of a task job.
    pub(super) async fn report(&self, id: &str) -> Value {
        let report = self.until(|state| state.leases().jobs.get(id)?.report.clone()).await;
        serde_json::from_slice(&report).expect("a report is JSON")
    }

    /// The status of a job that is kept in keys, after it left the list of what is worked on.
    pub(super) async fn status(&self, id: &str) -> String {
        let done = |state: &mut State| {
            let keys = state.keys();
            let status = keys.text(&format!("job:{id}:status"))?;
            (keys.n_in("queue:processing") == 0).then_some(status)
        };
        self.until(done).await
    }

    pub(super) fn push(&self, id: &str, body: &Value) {
        self.server.change(|state| state.leases().push(id, body.clone()));
    }

    pub(super) async fn ended(&mut self) -> Result<Summary, WorkerError> {
        timeout(PATIENCE, self.worker.ended()).await.expect("it ends")
    }

    /// Lets the worker finish and leave.
    pub(super) async fn drained(&mut self) -> Summary {
        self.worker.drain(PATIENCE).await;
        self.ended().await.expect("it leaves in peace")
    }
}

/// A worker in a hurry, with two slots.
pub(super) fn options(address: &str) -> Options {
    let commands =
        command::Options { grace: Duration::from_millis(300), ..command::Options::default() };
    let toolbox = Toolbox::usual(CommandRunner::new(commands));
    let address = address.parse().expect("an address");
    let name = "w-1".parse().expect("a name");
    let mut options = Options::new(address, name, Arc::new(toolbox));
    options.key = Some(KEY.into());
    options.offer.tools = vec!["sort".into(), "uniq".into()];
    options.offer.slots = 2;
    options.timing = hurried();
    options
}

pub(super) fn ours() -> Play {
    Play::Leases(Leases { heartbeat: "OK", ..Leases::default() })
}

/// Two steps, the second of which reads what the first wrote.
pub(super) fn sort_and_uniq() -> Value {
    json!([
        { "task_number": 1, "command": "sort", "timeout_secs": 60 },
        { "task_number": 2, "command": "uniq", "args": ["-d"], "input_from_task": 1 },
    ])
}

fn hurried() -> Timing {
    Timing {
        pop_wait: Duration::from_secs(1),
        poll_every: Duration::from_millis(10),
        reply_within: Duration::from_secs(5),
        reconnect_first: Duration::from_millis(4),
        reconnect_max: Duration::from_millis(40),
        heartbeat_every_max: Duration::from_millis(40),
        job_beat_every: Duration::from_millis(40),
        ping_every: Duration::from_millis(40),
        retry_pause: Duration::from_millis(10),
        ..Timing::default()
    }
}
