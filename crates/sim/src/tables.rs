//! What a store holds, in plain memory: the reference that every store is compared with.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use coordinator::{
    Change, EndedAttempt, LoadKey, Progress, RestoredRun, RunChange, RunParts, RunRecord,
    StateWord, TaskFacts, TaskRecord, TaskState, TenantChange, TenantSettings,
};
use keyspace::{Row, Write};
use model::{IdempotencyKey, QueueName, RunId, RunName, ShardId, TaskId, TenantId};
use shard::{ClaimedShard, Document, DocumentBody, DocumentKind, Restored, Turn};
use store::{
    CommitError, Contradiction, DocumentVersion, Note, NoteKind, RunKey, TokenRow, add_facts,
    check_order, check_runs_are_own,
};

mod runs;

use self::runs::RunTables;

/// Whose, of which kind, and which one.
type DocumentName = (ShardId, DocumentKind, String);

/// The facts, without I/O, clock or locks.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tables {
    shards: BTreeMap<TenantId, ClaimedShard>,
    tasks: BTreeMap<TaskId, TaskRecord>,
    marks: BTreeMap<(ShardId, IdempotencyKey), TaskId>,
    tokens: BTreeMap<String, TokenRow>,
    notes: BTreeMap<(NoteKind, String, String), String>,
    keys: BTreeMap<ShardId, BTreeMap<Bytes, Row>>,
    runs: RunTables,
    settings: BTreeMap<ShardId, TenantSettings>,
    documents: BTreeMap<ShardId, BTreeMap<(DocumentKind, String), String>>,
    bodies: BTreeMap<DocumentName, BTreeMap<u64, (String, Bytes)>>,
}

impl Tables {
    /// Takes a tenant's shard over: creates it if it is new, and raises its epoch by one.
    pub fn claim(&mut self, tenant: &TenantId) -> ClaimedShard {
        let next = u32::try_from(self.shards.len()).ok().and_then(|n| ShardId::new(n + 1));
        let claim = self.shards.entry(tenant.clone()).or_insert_with(|| ClaimedShard {
            shard: next.expect("a store holds fewer than 2^23 tenants"),
            epoch: 0,
        });
        claim.epoch += 1;
        *claim
    }

    /// The fence, then a new epoch.
    pub fn raise_epoch(&mut self, claim: ClaimedShard) -> Result<ClaimedShard, CommitError> {
        self.fence(claim)?;
        let mut owned = self.shards.values_mut();
        let current = owned.find(|current| **current == claim).ok_or(CommitError::Fenced)?;
        current.epoch += 1;
        Ok(*current)
    }

    /// A claim that another store made; shard numbers are that store's choice.
    pub fn adopt(&mut self, tenant: TenantId, claim: ClaimedShard) {
        self.shards.insert(tenant, claim);
    }

    /// The fence, then [`Tables::apply_all`].
    pub fn commit(&mut self, turn: &Turn) -> Result<(), CommitError> {
        self.fence(turn.claim)?;
        let tasks = turn.changes.iter().map(Change::task);
        let foreign = tasks.into_iter().find(|task| task.shard() != turn.claim.shard);
        foreign
            .map_or(Ok(()), |task| Err(Contradiction::ForeignTask(task)))
            .and_then(|()| check_runs_are_own(turn))
            .and_then(|()| self.apply_all(&turn.changes, &turn.runs))
            .map_err(|why| CommitError::Unavailable(why.to_string()))?;
        self.apply_tenant(turn.claim.shard, &turn.tenant);
        self.apply_documents(turn.claim.shard, &turn.documents);
        Ok(())
    }

    /// Keeps, replaces or removes documents of a shard.
    pub fn apply_documents(&mut self, shard: ShardId, documents: &[Document]) {
        let kept = self.documents.entry(shard).or_default();
        for Document { kind, key, json, body } in documents.iter().cloned() {
            let name = (shard, kind, key.clone());
            let Some(json) = json else {
                self.bodies.remove(&name);
                kept.remove(&(kind, key));
                continue;
            };
            if let Some(DocumentBody { version, bytes }) = body {
                self.bodies.entry(name).or_default().insert(version, (json.clone(), bytes));
            }
            kept.insert((kind, key), json);
        }
        if kept.is_empty() {
            self.documents.remove(&shard);
        }
    }

