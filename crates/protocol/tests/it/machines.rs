//! The rules of the sliding window, one failure each.

use std::time::Duration;

use protocol::error_code::ErrorCode;
use protocol::session::codec::INTEGER_MAX;
use protocol::session::envelope::Envelope;
use protocol::session::event::{ServerEvent, WorkerEvent};
use protocol::session::incoming::REORDER_BYTES_MAX;
use protocol::session::outgoing::{REPEAT_DELAY_MAX, SEND_QUEUE_FRAMES_MAX, SendError};
use protocol::session::server_session::Session;
use protocol::session::state::State;
use protocol::session::window::SEQUENCE_ROTATE_AT;
use serde_json::json;

use crate::support::{Both, acks_of, business, given, grant, raw, server_machine, worker_machine};

#[test]
fn w1_a_duplicate_is_dropped_and_acked_again() {
    let mut both = Both::open(4);
    let frames = both.worker_sends(&["a"]);
    both.give_server(frames.clone());
    let given = both.given();
    assert_eq!(given.ids, ["a"]);
    both.give_server(frames.clone());
    let early = acks_of(&both.drain_server());
    assert!(early.iter().all(|ack| ack["ack_seq"] == 0 && ack.get("for").is_none()), "{early:?}");

    both.commit(given.tokens);
    assert_eq!(acks_of(&both.drain_server())[0]["for"], "a");
    both.give_server(frames);
    assert!(both.given().ids.is_empty(), "delivered once");
    let again = acks_of(&both.drain_server());
    assert_eq!((&again[0]["for"], &again[0]["ack_seq"]), (&json!("a"), &json!(1)));
}

