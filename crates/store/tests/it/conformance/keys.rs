//! What every store owes a keyspace.

use std::sync::Arc;

use bytes::Bytes;
use keyspace::{Kind, Row, Write};
use model::{ShardId, TaskId};

use super::history::Dice;
use super::sample::{at, granted, submitted, tenant};
use shard::{ClaimedShard, Turn};
use sim::Tables;
use store::{CommitError, KeyspaceTurn, Store};

const TENANTS: [&str; 2] = ["acme", "bolt"];

/// Puts a store through every promise about keyspaces; as [`exercise`](super::exercise).
pub(crate) async fn exercise_keys(
    open: impl AsyncFn() -> Arc<dyn Store>,
    reopen: impl AsyncFn(Arc<dyn Store>) -> Arc<dyn Store>,
) {
    a_stale_claim_keeps_no_key(open().await).await;
    tasks_and_keys_break_apart(open().await).await;
    keys_go_on_under_a_new_claim(open().await).await;
    turns_of_keys_are_kept_in_order(open().await).await;
    for seed in 0..4 {
        let mut dice = Dice::new(seed);
        let choices: Vec<u32> =
            (0..400).map(|_| u32::try_from(dice.roll(1 << 30)).expect("30 bits")).collect();
        replay_keys(open().await, &reopen, &choices).await;
    }
}

/// A string under its key.
pub(crate) fn string(key: &str, value: impl Into<Bytes>) -> Write {
    let key = Bytes::copy_from_slice(key.as_bytes());
    Write::Put(Row { key, kind: Kind::String, expires_at: None, value: value.into() })
}

async fn claim(store: &Arc<dyn Store>) -> ClaimedShard {
    store.claim(tenant("acme")).await.expect("claims")
}

async fn commit(
    store: &Arc<dyn Store>,
    claim: ClaimedShard,
    writes: Vec<Write>,
) -> Result<(), CommitError> {
    store.commit_keys(KeyspaceTurn { claim, writes }).await.map(|_| ())
}

async fn rows(store: &Arc<dyn Store>, shard: ShardId) -> Vec<Row> {
    store.restore_keys(shard).await.expect("restores")
}

async fn names(store: &Arc<dyn Store>, shard: ShardId) -> Vec<Bytes> {
    rows(store, shard).await.into_iter().map(|row| row.key).collect()
}

async fn a_stale_claim_keeps_no_key(store: Arc<dyn Store>) {
    let old = claim(&store).await;
    commit(&store, old, vec![string("a", "1")]).await.expect("kept");
    let new = claim(&store).await;
    let other = store.claim(tenant("bolt")).await.expect("claims");
    let turn =
        |claim, key| store.commit_keys(KeyspaceTurn { claim, writes: vec![string(key, "2")] });
    // All are queued before the first is awaited, so that they may share a transaction.
    let from_the_future = ClaimedShard { epoch: new.epoch + 1, ..new };
    let turns = (turn(old, "b"), turn(from_the_future, "c"), turn(other, "d"), turn(new, "e"));
    assert!(matches!(turns.0.await, Err(CommitError::Fenced)));
    assert!(matches!(turns.1.await, Err(CommitError::Fenced)));
    turns.2.await.expect("another shard's turn");
    turns.3.await.expect("the new owner's turn");
    assert_eq!(commit(&store, old, vec![]).await, Err(CommitError::Fenced));
    assert_eq!(names(&store, new.shard).await, ["a", "e"]);
    assert_eq!(names(&store, other.shard).await, ["d"]);
}

/// A coordinator's turn that cannot be kept hurts no key, whether they share a transaction or not.
async fn tasks_and_keys_break_apart(store: Arc<dyn Store>) {
    let shard = claim(&store).await;
    let task = |number| TaskId::of(shard.shard, number);
    let keys =
        |key| store.commit_keys(KeyspaceTurn { claim: shard, writes: vec![string(key, "1")] });
    let broken = store.commit(Turn { changes: vec![granted(task(7), 1)], ..Turn::empty(shard) });
    let beside = (keys("a"), keys("b"));
    assert!(matches!(broken.await, Err(CommitError::Unavailable(_))));
    beside.0.await.expect("keys do not build on tasks");
    beside.1.await.expect("nor do later ones");
    keys("c").await.expect("nor do those that come alone");
    let later =
        store.commit(Turn { changes: vec![submitted(task(0))], ..Turn::empty(shard) }).await;
    assert!(matches!(later, Err(CommitError::Unavailable(_))), "its own turns are broken");
    assert_eq!(names(&store, shard.shard).await, ["a", "b", "c"]);
}

