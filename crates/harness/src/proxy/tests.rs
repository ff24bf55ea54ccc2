//! Real sockets: a client, the proxy, a server.

use std::io;
use std::net::Ipv4Addr;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::{Direction, Fault, Kind, Proxy};
use crate::waiting::wait_until;

const HEAD: &[u8] = b"GET /ws/worker HTTP/1.1\r\nUpgrade: websocket\r\n\r\n";
/// Long enough to be sure that nothing comes.
const QUIET: Duration = Duration::from_millis(200);

#[tokio::test]
async fn a_message_comes_twice_and_others_stay() {
    let mut scene = Scene::open().await;
    scene.proxy.inject(fault(Kind::Duplicate, 0));
    scene.say(&[HEAD, &text(b"one"), &[0x89, 0], &text(b"two")].concat()).await;
    scene.hears(&[HEAD, &text(b"one"), &text(b"one"), &[0x89, 0], &text(b"two")].concat()).await;
    assert_eq!(scene.proxy.happened()[&Kind::Duplicate], 1);
}

#[tokio::test]
async fn two_messages_change_places() {
    let mut scene = Scene::open().await;
    scene.proxy.inject(fault(Kind::Swap, 0));
    scene.say(&[HEAD, &text(b"one"), &text(b"two"), &text(b"three")].concat()).await;
    scene.hears(&[HEAD, &text(b"two"), &text(b"one"), &text(b"three")].concat()).await;
    assert_eq!(scene.proxy.happened()[&Kind::Swap], 1);
}

#[tokio::test]
async fn a_message_without_a_second_one_is_not_kept_for_ever() {
    let mut scene = Scene::open().await;
    scene.proxy.inject(fault(Kind::Swap, 0));
    scene.say(&[HEAD, &text(b"one")].concat()).await;
    scene.hears(&[HEAD, &text(b"one")].concat()).await;
    assert!(scene.proxy.happened().is_empty());
}

#[tokio::test]
async fn a_reset_comes_in_the_middle_and_reaches_both_ends() {
    let mut scene = Scene::open().await;
    scene.proxy.inject(fault(Kind::Reset, 60));
    scene.say(&[HEAD, &text(&[b'x'; 100])].concat()).await;
    let is_reset = |error: io::Error| error.kind() == io::ErrorKind::ConnectionReset;
    assert!(scene.client.read_u8().await.is_err_and(is_reset));
    let heard = scene.server.read_to_end(&mut Vec::new()).await;
    assert!(heard.is_err_and(is_reset));
}

#[tokio::test]
async fn an_orderly_end_comes_after_the_last_byte() {
    let mut scene = Scene::open().await;
    scene.proxy.inject(fault(Kind::Finish, 60));
    scene.say(&[HEAD, &text(&[b'x'; 100])].concat()).await;
    let mut heard = Vec::new();
    scene.server.read_to_end(&mut heard).await.expect("an orderly end");
    assert_eq!(heard.len(), 60);
}

#[tokio::test]
async fn a_half_open_connection_tells_nobody() {
    let mut scene = Scene::open().await;
    scene.proxy.inject(fault(Kind::HalfOpen, 0));
    scene.say(HEAD).await;
    assert!(tokio::time::timeout(QUIET, scene.server.read_u8()).await.is_err());
    assert!(tokio::time::timeout(QUIET, scene.client.read_u8()).await.is_err());
}

#[tokio::test]
async fn what_has_not_happened_happens_to_the_next_connection() {
    let mut scene = Scene::open().await;
    scene.proxy.inject(fault(Kind::Duplicate, 0));
    scene.say(HEAD).await;
    scene.hears(HEAD).await;
    // The proxy passes an end on when it is done with the connection.
    scene.client.shutdown().await.expect("ends");
    assert_eq!(scene.server.read(&mut [0]).await.expect("an orderly end"), 0);
    let proxy = scene.proxy;
    let mut scene = Scene::with(proxy, scene.listener).await;
    scene.say(&[HEAD, &text(b"one")].concat()).await;
    scene.hears(&[HEAD, &text(b"one"), &text(b"one")].concat()).await;
}

#[tokio::test]
async fn bytes_that_vanish_take_the_connection_with_them() {
    let mut scene = Scene::open().await;
    scene.say(HEAD).await;
    scene.hears(HEAD).await;
    scene.proxy.inject(Fault { lasts: QUIET, ..fault(Kind::BlackHole, 0) });
    // The order travels beside the bytes; nothing of a frame in its time arrives.
    let begun = async || scene.proxy.happened().get(&Kind::BlackHole).copied().ok_or("nothing");
    wait_until("the fault", QUIET, begun).await;
    scene.say(&text(b"gone")).await;
    assert!(scene.server.read_u8().await.is_err());
}

fn fault(kind: Kind, after_bytes: u64) -> Fault {
    Fault { kind, direction: Direction::Up, after_bytes, lasts: Duration::ZERO }
}

fn text(payload: &[u8]) -> Vec<u8> {
    let length = u8::try_from(payload.len()).expect("short");
    [&[0x81, 0x80 | length, 9, 9, 9, 9], payload].concat()
}

struct Scene {
    proxy: Proxy,
    listener: TcpListener,
    client: TcpStream,
    server: TcpStream,
}

impl Scene {
    async fn open() -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("listens");
        let address = listener.local_addr().expect("bound");
        Self::with(Proxy::start(address).await.expect("starts"), listener).await
    }

    async fn with(proxy: Proxy, listener: TcpListener) -> Self {
        let client = TcpStream::connect(proxy.address()).await.expect("connects");
        let (server, _) = listener.accept().await.expect("accepts");
        Self { proxy, listener, client, server }
    }

    async fn say(&mut self, bytes: &[u8]) {
        self.client.write_all(bytes).await.expect("written");
    }

    async fn hears(&mut self, expected: &[u8]) {
        let mut heard = vec![0; expected.len()];
        self.server.read_exact(&mut heard).await.expect("heard");
        assert_eq!(heard, expected);
    }
}
