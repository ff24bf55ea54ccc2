//! How workers reach their server: [`ws`] holds a session over a WebSocket, [`resp`] pulls jobs over
//! the Redis protocol.

pub mod resp;
pub mod ws;