    /// Makes facts about a tenant true. Each names the whole of what it sets or removes, so none
    /// can contradict what is there.
    pub fn apply_tenant(&mut self, shard: ShardId, changes: &[TenantChange]) {
        let settings = self.settings.entry(shard).or_default();
        for change in changes.iter().cloned() {
            match change {
                TenantChange::QueuePaused { queue, pause } => {
                    settings.pauses.insert(queue, pause);
                }
                TenantChange::QueueResumed { queue } => {
                    settings.pauses.remove(&queue);
                }
                TenantChange::WorkerDrained { worker, drain } => {
                    settings.drains.insert(worker, drain);
                }
                TenantChange::WorkerUndrained { worker } => {
                    settings.drains.remove(&worker);
                }
                TenantChange::ToolVerified { worker, tool, verified } => {
                    settings.verified.entry(worker).or_default().insert(tool, verified);
                }
                TenantChange::ToolsForgotten { worker } => {
                    settings.verified.remove(&worker);
                }
                TenantChange::ScheduleSet(record) => {
                    settings.schedules.insert(record.id, *record);
                }
                TenantChange::ScheduleRemoved { schedule } => {
                    settings.schedules.remove(&schedule);
                }
                TenantChange::ScheduleFired { schedule, progress }
                | TenantChange::ScheduleWaits { schedule, progress } => {
                    if let Some(record) = settings.schedules.get_mut(&schedule) {
                        record.progress = progress;
                    }
                }
            }
        }
    }

    /// The fence, then the writes in order. Nothing in them can contradict what is there.
    pub fn commit_keys(
        &mut self,
        claim: ClaimedShard,
        writes: &[Write],
    ) -> Result<(), CommitError> {
        self.fence(claim)?;
        let keys = self.keys.entry(claim.shard).or_default();
        for write in writes {
            match write {
                Write::Put(row) => keys.insert(row.key.clone(), row.clone()),
                Write::Delete(key) => keys.remove(key),
            };
        }
        Ok(())
    }

    /// Every key of a shard's keyspace, by name.
    pub fn restore_keys(&self, shard: ShardId) -> Vec<Row> {
        self.keys.get(&shard).into_iter().flat_map(|own| own.values().cloned()).collect()
    }

    fn fence(&self, claim: ClaimedShard) -> Result<(), CommitError> {
        let is_current = self.shards.values().any(|current| *current == claim);
        if is_current { Ok(()) } else { Err(CommitError::Fenced) }
    }

    /// Makes changes true, all or none.
    pub fn apply(&mut self, changes: &[Change]) -> Result<(), Contradiction> {
        self.apply_all(changes, &[])
    }

    /// Makes changes and facts about runs true, all or none.
    pub fn apply_all(
        &mut self,
        changes: &[Change],
        runs: &[RunChange],
    ) -> Result<(), Contradiction> {
        self.check(changes)?;
        self.runs.check(runs)?;
        self.check_numbers(runs)?;
        for change in changes {
            self.apply_one(change);
        }
        for change in runs {
            self.runs.apply(change);
            if let RunChange::Numbered { numbers, .. } = change {
                for (task, facts) in &numbers.tasks {
                    self.number_task(*task, *facts);
                }
            }
        }
        Ok(())
    }

    fn check_numbers(&self, runs: &[RunChange]) -> Result<(), Contradiction> {
        for change in runs {
            let RunChange::Numbered { run, numbers } = change else { continue };
            let is_known = |(task, _): &(TaskId, TaskFacts)| self.tasks.contains_key(task);
            if !numbers.tasks.iter().all(is_known) {
                return Err(Contradiction::Unnumbered(*run));
            }
        }
        Ok(())
    }

    /// Walks through the changes as if each had been applied before the next.
    fn check(&self, changes: &[Change]) -> Result<(), Contradiction> {
        let mut latest: BTreeMap<TaskId, &Progress> = BTreeMap::new();
        let mut new_keys = BTreeSet::new();
        let mut ended = BTreeSet::new();
        for change in changes {
            let task = change.task();
            let stored = self.tasks.get(&task);
            let before = latest.get(&task).copied().or(stored.map(|record| &record.progress));
            check_order(before, change)?;
            latest.insert(task, change.progress());
            if let Change::TaskSubmitted(record) = change
                && let Some(mark) = &record.idempotency
            {
                let key = (task.shard(), mark.key.clone());
                if self.marks.contains_key(&key) || !new_keys.insert(key) {
                    return Err(Contradiction::KeyTaken(task));
                }
            }
            if let Some(attempt) = change.ended_attempt() {
                let is_stored = stored.is_some_and(|record| has_ended(record, attempt));
                if is_stored || !ended.insert((task, attempt.epoch)) {
                    return Err(Contradiction::AttemptEndedTwice(task));
                }
            }
        }
        Ok(())
    }

