//! `core.http_request`: asks a web server once. Redirects are answers like any other.

use std::collections::BTreeMap;
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited};
use hyper::header::{CONTENT_TYPE, HeaderMap};
use hyper::{Method, Request, Response, Uri};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::{Executed, raw, read};
use crate::core::executor::{Outcome, PARAMETERS_INVALID, TIMEOUT};

const WANTED: &str = "core.http_request wants {\"url\": \"http://...\"} and perhaps method, \
                      headers, body, timeout_ms, max_bytes";
/// How long the answer may take, unless the task says otherwise.
const TIMEOUT_DEFAULT: Duration = Duration::from_secs(30);
/// How long it may take at most.
const TIMEOUT_MAX: Duration = Duration::from_mins(10);
/// How large the answer's body may be, unless the task says otherwise.
const BODY_BYTES_DEFAULT: usize = 256 * 1024;
/// How large it may be at most: escaped as JSON it must still fit into a result.
const BODY_BYTES_MAX: usize = 512 * 1024;
/// An answer with a larger body.
const TOO_LARGE: &str = "E.RESPONSE.TOO_LARGE";
/// No answer.
const UNREACHABLE: &str = "E.HTTP.UNREACHABLE";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Ask {
    method: Option<String>,
    url: String,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    /// Text as it is; any other JSON as JSON.
    body: Option<Value>,
    timeout_ms: Option<u64>,
    max_bytes: Option<usize>,
}

pub(super) async fn run(parameters: &RawValue) -> Executed {
    let ask: Ask = read(parameters, WANTED)?;
    let patience = ask.timeout_ms.map_or(TIMEOUT_DEFAULT, Duration::from_millis).min(TIMEOUT_MAX);
    let max_bytes = ask.max_bytes.unwrap_or(BODY_BYTES_DEFAULT).min(BODY_BYTES_MAX);
    let request = request(ask).map_err(|why| Outcome::hopeless(PARAMETERS_INVALID, why))?;
    let answer = tokio::time::timeout(patience, exchange(request, max_bytes)).await;
    let answer = answer.map_err(|_| {
        let ms = patience.as_millis();
        Outcome::passing(TIMEOUT, format!("there was no whole answer within {ms} ms"))
    })?;
    Ok(Outcome::done(raw(&answer?)))
}

fn request(ask: Ask) -> Result<Request<Full<Bytes>>, String> {
    let uri: Uri = ask.url.parse().map_err(|why| format!("{} is no address: {why}", ask.url))?;
    match uri.scheme_str() {
        Some("http") if uri.host().is_some() => {}
        Some("https") => return Err("https is not spoken here; ask a proxy over http".into()),
        _ => return Err(format!("{} is no address like http://host/path", ask.url)),
    }
    let method = ask.method.unwrap_or_else(|| "GET".into()).to_ascii_uppercase();
    let method = Method::from_bytes(method.as_bytes()).map_err(|why| why.to_string())?;
    let mut request = Request::builder().method(method).uri(uri);
    let has_type = ask.headers.keys().any(|name| name.eq_ignore_ascii_case("content-type"));
    for (name, value) in &ask.headers {
        request = request.header(name, value);
    }
    let body = match ask.body {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text,
        Some(json) => {
            if !has_type {
                request = request.header(CONTENT_TYPE, "application/json");
            }
            json.to_string()
        }
    };
    request.body(Full::from(body)).map_err(|why| format!("these headers make no request: {why}"))
}

async fn exchange(request: Request<Full<Bytes>>, max_bytes: usize) -> Result<Value, Outcome> {
    let client: Client<HttpConnector, Full<Bytes>> =
        Client::builder(TokioExecutor::new()).build_http();
    let unreachable = |why: &dyn std::error::Error| {
        Outcome::passing(UNREACHABLE, format!("there was no answer: {}", chain(why)))
    };
    let (head, body) = client.request(request).await.map_err(|why| unreachable(&why))?.into_parts();
    let body = Limited::new(body, max_bytes).collect().await.map_err(|why| {
        if why.is::<LengthLimitError>() {
            let why = format!("the answer has more than {max_bytes} bytes; see max_bytes");
            Outcome::hopeless(TOO_LARGE, why)
        } else {
            unreachable(&*why)
        }
    })?;
    Ok(answer(&Response::from_parts(head, ()), &body.to_bytes()))
}

fn answer(head: &Response<()>, body: &[u8]) -> Value {
    let mut answer =
        json!({ "status": head.status().as_u16(), "headers": headers(head.headers()) });
    match std::str::from_utf8(body) {
        Ok(text) => answer["body"] = text.into(),
        Err(_) => answer["body_base64"] = BASE64_STANDARD.encode(body).into(),
    }
    answer
}

/// One text for each name, as RFC 9110 joins them.
fn headers(headers: &HeaderMap) -> BTreeMap<String, String> {
    let mut all = BTreeMap::<String, String>::new();
    for (name, value) in headers {
        let value = String::from_utf8_lossy(value.as_bytes());
        let joined = all.entry(name.to_string()).or_default();
        if !joined.is_empty() {
            joined.push_str(", ");
        }
        joined.push_str(&value);
    }
    all
}

/// An error with what caused it; the outermost alone says little.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        text = format!("{text}: {inner}");
        cause = inner.source();
    }
    text
}
