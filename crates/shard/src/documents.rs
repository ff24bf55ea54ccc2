//! What a tenant keeps as documents: plans, actions, webhooks and saved workflows.
//!
//! [`Documents`] decides in memory what becomes of a new document, a new version or a removal. The
//! rows that it changed are written by the open turn, under its claim, and the answer leaves when
//! the turn is durable. Two requests for one name are therefore decided one after the other, and
//! a shard that lost its claim adds nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use crate::report_key::{digest_of, hex};
use crate::turn::{Document, DocumentBody, DocumentKind};

/// Limit: plans that one tenant may keep.
pub const PLANS_MAX: usize = 10_000;
/// Limit: one plan, as JSON.
pub const PLAN_BYTES_MAX: usize = 1024 * 1024;
/// Limit: actions of one tenant that are remembered; then the oldest one is forgotten. Its jobs
/// stay.
const ACTIONS_MAX: usize = 100_000;
/// Limit: webhooks that one tenant may keep.
pub const HOOKS_MAX: usize = 1_000;
/// Limit: workflows that one tenant may keep; deleted ones count, because their versions stay.
pub const WORKFLOWS_MAX: usize = 100_000;
/// Limit: a plan that is kept in memory; a longer one is read when it is used.
pub const BODY_IN_MEMORY_BYTES_MAX: usize = 64 * 1024;

/// What lists show of a plan. Its steps are the body.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PlanHead {
    /// For people.
    pub description: Option<String>,
    /// How many steps it has.
    pub task_count: u64,
}

/// The jobs that were made of a plan together. It has no body.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ActionHead {
    /// The plan that its jobs execute.
    pub plan_id: String,
    /// How many jobs it has.
    pub jobs: u64,
}

/// A workflow that a call from outside starts, by the digest of the secret in its path. It has no
/// body.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct HookHead {
    /// Its name for those who must not know the secret.
    pub hook_id: String,
    /// For people.
    pub name: Option<String>,
    /// What it starts.
    pub workflow_id: String,
}

/// What lists show of a workflow. Its definition is the body.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct WorkflowHead {
    /// For people.
    pub name: String,
    /// What changed, in the author's words.
    pub comment: Option<String>,
}

/// Everything that a tenant keeps as documents.
#[derive(Debug)]
pub struct TenantDocuments {
    /// By the plan's name. A plan never changes.
    pub plans: Documents<PlanHead>,
    /// By the action's name; the oldest are forgotten.
    pub actions: Documents<ActionHead>,
    /// By the digest of the secret.
    pub hooks: Documents<HookHead>,
    /// By the workflow's id. Every version stays, and is a row of its own.
    pub workflows: Documents<WorkflowHead>,
}

impl Default for TenantDocuments {
    fn default() -> Self {
        let usual = DocumentLimits {
            documents: HOOKS_MAX,
            evicts_oldest: false,
            body_bytes: usize::MAX,
            body_in_memory_bytes: BODY_IN_MEMORY_BYTES_MAX,
        };
        let plans = DocumentLimits { documents: PLANS_MAX, body_bytes: PLAN_BYTES_MAX, ..usual };
        let actions = DocumentLimits { documents: ACTIONS_MAX, evicts_oldest: true, ..usual };
        let workflows =
            DocumentLimits { documents: WORKFLOWS_MAX, body_in_memory_bytes: 0, ..usual };
        Self {
            plans: Documents::new(DocumentKind::Plan, plans),
            actions: Documents::new(DocumentKind::Action, actions),
            hooks: Documents::new(DocumentKind::Hook, usual),
            workflows: Documents::new(DocumentKind::Workflow, workflows),
        }
    }
}

impl TenantDocuments {
    /// A row comes back. One that cannot be read is left in the store as it is.
    pub(crate) fn restore(&mut self, kind: DocumentKind, key: String, json: &str) {
        match kind {
            DocumentKind::Session | DocumentKind::Member => {} // The table of workers has them.
            DocumentKind::Plan => self.plans.restore(key, json),
            DocumentKind::Action => self.actions.restore(key, json),
            DocumentKind::Hook => self.hooks.restore(key, json),
            DocumentKind::Workflow => self.workflows.restore(key, json),
        }
    }

    /// The rows that were changed since the last call, in order within each kind.
    pub(crate) fn take_rows(&mut self, rows: &mut Vec<Document>) {
        rows.append(&mut self.plans.rows);
        rows.append(&mut self.actions.rows);
        rows.append(&mut self.hooks.rows);
        rows.append(&mut self.workflows.rows);
    }
}

