//! Any history, played into a store and compared with the reference.

use std::sync::Arc;

use bytes::Bytes;
use coordinator::{
    Change, Drain, FiredMoment, LoadKey, Overlap, Pause, RunChange, RunRecord, RunWord, ScheduleId,
    ScheduleProgress, ScheduleRecord, ScheduleSpec, StateWord, TaskRecord, TaskState, TenantChange,
    VerifiedTool,
};
use model::{RunId, ShardId};

use super::history::{Dice, all_tasks, next_change};
use super::run_history::{all_runs, next_run_change};
use super::sample::tenant;
use shard::{ClaimedShard, Document, DocumentBody, DocumentKind, Turn};
use sim::Tables;
use store::{
    Detail, PageQuery, RunKey, RunQuery, SUMMARY_PARAMETERS_BYTES, SUMMARY_RESULT_BYTES_MAX, Store,
    TokenRow,
};

const TENANTS: [&str; 2] = ["acme", "bolt"];

/// Plays a history that `choices` describe, into a fresh store, and compares the store with
/// [`Tables`] now and then. `reopen` closes a store and opens it again, where that makes sense.
pub(crate) async fn replay(
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
    changes: Vec<Change>,
    runs: Vec<RunChange>,
    tenant: Vec<TenantChange>,
    documents: Vec<Document>,
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
            self.shards.push(Shard {
                claim,
                changes: Vec::new(),
                runs: Vec::new(),
                tenant: Vec::new(),
                documents: Vec::new(),
            });
        }
        for (before, now) in before.iter().zip(&self.shards) {
            assert_eq!(now.claim.shard, before.claim.shard, "a tenant keeps its shard");
            assert!(now.claim.epoch > before.claim.epoch, "a claim raises the epoch");
        }
    }

    fn add(&mut self, dice: &mut Dice) {
        let shard = &mut self.shards[dice.roll(TENANTS.len())];
        if dice.one_in(10) {
            let document = next_document(dice);
            self.tables.apply_documents(shard.claim.shard, std::slice::from_ref(&document));
            shard.documents.push(document);
        } else if dice.one_in(5) {
            let change = next_tenant_change(dice);
            self.tables.apply_tenant(shard.claim.shard, std::slice::from_ref(&change));
            shard.tenant.push(change);
        } else if dice.one_in(3) {
            let change = next_run_change(&self.tables, shard.claim.shard, dice);
            self.tables.apply_all(&[], std::slice::from_ref(&change)).expect("a valid history");
            shard.runs.push(change);
        } else {
            let change = next_change(&self.tables, shard.claim.shard, dice);
            self.tables.apply(std::slice::from_ref(&change)).expect("a valid history");
            shard.changes.push(change);
        }
    }

    /// Commits what has gathered; both shards' turns are queued before either is awaited.
    async fn flush(&mut self) {
        let store = &self.store;
        let commits: Vec<_> = self
            .shards
            .iter_mut()
            .map(|shard| {
                let changes = std::mem::take(&mut shard.changes);
                let runs = std::mem::take(&mut shard.runs);
                let tenant = std::mem::take(&mut shard.tenant);
                let documents = std::mem::take(&mut shard.documents);
                let turn = Turn::empty(shard.claim);
                store.commit(Turn { changes, runs, tenant, documents, ..turn })
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
            self.compare_runs(shard.claim.shard).await;
            self.compare_run_pages(shard.claim.shard).await;
            self.compare_versions(shard.claim.shard).await;
            let dead = self.store.count_dead(shard.claim.shard).await.expect("counts");
            assert_eq!(dead, self.tables.count_dead(shard.claim.shard));
        }
        assert_eq!(self.store.tokens().await.expect("tokens"), self.tables.tokens());
        assert_eq!(self.store.tenants().await.expect("tenants"), self.tables.tenants());
    }

    async fn compare_versions(&self, shard: ShardId) {
        let (store, tables) = (&self.store, &self.tables);
        for key in (0..5).map(|number| format!("d{number}")) {
            // The same digest may be in both shards here; then either may be named.
            let hook = store.tenant_of_hook(key.clone()).await.expect("reads");
            assert_eq!(hook.is_some(), tables.tenant_of_hook(&key).is_some());
            for kind in DocumentKind::ALL {
                let name = (shard, kind, key.clone());
                let versions = store.document_versions(shard, kind, key.clone()).await;
                assert_eq!(versions.expect("lists"), tables.document_versions(&name));
                let newest = store.document_version(shard, kind, key.clone(), None).await;
                assert_eq!(newest.expect("reads"), tables.document_version(&name, None));
            }
        }
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

    /// Every run there is, in either shard, and one that is not.
    async fn compare_runs(&self, shard: ShardId) {
        let mut keys = vec![RunKey::Id(RunId::of(shard, 1 << 30))];
        for other in &self.shards {
            for run in all_runs(&self.tables, other.claim.shard) {
                keys.push(RunKey::Id(run.id));
                keys.extend(run.idempotency.map(|mark| RunKey::Idempotency(mark.key)));
            }
        }
        for key in keys {
            let found = self.store.run(shard, key.clone()).await.expect("finds");
            assert_eq!(found, self.tables.run(shard, &key), "{key:?}");
            if let RunKey::Id(run) = key {
                let found = self.store.run_parts(shard, run).await.expect("reads");
                assert_eq!(found, self.tables.run_parts(shard, run));
            }
        }
    }

    async fn compare_run_pages(&self, shard: ShardId) {
        for mut query in run_queries() {
            let wanted = self.tables.runs(shard).rev().filter(|run| run_fits(&query, run));
            let expected: Vec<RunRecord> = wanted.map(short_run).collect();
            let mut found = Vec::new();
            loop {
                let page = self.store.runs(shard, query.clone()).await.expect("lists");
                assert!(page.runs.len() <= usize::try_from(query.limit.max(1)).expect("small"));
                found.extend(page.runs);
                let Some(next_before) = page.next_before else { break };
                assert!(query.before.is_none_or(|before| next_before < before), "it moves");
                query.before = Some(next_before);
            }
            assert_eq!(found, expected, "{query:?}");
        }
    }

    async fn compare_pages(&self, shard: ShardId) {
        for query in queries() {
            let found = pages(&self.store, shard, query.clone()).await;
            let wanted = self.tables.tasks(shard).rev().filter(|task| task_fits(&query, task));
            let expected: Vec<TaskRecord> =
                wanted.skip(query.skip).map(|task| shown(&query, task)).collect();
            assert_eq!(found, expected, "{query:?}");
        }
    }
}

/// Whether a list with this query shows the task.
fn task_fits(query: &PageQuery, task: &TaskRecord) -> bool {
    let state = &task.progress.state;
    let holder = match state {
        TaskState::Leased(lease) => lease.holder.to_string(),
        TaskState::Settled(end) => end.holder.as_ref().map(ToString::to_string).unwrap_or_default(),
        TaskState::Waiting { .. } | TaskState::Ready => String::new(),
    };
    let parameters = String::from_utf8_lossy(&task.parameters);
    let texts = [&task.id.to_string(), &holder, &*parameters];
    let demand = &task.spec.demand;
    (query.states.is_empty() || query.states.contains(&state.word()))
        && (query.task_types.is_empty() || query.task_types.contains(&demand.task_type))
        && query.queue.as_ref().is_none_or(|queue| *queue == demand.queue)
        && query.holder.as_ref().is_none_or(|wanted| *wanted.to_string() == holder)
        && query.words.iter().all(|word| texts.iter().any(|text| text.contains(word.as_str())))
}

/// The task as a list with this query carries it.
fn shown(query: &PageQuery, task: &TaskRecord) -> TaskRecord {
    let mut task = task.clone();
    if query.detail == Detail::Summary {
        task.parameters.truncate(SUMMARY_PARAMETERS_BYTES);
        if let TaskState::Settled(end) = &mut task.progress.state {
            end.result.take_if(|result| result.len() > SUMMARY_RESULT_BYTES_MAX);
            let details = end.failure.as_mut().map(|failure| &mut failure.details);
            details.map(|it| it.take_if(|it| it.len() > SUMMARY_RESULT_BYTES_MAX));
        }
    }
    task
}

/// Whether a list with this query shows the run.
fn run_fits(query: &RunQuery, run: &RunRecord) -> bool {
    let end = run.end.as_ref().map(|end| end.word);
    (query.ends.is_empty() || query.ends.contains(&end))
        && query
            .client_id
            .as_ref()
            .is_none_or(|wanted| run.about.client_id.as_ref() == Some(wanted))
        && query.workflow_id.as_ref().is_none_or(|wanted| run.about.workflow_id == *wanted)
}

/// The run as lists carry it, without what may be long.
fn short_run(run: &RunRecord) -> RunRecord {
    let mut run = RunRecord { definition: Bytes::new(), inputs: Bytes::new(), ..run.clone() };
    if let Some(end) = &mut run.end {
        end.outputs = None;
        end.failure.as_mut().map(|failure| failure.details.take());
    }
    run
}

/// A document that comes, changes or goes.
fn next_document(dice: &mut Dice) -> Document {
    let key = format!("d{}", dice.roll(5));
    let json = (!dice.one_in(3)).then(|| format!("{{\"n\":{}}}", dice.roll(100)));
    let kind = DocumentKind::ALL[dice.roll(DocumentKind::ALL.len())];
    // A version is written once.
    let version = 1 + u64::try_from(dice.roll(1 << 30)).expect("fits");
    let bytes = Bytes::from(format!("[ {version} ]"));
    let body = (json.is_some() && dice.one_in(2)).then_some(DocumentBody { version, bytes });
    Document { kind, key, json, body }
}

/// A fact about a tenant; none depends on what is there.
fn next_tenant_change(dice: &mut Dice) -> TenantChange {
    let at = |dice: &mut Dice| super::sample::at(u64::try_from(dice.roll(100)).expect("small"));
    let by = ["ada", "", "ß \"quoted\""][dice.roll(3)].to_owned();
    let queue = ["nightly", "q"][dice.roll(2)].parse().expect("valid");
    let worker = ["w1", "w2"][dice.roll(2)].parse().expect("valid");
    match dice.roll(10) {
        0 => TenantChange::QueuePaused { queue, pause: Pause { by, at: at(dice) } },
        1 => TenantChange::QueueResumed { queue },
        2 => {
            let gone_by = dice.one_in(2).then(|| at(dice));
            let reason = dice.one_in(2).then(|| "a new kernel".to_owned());
            let drain = Drain { by, at: at(dice), gone_by, reason };
            TenantChange::WorkerDrained { worker, drain }
        }
        3 => TenantChange::WorkerUndrained { worker },
        4 => {
            let tool = ["sort", "jq"][dice.roll(2)].parse().expect("valid");
            let verified = VerifiedTool { output: by, at: at(dice) };
            TenantChange::ToolVerified { worker, tool, verified }
        }
        5 => TenantChange::ToolsForgotten { worker },
        _ => next_schedule_change(dice),
    }
}

/// A schedule is set, moves on or goes; also one that is not there.
fn next_schedule_change(dice: &mut Dice) -> TenantChange {
    let schedule = ScheduleId(uuid::Uuid::from_u128(dice.roll(2) as u128 + 1));
    let progress = Arc::new(next_progress(dice));
    match dice.roll(5) {
        0 => return TenantChange::ScheduleRemoved { schedule },
        1 => return TenantChange::ScheduleFired { schedule, progress },
        2 => return TenantChange::ScheduleWaits { schedule, progress },
        _ => {}
    }
    let all = [Overlap::Skip, Overlap::Queue, Overlap::Allow, Overlap::Cancel];
    let spec = ScheduleSpec {
        name: dice.one_in(2).then(|| "nightly".to_owned()),
        workflow_id: "flow-1".to_owned(),
        version: dice.one_in(2).then(|| dice.number()),
        cron: "0 3 * * *".to_owned(),
        timezone: "Europe/Berlin".to_owned(),
        inputs: Bytes::from_static(b"{\"a\": 1}"),
        overlap: all[dice.roll(4)],
        paused: dice.one_in(2),
        created_at: super::sample::at(dice.number()),
        created_by: "ada".to_owned(),
    };
    let record = ScheduleRecord { id: schedule, spec: Arc::new(spec), progress };
    TenantChange::ScheduleSet(Box::new(record))
}

fn next_progress(dice: &mut Dice) -> ScheduleProgress {
    let moment = |dice: &mut Dice| super::sample::at(dice.number());
    let moments = |dice: &mut Dice| (0..dice.roll(3)).map(|_| moment(dice)).collect();
    let run = |dice: &mut Dice| RunId::of(ShardId::new(1).expect("small"), dice.number());
    let outcome = |dice: &mut Dice| match dice.roll(2) {
        0 => Ok(run(dice)),
        _ => Err("run 1 still went on".to_owned()),
    };
    ScheduleProgress {
        handled: moment(dice),
        waiting: moments(dice),
        backfill: moments(dice),
        newest_run: dice.one_in(2).then(|| run(dice)),
        last: dice.one_in(2).then(|| FiredMoment { due: moment(dice), outcome: outcome(dice) }),
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
            task_types: vec!["maths/add".parse().expect("valid")],
            limit: 2,
            ..PageQuery::default()
        },
        PageQuery { skip: 3, limit: 2, detail: Detail::Summary, ..PageQuery::default() },
        PageQuery { skip: usize::MAX, limit: 2, ..PageQuery::default() },
        PageQuery { words: vec!["1".into()], limit: 2, ..PageQuery::default() },
        PageQuery {
            holder: Some("w1".parse().expect("valid")),
            skip: 1,
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

fn run_queries() -> Vec<RunQuery> {
    let ended = |ends: &[Option<RunWord>]| RunQuery {
        ends: ends.to_vec(),
        limit: 2,
        ..RunQuery::default()
    };
    let of_client = RunQuery { client_id: Some("browser".into()), ..ended(&[]) };
    let of_workflow = RunQuery { workflow_id: Some("flow-1".into()), ..ended(&[]) };
    vec![
        RunQuery { limit: 1_000, ..ended(&[]) },
        RunQuery { limit: 0, ..ended(&[]) },
        ended(&[None]),
        ended(&[Some(RunWord::Failed), None]),
        ended(&[Some(RunWord::Succeeded), Some(RunWord::Cancelled)]),
        RunQuery { ends: vec![None], ..of_client.clone() },
        RunQuery { client_id: of_client.client_id.clone(), ..of_workflow.clone() },
        of_client,
        of_workflow,
    ]
}

/// Follows the cursors to the end.
async fn pages(store: &Arc<dyn Store>, shard: ShardId, mut query: PageQuery) -> Vec<TaskRecord> {
    let mut found = Vec::new();
    loop {
        let page = store.list(shard, query.clone()).await.expect("lists");
        let limit = usize::try_from(query.limit.max(1)).expect("small");
        assert!(page.tasks.len() <= limit, "a page holds no more than was asked for");
        found.extend(page.tasks);
        query.skip -= page.skipped;
        let Some(next_before) = page.next_before else { return found };
        assert!(query.before.is_none_or(|before| next_before < before), "the cursor moves");
        query.before = Some(next_before);
    }
}
