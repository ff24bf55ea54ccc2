//! The loop of one socket.
//!
//! Everything that has arrived is taken in before anything leaves, and everything that is ready
//! leaves with one flush. What the frames mean is decided by the link (`shard::worker_link`); what
//! the link asks for is done by the `driver`.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;

use protocol::session::envelope::Reader;
use shard::worker_link::{Leaving, SETTLE_WITHIN};
use tokio::time::Instant;
use tokio_websockets::CloseCode;

use super::driver::{Done, Driver};
use super::listener::log_frame;
use super::wire::{Gone, Received, Wire};
use crate::app::App;
use crate::links::{Heard, ToLink, Told};

/// What ended a wait.
enum Woke {
    Received,
    Done(Done),
    Heard(Heard),
    Due,
    Stopping,
    Gone(Gone),
}

/// How a connection ends.
enum End {
    /// The socket is of no more use.
    Gone(Gone),
    /// The server stops.
    Stopping,
    /// The link has nothing more to do with it.
    Left(Leaving),
    /// The worker's tenant is not this server's any more.
    Lost,
}

/// One socket, from its beginning to its end.
pub(super) struct Connection {
    wire: Wire,
    reader: Reader,
    received: Vec<Received>,
    driver: Driver,
    /// When the ping left that was not answered yet.
    pinged_at: Option<Instant>,
}

impl Connection {
    pub(super) fn new(app: Arc<App>, wire: Wire) -> Self {
        let (reader, received) = (Reader::default(), Vec::new());
        Self { wire, reader, received, driver: Driver::new(app), pinged_at: None }
    }

    /// Serves the socket until it ends.
    pub(super) async fn run(mut self) {
        let end = loop {
            let woke = self.wait().await;
            let now = self.driver.now();
            match woke {
                Woke::Received => self.take_received(),
                Woke::Done(done) => self.driver.on_done(now, done),
                Woke::Heard(Heard::Told(ToLink::Notice(notice))) => {
                    self.driver.link.on_notice(now, notice);
                }
                Woke::Heard(Heard::Told(ToLink::Read(wanted))) => self.driver.read(now, *wanted),
                Woke::Heard(Heard::Superseded) => self.driver.on_superseded(),
                Woke::Heard(Heard::Detached) => self.driver.on_detached(),
                Woke::Due => self.driver.link.tick(now),
                Woke::Stopping => break End::Stopping,
                Woke::Gone(gone) => break End::Gone(gone),
            }
            self.driver.act();
            if let Err(gone) = self.send().await {
                break End::Gone(gone);
            }
            if let Some(leaving) = self.driver.link.is_leaving() {
                break End::Left(leaving);
            }
            if self.driver.is_lost {
                break End::Lost;
            }
        };
        self.leave(&end).await;
    }

    async fn wait(&mut self) -> Woke {
        let due = self.driver.next_due();
        let due = self.wire.stall_deadline().map_or(due, |stalled| stalled.min(due));
        let Self { wire, received, driver, .. } = self;
        let Driver { app, mailbox, work, .. } = driver;
        tokio::select! {
            biased;
            () = app.shutdown.cancelled() => Woke::Stopping,
            heard = hear(mailbox) => Woke::Heard(heard),
            done = work.next() => Woke::Done(done),
            came = poll_fn(|context| wire.poll_receive(context, received)) => match came {
                Ok(()) => Woke::Received,
                Err(gone) => Woke::Gone(gone),
            },
            () = tokio::time::sleep_until(due) => Woke::Due,
        }
    }

    fn take_received(&mut self) {
        let now = self.driver.now();
        let mut received = std::mem::take(&mut self.received);
        for one in received.drain(..) {
            match one {
                Received::Frame(text) => match self.reader.read_bytes(&text) {
                    Ok(frame) => {
                        log_frame("in", &frame);
                        self.driver.link.on_frame(now, frame);
                    }
                    Err(error) => self.driver.link.on_unreadable(now, &error.to_string()),
                },
                Received::Pong => {
                    if let Some(pinged_at) = self.pinged_at.take() {
                        self.driver.note_latency(pinged_at.elapsed());
                    }
                    self.driver.link.on_pong(now);
                }
                Received::Ping => self.driver.link.on_pong(now),
            }
        }
        self.received = received;
    }

    async fn send(&mut self) -> Result<(), Gone> {
        if std::mem::take(&mut self.driver.is_trusted) {
            self.wire.trust();
        }
        if std::mem::take(&mut self.driver.is_ping_due) {
            self.pinged_at.get_or_insert_with(Instant::now);
            self.wire.ping()?;
        }
        let Self { wire, driver, .. } = self;
        let sent = poll_fn(|context| {
            let next = || {
                let frame = driver.link.poll_frame()?;
                log_frame("out", &frame);
                frame.to_text().ok()
            };
            Poll::Ready(wire.poll_send(context, next))
        });
        sent.await?;
        driver.count_bytes(&mut wire.bytes_in, &mut wire.bytes_out);
        Ok(())
    }

    async fn leave(mut self, end: &End) {
        let (code, reason) = match end {
            End::Gone(Gone::Closed) => (CloseCode::NORMAL_CLOSURE, ""),
            End::Gone(Gone::TooLarge) => (CloseCode::MESSAGE_TOO_BIG, "frame too large"),
            End::Gone(Gone::Stalled) => (CloseCode::POLICY_VIOLATION, "the peer does not read"),
            End::Stopping => (CloseCode::GOING_AWAY, "the server stops"),
            End::Lost => (CloseCode::GOING_AWAY, "another server has the tenant"),
            End::Left(Leaving::Superseded) => {
                (CloseCode::INTERNAL_SERVER_ERROR, "superseded session")
            }
            End::Left(Leaving::Overdue(why)) => (CloseCode::POLICY_VIOLATION, *why),
        };
        // Frames that were delivered are not delivered again: what they have begun is finished.
        let _ = tokio::time::timeout(SETTLE_WITHIN, self.driver.settle()).await;
        let is_still_sending =
            matches!(end, End::Gone(Gone::TooLarge) | End::Left(Leaving::Overdue(_)));
        self.wire.close(code, reason, is_still_sending).await;
        self.driver.finish(reason);
    }
}

async fn hear(mailbox: &mut Option<Told>) -> Heard {
    match mailbox {
        Some(mailbox) => mailbox.next().await,
        None => std::future::pending().await,
    }
}