    fn apply_one(&mut self, change: &Change) {
        if let Change::TaskSubmitted(record) = change {
            self.insert(record);
            return;
        }
        let record = self.tasks.get_mut(&change.task()).expect("checked: the task exists");
        record.progress = durable_part(change.progress());
        add_facts(&mut record.facts, change);
        if let Change::TaskRequeued(requeued) = change {
            let new: Vec<_> =
                requeued.ended_attempts.iter().filter(|ended| !has_ended(record, ended)).collect();
            record.ended_attempts.extend(new.into_iter().cloned());
            record.ended_attempts.sort_by_key(|ended| ended.epoch);
        }
        record.ended_attempts.extend(change.ended_attempt().cloned());
    }

    /// What became true of the task later in the same turn has its number already.
    fn number_task(&mut self, task: TaskId, numbers: TaskFacts) {
        let facts = &mut self.tasks.get_mut(&task).expect("checked: the task exists").facts;
        *facts = TaskFacts {
            begun: facts.begun.or(numbers.begun),
            granted: facts.granted.or(numbers.granted),
            settled: facts.settled.or(numbers.settled),
        };
    }

    fn insert(&mut self, record: &TaskRecord) {
        if let Some(mark) = &record.idempotency {
            self.marks.insert((record.id.shard(), mark.key.clone()), record.id);
        }
        let progress = durable_part(&record.progress);
        self.tasks.insert(record.id, TaskRecord { progress, ..record.clone() });
    }

    /// Every live task and every live run of a shard, and the numbers that the next new ones get.
    pub fn restore(&self, shard: ShardId) -> Restored {
        let live = self.of_shard(shard).filter(|record| !is_settled(record));
        let last = self.of_shard(shard).next_back();
        Restored {
            tasks: live.cloned().collect(),
            next_number: last.map_or(0, |record| record.id.number() + 1),
            runs: self.restore_runs(shard),
            next_run: self.runs.next_run(shard),
            settings: self.settings.get(&shard).cloned().unwrap_or_default(),
            documents: self.restore_documents(shard),
        }
    }

    fn restore_documents(&self, shard: ShardId) -> Vec<Document> {
        let kept = self.documents.get(&shard).into_iter().flatten();
        kept.map(|((kind, key), json)| Document {
            kind: *kind,
            key: key.clone(),
            json: Some(json.clone()),
            body: None,
        })
        .collect()
    }

    fn restore_runs(&self, shard: ShardId) -> Vec<RestoredRun> {
        // By run, so that each task is looked at once.
        let mut settled: BTreeMap<RunId, Vec<TaskRecord>> = BTreeMap::new();
        for record in self.of_shard(shard).filter(|record| is_settled(record)) {
            if let Some(run) = run_of(record) {
                settled.entry(run).or_default().push(record.clone());
            }
        }
        let live = self.runs.live(shard);
        live.map(|run| run.restored(settled.remove(&run.id()).unwrap_or_default())).collect()
    }

    /// The tasks that these keys name, in the order of the keys.
    pub fn load(&self, shard: ShardId, keys: &[LoadKey]) -> Vec<(LoadKey, TaskRecord)> {
        let find = |key: &LoadKey| match key {
            LoadKey::Task(task) => (task.shard() == shard).then_some(*task),
            LoadKey::Idempotency(key) => self.marks.get(&(shard, key.clone())).copied(),
        };
        keys.iter()
            .filter_map(|key| {
                let record = self.tasks.get(&find(key)?)?;
                Some((key.clone(), record.clone()))
            })
            .collect()
    }

    /// A run, live or ended.
    pub fn run(&self, shard: ShardId, key: &RunKey) -> Option<RunRecord> {
        self.runs.run(shard, key)
    }

    /// Every task of a shard, oldest first.
    pub fn tasks(&self, shard: ShardId) -> impl DoubleEndedIterator<Item = &TaskRecord> {
        self.of_shard(shard)
    }

    /// Every run of a shard, oldest first.
    pub fn runs(&self, shard: ShardId) -> impl DoubleEndedIterator<Item = &RunRecord> {
        self.runs.records(shard)
    }

    /// Everything that belongs to a run.
    pub fn run_parts(&self, shard: ShardId, run: RunId) -> RunParts {
        if run.shard() != shard {
            return RunParts::default();
        }
        let own = self.of_shard(shard).filter(|record| run_of(record) == Some(run));
        self.runs.parts(run, own.cloned().collect())
    }

    /// The newest version of a document whose body has a row of its own, unless a number says which.
    pub fn document_version(
        &self,
        document: &DocumentName,
        version: Option<u64>,
    ) -> Option<DocumentVersion> {
        let newest = self.document_json(document)?;
        let bodies = self.bodies.get(document)?;
        let version = version.or_else(|| bodies.keys().next_back().copied())?;
        let (json, body) = bodies.get(&version)?.clone();
        Some(DocumentVersion { newest, json, body })
    }