#[test]
fn a_heartbeat_is_handed_to_the_server_while_the_session_is_open() {
    let mut both = Both::open(4);
    both.worker.heartbeat(both.now, raw(r#"{"healthy":true,"metrics":{"inflight":3}}"#));
    let frames = both.drain_worker();
    both.give_server(frames);
    let beats: Vec<String> = both
        .given()
        .others
        .into_iter()
        .filter_map(|event| match event {
            ServerEvent::Heartbeat { payload } => Some(payload.get().to_owned()),
            _ => None,
        })
        .collect();
    assert_eq!(beats, [r#"{"healthy":true,"metrics":{"inflight":3}}"#]);
}

/// What cannot be read changes nothing, and the worker hears so.
#[test]
fn a_later_register_that_cannot_be_read_is_answered_and_not_handed_on() {
    let mut both = Both::open(4);
    let frames = both.worker_sends(&["a"]);
    let register = |payload: &str| Envelope {
        kind: "control.register".into(),
        id: "r-2".to_owned(),
        session_seq: None,
        payload: raw(payload),
        ..(*frames[0]).clone()
    };
    both.give_server([register("[]").into()]);
    let handed = both.given().others;
    let is_register = |event: &ServerEvent| matches!(event, ServerEvent::Register { .. });
    assert!(!handed.iter().any(is_register), "{handed:?}");
    let acks = acks_of(&both.drain_server());
    let info = acks.iter().find(|ack| ack["for"] == "r-2").map(|ack| ack["info"].to_string());
    assert!(info.is_some_and(|info| info.contains("E.REQUEST.INVALID")), "{acks:?}");
}

#[test]
fn w2_frames_out_of_order_are_delivered_in_order() {
    let mut both = Both::open(4);
    let mut frames = both.worker_sends(&["a", "b", "c", "d"]);
    frames.rotate_left(1);
    both.give_server(frames[..3].to_vec());
    assert!(both.given().ids.is_empty(), "a is missing");
    let ack = acks_of(&both.drain_server()).pop().unwrap();
    assert_eq!(ack, json!({"ok": true, "ack_seq": 0, "ack_bitmap": 0b1110, "recv_window": 4}));
    both.give_server(frames[3..].to_vec());
    assert_eq!(both.given().ids, ["a", "b", "c", "d"]);
}

#[test]
fn w2_what_waits_for_earlier_frames_is_bounded_in_bytes() {
    let mut both = Both::open(64);
    let large = raw(&format!("\"{}\"", "x".repeat(REORDER_BYTES_MAX / 3)));
    let mut frames = Vec::new();
    for id in ["a", "b", "c", "d"] {
        // Each is confirmed by name before the next, or the sender would stop by itself.
        let mut frame = business(id);
        frame.payload.clone_from(&large);
        both.worker.send(both.now, frame).unwrap();
        frames.extend(both.drain_worker());
        let ack = format!(r#"{{"ok":true,"for":"{id}"}}"#);
        both.give_worker([scheduler_frame("control.ack", "x", &ack).into()]);
    }
    let numbered = frames.iter().filter(|frame| frame.session_seq.is_some());
    both.give_server(numbered.skip(1).cloned().collect::<Vec<_>>());
    let ack = acks_of(&both.drain_server()).pop().unwrap();
    assert_eq!(ack["ack_bitmap"], 0b110, "the third is not held: {ack}");
}

#[test]
fn w3_a_frame_beyond_the_window_is_answered_with_the_place() {
    let mut both = Both::open(2);
    let frames = both.worker_sends(&["a"]);
    let beyond = Envelope { session_seq: Some(4), id: "z".to_owned(), ..(*frames[0]).clone() };
    both.give_server([beyond.into()]);
    assert!(both.given().ids.is_empty());
    let acks = acks_of(&both.drain_server());
    let place = json!({"ok": true, "ack_seq": 0, "ack_bitmap": 0, "recv_window": 2});
    assert_eq!(acks, [place]);
    assert_eq!(both.server.state(), State::Ready);
}

#[test]
fn w4_a_lost_ack_is_made_good_by_repetition() {
    let mut both = Both::open(4);
    let frames = both.worker_sends(&["a"]);
    both.give_server(frames);
    let tokens = both.given().tokens;
    both.commit(tokens);
    both.drain_server();
    both.later(Duration::from_secs(1));
    let repeated = both.worker_sends(&[]);
    assert_eq!(repeated.iter().map(|frame| frame.id.as_str()).collect::<Vec<_>>(), ["a"]);
    both.give_server(repeated);
    let acks = both.drain_server();
    both.give_worker(acks);
    assert_eq!(both.worker_acked(), ["a"]);
}

#[test]
fn w4_the_bitmap_frees_nothing_and_an_old_ack_does_not_move_back() {
    let mut both = Both::open(4);
    both.worker_sends(&["a", "b", "c"]);
    let ack = |text: &str| scheduler_frame("control.ack", "x", text).into();
    both.give_worker([ack(r#"{"ack_seq":0,"ack_bitmap":6,"recv_window":4}"#)]);
    assert!(both.worker_acked().is_empty(), "held frames are not confirmed");
    both.later(REPEAT_DELAY_MAX * 2);
    assert_eq!(both.worker_sends(&[]).len(), 3, "and are repeated, if late");

    both.give_worker([ack(r#"{"ack_seq":2,"ack_bitmap":0,"recv_window":4}"#)]);
    assert_eq!(both.worker_acked(), ["a", "b"]);
    both.give_worker([ack(r#"{"ack_seq":1,"ack_bitmap":0,"recv_window":1}"#)]);
    both.give_worker([ack(r#"{"ack_seq":9,"ack_bitmap":0,"recv_window":1}"#)]);
    assert!(both.worker_acked().is_empty(), "an old ack and a wrong one confirm nothing");
    assert_eq!(both.worker_sends(&["d", "e", "f"]).len(), 3, "nor do they narrow the window");
}

#[test]
fn w5_a_full_window_whose_last_ack_is_lost_goes_on() {
    let mut both = Both::open(2);
    let frames = both.worker_sends(&["a", "b", "c"]);
    assert_eq!(frames.len(), 2, "the window is full");
    both.give_server(frames);
    let tokens = both.given().tokens;
    both.commit(tokens);
    both.drain_server();
    let due = both.worker.next_deadline().expect("a timer runs");
    both.later(due.since(both.now));
    let probe = both.worker_sends(&[]);
    both.give_server(probe);
    let acks = both.drain_server();
    both.give_worker(acks);
    let rest = both.worker_sends(&[]);
    both.give_server(rest);
    assert_eq!(both.given().ids, ["c"]);
}

#[test]
fn w8_what_comes_over_an_older_connection_is_not_applied() {
    let mut both = Both::open(4);
    let late = both.worker_sends(&["a"]);
    let mut newer = server_machine(4);
    both.connection = both.worker.connected(both.now);
    let resume = both.drain_worker();
    newer.receive(both.now, Envelope::clone(&resume[0]));
    assert!(matches!(given(&mut newer).others[..], [ServerEvent::Resume { .. }]));
    let session = both.server.take_session().expect("the session");
    newer.resume(both.now, session, grant("s"));

    both.give_server(late.clone());
    assert!(both.given().ids.is_empty(), "the older connection has no session");
    assert!(both.drain_server().is_empty());
    newer.receive(both.now, Envelope::clone(&late[0]));
    assert_eq!(given(&mut newer).ids, ["a"]);
}

#[test]
fn w8_the_worker_hears_nothing_over_an_older_connection() {
    let mut both = Both::open(4);
    let frames = both.server_sends(&["a"]);
    let older = both.connection;
    both.worker.connected(both.now);
    both.worker.receive(both.now, older, Envelope::clone(&frames[0]));
    assert!(both.worker_ids().is_empty());
}

#[test]
fn w9_recorded_frames_do_nothing_when_they_come_again() {
    let mut both = Both::open(4);
    let recorded = both.worker_sends(&["a", "b"]);
    both.give_server(recorded.clone());
    let tokens = both.given().tokens;
    both.commit(tokens);
    both.give_server(recorded.clone());
    assert!(both.given().ids.is_empty(), "in the same session");

    let mut other = server_machine(4);
    for frame in &recorded {
        other.receive(both.now, Envelope::clone(frame));
    }
    assert!(given(&mut other).ids.is_empty(), "over a connection without a session");
    let answer = other.poll_frame().expect("an answer");
    assert_eq!(answer.kind, "control.reset");
}

#[test]
fn w10_a_server_without_its_buffers_goes_on_where_the_worker_says() {
    let mut both = Both::open(4);
    let frames = both.server_sends(&["a", "b"]);
    both.give_worker(frames);
    both.worker_sends(&["x", "y"]);
    both.server = server_machine(4);
    let resumed = resume(&mut both, Session::restored("s", 4));
    assert!(resumed.is_empty(), "{resumed:?}");
    let again = both.worker_sends(&[]);
    both.give_server(again);
    assert_eq!(both.given().ids, ["x", "y"], "from the lowest that the worker keeps");
    let numbers: Vec<_> = both.server_sends(&["c"]).iter().map(|frame| frame.session_seq).collect();
    assert_eq!(numbers, [Some(3)], "after what the worker has seen");
}

#[test]
fn w10_a_place_that_cannot_be_is_reset_openly() {
    let mut both = Both::open(4);
    let frames = both.server_sends(&["a", "b"]);
    both.give_worker(frames);
    // The worker has seen two frames, of which this session knows nothing.
    let mut other = Both::open(4);
    let session = other.server.take_session().expect("a session");
    both.server = server_machine(4);
    let ended = resume(&mut both, session);
    let [ServerEvent::SessionEnded { code, .. }] = &ended[..] else { panic!("{ended:?}") };
    assert_eq!(*code, ErrorCode::ResultSequenceGap);
    let reset = both.drain_server().pop().expect("a reset");
    assert_eq!(reset.kind, "control.reset");
    both.give_worker([reset]);
    let events: Vec<_> = std::iter::from_fn(|| both.worker.poll_event()).collect();
    assert!(events.iter().any(|event| matches!(event, WorkerEvent::SessionLost { .. })));
}

#[test]
fn w11_a_session_ends_before_its_numbers_do() {
    let mut both = Both::open(4);
    both.server = server_machine(4);
    let last_seen = INTEGER_MAX - 2;
    let payload =
        format!(r#"{{"session_id":"s","session_token":"t","last_seen_seq":{last_seen}}}"#);
    both.give_server([worker_frame("control.resume", "r", &payload).into()]);
    both.given();
    both.server.resume(both.now, Session::restored("s", 4), grant("s"));
    let numbers: Vec<_> =
        both.server_sends(&["a", "b"]).iter().filter_map(|frame| frame.session_seq).collect();
    // The first is empty: the server does not know how this worker counts.
    let last = [INTEGER_MAX - 1, INTEGER_MAX];
    assert_eq!(numbers, last, "no number is larger than any reader keeps");

    let ack = format!(r#"{{"ack_seq":{INTEGER_MAX},"recv_window":4}}"#);
    both.give_server([worker_frame("control.ack", "x", &ack).into()]);
    assert!(both.server.next_deadline().is_some_and(|due| due <= both.now), "at once");
    both.later(Duration::ZERO);
    let ended = both.given().others;
    let [ServerEvent::SessionEnded { code, unconfirmed, .. }] = &ended[..] else {
        panic!("{ended:?}")
    };
    assert_eq!(*code, ErrorCode::SessionRotated);
    assert_eq!(unconfirmed.iter().map(|frame| frame.id.as_str()).collect::<Vec<_>>(), ["b"]);
    const { assert!(SEQUENCE_ROTATE_AT < INTEGER_MAX) };
}

#[test]
fn w12_a_peer_that_does_not_read_is_given_no_more() {
    let mut both = Both::open(4);
    for n in 0..2 * SEND_QUEUE_FRAMES_MAX {
        both.server.send(both.now, business(&format!("f{n}"))).expect("room");
        both.drain_server();
        both.server.check_invariants();
        if both.server.is_full() {
            assert_eq!(both.server.send(both.now, business("more")), Err(SendError::Full));
            return;
        }
    }
    panic!("it is never full");
}

#[test]
fn w16_a_server_that_accepts_and_drops_is_not_asked_in_a_loop() {
    let mut both = Both::open(4);
    let mut waits = Vec::new();
    for _ in 0..40 {
        both.worker.disconnected(both.now, both.connection);
        let due = both.worker.next_deadline().expect("a wait");
        waits.push(due.since(both.now));
        both.later(due.since(both.now));
        both.connection = both.worker.connected(both.now);
        let session = both.server.take_session().expect("the session");
        both.server = server_machine(4);
        assert!(resume(&mut both, session).is_empty());
        both.worker_ids();
    }
    let sum: Duration = waits.iter().sum();
    assert!(sum > Duration::from_mins(5), "40 rounds in {sum:?}");
    both.later(Duration::from_secs(11));
    both.worker.disconnected(both.now, both.connection);
    let due = both.worker.next_deadline().expect("a wait");
    assert!(due.since(both.now) <= Duration::from_secs(1), "a useful session forgets them");
}

#[test]
fn a_heartbeat_is_due_when_the_session_opens_and_then_in_its_interval() {
    let mut both = Both::open(4);
    let mut dues = Vec::new();
    for _ in 0..50 {
        let due = both.worker.next_deadline().expect("the next heartbeat").since(both.now);
        dues.push(due);
        both.later(due);
        let event = both.worker.poll_event();
        assert!(matches!(event, Some(WorkerEvent::HeartbeatDue)), "{event:?}");
    }
    let limits = Duration::from_secs(10)..=Duration::from_millis(11_667);
    assert!(dues.iter().all(|due| limits.contains(due)), "{dues:?}");
    assert!(dues.iter().min() != dues.iter().max(), "they are spread");
}

#[test]
fn the_boot_of_the_machine_is_told_in_handshake_and_resume() {
    let mut both = Both::open(4);
    let (mut worker, mut server) = (worker_machine(4), server_machine(4));
    worker.connected(both.now);
    server.receive(both.now, Envelope::clone(&worker.poll_frame().expect("a handshake")));
    let [ServerEvent::Handshake { boot_id, .. }] = &given(&mut server).others[..] else { panic!() };
    assert_eq!(boot_id.as_deref(), Some("b-7"));

    both.worker.connected(both.now);
    let frames = both.drain_worker();
    both.give_server(frames);
    let [ServerEvent::Resume { boot_id, .. }] = &both.given().others[..] else { panic!() };
    assert_eq!(boot_id.as_deref(), Some("b-7"));
}

/// Lets the worker resume over a new connection; gives what the server has to say of it.
fn resume(both: &mut Both, session: Session) -> Vec<ServerEvent> {
    if both.worker.state() != State::Handshaking {
        both.connection = both.worker.connected(both.now);
    }
    let frames = both.drain_worker();
    both.give_server(frames);
    both.given();
    both.server.resume(both.now, session, grant("s"));
    let others = both.given().others;
    if others.is_empty() {
        let frames = both.drain_server();
        both.give_worker(frames);
        assert_eq!(both.worker.state(), State::Ready);
    }
    others
}

fn worker_frame(kind: &str, id: &str, payload: &str) -> Envelope {
    frame("worker", kind, id, payload)
}

fn scheduler_frame(kind: &str, id: &str, payload: &str) -> Envelope {
    frame("scheduler", kind, id, payload)
}

fn frame(role: &str, kind: &str, id: &str, payload: &str) -> Envelope {
    Envelope::from_text(&format!(
        r#"{{"type":"{kind}","id":"{id}","ts":"2026-01-31T12:00:00Z","tenant":"t",
            "sender":{{"role":"{role}","id":"w"}},"payload":{payload}}}"#
    ))
    .expect("a frame")
}
