//! Tickets: how a browser, whose `EventSource` sends no header, gets to the events.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use protocol::error_code::ErrorCode;
use protocol::rest::events::EventTicket;
use protocol::rest::problem::Problem;

use super::gate::{Asker, Credential};
use crate::app::App;
use crate::events::{Holder, TICKET_LIFETIME, TicketError};
use crate::wire_words::problem::{ApiError, json};

/// Get a ticket for the events
///
/// It stands for the token of this request in `GET /events?ticket=`, once, within a minute. So no
/// token has to stand in an address, where logs and histories keep it.
#[utoipa::path(
    post, path = "/api/v1/events/tickets", tag = "events", operation_id = "create_event_ticket",
    responses(
        (status = 201, body = EventTicket, description = "The ticket."),
        (status = 429, body = Problem, description = "E.LIMIT.EVENTS")
    )
)]
pub(super) async fn create(
    State(app): State<Arc<App>>,
    Asker(caller): Asker,
    credential: Credential,
) -> Result<Response, ApiError> {
    let holder = Holder { caller, token_id: credential.into_token_id() };
    let ticket = app.tickets.issue(holder, app.clock.now()).map_err(|error| {
        let code = match error {
            TicketError::TooMany => ErrorCode::LimitEvents,
            TicketError::NoRandomness => ErrorCode::Internal,
        };
        ApiError::new(code, error.to_string())
    })?;
    let expires_in = TICKET_LIFETIME.as_secs();
    Ok(json(StatusCode::CREATED, &EventTicket { ticket, expires_in }))
}
