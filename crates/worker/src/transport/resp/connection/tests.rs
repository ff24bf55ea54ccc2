use tokio::net::{TcpListener, UnixListener};

use super::*;

const SHORT: Duration = Duration::from_millis(50);

#[tokio::test]
async fn requests_are_answered_in_order_over_both_kinds_of_sockets() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("socket");
    let unix = UnixListener::bind(&path).expect("bound");
    let tcp = TcpListener::bind("127.0.0.1:0").await.expect("bound");
    let addresses =
        [format!("unix:{}", path.display()), tcp.local_addr().expect("bound").to_string()];
    tokio::spawn(async move {
        let (stream, _) = unix.accept().await.expect("a client");
        answer(stream, b"+ONE\r\n:2\r\n").await;
        let (stream, _) = tcp.accept().await.expect("a client");
        answer(stream, b"+ONE\r\n:2\r\n").await;
    });
    for address in addresses {
        let mut connection = open(&address).await.expect("open");
        connection.send(&[request(&["A"]), request(&["B", "c"])]).await.expect("sent");
        let replies = (connection.receive(SHORT).await, connection.receive(SHORT).await);
        assert_eq!(replies.0.expect("one"), Reply::simple("ONE"));
        assert_eq!(replies.1.expect("two"), Reply::Integer(2));
    }
}

#[tokio::test]
async fn what_went_wrong_is_told() {
    let closed = TcpListener::bind("127.0.0.1:0").await.expect("bound");
    let nowhere = closed.local_addr().expect("bound").to_string();
    drop(closed);
    check(&nowhere, "cannot be reached").await;
    check("unix:/no/such/socket", "cannot be reached").await;
    check(&served(b"").await, "closed the connection").await;
    check(&served(b"HTTP/1.1 400\r\n\r\n").await, "does not speak the Redis protocol").await;
    let silent = TcpListener::bind("127.0.0.1:0").await.expect("bound");
    let address = silent.local_addr().expect("bound").to_string();
    check(&address, "did not answer within 50ms").await;
}

async fn check(address: &str, sentence: &str) {
    let asked = match open(address).await {
        Ok(mut connection) => connection.ask(&request(&["PING"])).await,
        Err(error) => Err(error),
    };
    let error = asked.expect_err("no answer").to_string();
    assert!(error.contains(sentence) && error.contains(address), "{error}");
}

async fn open(address: &str) -> Result<Connection, ConnectionError> {
    Connection::open(&address.parse().expect("an address"), SHORT).await
}

/// A server that hears one client and says this.
async fn served(words: &'static [u8]) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("bound");
    let address = listener.local_addr().expect("bound").to_string();
    tokio::spawn(async move {
        let (stream, _) = listener.accept().await.expect("a client");
        answer(stream, words).await;
    });
    address
}

async fn answer(mut stream: impl AsyncRead + AsyncWrite + Unpin, words: &[u8]) {
    let mut heard = [0; 1024];
    let n = stream.read(&mut heard).await.expect("heard");
    assert!(heard[..n].starts_with(b"*"));
    stream.write_all(words).await.expect("said");
}

#[test]
fn addresses_are_read_with_and_without_their_parts() {
    check_address("127.0.0.1:6381", "127.0.0.1:6381 None");
    check_address("localhost", "localhost:6380 None");
    check_address("redis://example.org:6380/", "example.org:6380 None");
    check_address("[::1]:9", "[::1]:9 None");
    check_address("[::1]", "[::1]:6380 None");
    check_address("worker-1@10.0.0.5", "10.0.0.5:6380 Some(\"worker-1\")");
    check_address("unix:/run/astra.sock", "unix:/run/astra.sock None");
    check_address("w@unix:/run/a.sock", "unix:/run/a.sock Some(\"w\")");
}

#[test]
fn what_is_no_address_is_refused_with_a_sentence() {
    check_address("rediss://example.org", "TLS is not spoken here");
    check_address("redis://user:secret@example.org", "holds no password");
    for wrong in ["", "a:b", "two words", "unix:relative", "@a", "http://a", "[::1]9", "a/b"] {
        check_address(wrong, "is not an address");
    }
}

fn check_address(text: &str, expected: &str) {
    let shown = match text.parse::<Address>() {
        Ok(address) => format!("{address} {:?}", address.user()),
        Err(error) => error.to_string(),
    };
    assert!(shown.contains(expected), "{text}: {shown}");
    assert!(!shown.contains("secret"), "{shown}");
}
