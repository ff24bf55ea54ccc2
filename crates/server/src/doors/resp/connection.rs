//! A connection from its first byte to its last: requests in, replies out, in order.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use model::WorkerId;
use protocol::resp::reply::{Reply, write_error};
use protocol::resp::request::ProtocolError;
use tokio::time::{Instant, Interval, MissedTickBehavior};

use super::client::{Binding, Client, Member};
use super::dispatch::{Class, Invocation, no_auth};
use super::listener::{AUTH_WITHIN, Early};
use super::pubsub::{Message, Subscriptions};
use super::wire::{Gone, Wire};
use crate::app::App;

/// Limit: a client that says nothing for so long, and waits for nothing, is cut off.
pub(crate) const IDLE_MAX: Duration = Duration::from_hours(1);
/// How often a connection looks around: revoked tokens end it within two seconds.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Requests that are taken in before they are acted on.
const REQUESTS_PER_TURN_MAX: usize = 1_024;

/// Something happened while nothing was being answered.
enum Event {
    /// Bytes came.
    Input,
    /// A channel has a message.
    Message(Message),
    /// The connection is over.
    Over(Gone),
}

/// One client and its socket.
pub(super) struct Connection {
    pub(super) app: Arc<App>,
    pub(super) wire: Wire,
    pub(super) client: Client,
    pub(super) subscriptions: Subscriptions,
    /// `MULTI` was refused: nothing is carried out up to `EXEC`, so that what was to be one step is
    /// not half done.
    pub(super) is_transaction_refused: bool,
    /// The client wants the connection to end after what was answered so far.
    pub(super) is_leaving: bool,
    early: Option<Early>,
    looks: Interval,
    looked: u64,
    last_input: Instant,
}

impl Connection {
    pub(super) fn new(app: Arc<App>, wire: Wire, client: Client, early: Early) -> Self {
        let mut looks = tokio::time::interval(LOOK_EVERY);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Self {
            app,
            wire,
            client,
            subscriptions: Subscriptions::default(),
            is_transaction_refused: false,
            is_leaving: false,
            early: Some(early),
            looks,
            looked: 0,
            last_input: Instant::now(),
        }
    }

    pub(super) async fn run(mut self) {
        self.let_in_without_key().await;
        self.list_self();
        let gone = self.serve().await;
        self.end(gone).await;
    }

    /// Answers until the connection is over.
    async fn serve(&mut self) -> Gone {
        let mut requests = Vec::new();
        loop {
            let broken = self.gather(&mut requests).err();
            if let Err(gone) = self.answer_all(&mut requests).await {
                return gone;
            }
            if let Some(error) = broken {
                return self.end_unreadable(error).await;
            }
            if let Err(gone) = self.wire.flush().await {
                return gone;
            }
            if self.is_leaving {
                return Gone::Closed;
            }
            match self.next_event().await {
                Event::Input => {}
                Event::Message(message) => self.tell(&message).await,
                Event::Over(gone) => return gone,
            }
        }
    }

    /// Takes in every request that has arrived whole.
    fn gather(&mut self, into: &mut Vec<Invocation>) -> Result<(), ProtocolError> {
        while into.len() < REQUESTS_PER_TURN_MAX {
            match self.wire.next_request()? {
                Some(request) => into.push(Invocation::new(request)),
                None => break,
            }
        }
        Ok(())
    }

    /// Waits until something happens. Looks around meanwhile.
    async fn next_event(&mut self) -> Event {
        let shutdown = self.app.shutdown.clone();
        loop {
            tokio::select! {
                biased;
                () = shutdown.cancelled() => return Event::Over(Gone::Closed),
                filled = self.wire.fill() => {
                    self.last_input = Instant::now();
                    return match filled {
                        Ok(()) => Event::Input,
                        Err(gone) => Event::Over(gone),
                    };
                }
                message = self.subscriptions.next() => return match message {
                    Some(message) => Event::Message(message),
                    // It cannot keep up with its channel.
                    None => Event::Over(Gone::Broken),
                },
                _ = self.looks.tick() => {
                    if !self.look_around() {
                        return Event::Over(Gone::Broken);
                    }
                }
            }
        }
    }

    /// Waits for something, and watches the client meanwhile.
    pub(super) async fn while_connected<T>(
        &mut self,
        waiting: impl Future<Output = T>,
    ) -> Result<T, Gone> {
        let mut waiting = pin!(waiting);
        loop {
            tokio::select! {
                biased;
                done = &mut waiting => return Ok(done),
                event = self.next_event() => match event {
                    Event::Input => {}
                    Event::Message(message) => self.tell(&message).await,
                    Event::Over(gone) => return Err(gone),
                },
            }
        }
    }

