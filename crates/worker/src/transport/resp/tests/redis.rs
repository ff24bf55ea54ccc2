//! A real Redis as the server: it knows keys and lists, and nothing of workers.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use protocol::resp::reply::Reply;
use serde_json::json;
use tempfile::TempDir;
use tokio::time::timeout;

use super::scene::{KEY, PATIENCE, options, sort_and_uniq};
use crate::transport::resp::connection::{Connection, request};
use crate::transport::resp::worker;
use crate::waiting::wait_until;

const MISSING: &str = "redis-server is missing, and workers are tested with it; install it, for \
                       example: apt-get install redis-server";
/// Jobs of one command.
const SINGLE_JOBS: usize = 30;

#[tokio::test]
async fn a_plain_redis_is_a_server_too() {
    let redis = Redis::start();
    let mut client = redis.connect().await;
    for number in 0..SINGLE_JOBS {
        let job = json!({ "command": "echo", "args": [format!("{number}")] }).to_string();
        client.say(&["SET", &format!("job:t-{number}"), &job]).await;
        client.say(&["LPUSH", "queue:default", &format!("t-{number}")]).await;
    }
    let plan = json!({ "plan_id": "p", "tasks": sort_and_uniq() }).to_string();
    client.say(&["HSET", "plan:p", "json", &plan]).await;
    let job = json!({ "job_id": "j1", "plan_id": "p", "input": "b\na\nb\n" }).to_string();
    client.say(&["LPUSH", "queue:ready", &job]).await;

    let mut options = options(&redis.address());
    options.offer.slots = 4;
    let mut worker = worker::start(options);
    client.until_empty(&["queue:default", "queue:ready", "queue:processing"]).await;
    worker.drain(PATIENCE).await;
    let ended = timeout(PATIENCE, worker.ended()).await.expect("it ends");
    assert_eq!(ended.expect("in peace").committed, 1 + SINGLE_JOBS as u64);

    for number in 0..SINGLE_JOBS {
        let said = client.say(&["GET", &format!("job:t-{number}:stdout")]).await;
        assert_eq!(said, Reply::bulk(format!("{number}\n")));
    }
    let said = client.say(&["MGET", "job:j1:status", "job:j1:stdout", "job:j1:stderr"]).await;
    assert_eq!(said, Reply::array(["completed", "a\nb\nb\nb\n", ""]));
    assert_eq!(client.say(&["GET", "worker:w-1:tags"]).await, Reply::from("cpu"));
}

/// A server behind a socket of its own; no port can be taken by somebody else.
struct Redis {
    server: Child,
    folder: TempDir,
}

impl Redis {
    fn start() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let socket = folder.path().join("socket");
        let server = Command::new("redis-server")
            .args(["--port", "0", "--save", "", "--requirepass", KEY, "--unixsocket"])
            .arg(&socket)
            .current_dir(&folder)
            .stdout(Stdio::null())
            .spawn()
            .expect(MISSING);
        Self { server, folder }
    }

    fn address(&self) -> String {
        let socket: PathBuf = self.folder.path().join("socket");
        format!("unix:{}", socket.display())
    }

    async fn connect(&self) -> Client {
        let address = self.address().parse().expect("an address");
        let opening = async || Connection::open(&address, PATIENCE).await;
        let mut client = Client(wait_until("a Redis that starts", PATIENCE, opening).await);
        assert_eq!(client.say(&["AUTH", KEY]).await, Reply::ok());
        client
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

struct Client(Connection);

impl Client {
    async fn say(&mut self, words: &[&str]) -> Reply {
        let reply = self.0.ask(&request(words)).await.expect("answered");
        assert!(!matches!(reply, Reply::Error(_)), "{words:?}: {reply:?}");
        reply
    }

    async fn until_empty(&mut self, lists: &[&str]) {
        for list in lists {
            let length = async || match self.say(&["LLEN", list]).await {
                Reply::Integer(0) => Ok(()),
                length => Err(length),
            };
            wait_until("an empty list", PATIENCE, length).await;
        }
    }
}
