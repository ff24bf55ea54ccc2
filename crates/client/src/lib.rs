//! Asks a server over HTTP: JSON in both directions, over kept-alive connections.
//!
//! Reading order: [`Endpoint`] says where a server is; this file asks and explains why there is no
//! answer; [`Pieces`] and [`Lines`] read answers that go on for long.

mod endpoint;
mod streaming;

use std::io;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HeaderName, HeaderValue};
use hyper::{Method, Request, StatusCode};
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use protocol::error_code::ErrorCode;
use protocol::rest::problem::{Problem, ProblemDetail};
use serde::Serialize;
use serde::de::DeserializeOwned;

pub use endpoint::{Endpoint, InvalidEndpoint};
pub use streaming::{Lines, Pieces};

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
    endpoint: Endpoint,
    authorization: Option<HeaderValue>,
    http: legacy::Client<HttpConnector, Full<Bytes>>,
}

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
        source: io::Error,
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
        if let Self::Refused { detail, .. } = self {
            ErrorCode::from_name(&detail.code)
        } else {
            None
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
        let authorization = token.map(|token| {
            let value = HeaderValue::from_str(&format!("Bearer {token}"));
            let mut value = value.map_err(|_| ClientError::InvalidToken)?;
            value.set_sensitive(true);
            Ok(value)
        });
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        connector.set_connect_timeout(Some(CONNECT_TIMEOUT));
        let mut builder = legacy::Client::builder(TokioExecutor::new());
        let http = builder.pool_max_idle_per_host(IDLE_CONNECTIONS_MAX).build(connector);
        Ok(Self { endpoint, authorization: authorization.transpose()?, http })
    }

    /// Whom it talks to.
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
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
        let answer = async { self.whole(self.open(request).await?).await };
        self.within(ANSWER_TIMEOUT + wait, answer).await
    }

    fn request(&self, method: Method, path: &str, body: Bytes) -> Request<Full<Bytes>> {
        let has_body = !body.is_empty();
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = method;
        let uri = format!("{}{path}", self.endpoint);
        *request.uri_mut() = uri.parse().expect("paths are made of checked ids and numbers");
        let headers = request.headers_mut();
        if let Some(authorization) = &self.authorization {
            headers.insert(AUTHORIZATION, authorization.clone());
        }
        if has_body {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        }
        request
    }

    /// The answer from its first byte on, or why there is none.
    async fn open(&self, request: Request<Full<Bytes>>) -> Result<Incoming, ClientError> {
        let answer = self.http.request(request).await.map_err(|error| {
            let (is_connect, source) = (error.is_connect(), io::Error::other(error));
            let endpoint = self.endpoint.clone();
            if is_connect {
                ClientError::Unreachable { endpoint, source }
            } else {
                ClientError::Interrupted { endpoint, source }
            }
        })?;
        let status = answer.status();
        if status.is_success() {
            return Ok(answer.into_body());
        }
        let body = self.whole(answer.into_body()).await?;
        Err(match serde_json::from_slice::<Problem>(&body) {
            Ok(problem) => ClientError::Refused { status: status.as_u16(), detail: problem.error },
            Err(_) => self.unintelligible(status),
        })
    }

    async fn whole(&self, body: Incoming) -> Result<Bytes, ClientError> {
        let whole = body.collect().await;
        Ok(whole.map_err(|error| self.interrupted(error))?.to_bytes())
    }

    async fn within<T>(
        &self,
        limit: Duration,
        answer: impl Future<Output = Result<T, ClientError>>,
    ) -> Result<T, ClientError> {
        tokio::time::timeout(limit, answer).await.unwrap_or_else(|_| {
            Err(ClientError::TimedOut { endpoint: self.endpoint.clone(), waited: limit })
        })
    }

    fn interrupted(&self, source: hyper::Error) -> ClientError {
        let source = io::Error::other(source);
        ClientError::Interrupted { endpoint: self.endpoint.clone(), source }
    }

    fn unintelligible(&self, status: StatusCode) -> ClientError {
        ClientError::Unintelligible { endpoint: self.endpoint.clone(), status: status.as_u16() }
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
