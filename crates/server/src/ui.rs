//! The status page on `/`: three small files inside the binary, nothing from elsewhere.

use std::sync::Arc;

use axum::Router;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;

use crate::app::App;

const PAGE: &str = include_str!("../assets/status.html");
const STYLE: &str = include_str!("../assets/status.css");
const SCRIPT: &str = include_str!("../assets/status.js");

/// Nothing inline, nothing from elsewhere, in nobody's frame.
const CONTENT_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; \
    connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// The page and its two files.
pub(crate) fn routes() -> Router<Arc<App>> {
    Router::new()
        .route("/", get(async || file(PAGE, "text/html; charset=utf-8")))
        .route("/assets/status.css", get(async || file(STYLE, "text/css; charset=utf-8")))
        .route("/assets/status.js", get(async || file(SCRIPT, "text/javascript; charset=utf-8")))
}

fn file(text: &'static str, media_type: &'static str) -> Response {
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static(media_type)),
        (header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(CONTENT_POLICY)),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-cache")),
        (header::REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
    ];
    (headers, text).into_response()
}
