//! Signs of life, and what the server answers to them (seed 004 section 3).

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use protocol::resp::reply::Reply;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use super::connection::{Request, request};
use super::error_text::{Meaning, meaning};
use super::execution::Surroundings;
use super::greeting::Dialect;
use super::line::Line;
use super::registration::Registration;

/// What the server wants of this worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wish {
    /// It shall work.
    Work,
    /// It shall take nothing new.
    Quiet,
    /// It shall finish and leave.
    Terminate,
}

/// Beats as long as the worker is there.
pub(super) struct Heart {
    pub(super) around: Arc<Surroundings>,
    pub(super) registration: Registration,
    pub(super) wishes: watch::Sender<Wish>,
}

impl Heart {
    pub(super) async fn beat(self) {
        let mut known = self.around.main.terms();
        loop {
            let terms = match known.wait_for(Option::is_some).await {
                Ok(terms) => terms.expect("it was waited for"),
                // The line is over, and with it the worker.
                Err(_) => return,
            };
            match terms.dialect {
                Dialect::Registered => {
                    let longest = self.around.pace.heartbeat_every_max;
                    let every = terms.heartbeat_every.min(longest);
                    self.tell(every).await;
                    sleep(every).await;
                }
                Dialect::Listed => {
                    let every = self.around.pace.ping_every;
                    sleep(every).await;
                    self.ping(every).await;
                }
            }
        }
    }

    async fn tell(&self, within: Duration) {
        let Some(reply) = ask(&self.around.side, self.heartbeat(), within).await else {
            // The next one comes at its time all the same.
            tracing::error!("a heartbeat failed: nobody answered it");
            return;
        };
        match &reply {
            Reply::Error(text) if meaning(text) == Meaning::NotRegistered => {
                tracing::info!("the server has forgotten this worker; it registers again");
                let register = self.registration.register();
                if let Some(Reply::Error(text)) = ask(&self.around.side, register, within).await {
                    tracing::warn!(%text, "the worker cannot register again");
                }
            }
            Reply::Error(text) => tracing::error!(%text, "a heartbeat failed"),
            reply => self.obey(wish(reply)),
        }
    }

    fn obey(&self, wish: Wish) {
        let is_news = |known: &mut Wish| std::mem::replace(known, wish) != wish;
        if self.wishes.send_if_modified(is_news) {
            tracing::info!(?wish, "the server has a wish");
        }
    }

    async fn ping(&self, within: Duration) {
        let ping = request(&["PING", self.around.worker_id.as_str()]);
        match ask(&self.around.main, ping, within).await {
            None => tracing::error!("a heartbeat failed: nobody answered it"),
            Some(Reply::Error(text)) => tracing::error!(%text, "a heartbeat failed"),
            Some(_) => {}
        }
    }

    fn heartbeat(&self) -> Request {
        let stats = serde_json::to_vec(&self.around.tally.stats()).expect("numbers become JSON");
        let mut words = request(&["WORKER.HEARTBEAT", self.around.worker_id.as_str()]);
        words.push(Bytes::from(stats));
        words
    }
}

/// A sign of life that is late is of no use, so it is not kept for the next connection.
async fn ask(line: &Line, words: Request, within: Duration) -> Option<Reply> {
    timeout(within, line.ask(words)).await.ok()?.ok()
}

/// `OK`, `OK quiet` or `OK terminate`.
fn wish(reply: &Reply) -> Wish {
    let Reply::Simple(text) = reply else { return Wish::Work };
    match text.split_whitespace().nth(1) {
        Some("quiet") => Wish::Quiet,
        Some("terminate") => Wish::Terminate,
        Some(_) | None => Wish::Work,
    }
}
