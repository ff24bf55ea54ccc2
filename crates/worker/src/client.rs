//! A lean JSON client: HTTP/1.1 over kept-alive connections.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1::{self, SendRequest};
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HOST, HeaderName, HeaderValue};
use hyper::{Method, Request, StatusCode};
use hyper_util::rt::TokioIo;
use protocol::error_code::ErrorCode;
use protocol::rest::problem::{Problem, ProblemDetail};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::net::TcpStream;

use crate::endpoint::Endpoint;

pub mod lines;
pub mod pieces;
#[cfg(test)]
mod served;

/// A server that does not take a connection within this time is not reachable.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// How long an answer may take beyond the wait that was asked for.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);
/// Makes a request that starts something one that may be sent twice.
const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
/// Connections that are kept for the next request.
const IDLE_CONNECTIONS_MAX: usize = 256;
/// The first pause before a request is sent again; it doubles up to the longest.
const RETRY_PAUSE: Duration = Duration::from_millis(50);
const RETRY_PAUSE_MAX: Duration = Duration::from_secs(1);

/// Talks to one server. Cheap to clone; clones share their connections.
#[derive(Clone)]
pub struct Client {
    shared: Arc<Shared>,
}

struct Shared {
    endpoint: Endpoint,
    host: HeaderValue,
    authorization: Option<HeaderValue>,
    idle: Mutex<Vec<Connection>>,
}

type Connection = SendRequest<Full<Bytes>>;

/// Why there is no answer that could be used.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// No connection came about; the request never left.
    #[error("no server answers at {endpoint}")]
    Unreachable {
        /// Where it was looked for.
        endpoint: Endpoint,
        /// What the network said.
        #[source]
        source: io::Error,
    },
    /// The connection broke before the answer; the request may have been carried out.
    #[error("the connection to {endpoint} broke before the answer")]
    Interrupted {
        /// Who was asked.
        endpoint: Endpoint,
        /// What the network said.
        #[source]
        source: hyper::Error,
    },
    /// The answer did not come in time; the request may have been carried out.
    #[error("{endpoint} did not answer within {waited:?}")]
    TimedOut {
        /// Who was asked.
        endpoint: Endpoint,
        /// How long.
        waited: Duration,
    },
    /// The server said no, and why.
    #[error("{}", detail.message)]
    Refused {
        /// The HTTP status.
        status: u16,
        /// The server's own words.
        detail: ProblemDetail,
    },
    /// The answer is not of this protocol.
    #[error("{endpoint} answered with status {status} and something that is not AstraFlow")]
    Unintelligible {
        /// Who was asked.
        endpoint: Endpoint,
        /// The HTTP status.
        status: u16,
    },
    /// The token cannot stand in a header.
    #[error("the token holds characters that no token has")]
    InvalidToken,
}

impl ClientError {
    /// The code of a refusal.
    pub fn refusal(&self) -> Option<ErrorCode> {
        match self {
            Self::Refused { detail, .. } => ErrorCode::from_name(&detail.code),
            Self::Unreachable { .. }
            | Self::Interrupted { .. }
            | Self::TimedOut { .. }
            | Self::Unintelligible { .. }
            | Self::InvalidToken => None,
        }
    }

    /// Whether the same request could succeed a moment later: trouble on the way, or a server
    /// that cannot judge right now. Never a verdict (seed 002 section 6).
    pub fn is_passing(&self) -> bool {
        match self {
            Self::Unreachable { .. } | Self::Interrupted { .. } | Self::TimedOut { .. } => true,
            Self::Refused { .. } => matches!(
                self.refusal(),
                Some(
                    ErrorCode::RequestTimeout
                        | ErrorCode::StoreUnavailable
                        | ErrorCode::ServerStopping
                        | ErrorCode::LimitOverloaded
                )
            ),
            Self::Unintelligible { .. } | Self::InvalidToken => false,
        }
    }
}

/// How long a request that may be repeated is repeated.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// No new try starts after this time.
    pub total: Duration,
}

