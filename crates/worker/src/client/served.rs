//! A server of few words, for the tests of what is read while it comes.

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use super::Client;

/// A server that sends these pieces, each by itself, and closes.
pub(super) async fn client_of(pieces: &[&str]) -> Client {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("binds");
    let address = listener.local_addr().expect("bound");
    let pieces: Vec<String> = pieces.iter().map(ToString::to_string).collect();
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.expect("accepts");
        stream.set_nodelay(true).expect("a socket");
        let _ = stream.read(&mut [0; 4096]).await;
        for piece in pieces {
            stream.write_all(piece.as_bytes()).await.expect("sends");
            tokio::task::yield_now().await;
        }
    });
    Client::new(address.to_string().parse().expect("address"), None).expect("ok")
}
