//! A server of its own for each test, and its keyspace.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use keyspace::{Answer, End, Operation, Popped, Row};
use server::app::{Options, Server};
use server::handle::AskError;
use server::keyspace::{CommitPoint, TenantKeyspace};
use server::{CommandSpec, REDIS_COMMANDS};
use store::{SqliteStore, Store};
use tempfile::TempDir;

use crate::waiting::wait_until;

/// How long a test waits for something before it gives up on it.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

pub(crate) struct Place {
    data: TempDir,
    pub(crate) store: Arc<SqliteStore>,
    pub(crate) server: Server,
}

impl Place {
    pub(crate) async fn new() -> Self {
        Self::on(tempfile::tempdir().expect("a folder")).await
    }

    async fn on(data: TempDir) -> Self {
        let store = Arc::new(SqliteStore::open(data.path()).expect("a store"));
        let http = "127.0.0.1:0".parse().expect("an address");
        let options = Options { dev: true, ..Options::new(data.path(), http) };
        let server = Server::start_on(Arc::clone(&store) as Arc<dyn Store>, options);
        let server = server.await.expect("a server");
        Self { data, store, server }
    }

    /// The same data, opened anew.
    pub(crate) async fn restart(self) -> Self {
        let Self { data, store, server } = self;
        server.stop().await;
        drop(store);
        Self::on(data).await
    }

    pub(crate) async fn of(&self, tenant: &str) -> Arc<TenantKeyspace> {
        let tenant = tenant.parse().expect("a name");
        let handle = self.server.app().directory.of(&tenant).await.expect("a shard");
        handle.keyspace().await.expect("a keyspace")
    }

    pub(crate) async fn keyspace(&self) -> Arc<TenantKeyspace> {
        self.of("acme").await
    }

    /// What is durable of `acme`, by another way than the keyspace.
    pub(crate) async fn rows(&self) -> Vec<Row> {
        let tenant = "acme".parse().expect("a name");
        let shard = self.server.app().directory.of(&tenant).await.expect("a shard").shard();
        self.store.restore_keys(shard).await.expect("rows")
    }

    /// The disk takes no more pages.
    pub(crate) fn fill(&self) {
        let file = self.data.path().join("astra.db");
        let bytes = std::fs::metadata(file).expect("a file").len();
        // What is in the log and not in the file counts too, so this is too few at worst.
        self.store.limit_pages(u32::try_from(bytes / 4096).expect("small"));
    }

    /// The disk has room again.
    pub(crate) fn empty(&self) {
        self.store.limit_pages(u32::MAX >> 1);
    }
}

pub(crate) fn words(text: &str) -> Vec<Bytes> {
    text.split(' ').map(|word| Bytes::copy_from_slice(word.as_bytes())).collect()
}

/// `SET key` with a value that needs pages of its own.
pub(crate) fn set_large(key: &str) -> Vec<Bytes> {
    vec!["SET".into(), Bytes::copy_from_slice(key.as_bytes()), vec![b'v'; 40_000].into()]
}

/// What carries a command out, as the table of the Redis door has it.
fn operation(command: &[Bytes]) -> Operation {
    let is_named = |spec: &&CommandSpec| spec.name.as_bytes().eq_ignore_ascii_case(&command[0]);
    let spec = REDIS_COMMANDS.iter().find(is_named).expect("a command of the table");
    spec.operation().expect("a command for keys")
}

pub(crate) fn execute(
    keyspace: &TenantKeyspace,
    commands: &[Vec<Bytes>],
) -> Result<(Vec<Answer>, CommitPoint), AskError> {
    keyspace.execute(commands.iter().map(|command| (operation(command), &command[..])))
}

pub(crate) async fn pop_or_wait(
    keyspace: &TenantKeyspace,
    command: &[Bytes],
) -> Result<Answer, AskError> {
    keyspace.pop_or_wait(operation(command), command).await
}

/// Carries out commands, separated by `;`, and gives their answers once these are true.
pub(crate) async fn ask(keyspace: &TenantKeyspace, text: &str) -> Result<Vec<Answer>, AskError> {
    let commands: Vec<_> = text.split("; ").map(words).collect();
    ask_all(keyspace, &commands).await
}

pub(crate) async fn ask_all(
    keyspace: &TenantKeyspace,
    commands: &[Vec<Bytes>],
) -> Result<Vec<Answer>, AskError> {
    let (answers, point) = execute(keyspace, commands)?;
    point.durable().await?;
    Ok(answers)
}

/// Asks until the keyspace answers again.
pub(crate) async fn recovered(keyspace: &TenantKeyspace) {
    wait_until("the keyspace", PATIENCE, async || ask(keyspace, "GET none").await).await;
}

/// The elements of a list, from the left.
pub(crate) async fn list(keyspace: &TenantKeyspace, key: &str) -> Vec<String> {
    let answers = ask(keyspace, &format!("LRANGE {key} 0 -1")).await.expect("an answer");
    let [Answer::Array(elements)] = answers.as_slice() else { panic!("a list: {answers:?}") };
    elements.iter().map(text).collect()
}

pub(crate) fn text(answer: &Answer) -> String {
    let Answer::Bulk(bytes) = answer else { panic!("bytes: {answer:?}") };
    String::from_utf8(bytes.to_vec()).expect("text")
}

/// The answer of a pop from the left end.
pub(crate) fn popped(key: &str, element: &str) -> Answer {
    popped_at(End::Left, key, element)
}

pub(crate) fn popped_at(end: End, key: &str, element: &str) -> Answer {
    let bytes = |text: &str| Bytes::copy_from_slice(text.as_bytes());
    Answer::Popped(Popped { key: bytes(key), element: bytes(element), end })
}
