//! Tokens that were made for one worker: they speak for no other, at any door.

use futures_util::{SinkExt, StreamExt};
use hyper::Method;
use protocol::rest::tokens::Role;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_websockets::{ClientBuilder, Message, WebSocketStream};

use crate::support::{TestServer, lease_path};

#[tokio::test]
async fn only_a_worker_s_token_can_be_bound() {
    let server = TestServer::locked().await;
    let check = async |body: Value, message: &str| {
        let answer = server.post("/api/v1/tokens", &body).await;
        answer.refused(422, "E.REQUEST.INVALID");
        assert!(answer.message().starts_with(message), "{}", answer.text);
    };
    for role in ["admin", "client", "viewer"] {
        check(json!({"role": role, "worker_id": "w1"}), &format!("a {role} token")).await;
    }
    check(json!({"role": "worker", "worker_id": "w 1"}), "worker_id must be").await;
    let created = bind(&server, "w1").await;
    assert_eq!(created["info"]["worker_id"], "w1");
    let list = server.get("/api/v1/tokens").await.expect(200);
    assert_eq!(list["tokens"][1]["worker_id"], "w1");
    assert!(list["tokens"][0].get("worker_id").is_none());
    server.stop().await;
}

#[tokio::test]
async fn over_http_a_bound_token_speaks_for_its_own_worker_alone() {
    let server = TestServer::locked().await;
    let token = token_of(&bind(&server, "w1").await);
    server.submit(json!({"type": "a"})).await;
    server.submit(json!({"type": "a"})).await;
    // Also after a restart: the binding is durable.
    let server = server.restart().await;
    server.until_ready().await;
    let ask = async |path: &str, body: Value| {
        server.call_as(Some(&token), Method::POST, path, Some(&body.to_string())).await
    };
    let own = ask("/api/v1/leases", json!({"worker_id": "w1"})).await.expect(200);
    let own = own["leases"][0].clone();
    let others = server.lease("w2").await;
    let report = json!({"lease_id": others["lease_id"], "worker_id": "w2", "outcome": "complete"});
    let mine = json!({"lease_id": own["lease_id"], "worker_id": "w1", "outcome": "complete"});
    let as_w2 = [
        ("/api/v1/leases".to_owned(), json!({"worker_id": "w2"})),
        (lease_path(&others, "heartbeat"), json!({"worker_id": "w2"})),
        (lease_path(&others, "complete"), json!({"worker_id": "w2"})),
        (lease_path(&others, "fail"), json!({"worker_id": "w2", "reason": "x"})),
        ("/api/v1/reports".to_owned(), json!({"reports": [mine, report]})),
        ("/api/workers/register".to_owned(), json!({"worker_id": "w2"})),
        ("/api/workers/heartbeat".to_owned(), json!({"worker_id": "w2"})),
    ];
    for (path, body) in as_w2 {
        let answer = ask(&path, body).await;
        answer.refused(403, "E.AUTH.FORBIDDEN");
        assert!(answer.message().contains("made for worker w1"), "{}", answer.text);
    }
    let as_itself = ask(&lease_path(&others, "complete"), json!({"worker_id": "w1"})).await;
    assert_eq!(as_itself.expect(200)["reason"], "not_holder");
    ask("/api/workers/heartbeat", json!({"worker_id": "w1"})).await.expect(200);
    let done = ask(&lease_path(&own, "complete"), json!({"worker_id": "w1"})).await.expect(200);
    assert_eq!(done["verdict"], "COMMITTED", "the refused batch did nothing");
    server.stop().await;
}

#[tokio::test]
async fn over_websocket_a_bound_token_opens_sessions_of_its_own_worker_alone() {
    let server = TestServer::locked().await;
    let token = token_of(&bind(&server, "w1").await);
    let refused = Peer::open(&server, &token, "w2", "i1").await.expect_err("w2 is another worker");
    assert_eq!(refused["code"], "E.AUTH.FORBIDDEN", "{refused}");
    assert!(refused["reason"].as_str().is_some_and(|why| why.contains("w1")), "{refused}");
    let _w1 = Peer::open(&server, &token, "w1", "i1").await.expect("its own worker");
    let names = workers(&server).await;
    assert_eq!(names, ["w1"]);
    // Where an unbound token gets a name beside the taken one, a bound one gets none.
    let refused = Peer::open(&server, &token, "w1", "i2").await.expect_err("w1 is here");
    assert_eq!(refused["code"], "E.SESSION.DENIED", "{refused}");
    let any = server.token("default", Role::Worker).await;
    let _beside = Peer::open(&server, &any, "w1", "i3").await.expect("any name");
    assert_eq!(workers(&server).await, ["w1", "w1-i3"]);
    server.stop().await;
}

#[tokio::test]
async fn a_bound_worker_takes_its_name_back_and_no_other_s_instance() {
    let server = TestServer::locked().await;
    let token = token_of(&bind(&server, "w1").await);
    let any = server.token("default", Role::Worker).await;
    let squatter = Peer::open(&server, &any, "w1", "i1").await.expect("any name");
    squatter.close().await;
    let other = Peer::open(&server, &any, "w2", "i2").await.expect("any name");
    other.close().await;
    server.until("/api/v1/workers/w1", |worker| worker["session"]["connected"] == false).await;
    server.until("/api/v1/workers/w2", |worker| worker["session"]["connected"] == false).await;
    let refused = Peer::open(&server, &token, "w1", "i2").await.expect_err("i2 is worker w2");
    assert_eq!(refused["code"], "E.AUTH.FORBIDDEN", "{refused}");
    // Nobody is here under the name, so it need not wait until it is forgotten.
    let _w1 = Peer::open(&server, &token, "w1", "i3").await.expect("its own name");
    let shown = server.get("/api/v1/workers/w1").await.expect(200);
    assert_eq!(shown["session"]["instance_id"], "i3");
    server.stop().await;
}

