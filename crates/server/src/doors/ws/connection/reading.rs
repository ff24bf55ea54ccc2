//! Parts of resources: asked of the worker, and given to whoever waits for them.

use std::borrow::Cow;
use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use protocol::session::event::CommitToken;
use protocol::session::frame::BusinessFrame;
use protocol::session::kind::Kind;
use protocol::session::payload::Payload;
use protocol::session::payload::resource_read::{Chunk, ReadRequest};
use tokio::sync::oneshot;

use super::Connection;
use crate::resources::{ReadFailure, Wanted};

/// Parts that one worker is asked for at the same time.
const READS_MAX: usize = 64;
/// How requests are named.
const NAME: &str = "read-";
/// The worker keeps the resource no longer.
const MISSING: &str = "E.RESOURCE.MISSING";

type Reply = oneshot::Sender<Result<Bytes, ReadFailure>>;

/// Parts that the worker was asked for. Whoever waits hears of their loss when they are dropped.
#[derive(Debug, Default)]
pub(super) struct Reads {
    open: BTreeMap<u64, Reply>,
    next: u64,
}

impl Connection {
    /// Asks for a part. Where the session has no room for it, it is dropped, and asked for again.
    pub(super) fn read(&mut self, wanted: Wanted) {
        let Wanted { resource_id, offset, length, reply } = wanted;
        self.reads.open.retain(|_, reply| !reply.is_closed());
        if self.reads.open.len() >= READS_MAX || self.machine.is_full() {
            return;
        }
        self.reads.next += 1;
        let number = self.reads.next;
        let request_id = format!("{NAME}{number}");
        let corr = Some(request_id.clone());
        let request = ReadRequest { request_id, resource_id, offset, length };
        let payload = Payload::ResourceReadRequest(request);
        let frame = BusinessFrame {
            kind: Cow::Borrowed(Kind::ResourceReadRequest.name()),
            id: format!("resource.{NAME}{number}"),
            corr,
            seq: None,
            wants_ack: false,
            payload: payload.encode_for(self.machine.vocabulary()).1,
        };
        if self.machine.send(self.now(), frame).is_ok() {
            self.reads.open.insert(number, reply);
        }
    }

    pub(super) fn on_chunk(&mut self, token: CommitToken, chunk: Chunk) {
        self.machine.commit(self.now(), token, None);
        let number = chunk.request_id.strip_prefix(NAME).and_then(|text| text.parse::<u64>().ok());
        let reply = number.and_then(|number| self.reads.open.remove(&number));
        // A reader that has gone misses nothing.
        let Some(reply) = reply else { return };
        let answer = match chunk.error {
            Some(error) if error.code == MISSING => Err(ReadFailure::Missing),
            Some(error) => Err(ReadFailure::Unreadable(error.message)),
            None => match STANDARD.decode(chunk.data) {
                Ok(bytes) => Ok(Bytes::from(bytes)),
                Err(error) => Err(ReadFailure::Unreadable(error.to_string())),
            },
        };
        let _ = reply.send(answer);
    }
}