/// How much is kept of one kind.
#[derive(Clone, Copy, Debug)]
pub struct DocumentLimits {
    /// How many documents there may be.
    pub documents: usize,
    /// Whether the oldest makes room for one more; otherwise that one is refused.
    pub evicts_oldest: bool,
    /// The longest body.
    pub body_bytes: usize,
    /// The longest body that stays in memory.
    pub body_in_memory_bytes: usize,
}

/// A document, as its row has it.
#[skip_serializing_none]
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Entry<T> {
    /// From 1, rising by one with each change.
    pub version: u64,
    /// Recognises its content.
    pub hash: String,
    /// The bytes of its body.
    pub size: u64,
    /// Who made this version.
    pub by: String,
    /// When, in milliseconds since 1970.
    pub at_ms: u64,
    /// When it was hidden, if it is. Its versions stay.
    pub hidden_ms: Option<u64>,
    /// What is shown of it.
    pub head: T,
    /// Its body, unless that is a row of its own.
    #[serde(default, with = "body_text")]
    pub body: Option<Bytes>,
}

impl<T: DeserializeOwned> Entry<T> {
    /// Reads the text of a row.
    pub fn read(json: &str) -> Option<Self> {
        serde_json::from_str(json).ok()
    }
}

/// A document that someone wants to keep.
#[derive(Clone, Debug)]
pub struct NewDocument<T> {
    /// Recognises its content: the same again changes nothing.
    pub hash: String,
    /// Who wants it.
    pub by: String,
    /// When, in milliseconds since 1970.
    pub at_ms: u64,
    /// What is shown of it.
    pub head: T,
    /// JSON; empty where the head says everything.
    pub body: Bytes,
}

/// What became of a document that someone wanted to keep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Written {
    /// It is kept as this version.
    Saved(u64),
    /// It was kept already, as this version.
    Same(u64),
    /// Another version came first: this is the newest. 0 when there is none at all.
    Conflict(u64),
    /// There are too many.
    Full,
    /// Its body has so many bytes, and that is too many.
    TooLarge(usize),
}

/// The documents of one kind.
#[derive(Debug)]
pub struct Documents<T> {
    kind: DocumentKind,
    limits: DocumentLimits,
    entries: BTreeMap<String, Arc<Entry<T>>>,
    /// The names by age, oldest first.
    ages: BTreeSet<(u64, String)>,
    /// What the open turn has to write.
    rows: Vec<Document>,
}

impl<T: Serialize + DeserializeOwned> Documents<T> {
    /// None yet.
    pub fn new(kind: DocumentKind, limits: DocumentLimits) -> Self {
        let (entries, ages) = (BTreeMap::new(), BTreeSet::new());
        Self { kind, limits, entries, ages, rows: Vec::new() }
    }

    /// Keeps a document. `base` is the version that it builds on: 0 wants that there is none,
    /// `None` takes whatever is there.
    pub fn put(&mut self, key: &str, base: Option<u64>, new: NewDocument<T>) -> Written {
        let kept = self.entries.get(key);
        let written = outcome(kept.map(Arc::as_ref), base, &new.hash);
        let Written::Saved(version) = written else { return written };
        let is_full = kept.is_none() && self.entries.len() >= self.limits.documents;
        if is_full && !self.limits.evicts_oldest {
            return Written::Full;
        }
        if new.body.len() > self.limits.body_bytes {
            return Written::TooLarge(new.body.len());
        }
        let NewDocument { hash, by, at_ms, head, body } = new;
        let size = body.len() as u64;
        let body = (!body.is_empty()).then_some(body);
        let entry = Entry { version, hash, size, by, at_ms, hidden_ms: None, head, body };
        self.write(key.to_owned(), entry);
        if is_full && let Some((_, oldest)) = self.ages.first().cloned() {
            self.remove(&oldest);
        }
        Written::Saved(version)
    }

    /// Removes a document with all its versions; `false` if there is none.
    pub fn remove(&mut self, key: &str) -> bool {
        let Some(entry) = self.entries.remove(key) else { return false };
        self.ages.remove(&(entry.at_ms, key.to_owned()));
        self.rows.push(Document { kind: self.kind, key: key.to_owned(), json: None, body: None });
        true
    }

    /// Hides a document: it counts as missing, but its versions stay, and saving it again brings
    /// it back. `false` if there is none to hide.
    pub fn hide(&mut self, key: &str, at_ms: u64) -> bool
    where
        T: Clone,
    {
        let Some(entry) = self.get(key) else { return false };
        let entry = Entry { hidden_ms: Some(at_ms), ..Entry::clone(entry) };
        self.write(key.to_owned(), entry);
        true
    }