/// A worker that is cut off in the middle of its handshake is not here. It may try as often as it
/// likes, which is no fight over its identity, and another instance gets its name at once.
#[tokio::test]
async fn a_handshake_that_is_cut_off_leaves_nobody_behind() {
    let server = TestServer::locked().await;
    for (worker, cut) in [
        ("w1", Reached::Upgrade),
        ("w2", Reached::Handshake),
        ("w3", Reached::Ack),
        ("w4", Reached::Register),
        ("w5", Reached::Accept),
    ] {
        let token = token_of(&bind(&server, worker).await);
        // More often than an identity may change hands in a minute.
        for _ in 0..6 {
            Peer::cut_off(&server, &token, worker, cut).await;
        }
        let own = Peer::open(&server, &token, worker, worker).await;
        own.unwrap_or_else(|refused| panic!("{cut:?}: {refused}")).cut().await;
        Peer::cut_off(&server, &token, worker, cut).await;
        let instance = format!("other-{worker}");
        let other = Peer::open(&server, &token, worker, &instance).await;
        let _other = other.unwrap_or_else(|refused| panic!("{cut:?}: {refused}"));
        let shown = server.get(&format!("/api/v1/workers/{worker}")).await.expect(200);
        assert_eq!(shown["session"]["instance_id"], instance.as_str(), "{cut:?}");
    }
    server.stop().await;
}

async fn bind(server: &TestServer, worker: &str) -> Value {
    let body = json!({"role": "worker", "worker_id": worker});
    server.post("/api/v1/tokens", &body).await.expect(201)
}

fn token_of(created: &Value) -> String {
    created["token"].as_str().expect("a token").to_owned()
}

async fn workers(server: &TestServer) -> Vec<String> {
    let list = server.get("/api/v1/workers").await.expect(200);
    let workers = list["workers"].as_array().expect("a list");
    let mut names: Vec<String> =
        workers.iter().map(|one| one["worker_id"].as_str().expect("a name").to_owned()).collect();
    names.sort();
    names
}

/// How far a handshake gets before its connection is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Reached {
    Upgrade,
    Handshake,
    Ack,
    Register,
    Accept,
}

/// A worker on a WebSocket, as far as its first words.
#[derive(Debug)]
struct Peer(WebSocketStream<TcpStream>);

impl Peer {
    /// Opens a session; the refusal's payload if there is one.
    async fn open(
        server: &TestServer,
        token: &str,
        name: &str,
        instance: &str,
    ) -> Result<Self, Value> {
        Self::go(server, token, (name, instance), Reached::Accept).await
    }

    /// Ends its connection in the middle of the handshake, with its own name as the instance's.
    async fn cut_off(server: &TestServer, token: &str, name: &str, cut: Reached) {
        let peer = Self::go(server, token, (name, name), cut).await;
        peer.unwrap_or_else(|refused| panic!("{cut:?}: {refused}")).cut().await;
    }

    async fn go(
        server: &TestServer,
        token: &str,
        (name, instance): (&str, &str),
        until: Reached,
    ) -> Result<Self, Value> {
        let address = format!("ws://{}/ws/worker", server.address());
        let builder = ClientBuilder::new().uri(&address).expect("an address");
        let stream = TcpStream::connect(server.address()).await.expect("a door");
        let (socket, _) = builder.connect_on(stream).await.expect("a WebSocket");
        let mut peer = Self(socket);
        let worker = json!({"worker_name": name, "worker_instance_id": instance,
            "version": "0.1.0", "hostname": "here"});
        let auth = json!({"mode": "token", "token": token});
        let hello = json!({"protocol": 1, "auth": auth, "worker": worker});
        let capabilities = json!({"concurrency": {"max_parallel": 1, "per_node_limits": {}},
            "runtimes": ["native"], "features": []});
        let register = json!({"capabilities": capabilities, "payload_types": [], "packages": []});
        if until >= Reached::Handshake {
            peer.say("control.handshake", instance, &hello).await;
        }
        if until >= Reached::Ack {
            peer.until("control.ack").await?;
        }
        if until >= Reached::Register {
            peer.say("control.register", instance, &register).await;
        }
        if until >= Reached::Accept {
            peer.until("control.session.accept").await?;
        }
        Ok(peer)
    }

    /// Ends the connection without a goodbye, as the end of a process does. Returns when the server
    /// has ended it as well.
    async fn cut(mut self) {
        let stream = self.0.get_mut();
        stream.shutdown().await.expect("its own end");
        let mut rest = Vec::new();
        // What comes after the cut, and how the server ends its side, is of no interest.
        let _ = stream.read_to_end(&mut rest).await;
    }

    async fn say(&mut self, kind: &str, instance: &str, payload: &Value) {
        let frame = json!({"type": kind, "id": format!("{kind}-1"), "tenant": "default",
            "ts": "2026-01-01T00:00:00Z", "sender": {"role": "worker", "id": instance},
            "ack": {"request": true}, "payload": payload});
        self.0.send(Message::text(frame.to_string())).await.expect("sent");
    }

    async fn until(&mut self, kind: &str) -> Result<(), Value> {
        loop {
            let message = self.0.next().await.expect("an answer").expect("a frame");
            let Some(text) = message.as_text() else { continue };
            let frame: Value = serde_json::from_str(text).expect("JSON");
            match frame["type"].as_str() {
                Some("control.reset") => return Err(frame["payload"].clone()),
                Some(found) if found == kind => return Ok(()),
                _ => {}
            }
        }
    }

    async fn close(mut self) {
        self.0.close().await.expect("closed");
    }
}
