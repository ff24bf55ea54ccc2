//! A server of its own for each test, and a small client.

use std::convert::Infallible;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::header::{AUTHORIZATION, CONTENT_TYPE};
use hyper::{HeaderMap, Method, Request, Response, StatusCode};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use protocol::rest::tokens::Role;
use serde_json::{Value, json};
use server::app::{Options, Server};
use server::auth::Caller;
use store::Store;
use tempfile::TempDir;

use crate::waiting::wait_until;

pub(crate) type TestBody = BoxBody<Bytes, Infallible>;

/// How long a test looks for something before it gives up on it.
const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) struct TestServer {
    server: Server,
    data: TempDir,
    client: Client<HttpConnector, TestBody>,
    token: Option<String>,
}

pub(crate) struct Reply {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) text: String,
}

impl Reply {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|_| panic!("JSON: {}", self.text))
    }

    /// The code of a refusal, after checking that it is one as documented.
    pub(crate) fn code(&self) -> String {
        let body = self.json();
        let error = &body["error"];
        for part in ["code", "message", "hint"] {
            let words = error[part].as_str().unwrap_or_default();
            assert!(!words.is_empty(), "{part} is there: {}", self.text);
        }
        assert_eq!(self.headers[CONTENT_TYPE], "application/json");
        error["code"].as_str().expect("text").to_owned()
    }

    pub(crate) fn message(&self) -> String {
        self.json()["error"]["message"].as_str().expect("text").to_owned()
    }

    #[track_caller]
    pub(crate) fn expect(&self, status: u16) -> Value {
        assert_eq!(self.status.as_u16(), status, "{}", self.text);
        self.json()
    }

    #[track_caller]
    pub(crate) fn refused(&self, status: u16, code: &str) {
        assert_eq!((self.status.as_u16(), self.code().as_str()), (status, code), "{}", self.text);
    }
}

impl TestServer {
    /// A server in dev mode: no token needed.
    pub(crate) async fn dev() -> Self {
        Self::start(true).await
    }

    /// A server in dev mode on a store of the test's own.
    pub(crate) async fn dev_on<S: Store>(open: impl FnOnce(&Path) -> Arc<S>) -> Self {
        let data = tempfile::tempdir().expect("a folder");
        let store = open(data.path());
        let options = options(data.path(), true);
        let server = Server::start_on(store, options).await.expect("a server");
        Self::around(server, data)
    }

    /// A server that asks for tokens. Requests of this client carry an admin's, of `default`.
    pub(crate) async fn locked() -> Self {
        let mut server = Self::start(false).await;
        server.token = Some(server.token("default", Role::Admin).await);
        server
    }

    async fn start(dev: bool) -> Self {
        let data = tempfile::tempdir().expect("a folder");
        let server = open(data.path(), dev).await;
        Self::around(server, data)
    }

    fn around(server: Server, data: TempDir) -> Self {
        let client = Client::builder(TokioExecutor::new()).build_http();
        Self { server, data, client, token: None }
    }

    /// The same data, opened anew.
    pub(crate) async fn restart(self) -> Self {
        self.restart_after(async |_| {}).await
    }

    /// The same data, opened anew after something was done to it.
    pub(crate) async fn restart_after(self, meanwhile: impl AsyncFnOnce(PathBuf)) -> Self {
        let dev = self.server.app().auth.has_dev_access();
        self.server.stop().await;
        meanwhile(self.data.path().to_owned()).await;
        let server = open(self.data.path(), dev).await;
        Self { server, ..self }
    }

    pub(crate) async fn stop(self) {
        self.server.stop().await;
    }

    pub(crate) fn server(&self) -> &Server {
        &self.server
    }

    pub(crate) fn address(&self) -> String {
        self.server.http_addr().to_string()
    }

    /// A new token.
    pub(crate) async fn token(&self, tenant: &str, role: Role) -> String {
        let app = self.server.app();
        let bearer = Caller { tenant: tenant.parse().expect("a name"), role, worker: None };
        app.auth.create(bearer, None, None, app.clock.now()).await.expect("a token").0
    }

