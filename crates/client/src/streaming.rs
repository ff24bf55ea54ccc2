//! Answers that are read while they come: piece by piece, because they may be larger than memory, or
//! line by line, for as long as the server has something to say.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::header::{ACCEPT, HeaderName, HeaderValue};
use hyper::{Method, Request};

use super::{ANSWER_TIMEOUT, Client, ClientError};

/// The longest line. A page of a log is 64 KiB, and text grows at most sixfold in JSON.
const LINE_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Where a reader of events goes on.
const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

/// An answer under way. Dropping it ends the request.
pub struct Pieces {
    client: Client,
    body: Incoming,
}

/// An answer under way, of lines. Dropping it ends the request.
pub struct Lines {
    pieces: Pieces,
    unread: BytesMut,
    /// So many unread bytes are known to hold no line break.
    n_searched: usize,
}

impl Client {
    /// `GET path`, whatever it holds.
    pub async fn get_pieces(&self, path: &str) -> Result<Pieces, ClientError> {
        self.pieces_of(self.request(Method::GET, path, Bytes::new())).await
    }

    /// `GET path`, whose answer may go on for as long as the server likes.
    pub async fn get_lines(&self, path: &str) -> Result<Lines, ClientError> {
        self.lines_of(self.request(Method::GET, path, Bytes::new())).await
    }

    /// `GET path`, an event stream, from after the event that was heard last.
    pub async fn get_events(&self, path: &str, last: Option<u64>) -> Result<Lines, ClientError> {
        let mut request = self.request(Method::GET, path, Bytes::new());
        request.headers_mut().insert(ACCEPT, HeaderValue::from_static("text/event-stream"));
        if let Some(last) = last {
            request.headers_mut().insert(LAST_EVENT_ID, HeaderValue::from(last));
        }
        self.lines_of(request).await
    }

    async fn lines_of(&self, request: Request<Full<Bytes>>) -> Result<Lines, ClientError> {
        let pieces = self.pieces_of(request).await?;
        Ok(Lines { pieces, unread: BytesMut::new(), n_searched: 0 })
    }

    async fn pieces_of(&self, request: Request<Full<Bytes>>) -> Result<Pieces, ClientError> {
        let body = self.within(ANSWER_TIMEOUT, self.open(request)).await?;
        Ok(Pieces { client: self.clone(), body })
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

impl Lines {
    /// The next line, without its line break; `None` at the end. A server that says nothing for
    /// `silence_max` is taken for gone. May be dropped and called again.
    pub async fn next(&mut self, silence_max: Duration) -> Result<Option<Bytes>, ClientError> {
        loop {
            if let Some(line) = self.take_line() {
                return Ok(Some(line));
            }
            if self.unread.len() > LINE_BYTES_MAX {
                return Err(self.pieces.client.unintelligible(hyper::StatusCode::OK));
            }
            match self.pieces.next(silence_max).await? {
                Some(piece) => self.unread.extend_from_slice(&piece),
                // A line without its break was cut off, and is asked for again.
                None => return Ok(None),
            }
        }
    }

    fn take_line(&mut self) -> Option<Bytes> {
        let place = self.unread[self.n_searched..].iter().position(|byte| *byte == b'\n');
        let Some(place) = place else {
            self.n_searched = self.unread.len();
            return None;
        };
        let mut line = self.unread.split_to(self.n_searched + place + 1);
        line.truncate(line.len() - 1);
        self.n_searched = 0;
        Some(line.freeze())
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(5);

    #[tokio::test]
    async fn lines_come_whole_however_they_are_cut() {
        let head = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
        let pieces =
            [head, "2\r\nab\r\n", "3\r\nc\n\n\r\n", "2\r\nd\n\r\n", "1\r\ne\r\n", "0\r\n\r\n"];
        let client = client_of(&pieces).await;
        let mut lines = client.get_lines("/x").await.expect("answers");
        let mut said = Vec::new();
        while let Some(line) = lines.next(PATIENCE).await.expect("goes on") {
            said.push(line);
        }
        assert_eq!(said, ["abc", "", "d"], "half a line at the end is none");
    }

    #[tokio::test]
    async fn a_cut_is_no_end() {
        let head = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\na\n\r\n";
        let mut lines = client_of(&[head]).await.get_lines("/x").await.expect("answers");
        assert_eq!(lines.next(PATIENCE).await.expect("goes on").as_deref(), Some(&b"a"[..]));
        let cut = lines.next(PATIENCE).await.expect_err("cut");
        assert!(matches!(cut, ClientError::Interrupted { .. }), "{cut}");
    }

    #[tokio::test]
    async fn a_reader_of_events_says_what_it_heard_last() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("binds");
        let address = listener.local_addr().expect("bound");
        let asked = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.expect("accepts");
            let mut request = vec![0; 4096];
            let n = stream.read(&mut request).await.expect("asks");
            stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await.expect("sends");
            String::from_utf8_lossy(&request[..n]).into_owned()
        });
        let client = Client::new(address.to_string().parse().expect("address"), None).expect("ok");
        let _ = client.get_events("/x", Some(41)).await.expect("answers");
        let asked = asked.await.expect("asked");
        assert!(asked.contains("last-event-id: 41\r\n"), "{asked}");
        assert!(asked.contains("accept: text/event-stream\r\n"), "{asked}");
    }

    #[tokio::test]
    async fn a_refusal_keeps_the_servers_own_words() {
        let body = r#"{"error":{"code":"E.TASK.NOT_FOUND","message":"no task","hint":"look"}}"#;
        let answer =
            format!("HTTP/1.1 404 Not Found\r\ncontent-length: {}\r\n\r\n{body}", body.len());
        let refused = client_of(&[&answer]).await.get_lines("/x").await;
        assert_eq!(refused.err().expect("refused").to_string(), "no task");
    }

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
    async fn a_cut_in_the_middle_is_no_end() {
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

    /// A server that sends these pieces, each by itself, and closes.
    async fn client_of(pieces: &[&str]) -> Client {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("binds");
        let address = listener.local_addr().expect("bound");
        let pieces: Vec<String> = pieces.iter().map(ToString::to_string).collect();
        tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.expect("accepts");
            stream.set_nodelay(true).expect("a socket");
            let _ = stream.read(&mut [0; 4096]).await;
            for piece in pieces {
                stream.write_all(piece.as_bytes()).await.expect("sends");
                tokio::task::yield_now().await;
            }
        });
        Client::new(address.to_string().parse().expect("address"), None).expect("ok")
    }
}
