//! Peers that use other names, count otherwise, or do not count at all.

use model::Timestamp;
use protocol::error_code::ErrorCode;
use protocol::session::control::VOID;
use protocol::session::envelope::Envelope;
use protocol::session::event::ServerEvent;
use protocol::session::frame::BusinessFrame;
use protocol::session::incoming::UNNUMBERED_MAX;
use protocol::session::kind::{Kind, Payload, Vocabulary};
use protocol::session::payload::control::Drain;
use protocol::session::server_machine::ServerMachine;
use protocol::session::server_session::Session;
use protocol::session::state::State;
use serde_json::{Value, json};

use crate::support::{given, grant, raw, server_machine};

/// A server and a worker that is only text.
struct Script {
    now: Timestamp,
    server: ServerMachine,
}

impl Script {
    fn new() -> Self {
        Self { now: Timestamp::from_millis(1_000_000), server: server_machine(4) }
    }

    /// The worker of the seed says its first words.
    fn open(handshake: &str, register: &str) -> Self {
        let mut script = Self::new();
        script.say(json!({"type": handshake, "id": "h", "ack": {"request": true}}));
        script.server.accept_handshake(script.now);
        // Seed 001 section 8 asks for no ack here.
        script.say(json!({"type": register, "id": "r"}));
        script.server.accept(script.now, grant("s"));
        given(&mut script.server);
        assert_eq!(script.server.state(), State::Ready);
        script
    }

    fn say(&mut self, frame: Value) {
        let mut envelope = json!({
            "ts": "2026-01-31T12:00:00Z", "tenant": "t", "payload": {},
            "sender": {"role": "worker", "id": "w"},
        });
        let Value::Object(more) = frame else { panic!("{frame}") };
        envelope.as_object_mut().expect("an object").extend(more);
        let frame = Envelope::from_text(&envelope.to_string()).expect("a frame");
        self.server.receive(self.now, frame);
        self.server.check_invariants();
    }

    fn heard(&mut self) -> Vec<Value> {
        let frames = std::iter::from_fn(|| self.server.poll_frame());
        let text = |frame: std::sync::Arc<Envelope>| frame.to_text().expect("small");
        frames.map(|frame| serde_json::from_str(&text(frame)).expect("JSON")).collect()
    }

    fn send(&mut self, id: &str, kind: Kind, wants_ack: bool) {
        let frame = BusinessFrame {
            kind: kind.name().into(),
            id: id.to_owned(),
            corr: Some("task".to_owned()),
            seq: Some(9),
            wants_ack,
            payload: raw("{}"),
        };
        self.server.send(self.now, frame).expect("room");
    }

    /// The ids that are delivered; all are committed.
    fn delivered(&mut self) -> Vec<String> {
        let given = given(&mut self.server);
        for token in given.tokens {
            self.server.commit(self.now, token, Some("COMMITTED".to_owned()));
        }
        given.ids
    }
}

fn names(frames: &[Value]) -> Vec<&str> {
    frames.iter().map(|frame| frame["type"].as_str().expect("a name")).collect()
}

#[test]
fn a_worker_of_seed_001_is_served_in_its_words() {
    let mut script = Script::open("handshake", "register");
    assert_eq!(script.server.vocabulary(), Vocabulary::Plain);
    let heard = script.heard();
    assert_eq!(names(&heard), ["ack", "ack", "session.accept"]);
    assert_eq!(heard[0]["payload"], json!({"ok": true, "for": "h"}));
    assert_eq!(heard[1]["ack"], json!({"for": "r"}));

    script.send("lease", Kind::ExecDispatch, true);
    let heard = script.heard();
    assert_eq!(names(&heard), ["cmd.dispatch"]);
    assert_eq!(heard[0].get("session_seq"), None);
    assert_eq!((&heard[0]["seq"], &heard[0]["corr"]), (&json!(9), &json!("task")));
    script.say(json!({"type": "ack", "id": "a", "payload": {"ok": true, "for": "lease"}}));
    assert_eq!(given(&mut script.server).acked, ["lease"]);

    script.say(json!({"type": "result", "id": "x", "corr": "task", "seq": 1,
        "ack": {"request": true}}));
    assert_eq!(script.delivered(), ["x"]);
    let heard = script.heard();
    assert_eq!(names(&heard), ["ack"]);
    assert_eq!(heard[0]["payload"], json!({"ok": true, "for": "x", "info": "COMMITTED"}));
    script.server.drain(script.now, &Drain::default());
    assert_eq!(names(&script.heard()), ["cmd.drain"]);
}

