//! Workers without a session, through the turns of their shard: what is answered is durable.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use coordinator::{
    Answer, Command, Effect as Decided, Moment, Question, Refusal, Renewal, SilenceLimits, Ticket,
};
use model::{Offer, ShardId, Timestamp, WorkerId};
use serde_json::value::RawValue;
use shard::sessions::{DEAD_AFTER, MEMBER_KEPT_FOR, MemberMessage, Registration};
use shard::{ClaimedShard, Document, DocumentKind, Effect, Limits, Restored, Shard, Turn};

const NOW: Timestamp = Timestamp::from_millis(1_790_000_000_000);
const REFUSED: Answer = Answer::Refused(Refusal::WorkerNameTaken);

#[test]
fn a_registration_is_answered_when_its_row_is_durable() {
    let mut tenant = Tenant::default();
    tenant.register(NOW, "w", "ada");
    let turn = tenant.shard.poll_commit().expect("a turn");
    assert_eq!(turn.documents.len(), 1, "{:?}", turn.documents);
    assert!(tenant.answers().is_empty(), "the store has not kept it yet");
    tenant.keep(turn);
    assert_eq!(tenant.answers(), [Answer::Registered]);
    assert_eq!(tenant.told, [("w".to_owned(), Some("ada".to_owned()))]);
    tenant.register(NOW, "w", "bob");
    tenant.turn();
    assert_eq!(tenant.answers(), [REFUSED]);
    assert_eq!(tenant.registered(), [("w", "ada")]);
}

#[test]
fn a_shard_that_lost_its_claim_registers_nobody() {
    let mut tenant = Tenant::default();
    tenant.register(NOW, "w", "ada");
    tenant.leave(NOW, "w", "ada");
    tenant.register(NOW, "w", "bob");
    let turn = tenant.shard.poll_commit().expect("a turn");
    // Another server has the shard: the store keeps nothing of the turn, and the value is dropped.
    drop(turn);
    assert!(tenant.answers().is_empty());
    tenant.restart(NOW);
    assert!(tenant.registered().is_empty() && tenant.told.is_empty());
    assert_eq!(tenant.shard.sessions().registrations().count(), 0);
}

#[test]
fn a_sign_of_life_keeps_the_name_and_silence_gives_it_away() {
    let mut tenant = Tenant::default();
    tenant.register(NOW, "w", "ada");
    let later = NOW.after(DEAD_AFTER / 2);
    let (worker, leases) = (name("w"), Renewal::Unlisted { n_active: 0 });
    let ticket = tenant.next_ticket();
    tenant
        .shard
        .on_message(moment(later), Command::Ask(ticket, Question::Heartbeat { worker, leases }));
    tenant.register(NOW.after(DEAD_AFTER), "w", "bob");
    tenant.turn();
    assert_eq!(tenant.answers().last(), Some(&REFUSED));
    tenant.register(later.after(DEAD_AFTER), "w", "bob");
    tenant.turn();
    assert_eq!(tenant.answers(), [Answer::Registered]);
    assert_eq!(tenant.registered(), [("w", "bob")]);
}

#[test]
fn a_worker_that_is_forgotten_by_age_takes_its_row_along() {
    let mut tenant = Tenant::default();
    tenant.register(NOW, "old", "ada");
    tenant.turn();
    tenant.register(NOW.after(MEMBER_KEPT_FOR), "new", "ada");
    tenant.turn();
    assert_eq!(tenant.registered(), [("new", "ada")]);
    let forgotten = ("old".to_owned(), None);
    assert!(tenant.told.contains(&forgotten), "{:?}", tenant.told);
    assert_eq!(tenant.shard.sessions().member_counts().evicted, 1);
}

/// The same day, with a crash after each number of durable turns: what was answered is there, and
/// the shard goes on from there to the same end.
#[test]
fn after_a_crash_at_any_turn_everything_that_was_answered_is_known() {
    let day: [(u64, &str, &str, bool); 7] = [
        (0, "w1", "ada", true),
        (1, "w2", "bob", true),
        (2, "w1", "bob", true), // Refused: ada's worker lives.
        (3, "w2", "bob", false),
        (4, "w2", "ada", true),
        (200, "w1", "bob", true), // The worker of ada is dead by now.
        (201, "w3", "cyd", true),
    ];
    let play = |tenant: &mut Tenant,
                (second, worker, credential, comes): (u64, &str, &str, bool)| {
        let at = NOW.after(Duration::from_secs(second));
        if comes {
            tenant.register(at, worker, credential);
        } else {
            tenant.leave(at, worker, credential);
        }
    };
    for n_durable in 0..=day.len() {
        let mut tenant = Tenant::default();
        let mut expected: BTreeMap<&str, &str> = BTreeMap::new();
        for (idx, deed) in day.into_iter().enumerate() {
            play(&mut tenant, deed);
            let turn = tenant.shard.poll_commit().expect("every deed is answered");
            if idx >= n_durable {
                continue; // It never reaches the store, as all that follow.
            }
            tenant.keep(turn);
            match tenant.answers()[..] {
                [Answer::Registered] => drop(expected.insert(deed.1, deed.2)),
                [Answer::Unregistered { .. }] => drop(expected.remove(deed.1)),
                ref answers => assert_eq!((idx, answers), (2, &[REFUSED][..])),
            }
        }
        assert!(tenant.answers().is_empty(), "nothing is answered that is not durable");
        tenant.restart(NOW.after(Duration::from_mins(5)));
        let expected: Vec<(&str, &str)> = expected.into_iter().collect();
        assert_eq!(tenant.registered(), expected, "{n_durable} turns");
        let known = tenant.shard.sessions().registrations();
        let known: Vec<(&str, &str)> =
            known.map(|(worker, own)| (worker.as_str(), own.credential.as_str())).collect();
        assert_eq!(known, expected, "{n_durable} turns");
        // Everyone is taken for dead until they are heard of.
        tenant.register(NOW.after(Duration::from_secs(301)), "w1", "eve");
        tenant.turn();
        assert_eq!(tenant.answers(), [Answer::Registered], "{n_durable} turns");
    }
}

