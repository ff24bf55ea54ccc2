//! Workers against servers that follow a script, over real sockets.

mod cutting;
mod ending;
mod executing;
mod keys;
mod leases;
mod obeying;
mod redis;
mod rhythm;
mod scene;
mod server;