/// R 000-4-a: a peer may count from 0, and a server that has lost the place cannot know.
#[test]
fn after_a_restart_the_first_frame_is_new_to_workers_that_count_from_0_and_from_1() {
    let mut script = Script::new();
    let asked = json!({"session_id": "s", "session_token": "t", "last_seen_seq": 4});
    script.say(json!({"type": "control.resume", "id": "r", "payload": asked}));
    script.server.resume(script.now, Session::restored("s", 4), grant("s"));
    script.send("lease", Kind::ExecDispatch, true);
    let heard = script.heard();
    let numbered: Vec<_> =
        heard.iter().filter(|frame| frame.get("session_seq").is_some()).collect();
    let [empty, dispatch] = numbered[..] else { panic!("{numbered:?}") };
    // Who counts from 0 has number 4 already, and drops it; who counts from 1 needs 5 before 6.
    assert_eq!((&empty["type"], &empty["seq"]), (&json!(VOID), &json!(4)));
    assert_eq!(empty["session_seq"], 5);
    assert_eq!((&dispatch["id"], &dispatch["seq"]), (&json!("lease"), &json!(5)));
    assert_eq!(dispatch["session_seq"], 6);
    for id in [&empty["id"], &dispatch["id"]] {
        let ack = json!({"ok": true, "for": id, "ack_seq": 5, "recv_window": 4});
        script.say(json!({"type": "control.ack", "id": "a", "payload": ack}));
    }
    assert_eq!(given(&mut script.server).acked.last().map(String::as_str), Some("lease"));
}

#[test]
fn nothing_waits_for_a_worker_that_does_not_count() {
    let mut script = Script::open("handshake", "register");
    script.heard();
    for n in 0..10 {
        script.send(&format!("c{n}"), Kind::ExecCancel, false);
    }
    assert_eq!(names(&script.heard()), ["cmd.cancel"; 10], "more than the window has");
    assert_eq!(script.server.next_deadline(), None, "nothing is repeated");

    script.send("a", Kind::ExecDispatch, true);
    script.send("b", Kind::ExecDispatch, true);
    script.heard();
    script.say(json!({"type": "ack", "id": "x", "ack": {"for": "b"}}));
    assert_eq!(given(&mut script.server).acked, ["b"], "not held up by a");
    assert!(script.server.void(script.now, "a"));
    assert_eq!(script.server.next_deadline(), None, "what was taken back is not repeated");
    let unconfirmed = script.server.take_session().expect("a session").into_unconfirmed();
    assert!(unconfirmed.is_empty(), "{unconfirmed:?}");
}

#[test]
fn a_worker_of_seed_001_is_turned_away_by_an_error() {
    let mut script = Script::new();
    script.say(json!({"type": "handshake", "id": "h", "ack": {"request": true}}));
    script.server.refuse(script.now, ErrorCode::AuthMissingToken, "give the worker a token", None);
    let heard = script.heard();
    assert_eq!(names(&heard), ["error"]);
    let error = json!({"code": "E.AUTH.MISSING_TOKEN", "message": "give the worker a token"});
    assert_eq!(heard[0]["payload"], error);
}

#[test]
fn a_prefixed_worker_is_turned_away_with_the_reason_and_the_time() {
    let mut script = Script::new();
    script.say(json!({"type": "control.handshake", "id": "h"}));
    script.server.refuse(script.now, ErrorCode::SessionDenied, "the server is full", Some(5000));
    let heard = script.heard();
    assert_eq!(names(&heard), ["control.reset"]);
    let code = "E.SESSION.DENIED";
    let reset = json!({"code": code, "reason": "the server is full", "retry_after_ms": 5000});
    assert_eq!(heard[0]["payload"], reset);
}

#[test]
fn the_layer_above_sees_one_name_for_each_kind() {
    for (said, kind) in [
        ("result", Kind::ExecResult),
        ("task.result", Kind::ExecResult),
        ("biz.exec.result", Kind::ExecResult),
        ("feedback", Kind::ExecFeedback),
        ("error", Kind::ExecError),
        ("command.error", Kind::ExecError),
        ("pkg.event", Kind::PackageEvent),
        ("package.event", Kind::PackageEvent),
        ("middleware.next_request", Kind::NextRequest),
    ] {
        let mut script = Script::open("handshake", "register");
        script.say(json!({"type": said, "id": "x"}));
        let Some(ServerEvent::Delivered { frame, .. }) = script.server.poll_event() else {
            panic!("{said}")
        };
        assert_eq!(frame.kind, kind.name(), "{said}");
    }
}

