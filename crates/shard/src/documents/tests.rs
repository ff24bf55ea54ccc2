use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use coordinator::Moment;
use model::{ShardId, Timestamp};

use super::*;
use crate::{ClaimedShard, Effect, Limits, Restored, Shard, Tell, Turn};

const KEYS: [&str; 4] = ["a", "b", "c", "d"];
/// A body that is a row of its own.
const LONG: usize = BODY_IN_MEMORY_BYTES_MAX + 1;

#[test]
fn a_name_is_given_once_and_the_same_content_changes_nothing() {
    let mut documents = TenantDocuments::default();
    let plans = &mut documents.plans;
    assert_eq!(plans.put("p", Some(0), plan(1, "x")), Written::Saved(1));
    assert_eq!(plans.put("p", Some(0), plan(2, "x")), Written::Same(1));
    assert_eq!(plans.put("p", Some(0), plan(3, "y")), Written::Conflict(1));
    assert_eq!(plans.get("p").map(|entry| entry.at_ms), Some(1));
    assert!(plans.remove("p") && !plans.remove("p"));
    assert_eq!(plans.put("p", Some(0), plan(4, "y")), Written::Saved(1), "the name is free again");
}

#[test]
fn a_version_builds_on_the_newest_one() {
    let mut documents = TenantDocuments::default();
    let workflows = &mut documents.workflows;
    for (base, word, expected) in [
        (Some(1), "x", Written::Conflict(0)),
        (Some(0), "x", Written::Saved(1)),
        (Some(0), "y", Written::Conflict(1)),
        (Some(1), "y", Written::Saved(2)),
        (Some(1), "z", Written::Conflict(2)),
        (Some(3), "z", Written::Conflict(2)),
        (None, "z", Written::Saved(3)),
        (Some(3), "z", Written::Same(3)),
        // A save whose answer was lost is repeated.
        (Some(2), "z", Written::Same(3)),
        (None, "x", Written::Saved(4)),
    ] {
        assert_eq!(workflows.put("w", base, workflow(word)), expected, "{base:?} {word}");
    }
    assert!(workflows.hide("w", 9) && !workflows.hide("w", 9), "hidden once");
    assert!(workflows.get("w").is_none() && workflows.by_name("").next().is_none());
    assert_eq!(workflows.put("w", Some(1), workflow("x")), Written::Conflict(4));
    assert_eq!(workflows.put("w", Some(0), workflow("x")), Written::Saved(5), "it comes back");
}

#[test]
fn beyond_the_limit_a_document_is_refused_or_the_oldest_goes() {
    let limits = DocumentLimits {
        documents: 2,
        evicts_oldest: false,
        body_bytes: 10,
        body_in_memory_bytes: 5,
    };
    let mut refusing = Documents::new(DocumentKind::Plan, limits);
    assert_eq!(refusing.put("long", None, plan(1, "12345678901")), Written::TooLarge(13));
    assert_eq!(refusing.put("b", None, plan(1, "x")), Written::Saved(1));
    assert_eq!(refusing.put("a", None, plan(2, "x")), Written::Saved(1));
    assert_eq!(refusing.put("c", None, plan(3, "x")), Written::Full);
    assert_eq!(refusing.put("a", None, plan(3, "y")), Written::Saved(2), "it has its room");
    let limits = DocumentLimits { evicts_oldest: true, ..limits };
    let mut evicting = Documents::new(DocumentKind::Action, limits);
    for (at, key) in [(5, "b"), (6, "a"), (7, "c")] {
        assert_eq!(evicting.put(key, Some(0), plan(at, "x")), Written::Saved(1));
    }
    let newest: Vec<&str> = evicting.newest_first().map(|(key, _)| key.as_str()).collect();
    assert_eq!(newest, ["c", "a"]);
    let behind: Vec<&str> = evicting.by_name("a").map(|(key, _)| key.as_str()).collect();
    assert_eq!(behind, ["c"]);
    let removed = evicting.rows.iter().filter(|row| row.json.is_none());
    assert_eq!(removed.map(|row| row.key.as_str()).collect::<Vec<_>>(), ["b"]);
}

