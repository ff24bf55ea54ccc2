//! The worker against a server on a real socket, with real programs.

mod chaining;
mod ending;
mod executing;
mod reconnecting;
mod server;
mod streaming;
