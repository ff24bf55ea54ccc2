//! How the connections of workers are reached by the task of their shard.

use std::collections::HashMap;

use foldhash::fast::RandomState;
use shard::sessions::{LinkId, LinkWord, Notice};
use tokio::sync::{mpsc, oneshot};

use crate::resources::Wanted;

/// Notices that wait for one connection; further ones are dropped, and the next heartbeat says
/// the same.
const MAILBOX_MAX: usize = 4_096;

/// What a connection is told from elsewhere.
#[derive(Debug)]
pub(crate) enum ToLink {
    /// For its link.
    Notice(Notice),
    /// Someone wants a part of a resource that the worker keeps.
    Read(Box<Wanted>),
}

/// The shard's end of the way to a connection.
pub(crate) struct Mailbox {
    told: mpsc::Sender<ToLink>,
    superseded: oneshot::Sender<()>,
}

/// The connection's end.
pub(crate) struct Told {
    told: mpsc::Receiver<ToLink>,
    superseded: oneshot::Receiver<()>,
}

/// What a connection hears.
pub(crate) enum Heard {
    /// This.
    Told(ToLink),
    /// A newer connection speaks for the worker.
    Superseded,
    /// The shard knows nothing of this connection any more: its memory is gone.
    Detached,
}

impl Mailbox {
    pub(crate) fn new() -> (Self, Told) {
        let (told, receiver) = mpsc::channel(MAILBOX_MAX);
        let (superseded, is_superseded) = oneshot::channel();
        (Self { told, superseded }, Told { told: receiver, superseded: is_superseded })
    }
}

impl Told {
    /// The next word; the end comes after everything that was said before it.
    pub(crate) async fn next(&mut self) -> Heard {
        if let Some(told) = self.told.recv().await {
            return Heard::Told(told);
        }
        match (&mut self.superseded).await {
            Ok(()) => Heard::Superseded,
            Err(_) => Heard::Detached,
        }
    }
}

/// Everyone who speaks for a worker of one shard, or wants to.
#[derive(Default)]
pub(crate) struct Links {
    attached: HashMap<LinkId, Mailbox, RandomState>,
    /// Claims that were made and are not granted yet.
    claiming: HashMap<LinkId, Mailbox, RandomState>,
    /// Who waits for an answer.
    replies: HashMap<LinkId, oneshot::Sender<LinkWord>, RandomState>,
}

impl Links {
    /// A connection asks something.
    pub(crate) fn expect(&mut self, link: LinkId, reply: oneshot::Sender<LinkWord>) {
        self.replies.insert(link, reply);
    }

    /// A connection makes a claim.
    pub(crate) fn claims(&mut self, link: LinkId, mailbox: Mailbox) {
        self.claiming.insert(link, mailbox);
    }

    /// A connection no longer speaks for anyone.
    pub(crate) fn remove(&mut self, link: LinkId) {
        self.attached.remove(&link);
        self.claiming.remove(&link);
        self.replies.remove(&link);
    }

    /// Passes on what a connection is told. Gives back what was meant for one that has gone.
    pub(crate) fn pass_on(&mut self, link: LinkId, word: LinkWord) -> Option<LinkWord> {
        match word {
            LinkWord::Notice(notice) => {
                self.tell(link, ToLink::Notice(notice));
                None
            }
            LinkWord::HandOver => {
                let own = [self.attached.remove(&link), self.claiming.remove(&link)];
                for mailbox in own.into_iter().flatten() {
                    let _ = mailbox.superseded.send(());
                }
                self.replies.remove(&link);
                None
            }
            LinkWord::Claimed(_) => {
                if let Some(mailbox) = self.claiming.remove(&link) {
                    self.attached.insert(link, mailbox);
                }
                let unheard = self.answer(link, word);
                if unheard.is_some() {
                    self.attached.remove(&link);
                }
                unheard
            }
            LinkWord::NotClaimed(_) => {
                self.claiming.remove(&link);
                self.answer(link, word)
            }
            LinkWord::Opened { .. } => self.answer(link, word),
        }
    }

    fn answer(&mut self, link: LinkId, word: LinkWord) -> Option<LinkWord> {
        match self.replies.remove(&link) {
            Some(reply) => reply.send(word).err(),
            None => Some(word),
        }
    }

    /// Tells a connection something; says whether it is there.
    pub(crate) fn tell(&self, link: LinkId, word: ToLink) -> bool {
        let mailbox = self.attached.get(&link).or_else(|| self.claiming.get(&link));
        mailbox.is_some_and(|mailbox| mailbox.told.try_send(word).is_ok())
    }
}
