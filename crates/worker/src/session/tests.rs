//! The worker against a server on a real socket, with real programs.

mod ending;
mod executing;
mod reconnecting;
mod server;
mod streaming;