async fn keys_go_on_under_a_new_claim(store: Arc<dyn Store>) {
    let old = claim(&store).await;
    commit(&store, old, vec![string("a", "1")]).await.expect("kept");
    let new = claim(&store).await;
    assert_eq!(names(&store, new.shard).await, ["a"]);
    commit(&store, new, vec![string("b", "1")]).await.expect("kept");
    commit(&store, new, vec![]).await.expect("nothing to keep");
    assert_eq!(names(&store, new.shard).await, ["a", "b"]);
}

async fn turns_of_keys_are_kept_in_order(store: Arc<dyn Store>) {
    let shard = claim(&store).await;
    let commits: Vec<_> = (0..200)
        .map(|number| {
            let writes = vec![string("a", format!("{number}"))];
            store.commit_keys(KeyspaceTurn { claim: shard, writes })
        })
        .collect();
    for commit in commits {
        commit.await.expect("kept");
    }
    assert_eq!(rows(&store, shard.shard).await[0].value, "199");
}

/// Plays writes that `choices` describe into a fresh store, and compares the store with
/// [`Tables`] now and then.
pub(crate) async fn replay_keys(
    store: Arc<dyn Store>,
    reopen: impl AsyncFn(Arc<dyn Store>) -> Arc<dyn Store>,
    choices: &[u32],
) {
    let mut player = Player { store, tables: Tables::default(), shards: Vec::new() };
    player.claim().await;
    for &choice in choices {
        let mut dice = Dice::new(choice);
        match dice.roll(24) {
            0 => player.begin_anew(&reopen).await,
            1..4 => player.flush().await,
            4 => player.cut_turn(),
            _ => player.add(&mut dice),
        }
    }
    player.begin_anew(&reopen).await;
}

struct Player {
    store: Arc<dyn Store>,
    tables: Tables,
    shards: Vec<Shard>,
}

struct Shard {
    claim: ClaimedShard,
    turns: Vec<Vec<Write>>,
}

impl Player {
    async fn claim(&mut self) {
        self.shards.clear();
        for name in TENANTS {
            let claim = self.store.claim(tenant(name)).await.expect("claims");
            self.tables.adopt(tenant(name), claim);
            self.shards.push(Shard { claim, turns: vec![Vec::new()] });
        }
    }

    async fn begin_anew(&mut self, reopen: &impl AsyncFn(Arc<dyn Store>) -> Arc<dyn Store>) {
        self.flush().await;
        let nobody: Arc<dyn Store> = Arc::new(sim::MemoryStore::default());
        self.store = reopen(std::mem::replace(&mut self.store, nobody)).await;
        self.claim().await;
        for Shard { claim, .. } in &self.shards {
            let expected = self.tables.restore_keys(claim.shard);
            assert_eq!(rows(&self.store, claim.shard).await, expected);
        }
    }

    fn add(&mut self, dice: &mut Dice) {
        let shard = &mut self.shards[dice.roll(TENANTS.len())];
        let write = next_write(dice);
        let writes = std::slice::from_ref(&write);
        self.tables.commit_keys(shard.claim, writes).expect("a current claim");
        shard.turns.last_mut().expect("never empty").push(write);
    }

    /// What comes next belongs to another turn.
    fn cut_turn(&mut self) {
        self.shards.iter_mut().for_each(|shard| shard.turns.push(Vec::new()));
    }

    /// All turns are queued before the first is awaited.
    async fn flush(&mut self) {
        let mut commits = Vec::new();
        for Shard { claim, turns } in &mut self.shards {
            for writes in std::mem::replace(turns, vec![Vec::new()]) {
                commits.push(self.store.commit_keys(KeyspaceTurn { claim: *claim, writes }));
            }
        }
        for commit in commits {
            commit.await.expect("kept");
        }
    }
}

/// What a command may write: few keys, so that they meet again and again.
fn next_write(dice: &mut Dice) -> Write {
    let keys: [&'static [u8]; 5] = [b"", b"a", b"ab", b"b\0", b"\xff\xfe"];
    let key = Bytes::from_static(keys[dice.roll(keys.len())]);
    if dice.roll(4) == 0 {
        return Write::Delete(key);
    }
    let kind = Kind::ALL[dice.roll(Kind::ALL.len())];
    // A collection has elements.
    let shortest = usize::from(kind != Kind::String);
    let value = Bytes::from(vec![b'v'; [shortest, 3, 5_000][dice.roll(3)]]);
    let expires_at = (dice.roll(3) == 0).then(|| at(u64::try_from(dice.roll(100)).expect("small")));
    Write::Put(Row { key, kind, expires_at, value })
}