    pub(crate) async fn get(&self, path: &str) -> Reply {
        self.call(Method::GET, path, None).await
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> Reply {
        self.call(Method::POST, path, Some(&body.to_string())).await
    }

    /// With this client's token, if it has one, and JSON.
    pub(crate) async fn call(&self, method: Method, path: &str, body: Option<&str>) -> Reply {
        self.call_as(self.token.as_deref(), method, path, body).await
    }

    pub(crate) async fn call_as(
        &self,
        token: Option<&str>,
        method: Method,
        path: &str,
        body: Option<&str>,
    ) -> Reply {
        let mut request = self.request(method, path);
        if let Some(token) = token {
            request.headers_mut().insert(AUTHORIZATION, bearer(token));
        }
        if let Some(body) = body {
            request.headers_mut().insert(CONTENT_TYPE, "application/json".parse().expect("text"));
            *request.body_mut() = Full::from(body.to_owned()).boxed();
        }
        self.send(request).await
    }

    /// A bare request, for tests that choose their own headers.
    pub(crate) fn request(&self, method: Method, path: &str) -> Request<TestBody> {
        let uri = format!("http://{}{path}", self.address());
        let body = Full::from(Bytes::new()).boxed();
        Request::builder().method(method).uri(uri).body(body).expect("a request")
    }

    /// An answer whose body is still to be read.
    pub(crate) async fn open(&self, request: Request<TestBody>) -> Response<Incoming> {
        self.client.request(request).await.expect("an answer")
    }

    pub(crate) async fn send(&self, request: Request<TestBody>) -> Reply {
        let response = self.open(request).await;
        let (parts, body) = response.into_parts();
        let body = body.collect().await.expect("a whole answer").to_bytes();
        let text = String::from_utf8(body.to_vec()).expect("text");
        Reply { status: parts.status, headers: parts.headers, text }
    }

    /// Submits one task and gives its id.
    pub(crate) async fn submit(&self, task: Value) -> String {
        let answer = self.post("/api/v1/tasks", &json!({"tasks": [task]})).await.expect(201);
        answer["tasks"][0]["task_id"].as_str().expect("an id").to_owned()
    }

    /// Asks for one lease, with patience, and gives it.
    pub(crate) async fn lease(&self, worker: &str) -> Value {
        let request = json!({"worker_id": worker, "max": 1, "wait_ms": 20_000});
        let answer = self.post("/api/v1/leases", &request).await.expect(200);
        answer["leases"][0].clone()
    }

    /// Waits until the server has taken over what its store holds.
    pub(crate) async fn until_ready(&self) {
        self.until_readiness_is(StatusCode::OK).await;
    }

    /// Waits until the server has noticed that its store fails.
    pub(crate) async fn until_not_ready(&self) {
        self.until_readiness_is(StatusCode::SERVICE_UNAVAILABLE).await;
    }

    async fn until_readiness_is(&self, status: StatusCode) {
        let answered = async || {
            let seen = self.get("/readyz").await.status;
            if seen == status { Ok(()) } else { Err(seen) }
        };
        wait_until("another answer of /readyz", PATIENCE, answered).await;
    }

    /// Looks again and again until what is looked for is there.
    pub(crate) async fn until(&self, path: &str, is_there: impl Fn(&Value) -> bool) -> Value {
        let look = async || {
            let seen = self.get(path).await.expect(200);
            if is_there(&seen) { Ok(seen) } else { Err(seen) }
        };
        wait_until(path, PATIENCE, look).await
    }
}

pub(crate) fn bearer(token: &str) -> hyper::header::HeaderValue {
    format!("Bearer {token}").parse().expect("a header")
}

/// The path of a lease's heartbeat or report.
pub(crate) fn lease_path(lease: &Value, verb: &str) -> String {
    format!("/api/v1/leases/{}/{verb}", lease["lease_id"].as_str().expect("an id"))
}

async fn open(data: &Path, dev: bool) -> Server {
    Server::start(options(data, dev)).await.expect("a server")
}

fn options(data: &Path, dev: bool) -> Options {
    let http = "127.0.0.1:0".parse().expect("an address");
    Options { dev, ..Options::new(data, http) }
}