    /// A document that is not hidden.
    pub fn get(&self, key: &str) -> Option<&Arc<Entry<T>>> {
        self.entries.get(key).filter(|entry| entry.hidden_ms.is_none())
    }

    /// Those that are not hidden, by name, beginning behind this one.
    pub fn by_name(&self, after: &str) -> impl Iterator<Item = (&String, &Arc<Entry<T>>)> {
        let behind = (std::ops::Bound::Excluded(after), std::ops::Bound::Unbounded);
        let entries = self.entries.range::<str, _>(behind);
        entries.filter(|(_, entry)| entry.hidden_ms.is_none())
    }

    /// The same, newest first.
    pub fn newest_first(&self) -> impl Iterator<Item = (&String, &Arc<Entry<T>>)> {
        let entries = self.ages.iter().rev().map(|(_, key)| (key, &self.entries[key]));
        entries.filter(|(_, entry)| entry.hidden_ms.is_none())
    }

    /// How many there are, hidden ones included.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    fn restore(&mut self, key: String, json: &str) {
        let Some(mut entry) = Entry::<T>::read(json) else { return };
        let is_long = self.is_long(entry.body.as_ref());
        // Plans of older folders have no hash, and lie in their row however long they are.
        if let Some(body) = entry.body.as_ref().filter(|_| entry.hash.is_empty()) {
            (entry.hash, entry.size) = (body_hash(body), body.len() as u64);
        }
        if is_long {
            self.write(key, entry);
        } else {
            self.insert(key, entry);
        }
    }

    fn is_long(&self, body: Option<&Bytes>) -> bool {
        body.is_some_and(|body| body.len() > self.limits.body_in_memory_bytes)
    }

    fn write(&mut self, key: String, mut entry: Entry<T>) {
        let is_long = self.is_long(entry.body.as_ref());
        let bytes = entry.body.take_if(|_| is_long);
        let body = bytes.map(|bytes| DocumentBody { version: entry.version, bytes });
        let json = Some(serde_json::to_string(&entry).expect("texts, numbers and JSON are JSON"));
        self.rows.push(Document { kind: self.kind, key: key.clone(), json, body });
        self.insert(key, entry);
    }

    fn insert(&mut self, key: String, entry: Entry<T>) {
        self.ages.insert((entry.at_ms, key.clone()));
        let (at_ms, former) = (entry.at_ms, self.entries.insert(key.clone(), Arc::new(entry)));
        if let Some(former) = former.filter(|former| former.at_ms != at_ms) {
            self.ages.remove(&(former.at_ms, key));
        }
    }
}

/// What becomes of a document, before anything is written.
///
/// The hash comes first: who repeats a save whose answer was lost builds on an old version and
/// shall hear that it is kept. To whoever saves, a hidden document is one that is not there; its
/// numbers go on.
fn outcome<T>(kept: Option<&Entry<T>>, base: Option<u64>, hash: &str) -> Written {
    let Some(kept) = kept else {
        return match base {
            None | Some(0) => Written::Saved(1),
            Some(_) => Written::Conflict(0),
        };
    };
    let is_hidden = kept.hidden_ms.is_some();
    if !is_hidden && kept.hash == hash {
        return Written::Same(kept.version);
    }
    let fits = base.is_none_or(|base| base == kept.version || (is_hidden && base == 0));
    if fits { Written::Saved(kept.version + 1) } else { Written::Conflict(kept.version) }
}

/// Recognises a body, in hexadecimal.
pub fn body_hash(body: &[u8]) -> String {
    hex(&digest_of(b"astra.document.v1", &[body]))
}

/// A body inside the JSON of its row.
mod body_text {
    use bytes::Bytes;
    use serde::{Deserialize, Deserializer, Serialize, Serializer, ser};
    use serde_json::value::RawValue;

    #[expect(clippy::ref_option, reason = "the form in which the derived code calls it")]
    pub(super) fn serialize<S: Serializer>(
        body: &Option<Bytes>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        let text = body.as_ref().map(|body| serde_json::from_slice::<&RawValue>(body));
        text.transpose().map_err(ser::Error::custom)?.serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Bytes>, D::Error> {
        let text = Option::<Box<RawValue>>::deserialize(deserializer)?;
        Ok(text.map(|text| Bytes::from(String::from(Box::<str>::from(text)))))
    }
}

#[cfg(test)]
mod tests;