    /// Every such version of a document, newest first, without bodies.
    pub fn document_versions(&self, document: &DocumentName) -> Vec<DocumentVersion> {
        let Some(newest) = self.document_json(document) else { return Vec::new() };
        let bodies = self.bodies.get(document).into_iter().flatten().rev();
        let version = |(_, (json, _)): (&u64, &(String, Bytes))| DocumentVersion {
            newest: newest.clone(),
            json: json.clone(),
            body: Bytes::new(),
        };
        bodies.map(version).collect()
    }

    fn document_json(&self, (shard, kind, key): &DocumentName) -> Option<String> {
        self.documents.get(shard)?.get(&(*kind, key.clone())).cloned()
    }

    /// The tenant whose webhook has this digest.
    pub fn tenant_of_hook(&self, digest: &str) -> Option<TenantId> {
        let hook = (DocumentKind::Hook, digest.to_owned());
        let has_it =
            |shard: &ShardId| self.documents.get(shard).is_some_and(|own| own.contains_key(&hook));
        let mut owners = self.shards.iter().filter(|(_, claim)| has_it(&claim.shard));
        owners.next().map(|(tenant, _)| tenant.clone())
    }

    /// How many tasks of each queue are dead, by queue.
    pub fn count_dead(&self, shard: ShardId) -> Vec<(QueueName, u64)> {
        let mut counts: BTreeMap<QueueName, u64> = BTreeMap::new();
        for record in self.of_shard(shard) {
            if record.progress.state.word() == StateWord::Dead {
                *counts.entry(record.spec.demand.queue.clone()).or_default() += 1;
            }
        }
        counts.into_iter().collect()
    }

    /// Every tenant that has a shard or a token, by name.
    pub fn tenants(&self) -> Vec<TenantId> {
        let with_token = self.tokens.values().map(|token| &token.tenant);
        let tenants: BTreeSet<_> = self.shards.keys().chain(with_token).collect();
        tenants.into_iter().cloned().collect()
    }

    /// Keeps a new token, or a token's new state.
    pub fn put_token(&mut self, token: TokenRow) {
        self.tokens.insert(token.token_id.clone(), token);
    }

    /// Every token, oldest first.
    pub fn tokens(&self) -> Vec<TokenRow> {
        let mut tokens: Vec<_> = self.tokens.values().cloned().collect();
        tokens.sort_by(|a, b| {
            (a.created_at, a.token_id.as_str()).cmp(&(b.created_at, b.token_id.as_str()))
        });
        tokens
    }

    /// Keeps a small document, or forgets it.
    pub fn put_note(&mut self, note: Note) {
        let name = (note.kind, note.tenant, note.key);
        match note.json {
            Some(json) => drop(self.notes.insert(name, json)),
            None => drop(self.notes.remove(&name)),
        }
    }

    /// Every document of a kind, by name.
    pub fn notes(&self, kind: NoteKind) -> Vec<Note> {
        let own = self.notes.iter().filter(|((other, _, _), _)| *other == kind);
        own.map(|((kind, tenant, key), json)| Note {
            kind: *kind,
            tenant: tenant.clone(),
            key: key.clone(),
            json: Some(json.clone()),
        })
        .collect()
    }

    fn of_shard(&self, shard: ShardId) -> impl DoubleEndedIterator<Item = &TaskRecord> {
        self.tasks.range(shard.first_task()..=shard.last_task()).map(|(_, record)| record)
    }
}

fn is_settled(record: &TaskRecord) -> bool {
    matches!(record.progress.state, TaskState::Settled(_))
}

/// The run that made a task. A person may name any run; only a link ties a task to one.
fn run_of(record: &TaskRecord) -> Option<RunId> {
    let run = record.link.as_ref()?.run;
    (record.run.as_ref().map(RunName::as_str) == Some(&*run.to_string())).then_some(run)
}

fn has_ended(record: &TaskRecord, attempt: &EndedAttempt) -> bool {
    record.ended_attempts.iter().any(|ended| ended.epoch == attempt.epoch)
}

/// Signs of life are not written, so the moment by which one is due is not kept either: after a
/// restart nobody could say whether it came.
fn durable_part(progress: &Progress) -> Progress {
    let mut progress = progress.clone();
    if let TaskState::Leased(lease) = &mut progress.state {
        lease.confirm_by = None;
        lease.is_doubtful = true;
    }
    progress
}
