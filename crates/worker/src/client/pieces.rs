//! An answer that may be larger than memory, piece by piece.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::BodyExt as _;
use hyper::Method;
use hyper::body::Incoming;

use super::{Client, ClientError, Connection};

/// An answer under way. Dropping it ends the request.
pub struct Pieces {
    client: Client,
    body: Incoming,
    /// Its connection lives as long as the answer, and serves nobody else after it.
    _connection: Connection,
}

impl Client {
    /// `GET path`, whatever it holds.
    pub async fn get_pieces(&self, path: &str) -> Result<Pieces, ClientError> {
        let (body, connection) =
            self.answer_of(self.request(Method::GET, path, Bytes::new())).await?;
        Ok(Pieces { client: self.clone(), body, _connection: connection })
    }
}

impl Pieces {
    /// The next piece; `None` at the end. An answer that is cut off is an error. A server that
    /// says nothing for `silence_max` is taken for gone.
    pub async fn next(&mut self, silence_max: Duration) -> Result<Option<Bytes>, ClientError> {
        loop {
            let frame = self.client.within(silence_max, async { Ok(self.body.frame().await) });
            match frame.await? {
                // Trailers say nothing that is read here.
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) => return Ok(Some(data)),
                    Err(_trailers) => {}
                },
                Some(Err(error)) => return Err(self.client.interrupted(error)),
                None => return Ok(None),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::served::client_of;
    use super::*;

    const PATIENCE: Duration = Duration::from_secs(5);

    #[tokio::test]
    async fn an_answer_comes_whole() {
        let pieces = ["HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\n", "abc", "d\ne"];
        let mut answer = client_of(&pieces).await.get_pieces("/x").await.expect("answers");
        let mut whole = Vec::new();
        while let Some(piece) = answer.next(PATIENCE).await.expect("goes on") {
            whole.extend_from_slice(&piece);
        }
        assert_eq!(whole, b"abcd\ne");
    }

    #[tokio::test]
    async fn a_cut_is_no_end() {
        let pieces = ["HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\n", "abc"];
        let mut answer = client_of(&pieces).await.get_pieces("/x").await.expect("answers");
        let cut = loop {
            match answer.next(PATIENCE).await {
                Ok(Some(_)) => {}
                Ok(None) => panic!("half an answer passed for a whole one"),
                Err(cut) => break cut,
            }
        };
        assert!(matches!(cut, ClientError::Interrupted { .. }), "{cut}");
    }
}
