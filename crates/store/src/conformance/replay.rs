//! Any history, played into a store and compared with the reference.

use std::sync::Arc;

use coordinator::{Change, LoadKey, StateWord};
use model::{ShardId, TaskId};

use super::history::{Dice, all_tasks, next_change};
use super::sample::tenant;
use crate::contract::{ClaimedShard, PageQuery, Store, TokenRow, Turn};
use crate::tables::Tables;

const TENANTS: [&str; 2] = ["acme", "bolt"];

/// Plays a history that `choices` describe, into a fresh store, and compares the store with
/// [`Tables`] now and then. `reopen` closes a store and opens it again, where that makes sense.
pub async fn replay(
    store: Arc<dyn Store>,
    reopen: impl AsyncFn(Arc<dyn Store>) -> Arc<dyn Store>,
    choices: &[u32],
) {
    let mut player = Player::start(store).await;
    for &choice in choices {
        let mut dice = Dice::new(choice);
        match dice.roll(24) {
            0 => {
                player.flush().await;
                player.store = reopen(player.store).await;
                player.claim().await;
                player.compare().await;
            }
            1..4 => player.flush().await,
            4 => player.put_token(&mut dice).await,
            _ => player.add(&mut dice),
        }
    }
    player.flush().await;
    player.store = reopen(player.store).await;
    player.claim().await;
    player.compare().await;
}

struct Player {
    store: Arc<dyn Store>,
    tables: Tables,
    shards: Vec<Shard>,
}

struct Shard {
    claim: ClaimedShard,
    turn: Vec<Change>,
}

impl Player {
    async fn start(store: Arc<dyn Store>) -> Self {
        let mut player = Self { store, tables: Tables::default(), shards: Vec::new() };
        player.claim().await;
        player
    }

    async fn claim(&mut self) {
        let before = std::mem::take(&mut self.shards);
        for name in TENANTS {
            let claim = self.store.claim(tenant(name)).await.expect("claims");
            self.tables.adopt(tenant(name), claim);
            self.shards.push(Shard { claim, turn: Vec::new() });
        }
        for (before, now) in before.iter().zip(&self.shards) {
            assert_eq!(now.claim.shard, before.claim.shard, "a tenant keeps its shard");
            assert!(now.claim.epoch > before.claim.epoch, "a claim raises the epoch");
        }
    }

    fn add(&mut self, dice: &mut Dice) {
        let shard = &mut self.shards[dice.roll(TENANTS.len())];
        let change = next_change(&self.tables, shard.claim.shard, dice);
        self.tables.apply(std::slice::from_ref(&change)).expect("a valid history");
        shard.turn.push(change);
    }

    /// Commits what has gathered; both shards' turns are queued before either is awaited.
    async fn flush(&mut self) {
        let store = &self.store;
        let commits: Vec<_> = self
            .shards
            .iter_mut()
            .map(|shard| {
                let changes = std::mem::take(&mut shard.turn);
                store.commit(Turn { claim: shard.claim, changes, runs: Vec::new() })
            })
            .collect();
        for commit in commits {
            commit.await.expect("a valid turn is kept");
        }
    }

    async fn put_token(&mut self, dice: &mut Dice) {
        let number = dice.roll(4);
        let moment = |second| super::sample::at(u64::try_from(second).expect("small"));
        let token = TokenRow {
            token_id: format!("token-{number}"),
            tenant: tenant(["acme", "only-tokens"][dice.roll(2)]),
            role: "worker".into(),
            worker: (dice.roll(2) == 0).then(|| "w1".parse().expect("a name")),
            digest: [u8::try_from(dice.roll(256)).expect("a byte"); 32],
            name: (dice.roll(2) == 0).then(|| "for the night shift".into()),
            created_at: moment(dice.roll(3)),
            expires_at: (dice.roll(2) == 0).then(|| moment(100)),
            revoked_at: (dice.roll(2) == 0).then(|| moment(50)),
        };
        self.tables.put_token(token.clone());
        self.store.put_token(token).await.expect("keeps a token");
    }

    async fn compare(&self) {
        for shard in &self.shards {
            let restored = self.store.restore(shard.claim).await.expect("restores");
            assert_eq!(restored, self.tables.restore(shard.claim.shard));
            self.compare_loads(shard.claim.shard).await;
            self.compare_pages(shard.claim.shard).await;
            let dead = self.store.count_dead(shard.claim.shard).await.expect("counts");
            assert_eq!(dead, self.tables.count_dead(shard.claim.shard));
        }
        assert_eq!(self.store.tokens().await.expect("tokens"), self.tables.tokens());
        assert_eq!(self.store.tenants().await.expect("tenants"), self.tables.tenants());
    }

    /// By every key there is, in either shard, and by some that name nothing.
    async fn compare_loads(&self, shard: ShardId) {
        let mut keys = vec![
            LoadKey::Task(shard.last_task()),
            LoadKey::Idempotency("nobody's key".parse().expect("valid")),
        ];
        for other in &self.shards {
            for task in all_tasks(&self.tables, other.claim.shard) {
                keys.push(LoadKey::Task(task.id));
                keys.extend(task.idempotency.map(|mark| LoadKey::Idempotency(mark.key)));
            }
        }
        let expected = self.tables.load(shard, &keys);
        assert_eq!(self.store.load(shard, keys).await.expect("loads"), expected);
    }

    async fn compare_pages(&self, shard: ShardId) {
        for query in queries() {
            let found = pages(&self.store, shard, query.clone()).await;
            let expected = self.tables.list(shard, &PageQuery { limit: u32::MAX, ..query.clone() });
            let expected: Vec<_> = expected.tasks.iter().map(|task| task.id).collect();
            assert_eq!(found, expected, "{query:?}");
        }
    }
}

fn queries() -> Vec<PageQuery> {
    let of_states = |states: &[StateWord]| PageQuery {
        states: states.to_vec(),
        limit: 3,
        ..PageQuery::default()
    };
    vec![
        of_states(&[]),
        of_states(&[StateWord::Dead]),
        of_states(&[StateWord::Dead, StateWord::Failed]),
        of_states(&[StateWord::Queued, StateWord::Waiting, StateWord::Retrying]),
        of_states(&[StateWord::Running, StateWord::Completed, StateWord::Stopped]),
        PageQuery { limit: 1_000, ..PageQuery::default() },
        PageQuery { limit: 0, ..PageQuery::default() },
        PageQuery {
            task_type: Some("maths/add".parse().expect("valid")),
            limit: 2,
            ..PageQuery::default()
        },
        PageQuery {
            states: vec![StateWord::Queued],
            queue: Some("nightly".parse().expect("valid")),
            limit: 1,
            ..PageQuery::default()
        },
    ]
}

/// Follows the cursors to the end.
async fn pages(store: &Arc<dyn Store>, shard: ShardId, mut query: PageQuery) -> Vec<TaskId> {
    let mut found = Vec::new();
    loop {
        let page = store.list(shard, query.clone()).await.expect("lists");
        let limit = usize::try_from(query.limit.max(1)).expect("small");
        assert!(page.tasks.len() <= limit, "a page holds no more than was asked for");
        found.extend(page.tasks.iter().map(|task| task.id));
        let Some(next_before) = page.next_before else { return found };
        assert!(query.before.is_none_or(|before| next_before < before), "the cursor moves");
        query.before = Some(next_before);
    }
}