    /// Whether the connection may go on.
    fn look_around(&mut self) -> bool {
        self.looked += 1;
        let Some(member) = &self.client.member else {
            return self.client.since.elapsed() < AUTH_WITHIN;
        };
        self.early = None;
        if !self.app.auth.is_known_live(&member.credential, self.app.clock.now()) {
            return false;
        }
        if self.looked.is_multiple_of(super::lease_pop::RENEW_EVERY_LOOKS) {
            self.renew_taken();
        }
        let is_waiting = !self.subscriptions.is_empty();
        is_waiting || self.last_input.elapsed() < IDLE_MAX
    }

    /// Says what cannot be read, and ends.
    async fn end_unreadable(&mut self, error: ProtocolError) -> Gone {
        if error != ProtocolError::CrossProtocol {
            write_error(&mut self.wire.output, &format!("ERR {error}"));
            let _ = self.wire.flush().await;
        }
        Gone::Broken
    }

    /// Answers requests in order; neighbours of one kind together.
    async fn answer_all(&mut self, requests: &mut Vec<Invocation>) -> Result<(), Gone> {
        self.app.resp.commands.fetch_add(requests.len() as u64, Ordering::Relaxed);
        self.find_shard_again().await;
        let mut rest = &requests[..];
        while let [first, ..] = rest {
            let is_member = self.client.member.is_some();
            let is_alone = !is_member || self.is_listening() || self.is_transaction_refused;
            let class = if is_alone { Class::Alone } else { first.class() };
            let n_same = match class {
                Class::Alone | Class::Wait => 1,
                _ => rest.iter().take_while(|one| one.class() == class).count(),
            };
            let (run, after) = rest.split_at(n_same);
            self.answer_run(class, run).await?;
            rest = after;
            if self.is_leaving {
                break;
            }
            self.wire.flush_if_much().await?;
        }
        requests.clear();
        Ok(())
    }

    /// A client whose shard was lost asks for it again when it wants something, not before.
    async fn find_shard_again(&mut self) {
        let Some(member) = &mut self.client.member else { return };
        if member.handle.is_lost()
            && let Ok(handle) = self.app.directory.of(&member.caller.tenant).await
        {
            member.handle = handle;
        }
    }

    async fn answer_run(&mut self, class: Class, run: &[Invocation]) -> Result<(), Gone> {
        match class {
            Class::Keys => return self.answer_keys(run).await,
            Class::Submit => self.answer_submits(run).await,
            Class::Update => self.answer_updates(run).await,
            Class::Pop => return self.answer_pops(run).await,
            Class::Wait => return self.answer_wait(&run[0]).await,
            Class::Alone if self.client.member.is_none() && !run[0].needs_no_auth() => {
                self.reply(&Reply::error(no_auth(self.app.resp.shapes)));
            }
            Class::Alone => {
                if let Some(reply) = self.answer_alone(&run[0]).await {
                    self.reply(&reply);
                }
            }
        }
        Ok(())
    }

    pub(super) fn reply(&mut self, reply: &Reply) {
        reply.encode(self.client.version, &mut self.wire.output);
    }

    // ----- whom the connection speaks for

    /// The client; only called once it proved who it is.
    pub(super) fn member(&self) -> &Member {
        self.client.member.as_ref().expect("classify lets nobody else through")
    }

    /// From here on the connection speaks for a worker.
    pub(super) fn bind(&mut self, binding: Binding) {
        if self.client.member.as_ref().is_some_and(|member| member.binding == binding) {
            return;
        }
        self.unbind();
        let Some(member) = &mut self.client.member else { return };
        member.binding = binding;
        if member.is_bound() {
            member.with_worker(&member.worker(), |worker| worker.connections += 1);
        }
    }

    /// The connection speaks for no worker any more. Gives whom it spoke for, if it was the last.
    pub(super) fn unbind(&mut self) -> Option<WorkerId> {
        let member = self.client.member.as_mut()?;
        if !member.is_bound() {
            return None;
        }
        let worker = member.worker();
        let was_single = matches!(member.binding, Binding::Single(_));
        let left = member.workers().known(&worker, |worker| {
            worker.connections = worker.connections.saturating_sub(1);
            worker.connections
        });
        member.binding = Binding::None;
        (was_single && left.unwrap_or(0) == 0).then_some(worker)
    }

    /// What is to be done for others when the connection is over.
    async fn end(&mut self, gone: Gone) {
        self.return_unread(gone).await;
        let Some(member) = &self.client.member else { return self.wire.close().await };
        let handle = member.handle.clone();
        if let Some(worker) = self.unbind() {
            // Such a worker has no other connection, and does not come back with this name.
            handle.tell(coordinator::Command::LoseWorker { worker });
        }
        self.wire.close().await;
    }
}

impl Drop for Connection {
    /// However it ends, nobody counts it any longer.
    fn drop(&mut self) {
        self.app.resp.open.lock().remove(&self.client.id);
        self.unbind();
    }
}