#[test]
fn a_row_that_cannot_be_read_goes_and_the_others_stay() {
    let mut tenant = Tenant::default();
    tenant.register(NOW, "w", "ada");
    tenant.turn();
    for (key, json) in [("x", "{}"), ("not a name", r#"{"credential":"a","metadata":{}}"#)] {
        tenant.rows.insert((DocumentKind::Member, key.to_owned()), json.to_owned());
    }
    tenant.restart(NOW);
    tenant.turn();
    assert_eq!(tenant.registered(), [("w", "ada")]);
    assert_eq!(tenant.rows.len(), 1);
}

/// A shard and the rows that its store has kept.
struct Tenant {
    shard: Shard,
    rows: BTreeMap<(DocumentKind, String), String>,
    last_ticket: u64,
    /// Who registered or was forgotten, as the door is told.
    told: Vec<(String, Option<String>)>,
}

impl Default for Tenant {
    fn default() -> Self {
        let shard = restored(NOW, Vec::new());
        Self { shard, rows: BTreeMap::new(), last_ticket: 0, told: Vec::new() }
    }
}

impl Tenant {
    fn next_ticket(&mut self) -> Ticket {
        self.last_ticket += 1;
        Ticket(self.last_ticket)
    }

    fn register(&mut self, now: Timestamp, worker: &str, credential: &str) {
        let (ticket, worker) = (self.next_ticket(), name(worker));
        let metadata = RawValue::from_string("{}".to_owned()).expect("JSON");
        let credential = credential.to_owned();
        let own = Registration { credential, metadata, registered_ms: now.as_millis() };
        let offer = Arc::new(Offer::default());
        let named = worker.clone();
        let command = Command::Ask(
            ticket,
            Question::Register {
                worker: named,
                offer,
                silence_limits: SilenceLimits::SLOW,
                anew: true,
            },
        );
        let message = (&worker, MemberMessage::Register(Arc::new(own)));
        self.shard.on_member(moment(now), message, Some(command));
        self.shard.sessions().check_invariants();
    }

    fn leave(&mut self, now: Timestamp, worker: &str, credential: &str) {
        let (ticket, worker) = (self.next_ticket(), name(worker));
        let command = Command::Ask(ticket, Question::Unregister { worker: worker.clone() });
        let message = (&worker, MemberMessage::Leave { credential: credential.to_owned() });
        self.shard.on_member(moment(now), message, Some(command));
    }

    /// The store keeps a turn.
    fn keep(&mut self, turn: Turn) {
        for Document { kind, key, json, .. } in turn.documents {
            match json {
                Some(json) => drop(self.rows.insert((kind, key), json)),
                None => drop(self.rows.remove(&(kind, key))),
            }
        }
        self.shard.on_committed(turn.number);
    }

    fn turn(&mut self) {
        let turn = self.shard.poll_commit().expect("something happened");
        self.keep(turn);
    }

    /// What leaves the shard.
    fn answers(&mut self) -> Vec<Answer> {
        let mut answers = Vec::new();
        while let Some(effect) = self.shard.poll_effect() {
            match effect {
                Effect::Decided(Decided::Answer { answer, .. }) => answers.push(answer),
                Effect::Publish(publication) => {
                    let told = publication.members.into_iter().map(|(worker, own)| {
                        (worker.to_string(), own.map(|own| own.credential.clone()))
                    });
                    self.told.extend(told);
                }
                _ => {} // Nothing else is asked for here.
            }
        }
        answers
    }

    /// Drops the shard, and restores it from what is durable.
    fn restart(&mut self, now: Timestamp) {
        let rows = self.rows.iter().map(|((kind, key), json)| Document {
            kind: *kind,
            key: key.clone(),
            json: Some(json.clone()),
            body: None,
        });
        self.shard = restored(now, rows.collect());
    }

    /// Who the store says registered, with which credential.
    fn registered(&mut self) -> Vec<(&str, &str)> {
        self.answers();
        let rows = self.rows.iter();
        let registered = rows.map(|((_, worker), json)| {
            let mut words = json.split('"').skip_while(|word| *word != "credential");
            (worker.as_str(), words.nth(2).expect("a credential"))
        });
        registered.collect()
    }
}

fn restored(now: Timestamp, documents: Vec<Document>) -> Shard {
    let claim = ClaimedShard { shard: ShardId::new(1).expect("fits"), epoch: 1 };
    let restored = Restored { documents, next_run: 1, ..Restored::default() };
    Shard::restore(claim, restored, Limits::default(), (moment(now), ()))
}

fn moment(now: Timestamp) -> Moment {
    Moment { now, wall: now, entropy: 0 }
}

fn name(worker: &str) -> WorkerId {
    worker.parse().expect("a name")
}
