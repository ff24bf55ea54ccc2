//! All paths.

use std::sync::Arc;

use axum::Router;
use axum::http::{Method, Uri};
use axum::middleware::from_fn_with_state;
use protocol::error_code::ErrorCode;
use protocol::rest::tokens::Role;
use utoipa::openapi::security::{Http, HttpAuthScheme, SecurityScheme};
use utoipa::openapi::{ContentBuilder, OpenApi, Ref, RefOr, ResponseBuilder};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::gate::gate;
use super::permissions::{Access, Lookup, Permission, find};
use super::{
    actions, event_tickets, events, health, hooks, jobs, leases, logs, plans, queues, rebind,
    reports, resources, run_nodes, run_starts, runs, schedules, tasks, tokens, workers, workflows,
};
use crate::app::App;
use crate::ui;
use crate::wire_words::problem::ApiError;

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
        (name = "runs", description = "Workflows that are executed, node by node."),
        (name = "workflows", description = "Kept with every version; checked, compared."),
        (name = "schedules", description = "Runs that the clock starts, or a call from outside."),
        (name = "leases", description = "Ask for work, stay alive, report."),
        (name = "plans", description = "Plans of Unix tools, and the jobs that execute them."),
        (name = "queues", description = "Who is next; pause, requeue, purge."),
        (name = "workers", description = "Who is there, and who is given nothing new."),
        (name = "resources", description = "What workers keep, and its bytes."),
        (name = "events", description = "Watch runs, nodes and workers, live."),
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
        .routes(routes!(logs::show))
        .routes(routes!(leases::request))
        .routes(routes!(leases::heartbeat))
        .routes(routes!(reports::complete))
        .routes(routes!(reports::fail))
        .routes(routes!(reports::many))
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
        .routes(routes!(jobs::submit))
        .routes(routes!(run_starts::submit, runs::list))
        .routes(routes!(runs::show))
        .routes(routes!(runs::cancel))
        .routes(routes!(runs::definition))
        .routes(routes!(run_starts::retry))
        .routes(routes!(rebind::rebind))
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
        .routes(routes!(event_tickets::create))
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
    add_common_errors(&mut document);
    document
}

/// What every operation, every one with a body and every one with a gate can answer too.
fn add_common_errors(document: &mut OpenApi) {
    for (path, item) in &mut document.paths.paths {
        let operations = [
            (Method::GET, &mut item.get),
            (Method::POST, &mut item.post),
            (Method::PATCH, &mut item.patch),
            (Method::DELETE, &mut item.delete),
        ];
        for (method, operation) in operations {
            let Some(operation) = operation else { continue };
            let codes = common_errors(&method, path, operation.request_body.is_some());
            let responses = &mut operation.responses.responses;
            for code in codes {
                let status = code.entry().http_status.to_string();
                responses.entry(status).or_insert_with(|| problem(code));
            }
        }
    }
}

fn common_errors(method: &Method, path: &str, has_body: bool) -> Vec<ErrorCode> {
    let mut codes = vec![ErrorCode::Internal];
    if has_body {
        codes.extend([
            ErrorCode::RequestMalformed,
            ErrorCode::RequestTimeout,
            ErrorCode::RequestTooLarge,
            ErrorCode::RequestMediaType,
        ]);
    }
    if let Lookup::Found(Permission { access: Access::Roles(roles), .. }) = find(method, path) {
        codes.push(ErrorCode::AuthInvalidToken);
        if roles.len() < Role::ALL.len() {
            codes.push(ErrorCode::AuthForbidden);
        }
    }
    codes
}

fn problem(code: ErrorCode) -> RefOr<utoipa::openapi::Response> {
    let schema = Ref::from_schema_name("Problem");
    let content = ContentBuilder::new().schema(Some(schema)).build();
    let response = ResponseBuilder::new().description(code.name());
    RefOr::T(response.content("application/json", content).build())
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
