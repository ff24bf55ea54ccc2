//! All paths.

use std::sync::Arc;

use axum::Router;
use axum::http::{Method, Uri};
use axum::middleware::from_fn_with_state;
use protocol::error_code::ErrorCode;
use utoipa::openapi::OpenApi;
use utoipa::openapi::security::{Http, HttpAuthScheme, SecurityScheme};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::gate::gate;
use super::problem::ApiError;
use super::{health, leases, queues, reports, tasks, tokens, workers};
use crate::app::App;
use crate::ui;

#[derive(utoipa::OpenApi)]
#[openapi(
    info(
        title = "AstraFlow",
        description = "A coordinator that decides, and workers that only execute. \
            Every refusal is `{\"error\":{\"code\",\"message\",\"hint\"}}`.",
        version = "1",
        license(name = "Apache-2.0", identifier = "Apache-2.0")
    ),
    security(("bearer" = [])),
    tags(
        (name = "tasks", description = "Submit, look at, stop, requeue, explain."),
        (name = "leases", description = "Ask for work, stay alive, report."),
        (name = "overview", description = "Workers and queues."),
        (name = "tokens", description = "Who may do what."),
        (name = "server", description = "Health and numbers.")
    )
)]
struct Document;

fn documented() -> OpenApiRouter<Arc<App>> {
    let mut document = <Document as utoipa::OpenApi>::openapi();
    let bearer = SecurityScheme::Http(Http::new(HttpAuthScheme::Bearer));
    let components = document.components.get_or_insert_default();
    components.add_security_scheme("bearer", bearer);
    OpenApiRouter::with_openapi(document)
        .routes(routes!(tasks::submit, tasks::list))
        .routes(routes!(tasks::show))
        .routes(routes!(tasks::cancel))
        .routes(routes!(tasks::requeue))
        .routes(routes!(tasks::explain))
        .routes(routes!(leases::request))
        .routes(routes!(leases::heartbeat))
        .routes(routes!(reports::complete))
        .routes(routes!(reports::fail))
        .routes(routes!(reports::many))
        .routes(routes!(workers::list))
        .routes(routes!(queues::list))
        .routes(routes!(tokens::list, tokens::create))
        .routes(routes!(tokens::revoke))
        .routes(routes!(health::healthz))
        .routes(routes!(health::readyz))
        .routes(routes!(health::metrics))
}

/// The document that describes the interface.
pub fn openapi() -> OpenApi {
    documented().split_for_parts().1
}

/// Everything that is served.
pub fn router(app: Arc<App>) -> Router {
    let (router, document) = documented().split_for_parts();
    router
        .merge(ui::routes())
        .merge(health::openapi_route(&document))
        .fallback(no_such_path)
        .method_not_allowed_fallback(no_such_method)
        .layer(from_fn_with_state(Arc::clone(&app), gate))
        .with_state(app)
}

async fn no_such_path(uri: Uri) -> ApiError {
    ApiError::new(ErrorCode::RequestNotFound, format!("no such path: {}", uri.path()))
}

async fn no_such_method(method: Method, uri: Uri) -> ApiError {
    let message = format!("{} does not take {method}", uri.path());
    ApiError::new(ErrorCode::RequestMethod, message)
}