impl Client {
    /// A client that shows `token`, if there is one. Nothing is connected yet.
    pub fn new(endpoint: Endpoint, token: Option<&str>) -> Result<Self, ClientError> {
        let header = |text: String| {
            let mut value = HeaderValue::from_str(&text).map_err(|_| ClientError::InvalidToken)?;
            value.set_sensitive(true);
            Ok(value)
        };
        let shared = Shared {
            host: header(endpoint.authority())?,
            authorization: token.map(|token| header(format!("Bearer {token}"))).transpose()?,
            idle: Mutex::new(Vec::new()),
            endpoint,
        };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// Whom it talks to.
    pub fn endpoint(&self) -> &Endpoint {
        &self.shared.endpoint
    }

    /// `GET path`.
    pub async fn get<A: DeserializeOwned>(&self, path: &str) -> Result<A, ClientError> {
        self.typed(self.request(Method::GET, path, Bytes::new()), Duration::ZERO).await
    }

    /// `GET path`, where the server may hold the answer back for `wait`.
    pub async fn get_waiting<A: DeserializeOwned>(
        &self,
        path: &str,
        wait: Duration,
    ) -> Result<A, ClientError> {
        self.typed(self.request(Method::GET, path, Bytes::new()), wait).await
    }

    /// `POST path`. It is sent once: whether it was carried out is unknown after an interruption.
    pub async fn post<A: DeserializeOwned>(
        &self,
        path: &str,
        body: &impl Serialize,
    ) -> Result<A, ClientError> {
        self.typed(self.request(Method::POST, path, encode(body)), Duration::ZERO).await
    }

    /// `POST path`, where the server may hold the answer back for `wait`.
    pub async fn post_waiting<A: DeserializeOwned>(
        &self,
        path: &str,
        body: &impl Serialize,
        wait: Duration,
    ) -> Result<A, ClientError> {
        self.typed(self.request(Method::POST, path, encode(body)), wait).await
    }

    /// `POST path` for a request that says the same however often it arrives: passing trouble is
    /// answered by sending the same bytes again, for as long as `patience` lasts.
    pub async fn post_patiently<A: DeserializeOwned>(
        &self,
        path: &str,
        body: &impl Serialize,
        patience: Patience,
    ) -> Result<A, ClientError> {
        let request = self.request(Method::POST, path, encode(body));
        self.patiently(&request, patience).await
    }

    /// `POST path` under an idempotency key, which makes it a request that may be repeated.
    pub async fn post_with_key<A: DeserializeOwned>(
        &self,
        path: &str,
        body: &impl Serialize,
        key: &str,
        patience: Patience,
    ) -> Result<A, ClientError> {
        let mut request = self.request(Method::POST, path, encode(body));
        let key = HeaderValue::from_str(key).map_err(|_| ClientError::InvalidToken)?;
        request.headers_mut().insert(IDEMPOTENCY_KEY, key);
        self.patiently(&request, patience).await
    }

    async fn patiently<A: DeserializeOwned>(
        &self,
        request: &Request<Full<Bytes>>,
        patience: Patience,
    ) -> Result<A, ClientError> {
        let started = tokio::time::Instant::now();
        let mut pause = RETRY_PAUSE;
        loop {
            match self.typed(request.clone(), Duration::ZERO).await {
                Err(error) if error.is_passing() && started.elapsed() + pause < patience.total => {
                    tracing::debug!(path = request.uri().path(), %error, "sending again");
                    tokio::time::sleep(pause).await;
                    pause = (pause * 2).min(RETRY_PAUSE_MAX);
                }
                other => return other,
            }
        }
    }

    /// `DELETE path`.
    pub async fn delete<A: DeserializeOwned>(&self, path: &str) -> Result<A, ClientError> {
        self.typed(self.request(Method::DELETE, path, Bytes::new()), Duration::ZERO).await
    }

    /// `GET path`, as text; for answers that are not JSON.
    pub async fn get_text(&self, path: &str) -> Result<String, ClientError> {
        let request = self.request(Method::GET, path, Bytes::new());
        let bytes = self.raw(request, Duration::ZERO).await?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// `POST path` with a body that is JSON already; the answer as it came.
    pub async fn post_raw(
        &self,
        path: &str,
        body: Bytes,
        wait: Duration,
    ) -> Result<Bytes, ClientError> {
        self.raw(self.request(Method::POST, path, body), wait).await
    }

    async fn typed<A: DeserializeOwned>(
        &self,
        request: Request<Full<Bytes>>,
        wait: Duration,
    ) -> Result<A, ClientError> {
        let answer = self.raw(request, wait).await?;
        // An answer without content is `null` to its reader.
        let text: &[u8] = if answer.is_empty() { b"null" } else { &answer };
        serde_json::from_slice(text).map_err(|_| self.unintelligible(StatusCode::OK))
    }

    async fn raw(
        &self,
        request: Request<Full<Bytes>>,
        wait: Duration,
    ) -> Result<Bytes, ClientError> {
        let limit = ANSWER_TIMEOUT + wait;
        let (status, body) =
            tokio::time::timeout(limit, self.exchange(request)).await.map_err(|_| {
                ClientError::TimedOut { endpoint: self.shared.endpoint.clone(), waited: limit }
            })??;
        if status.is_success() {
            return Ok(body);
        }
        match serde_json::from_slice::<Problem>(&body) {
            Ok(problem) => {
                Err(ClientError::Refused { status: status.as_u16(), detail: problem.error })
            }
            Err(_) => Err(self.unintelligible(status)),
        }
    }

    fn request(&self, method: Method, path: &str, body: Bytes) -> Request<Full<Bytes>> {
        let has_body = !body.is_empty();
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = method;
        *request.uri_mut() = path.parse().expect("paths are made of checked ids and numbers");
        let headers = request.headers_mut();
        headers.insert(HOST, self.shared.host.clone());
        if let Some(authorization) = &self.shared.authorization {
            headers.insert(AUTHORIZATION, authorization.clone());
        }
        if has_body {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        }
        request
    }

    async fn exchange(
        &self,
        mut request: Request<Full<Bytes>>,
    ) -> Result<(StatusCode, Bytes), ClientError> {
        loop {
            let (mut connection, is_fresh) = self.connection().await?;
            let answer = match connection.try_send_request(request).await {
                Ok(answer) => answer,
                Err(mut error) => match error.take_message() {
                    // The server had closed a connection that lay idle; nothing has left.
                    Some(unsent) if !is_fresh => {
                        request = unsent;
                        continue;
                    }
                    _ => return Err(self.interrupted(error.into_error())),
                },
            };
            let status = answer.status();
            let body = answer.into_body().collect().await;
            let body = body.map_err(|error| self.interrupted(error))?.to_bytes();
            self.give_back(connection);
            return Ok((status, body));
        }
    }

    /// An idle connection, or a fresh one (`true`).
    async fn connection(&self) -> Result<(Connection, bool), ClientError> {
        while let Some(idle) = self.take_idle() {
            if !idle.is_closed() && idle.is_ready() {
                return Ok((idle, false));
            }
        }
        let unreachable =
            |source| ClientError::Unreachable { endpoint: self.shared.endpoint.clone(), source };
        let connecting = TcpStream::connect(self.shared.endpoint.parts());
        let stream = tokio::time::timeout(CONNECT_TIMEOUT, connecting)
            .await
            .unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
            .map_err(unreachable)?;
        stream.set_nodelay(true).map_err(unreachable)?;
        let (sender, driver) = http1::handshake(TokioIo::new(stream))
            .await
            .map_err(|error| self.interrupted(error))?;
        // It ends when the server closes, or when the sender is dropped. What went wrong is told
        // to whoever waits for an answer.
        tokio::spawn(async move {
            let _ = driver.await;
        });
        Ok((sender, true))
    }

    fn take_idle(&self) -> Option<Connection> {
        self.shared.idle.lock().unwrap_or_else(PoisonError::into_inner).pop()
    }

    fn give_back(&self, connection: Connection) {
        let mut idle = self.shared.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if !connection.is_closed() && idle.len() < IDLE_CONNECTIONS_MAX {
            idle.push(connection);
        }
    }

    fn interrupted(&self, source: hyper::Error) -> ClientError {
        ClientError::Interrupted { endpoint: self.shared.endpoint.clone(), source }
    }

    fn unintelligible(&self, status: StatusCode) -> ClientError {
        ClientError::Unintelligible {
            endpoint: self.shared.endpoint.clone(),
            status: status.as_u16(),
        }
    }
}

fn encode(body: &impl Serialize) -> Bytes {
    serde_json::to_vec(body).expect("messages hold text, numbers and checked JSON").into()
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;

    const PATIENCE: Patience = Patience { total: Duration::from_secs(5) };

    #[tokio::test]
    async fn a_refusal_keeps_the_servers_own_words() {
        let body = r#"{"error":{"code":"E.TASK.NOT_FOUND","message":"no task","hint":"look"}}"#;
        let client = client_of(vec![Some(answer("404 Not Found", body))]).await;
        let error = client.get::<serde_json::Value>("/x").await.expect_err("refused");
        assert_eq!(error.refusal(), Some(ErrorCode::TaskNotFound));
        assert_eq!(error.to_string(), "no task");
        assert!(!error.is_passing());
    }

    #[tokio::test]
    async fn a_patient_request_outlives_a_broken_connection() {
        let client = client_of(vec![None, None, Some(answer("200 OK", "7"))]).await;
        assert_eq!(client.post_patiently::<u32>("/x", &1, PATIENCE).await.expect("answered"), 7);
    }

    #[tokio::test]
    async fn an_impatient_request_is_sent_once() {
        let client = client_of(vec![None, Some(answer("200 OK", "7"))]).await;
        let error = client.post::<u32>("/x", &1).await.expect_err("interrupted");
        assert!(matches!(error, ClientError::Interrupted { .. }), "{error}");
    }

    #[tokio::test]
    async fn nobody_at_home_is_unreachable() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("binds");
        let address = listener.local_addr().expect("bound");
        drop(listener);
        let client = Client::new(address.to_string().parse().expect("address"), None).expect("ok");
        let error = client.get::<u32>("/x").await.expect_err("nobody there");
        assert!(matches!(error, ClientError::Unreachable { .. }), "{error}");
    }

    fn answer(status: &str, body: &str) -> String {
        format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\n\r\n{body}", body.len())
    }

    /// A server that answers one request per connection; `None` closes without an answer.
    async fn client_of(answers: Vec<Option<String>>) -> Client {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("binds");
        let address = listener.local_addr().expect("bound");
        tokio::spawn(async move {
            for answer in answers {
                let (mut stream, _) = listener.accept().await.expect("accepts");
                let _ = stream.read(&mut [0; 4096]).await;
                if let Some(answer) = answer {
                    let _ = stream.write_all(answer.as_bytes()).await;
                }
            }
        });
        Client::new(address.to_string().parse().expect("address"), Some("t")).expect("ok")
    }
}