#[test]
fn a_long_body_is_a_row_of_its_own_and_leaves_memory() {
    let mut documents = TenantDocuments::default();
    documents.plans.put("short", Some(0), plan(1, "x"));
    documents.plans.put("long", Some(0), plan(1, &"x".repeat(LONG)));
    documents.workflows.put("w", None, workflow("x"));
    let in_memory = |entry: Option<&Arc<Entry<PlanHead>>>| entry.map(|one| one.body.is_some());
    assert_eq!(in_memory(documents.plans.get("short")), Some(true));
    assert_eq!(in_memory(documents.plans.get("long")), Some(false));
    let mut rows = Vec::new();
    documents.take_rows(&mut rows);
    let size = |row: &Document| row.body.as_ref().map(|body| body.bytes.len());
    let sizes: Vec<_> = rows.iter().map(size).collect();
    assert_eq!(sizes, [None, Some(LONG + 2), Some(3)]);
}

#[test]
fn a_plan_of_an_older_folder_gets_its_hash_and_its_own_row() {
    let body = format!("\"{}\"", "x".repeat(LONG));
    let row = |body: &str| {
        let head = r#""head":{"description":null,"task_count":1}"#;
        format!(r#"{{"version":1,"hash":"","size":0,"by":"","at_ms":7,{head},"body":{body}}}"#)
    };
    let mut documents = TenantDocuments::default();
    documents.restore(DocumentKind::Plan, "short".to_owned(), &row("\"x\""));
    documents.restore(DocumentKind::Plan, "long".to_owned(), &row(&body));
    documents.restore(DocumentKind::Plan, "broken".to_owned(), "{}");
    assert_eq!(documents.plans.len(), 2, "what cannot be read is left alone");
    for (key, word) in [("short", "x".to_owned()), ("long", "x".repeat(LONG))] {
        assert_eq!(documents.plans.put(key, Some(0), plan(9, &word)), Written::Same(1));
    }
    let mut rows = Vec::new();
    documents.take_rows(&mut rows);
    let [row] = &rows[..] else { panic!("only the long one is written: {}", rows.len()) };
    assert_eq!(row.body.as_ref().map(|own| &own.bytes[..]), Some(body.as_bytes()));
}

#[test]
fn an_answer_leaves_when_its_turn_is_durable_and_never_from_a_lost_one() {
    let mut world = World::default();
    world.ask(|documents| documents.plans.put("p", Some(0), plan(1, "x")));
    world.ask(|documents| documents.plans.put("p", Some(0), plan(1, "y")));
    let turn = world.shard.poll_commit().expect("a turn");
    assert_eq!(world.heard(), [], "nothing is durable yet");
    world.rows.keep(&turn);
    world.shard.on_committed(turn.number);
    assert_eq!(world.heard(), [Written::Saved(1), Written::Conflict(1)], "one of two wins");

    // A server that lost the shard decides, but nobody hears of it, and the next owner knows
    // nothing of it.
    world.ask(|documents| documents.plans.put("q", Some(0), plan(2, "x")));
    let _fenced = world.shard.poll_commit();
    world.restart();
    assert_eq!(world.heard(), []);
    world.ask(|documents| documents.plans.put("q", Some(0), plan(3, "y")));
    world.commit();
    assert_eq!(world.heard(), [Written::Saved(1)]);
    assert_eq!(world.shard.documents().plans.get("q").map(|entry| entry.at_ms), Some(3));

    // A refusal has no facts, and waits for its turn all the same.
    world.ask(|documents| documents.plans.put("q", Some(0), plan(4, "z")));
    let turn = world.shard.poll_commit().expect("a turn without facts");
    assert!(turn.is_empty() && world.heard().is_empty());
}

/// Random requests against a model that is a map; each turn becomes durable, or is lost with the
/// whole shard, which is restored from the rows.
#[test]
fn any_history_with_any_crash_is_that_of_a_simple_map() {
    for seed in 0..200 {
        play(seed);
    }
}

fn play(seed: u64) {
    let mut dice = Dice(seed);
    let mut world = World::default();
    let mut durable = Model::default();
    for turn in 0..30 {
        let (mut model, mut expected) = (durable.clone(), Vec::new());
        for step in 0..dice.roll(4) {
            let at_ms = turn * 10 + step;
            let key = KEYS[usize::try_from(dice.roll(4)).expect("small")];
            let said = if dice.roll(8) == 0 { "y".repeat(LONG) } else { "x".to_owned() };
            let base = [None, Some(0), Some(1), Some(2)][usize::try_from(dice.roll(4)).expect("4")];
            let change = Change { key, base, at_ms, word: said };
            let sort = dice.roll(8);
            expected.push(model.play(sort, &change));
            world.ask(move |documents| change.play(sort, documents));
        }
        if dice.roll(3) == 0 {
            let _lost = world.shard.poll_commit();
            world.restart();
            assert_eq!(world.heard(), [], "seed {seed}: a lost turn says nothing");
        } else {
            world.commit();
            assert_eq!(world.heard(), expected, "seed {seed}, turn {turn}");
            durable = model;
        }
        assert_eq!(Model::of(&world), durable, "seed {seed}, turn {turn}");
    }
}

/// One request.
#[derive(Clone)]
struct Change {
    key: &'static str,
    base: Option<u64>,
    at_ms: u64,
    word: String,
}

impl Change {
    fn play(&self, sort: u64, documents: &mut TenantDocuments) -> Written {
        let said = |is_done: bool| if is_done { Written::Saved(0) } else { Written::Conflict(0) };
        let TenantDocuments { plans, workflows, .. } = documents;
        match sort {
            0 => said(plans.remove(self.key)),
            1 => said(workflows.hide(self.key, self.at_ms)),
            2..=4 => plans.put(self.key, Some(0), plan(self.at_ms, &self.word)),
            _ => workflows.put(self.key, self.base, workflow(&self.word)),
        }
    }
}

/// What is true of documents, in the simplest words.
#[derive(Clone, Debug, Default, PartialEq)]
struct Model {
    /// The word of each plan.
    plans: BTreeMap<String, String>,
    /// The word of each version, and whether the workflow is hidden.
    workflows: BTreeMap<String, (Vec<String>, bool)>,
}

impl Model {
    fn play(&mut self, sort: u64, change: &Change) -> Written {
        let said = |is_done: bool| if is_done { Written::Saved(0) } else { Written::Conflict(0) };
        let Change { key, base, word, .. } = change;
        match sort {
            0 => said(self.plans.remove(*key).is_some()),
            1 => said(
                self.workflows
                    .get_mut(*key)
                    .is_some_and(|(_, is_hidden)| !std::mem::replace(is_hidden, true)),
            ),
            2..=4 => match self.plans.get(*key) {
                Some(kept) if kept == word => Written::Same(1),
                Some(_) => Written::Conflict(1),
                None => {
                    self.plans.insert((*key).to_owned(), word.clone());
                    Written::Saved(1)
                }
            },
            _ => self.save(key, *base, word),
        }
    }

    fn save(&mut self, key: &str, base: Option<u64>, word: &str) -> Written {
        let (versions, is_hidden) = self.workflows.get(key).cloned().unwrap_or_default();
        let newest = versions.len() as u64;
        if !is_hidden && versions.last().is_some_and(|last| last == word) {
            return Written::Same(newest);
        }
        let missing = is_hidden || versions.is_empty();
        if base.is_some_and(|base| base != newest && !(missing && base == 0)) {
            return Written::Conflict(newest);
        }
        let kept = self.workflows.entry(key.to_owned()).or_default();
        kept.0.push(word.to_owned());
        kept.1 = false;
        Written::Saved(newest + 1)
    }

    /// The same, as rows and memory tell it.
    fn of(world: &World) -> Self {
        let documents = world.shard.documents();
        let text = |bytes: &[u8]| serde_json::from_slice::<String>(bytes).expect("a text");
        let body =
            |kind, key: &String, version| text(&world.rows.bodies[&(kind, key.clone(), version)]);
        let plan = |(key, entry): (&String, &Arc<Entry<PlanHead>>)| {
            let own = entry.body.as_ref().map(|body| text(body));
            (key.clone(), own.unwrap_or_else(|| body(DocumentKind::Plan, key, 1)))
        };
        let workflow = |(key, entry): (&String, &Arc<Entry<WorkflowHead>>)| {
            let version = |version| body(DocumentKind::Workflow, key, version);
            let versions = (1..=entry.version).map(version).collect();
            (key.clone(), (versions, entry.hidden_ms.is_some()))
        };
        Self {
            plans: documents.plans.by_name("").map(plan).collect(),
            workflows: documents.workflows.entries.iter().map(workflow).collect(),
        }
    }
}

/// What a store would hold.
#[derive(Default)]
struct Rows {
    documents: BTreeMap<(DocumentKind, String), String>,
    bodies: BTreeMap<(DocumentKind, String, u64), Bytes>,
}

impl Rows {
    fn keep(&mut self, turn: &Turn) {
        for Document { kind, key, json, body } in turn.documents.iter().cloned() {
            let Some(json) = json else {
                self.documents.remove(&(kind, key.clone()));
                self.bodies.retain(|(other, name, _), _| (*other, name) != (kind, &key));
                continue;
            };
            if let Some(body) = body {
                let former = self.bodies.insert((kind, key.clone(), body.version), body.bytes);
                assert!(former.is_none(), "a version is written once");
            }
            self.documents.insert((kind, key), json);
        }
    }

    fn restored(&self) -> Restored {
        let document = |((kind, key), json): (&(DocumentKind, String), &String)| Document {
            kind: *kind,
            key: key.clone(),
            json: Some(json.clone()),
            body: None,
        };
        let documents = self.documents.iter().map(document).collect();
        Restored { documents, ..Restored::default() }
    }
}

/// A shard, its rows, and who asked it.
struct World {
    shard: Shard,
    rows: Rows,
    heard: Arc<Mutex<Vec<Written>>>,
}

impl Default for World {
    fn default() -> Self {
        let rows = Rows::default();
        Self { shard: shard(rows.restored()), rows, heard: Arc::default() }
    }
}

impl World {
    fn ask(&mut self, change: impl FnOnce(&mut TenantDocuments) -> Written) {
        let heard = Arc::clone(&self.heard);
        self.shard.on_documents(|documents| {
            let written = change(documents);
            Tell::new(move || heard.lock().expect("whole").push(written))
        });
    }

    fn commit(&mut self) {
        if let Some(turn) = self.shard.poll_commit() {
            self.rows.keep(&turn);
            self.shard.on_committed(turn.number);
        }
    }

    /// The value is dropped with everything that was not durable.
    fn restart(&mut self) {
        self.shard = shard(self.rows.restored());
    }

    fn heard(&mut self) -> Vec<Written> {
        while let Some(effect) = self.shard.poll_effect() {
            if let Effect::Tell(tell) = effect {
                tell.tell();
            }
        }
        std::mem::take(&mut *self.heard.lock().expect("whole"))
    }
}

fn shard(restored: Restored) -> Shard {
    let claim = ClaimedShard { shard: ShardId::new(1).expect("fits"), epoch: 1 };
    let now = Timestamp::from_millis(1);
    let at = Moment { now, wall: now, entropy: 1 };
    Shard::restore(claim, restored, Limits::default(), (at, ()))
}

fn plan(at_ms: u64, word: &str) -> NewDocument<PlanHead> {
    let body = Bytes::from(format!("\"{word}\""));
    let head = PlanHead { description: None, task_count: 1 };
    NewDocument { hash: body_hash(&body), by: String::new(), at_ms, head, body }
}

fn workflow(word: &str) -> NewDocument<WorkflowHead> {
    let body = Bytes::from(format!("\"{word}\""));
    let head = WorkflowHead { name: word.chars().take(9).collect(), comment: None };
    NewDocument { hash: body_hash(&body), by: "ada".to_owned(), at_ms: 1, head, body }
}

/// Numbers from a seed.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }
}
