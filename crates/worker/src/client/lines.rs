//! An answer that comes line by line, for as long as the server has something to say.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::header::{ACCEPT, HeaderName, HeaderValue};
use hyper::{Method, Request, Response};
use protocol::rest::problem::Problem;

use super::{ANSWER_TIMEOUT, Client, ClientError, Connection};

/// The longest line. A page of a log is 64 KiB, and text grows at most sixfold in JSON.
const LINE_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Where a reader of events goes on.
const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

/// An answer under way. Dropping it ends the request.
pub struct Lines {
    client: Client,
    body: Incoming,
    /// Its connection lives as long as the answer, and serves nobody else after it.
    _connection: Connection,
    unread: BytesMut,
    /// So many unread bytes are known to hold no line break.
    n_searched: usize,
}

impl Client {
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
        let (body, connection) = self.answer_of(request).await?;
        let (client, unread) = (self.clone(), BytesMut::new());
        Ok(Lines { client, body, _connection: connection, unread, n_searched: 0 })
    }

    /// An answer that is read while it comes, or why there is none.
    pub(super) async fn answer_of(
        &self,
        request: Request<Full<Bytes>>,
    ) -> Result<(Incoming, Connection), ClientError> {
        let (answer, connection) = self.within(ANSWER_TIMEOUT, self.open(request)).await?;
        let status = answer.status();
        if status.is_success() {
            return Ok((answer.into_body(), connection));
        }
        let body = self.within(ANSWER_TIMEOUT, async {
            answer.into_body().collect().await.map_err(|error| self.interrupted(error))
        });
        match serde_json::from_slice::<Problem>(&body.await?.to_bytes()) {
            Ok(problem) => {
                Err(ClientError::Refused { status: status.as_u16(), detail: problem.error })
            }
            Err(_) => Err(self.unintelligible(status)),
        }
    }

    async fn open(
        &self,
        mut request: Request<Full<Bytes>>,
    ) -> Result<(Response<Incoming>, Connection), ClientError> {
        loop {
            let (mut connection, is_fresh) = self.connection().await?;
            match connection.try_send_request(request).await {
                Ok(answer) => return Ok((answer, connection)),
                Err(mut error) => match error.take_message() {
                    // The server had closed a connection that lay idle; nothing has left.
                    Some(unsent) if !is_fresh => request = unsent,
                    _ => return Err(self.interrupted(error.into_error())),
                },
            }
        }
    }

    pub(super) async fn within<T>(
        &self,
        limit: Duration,
        answer: impl Future<Output = Result<T, ClientError>>,
    ) -> Result<T, ClientError> {
        tokio::time::timeout(limit, answer).await.unwrap_or_else(|_| {
            Err(ClientError::TimedOut { endpoint: self.shared.endpoint.clone(), waited: limit })
        })
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
                return Err(self.client.unintelligible(hyper::StatusCode::OK));
            }
            let frame = self.client.within(silence_max, async { Ok(self.body.frame().await) });
            match frame.await? {
                Some(Ok(frame)) => {
                    // Trailers say nothing that is read here.
                    if let Ok(data) = frame.into_data() {
                        self.unread.extend_from_slice(&data);
                    }
                }
                Some(Err(error)) => return Err(self.client.interrupted(error)),
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

    use super::super::served::client_of;
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
}
