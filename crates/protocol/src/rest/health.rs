//! Whether the server lives, and whether it can work.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// `200` of `GET /healthz` and `GET /readyz`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Health {
    /// `ok` (the process lives) or `ready` (its store keeps what it is given).
    pub status: String,
    /// The server's version.
    pub version: String,
}