#[test]
fn what_was_not_confirmed_comes_back_under_its_own_name() {
    let mut script = Script::open("handshake", "register");
    script.send("a", Kind::ExecDispatch, true);
    assert_eq!(names(&script.heard())[3..], ["cmd.dispatch"]);
    script.server.reset(ErrorCode::SessionStaleBinding, "another connection", None);
    let Some(ServerEvent::SessionEnded { unconfirmed, .. }) = script.server.poll_event() else {
        panic!()
    };
    assert_eq!(unconfirmed[0].kind, "biz.exec.dispatch");
    assert_eq!(unconfirmed[0].seq, Some(9));
}

#[test]
fn all_reset_codes_are_in_the_table_and_can_be_said_in_both_vocabularies() {
    for code in ErrorCode::ALL.iter().copied() {
        assert!(code.name().starts_with("E."), "{code:?}");
        let mut script = Script::new();
        script.say(json!({"type": "resume", "id": "r",
            "payload": {"session_id": "s", "session_token": "t"}}));
        script.server.refuse(script.now, code, "no", None);
        let heard = script.heard();
        let payload = raw(&heard[0]["payload"].to_string());
        assert!(Payload::decode(Kind::ExecError, &payload).is_ok(), "{code:?}");
    }
}

/// Seed 000 section 4 taken by its word: `seq` counts the transport.
#[test]
fn a_worker_that_counts_in_seq_is_counted_by_it() {
    for first in [0, 1] {
        let mut script = Script::open("control.handshake", "control.register");
        script.heard();
        script.send("early", Kind::ExecDispatch, true);
        assert_eq!(script.heard()[0]["seq"], 0, "as the seed counts, for nobody knows better yet");
        script.say(json!({"type": "biz.exec.result", "id": "a", "seq": first}));
        script.say(json!({"type": "biz.exec.result", "id": "c", "seq": first + 2}));
        assert_eq!(script.delivered(), ["a"]);
        script.say(json!({"type": "biz.exec.result", "id": "b", "seq": first + 1}));
        script.say(json!({"type": "biz.exec.result", "id": "b", "seq": first + 1}));
        assert_eq!(script.delivered(), ["b", "c"], "in order, once");
        let ack = script.heard().pop().expect("an ack");
        assert_eq!(ack["payload"]["ack_seq"], first + 2, "in its own numbers");

        script.send("lease", Kind::ExecDispatch, true);
        let dispatch = script.heard().pop().expect("a dispatch");
        assert_eq!((&dispatch["seq"], &dispatch["session_seq"]), (&json!(first + 1), &json!(2)));
        script.say(json!({"type": "control.ack", "id": "x",
            "payload": {"ack_seq": first + 1, "recv_window": 4}}));
        assert_eq!(given(&mut script.server).acked, ["early", "lease"]);
    }
}

#[test]
fn numbers_in_two_places_are_a_contradiction() {
    let mut script = Script::open("control.handshake", "control.register");
    script.say(json!({"type": "biz.exec.result", "id": "a", "seq": 1}));
    script.say(json!({"type": "biz.exec.result", "id": "b", "seq": 1, "session_seq": 1}));
    assert_eq!(names(&script.heard()).last(), Some(&"control.reset"));
}

#[test]
fn in_the_plain_vocabulary_seq_is_the_counter_of_the_run() {
    let mut script = Script::open("handshake", "register");
    for id in ["a", "b"] {
        script.say(json!({"type": "result", "id": id, "corr": id, "seq": 1}));
    }
    assert_eq!(script.delivered(), ["a", "b"], "two runs, both at their first");
}

#[test]
fn frames_without_numbers_are_delivered_once_and_acked_again() {
    let mut script = Script::open("handshake", "register");
    script.heard();
    let result = json!({"type": "result", "id": "x", "corr": "t", "ack": {"request": true}});
    script.say(result.clone());
    script.say(result.clone());
    assert!(script.heard().is_empty(), "not durable yet");
    assert_eq!(script.delivered(), ["x"]);
    script.heard();
    script.say(result);
    assert!(script.delivered().is_empty());
    assert_eq!(script.heard()[0]["payload"]["info"], "COMMITTED", "the same answer");
    script.say(json!({"type": "result", "id": "x", "corr": "other"}));
    assert_eq!(script.delivered(), ["x"], "the same id about something else");
}

#[test]
fn only_the_last_frames_without_numbers_are_remembered() {
    let mut script = Script::open("handshake", "register");
    for n in 0..=UNNUMBERED_MAX {
        script.say(json!({"type": "feedback", "id": format!("f{n}")}));
    }
    assert_eq!(script.delivered().len(), UNNUMBERED_MAX + 1);
    script.say(json!({"type": "feedback", "id": "f1"}));
    assert!(script.delivered().is_empty(), "remembered");
    script.say(json!({"type": "feedback", "id": "f0"}));
    assert_eq!(script.delivered(), ["f0"], "forgotten");
}
