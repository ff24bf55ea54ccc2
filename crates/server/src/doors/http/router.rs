//! All paths.

use std::sync::Arc;

use axum::Router;
use axum::http::{Method, Uri};
use axum::middleware::from_fn_with_state;
use protocol::error_code::ErrorCode;
use utoipa::openapi::OpenApi;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::auth_layer::auth_layer;
use super::openapi::{about, complete};
use super::{
    actions, events, health, hooks, leases, logs, plans, queues, resources, run_nodes, run_starts,
    runs, schedules, tasks, tokens, workers, workflows,
};
use crate::app::App;
use crate::ui;
use crate::wire_words::problem::ApiError;

fn documented() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::with_openapi(about())
        .routes(routes!(tasks::submit, tasks::list))
        .routes(routes!(tasks::show))
        .routes(routes!(tasks::cancel))
        .routes(routes!(tasks::requeue))
        .routes(routes!(tasks::explain))
        .routes(routes!(logs::show))
        .routes(routes!(leases::request))
        .routes(routes!(leases::heartbeat))
        .routes(routes!(leases::complete))
        .routes(routes!(leases::fail))
        .routes(routes!(leases::many))
        .routes(routes!(workers::list))
        .routes(routes!(workers::show))
        .routes(routes!(workers::command))
        .routes(routes!(workers::register))
        .routes(routes!(workers::heartbeat))
        .routes(routes!(plans::submit, plans::list))
        .routes(routes!(plans::show, plans::remove))
        .routes(routes!(actions::submit, actions::list))
        .routes(routes!(actions::show))
        .routes(routes!(actions::cancel))
        .routes(routes!(actions::submit_job))
        .routes(routes!(run_starts::submit, runs::list))
        .routes(routes!(runs::show))
        .routes(routes!(runs::cancel))
        .routes(routes!(runs::definition))
        .routes(routes!(run_starts::retry))
        .routes(routes!(runs::rebind))
        .routes(routes!(run_nodes::signal))
        .routes(routes!(run_nodes::explain))
        .routes(routes!(workflows::submit, workflows::list))
        .routes(routes!(workflows::validate))
        .routes(routes!(workflows::show, workflows::remove))
        .routes(routes!(workflows::versions))
        .routes(routes!(workflows::diff))
        .routes(routes!(workflows::restore))
        .routes(routes!(schedules::create, schedules::list))
        .routes(routes!(schedules::show, schedules::change, schedules::remove))
        .routes(routes!(schedules::pause))
        .routes(routes!(schedules::resume))
        .routes(routes!(schedules::run))
        .routes(routes!(schedules::backfill))
        .routes(routes!(hooks::create, hooks::list))
        .routes(routes!(hooks::remove))
        .routes(routes!(hooks::call))
        .routes(routes!(resources::list))
        .routes(routes!(resources::show))
        .routes(routes!(resources::download))
        .routes(routes!(queues::list))
        .routes(routes!(queues::peek))
        .routes(routes!(queues::pause))
        .routes(routes!(queues::resume))
        .routes(routes!(queues::requeue))
        .routes(routes!(queues::purge))
        .routes(routes!(events::watch))
        .routes(routes!(events::create_ticket))
        .routes(routes!(tokens::list, tokens::create))
        .routes(routes!(tokens::revoke))
        .routes(routes!(tokens::rotate_session_key))
        .routes(routes!(health::healthz))
        .routes(routes!(health::readyz))
        .routes(routes!(health::metrics))
}

/// The document that describes the interface.
pub fn openapi() -> OpenApi {
    let (_, mut document) = documented().split_for_parts();
    complete(&mut document);
    document
}

/// Everything that is served, with the paths of a door that begins with a request of this one.
pub(super) fn router(app: Arc<App>, upgrades: Router<Arc<App>>) -> Router {
    let (router, _) = documented().split_for_parts();
    router
        .merge(ui::routes())
        .merge(health::prefixed_routes())
        .merge(upgrades)
        .merge(health::openapi_route(&openapi()))
        .fallback(no_such_path)
        .method_not_allowed_fallback(no_such_method)
        .layer(from_fn_with_state(Arc::clone(&app), auth_layer))
        .with_state(app)
}

async fn no_such_path(uri: Uri) -> ApiError {
    ApiError::new(ErrorCode::RequestNotFound, format!("no such path: {}", uri.path()))
}

async fn no_such_method(method: Method, uri: Uri) -> ApiError {
    let message = format!("{} does not take {method}", uri.path());
    ApiError::new(ErrorCode::RequestMethod, message)
}
