//! The document that describes the interface: what stands at each operation, and what all that are
//! alike have in common.

use axum::http::Method;
use protocol::error_code::ErrorCode;
use protocol::rest::problem::Problem;
use protocol::rest::tokens::Role;
use utoipa::openapi::path::{Operation, ParameterBuilder, ParameterIn, PathItem};
use utoipa::openapi::schema::{ObjectBuilder, Type};
use utoipa::openapi::security::{Http, HttpAuthScheme, SecurityScheme};
use utoipa::openapi::{ContentBuilder, OpenApi, Ref, RefOr, Required, Response, ResponseBuilder};

use super::router::{Access, Lookup, find};

#[derive(utoipa::OpenApi)]
#[openapi(
    info(
        title = "AstraFlow",
        description = "A coordinator that decides, and workers that only execute. \
            Every refusal is `{\"error\":{\"code\",\"message\",\"hint\"}}`.",
        version = "1",
        license(name = "Apache-2.0", identifier = "Apache-2.0")
    ),
    components(schemas(Problem)),
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

/// The document without its operations.
pub(super) fn about() -> OpenApi {
    let mut document = <Document as utoipa::OpenApi>::openapi();
    let bearer = SecurityScheme::Http(Http::new(HttpAuthScheme::Bearer));
    let components = document.components.get_or_insert_default();
    components.add_security_scheme("bearer", bearer);
    document
}

/// The names in paths: what each is, and how a request is refused where it names nothing.
const PATH_NAMES: [(&str, &str, Option<ErrorCode>); 14] = [
    ("action_id", "The action.", Some(ErrorCode::ActionNotFound)),
    ("hook_id", "The webhook.", Some(ErrorCode::HookNotFound)),
    ("lease_id", "The lease.", None),
    ("node_id", "The node, by its id as authored.", None),
    ("plan_id", "The plan.", Some(ErrorCode::PlanNotFound)),
    ("queue", "The queue.", None),
    ("resource_id", "The resource.", Some(ErrorCode::ResourceNotFound)),
    ("run_id", "The run: its id or its number.", Some(ErrorCode::RunNotFound)),
    ("schedule_id", "The schedule.", Some(ErrorCode::ScheduleNotFound)),
    ("task_id", "The task.", Some(ErrorCode::TaskNotFound)),
    ("token", "The secret.", None),
    ("token_id", "The token.", Some(ErrorCode::TokenNotFound)),
    ("worker_id", "The worker.", Some(ErrorCode::WorkerNotFound)),
    ("workflow_id", "The workflow.", Some(ErrorCode::WorkflowNotFound)),
];

/// Adds to each operation what follows from its path, its method and who may use it.
pub(super) fn complete(document: &mut OpenApi) {
    for (path, item) in &mut document.paths.paths {
        for (method, operation) in operations(item) {
            let Some(operation) = operation else { continue };
            operation.tags = Some(vec![tag(path).to_owned()]);
            let mut common = common_errors(&method, path, operation.request_body.is_some());
            common.extend(add_path_names(path, operation));
            let responses = &mut operation.responses.responses;
            for codes in common {
                let status = codes[0].entry().http_status.to_string();
                let names: Vec<&str> = codes.iter().map(|code| code.name()).collect();
                let response = ResponseBuilder::new().description(names.join(", ")).build();
                responses.entry(status).or_insert(RefOr::T(response));
            }
            responses.values_mut().for_each(add_problem);
        }
    }
}

/// The operations of a path, by the methods that we have.
pub(super) fn operations(item: &mut PathItem) -> [(Method, &mut Option<Operation>); 4] {
    [
        (Method::GET, &mut item.get),
        (Method::POST, &mut item.post),
        (Method::PATCH, &mut item.patch),
        (Method::DELETE, &mut item.delete),
    ]
}

/// The part of the interface that a path belongs to.
fn tag(path: &str) -> &str {
    if path.starts_with("/api/workers/") {
        return "leases";
    }
    let noun = path.trim_start_matches("/api/v1").split('/').nth(1).unwrap_or_default();
    match noun {
        "actions" | "jobs" => "plans",
        "hooks" => "schedules",
        "reports" => "leases",
        "scheduler" => "runs",
        "session-keys" => "tokens",
        "healthz" | "readyz" | "metrics" => "server",
        same => same,
    }
}

/// The names in the path come first; the refusal is that of the first one.
fn add_path_names(path: &str, operation: &mut Operation) -> Option<&'static [ErrorCode]> {
    let names = path.split(['{', '}']).skip(1).step_by(2);
    let mut known = names.filter_map(|name| PATH_NAMES.iter().find(|row| row.0 == name)).peekable();
    let refusal = known.peek().and_then(|row| row.2.as_ref());
    let parameter = |(name, about, _): &(&str, &str, Option<ErrorCode>)| {
        let text = ObjectBuilder::new().schema_type(Type::String);
        let parameter = ParameterBuilder::new().name(*name).parameter_in(ParameterIn::Path);
        parameter.required(Required::True).description(Some(*about)).schema(Some(text)).build()
    };
    let mut parameters: Vec<_> = known.map(parameter).map(RefOr::T).collect();
    parameters.extend(operation.parameters.take().unwrap_or_default());
    operation.parameters = (!parameters.is_empty()).then_some(parameters);
    refusal.map(std::slice::from_ref)
}

/// A refusal, which begins with its code, has the same body everywhere.
fn add_problem(response: &mut RefOr<Response>) {
    if let RefOr::T(response) = response
        && response.description.starts_with("E.")
        && response.content.is_empty()
    {
        let schema = Ref::from_schema_name("Problem");
        let content = ContentBuilder::new().schema(Some(schema)).build();
        response.content.insert("application/json".to_owned(), RefOr::T(content));
    }
}

/// Codes of one status each.
fn common_errors(method: &Method, path: &str, has_body: bool) -> Vec<&'static [ErrorCode]> {
    let mut codes: Vec<&[ErrorCode]> = vec![&[ErrorCode::Internal]];
    if path.starts_with("/api/") || path.starts_with("/hooks/") {
        codes.extend([
            &[ErrorCode::RequestInvalid][..],
            &[ErrorCode::LimitOverloaded],
            &[ErrorCode::StoreUnavailable, ErrorCode::ServerStopping],
        ]);
    }
    if has_body {
        codes.extend([
            &[ErrorCode::RequestMalformed][..],
            &[ErrorCode::RequestTimeout],
            &[ErrorCode::RequestTooLarge],
            &[ErrorCode::RequestMediaType],
        ]);
    }
    if let Lookup::Found(_, Access::Roles(roles)) = find(method, path) {
        codes.push(&[ErrorCode::AuthInvalidToken]);
        if roles.len() < Role::ALL.len() {
            codes.push(&[ErrorCode::AuthForbidden]);
        }
    }
    codes
}
