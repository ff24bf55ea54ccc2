//! A resource on its way to a reader: a few parts ahead of it, and no more.

use std::collections::VecDeque;
use std::io;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::Stream;
use futures_util::stream::{FuturesOrdered, StreamExt as _, unfold};
use protocol::session::payload::resource_read::CHUNK_BYTES_MAX;

use super::read::{ReadFailure, Source};

/// Parts that are asked for before the reader has taken the ones before; with their sizes they
/// bound what one download holds in memory, and what of a session it takes.
pub(crate) const PARTS_AHEAD_MAX: usize = 4;

/// A part that is under way.
type Part = std::pin::Pin<Box<dyn Future<Output = Result<Bytes, ReadFailure>> + Send>>;

/// A download.
pub(crate) struct Download {
    source: Arc<Source>,
    /// What is still to be asked for.
    left: Range<u64>,
    under_way: FuturesOrdered<Part>,
    /// How many bytes each part under way must have.
    lengths: VecDeque<u64>,
}

impl Download {
    /// These bytes of a resource.
    pub(crate) fn new(source: Source, bytes: Range<u64>) -> Self {
        let (under_way, lengths) = (FuturesOrdered::new(), VecDeque::new());
        Self { source: Arc::new(source), left: bytes, under_way, lengths }
    }

    /// The bytes. Nothing is read before someone wants it.
    pub(crate) fn into_stream(self) -> impl Stream<Item = io::Result<Bytes>> {
        unfold(Some(self), |download| async {
            let mut download = download?;
            match download.next().await? {
                Ok(part) => Some((Ok(part), Some(download))),
                Err(error) => {
                    let resource_id = &download.source.resource_id;
                    tracing::warn!(resource_id, %error, "a download ends too early");
                    Some((Err(io::Error::other(error)), None))
                }
            }
        })
    }

    async fn next(&mut self) -> Option<Result<Bytes, ReadFailure>> {
        while self.under_way.len() < PARTS_AHEAD_MAX && !self.left.is_empty() {
            let offset = self.left.start;
            let length = CHUNK_BYTES_MAX.min(self.left.end - offset);
            self.left.start += length;
            let source = Arc::clone(&self.source);
            self.lengths.push_back(length);
            self.under_way.push_back(Box::pin(async move { source.read(offset, length).await }));
        }
        let part = self.under_way.next().await?;
        let length = self.lengths.pop_front();
        Some(part.and_then(|part| {
            let is_whole = u64::try_from(part.len()).ok() == length;
            let cut = || ReadFailure::Unreadable("it is shorter than it was".to_owned());
            if is_whole { Ok(part) } else { Err(cut()) }
        }))
    }
}
