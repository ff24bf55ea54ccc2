//! The body of an answer: how things stand, then what happens, for as long as the reader stays.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::Stream;
use futures_util::stream::unfold;
use tokio::time::Instant;

use super::super::gate::Credential;
use super::opening::Opening;
use crate::app::App;
use crate::events::{Reader, Said};

/// How long a reader waits before it comes back, unless it has a rule of its own.
const COME_BACK: &[u8] = b"retry: 2000\n\n";
/// How often the reader's token is looked at.
const LOOK_AT_TOKEN_EVERY: Duration = Duration::from_secs(15);
const TOO_SLOW: &[u8] = b": too slow; what comes next is gone, come back for a snapshot\n\n";
const LOST: &[u8] = b": the server lost its store, or the tenant; come back for a snapshot\n\n";
const STOPS: &[u8] = b": the server stops\n\n";
const TOKEN_ENDED: &[u8] = b": the token has ended\n\n";
const NO_SNAPSHOT: &[u8] = b": how things stand cannot be read right now\n\n";

/// Events on their way to a reader.
pub(super) struct EventStream {
    app: Arc<App>,
    reader: Reader,
    credential: Credential,
    state: State,
    /// Bytes that are sent before anything else.
    pieces: VecDeque<Bytes>,
    look_at_token: Instant,
}

enum State {
    /// How things stand is being told.
    Opening(Opening),
    /// What happens is told as it happens.
    Live,
    /// The last comment is out.
    Over,
}

impl EventStream {
    pub(super) fn new(
        app: Arc<App>,
        reader: Reader,
        opening: Opening,
        credential: Credential,
    ) -> Self {
        Self {
            app,
            reader,
            credential,
            state: State::Opening(opening),
            pieces: VecDeque::from([Bytes::from_static(COME_BACK)]),
            look_at_token: Instant::now() + LOOK_AT_TOKEN_EVERY,
        }
    }

    pub(super) fn into_stream(self) -> impl Stream<Item = Result<Bytes, Infallible>> {
        unfold(self, |mut stream| async {
            let bytes = stream.next().await?;
            Some((Ok(bytes), stream))
        })
    }

    /// The next bytes; `None` when the answer is over.
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if let Some(piece) = self.pieces.pop_front() {
                return Some(piece);
            }
            match &mut self.state {
                State::Opening(opening) => match opening.next(&self.app, &self.reader).await {
                    Ok(Some(pieces)) => self.pieces.extend(pieces),
                    Ok(None) => self.state = State::Live,
                    Err(error) => {
                        tracing::warn!(code = error.code.name(), error.message, "no snapshot");
                        return Some(self.end(NO_SNAPSHOT));
                    }
                },
                State::Live => return Some(self.live().await),
                State::Over => return None,
            }
        }
    }

    async fn live(&mut self) -> Bytes {
        let shutdown = self.app.shutdown.clone();
        let said = tokio::select! {
            biased;
            () = shutdown.cancelled() => return self.end(STOPS),
            said = self.reader.next() => said,
        };
        if Instant::now() >= self.look_at_token {
            self.look_at_token = Instant::now() + LOOK_AT_TOKEN_EVERY;
            if !self.credential.is_live(&self.app) {
                return self.end(TOKEN_ENDED);
            }
        }
        match said {
            Said::Bytes(bytes) => bytes,
            Said::TooSlow => self.end(TOO_SLOW),
            Said::Lost => self.end(LOST),
        }
    }

    fn end(&mut self, comment: &'static [u8]) -> Bytes {
        self.state = State::Over;
        Bytes::from_static(comment)
    }
}
