//! What comes in that should not, and what becomes of it.

use model::Timestamp;
use protocol::error_code::ErrorCode;
use protocol::session::codec::{DEPTH_MAX, FRAME_BYTES_MAX, NAME_CHARS_MAX};
use protocol::session::envelope::{Envelope, Reader};
use protocol::session::event::ServerEvent;
use protocol::session::frame::BusinessFrame;
use protocol::session::kind::{Kind, Payload};
use protocol::session::outgoing::{PAYLOAD_BYTES_MAX, SendError};
use protocol::session::state::State;
use serde_json::{Value, json};

use crate::support::{Both, business, given, raw, server_machine};

fn frame(change: impl FnOnce(&mut Value)) -> Envelope {
    let mut frame = json!({
        "type": "biz.exec.result", "id": "x", "ts": "2026-01-31T12:00:00Z", "tenant": "t",
        "sender": {"role": "worker", "id": "w"}, "session_seq": 1, "payload": {},
    });
    change(&mut frame);
    Envelope::from_text(&frame.to_string()).expect("a frame")
}

#[test]
fn what_is_no_frame_is_refused_before_any_machine_sees_it() {
    let deep = format!("{{\"payload\":{}{}}}", "[".repeat(DEPTH_MAX), "]".repeat(DEPTH_MAX));
    let large = format!("\"{}\"", "x".repeat(FRAME_BYTES_MAX));
    for (bytes, code) in [
        (&b"no JSON"[..], "E.REQUEST.MALFORMED"),
        (b"\xff\xfe", "E.REQUEST.MALFORMED"),
        (b"{\"type\":", "E.REQUEST.MALFORMED"),
        (b"[]", "E.REQUEST.INVALID"),
        (b"null", "E.REQUEST.INVALID"),
        (b"{}", "E.REQUEST.INVALID"),
        (large.as_bytes(), "E.REQUEST.TOO_LARGE"),
        (deep.as_bytes(), "E.REQUEST.INVALID"),
    ] {
        let error = Reader::default().read_bytes(bytes).expect_err(code);
        assert_eq!(error.code().entry().name, code, "{error}");
    }
}

#[test]
fn a_list_is_no_frame_although_its_items_would_fit() {
    let list = r#"["biz.exec.result","x","2026-01-31T12:00:00Z","t",{"role":"worker","id":"w"},
        null,null,null,null,null,{}]"#;
    assert!(Envelope::from_text(list).is_err());
    let text = frame(|_| {}).to_text().expect("small");
    let sender = text.replace(r#"{"role":"worker","id":"w"}"#, r#"["worker","w"]"#);
    assert_ne!(sender, text);
    assert!(Envelope::from_text(&sender).is_err());
}

#[test]
fn a_door_resets_the_session_of_a_peer_that_sends_no_frames() {
    let mut both = Both::open(4);
    let error = Envelope::from_text("{}").expect_err("no frame");
    both.server.reset(ErrorCode::RequestInvalid, &error.to_string(), None);
    let reset = both.drain_server().pop().expect("a reset");
    let reset: Value = serde_json::from_str(reset.payload.get()).expect("JSON");
    assert_eq!(reset["code"], "E.REQUEST.INVALID");
    assert_eq!(reset["reason"], "frame.type must be present");
}

#[test]
fn a_payload_of_the_wrong_shape_is_refused_with_its_place() {
    let payload = frame(|frame| frame["payload"] = json!({"status": "SUCCEEDED"})).payload;
    let error = Payload::decode(Kind::ExecResult, &payload).expect_err("no run");
    assert_eq!(error.to_string(), "payload.run_id must be present");
}

#[test]
fn a_resume_that_cannot_be_read_is_reset_with_its_place() {
    let mut server = server_machine(4);
    server.receive(now(), frame(|frame| frame["type"] = json!("control.resume")));
    assert!(given(&mut server).others.is_empty());
    let reset = server.poll_frame().expect("a reset");
    assert!(reset.payload.get().contains("payload.session_id must be present"));
}

#[test]
fn an_ack_that_cannot_be_read_changes_nothing() {
    let mut both = Both::open(4);
    both.server_sends(&["a"]);
    for payload in [json!({"ack_seq": -1}), json!({"ack_seq": "1"}), json!({"for": 7})] {
        let ack = frame(|frame| {
            frame["type"] = json!("control.ack");
            frame["payload"] = payload;
        });
        both.give_server([ack.into()]);
    }
    assert!(both.given().acked.is_empty());
    assert_eq!(both.server.frames_ignored(), 3);
    assert_eq!(both.server.state(), State::Ready);
}

#[test]
fn a_frame_of_another_tenant_ends_the_session() {
    let mut both = Both::open(4);
    both.give_server([frame(|frame| frame["tenant"] = json!("other")).into()]);
    let given = both.given();
    assert!(given.ids.is_empty());
    let [ServerEvent::SessionEnded { code: ErrorCode::SessionTenantMismatch, .. }] =
        given.others[..]
    else {
        panic!("{:?}", given.others)
    };
    assert_eq!(both.drain_server().pop().expect("a reset").kind, "control.reset");
}

#[test]
fn a_frame_that_claims_to_be_the_server_is_ignored_and_counted() {
    let mut both = Both::open(4);
    let before = both.server.frames_ignored();
    both.give_server([frame(|frame| frame["sender"]["role"] = json!("scheduler")).into()]);
    assert!(both.given().ids.is_empty());
    assert!(both.drain_server().is_empty());
    assert_eq!(both.server.frames_ignored(), before + 1);
    // And the other way round.
    both.give_worker([frame(|_| {}).into()]);
    assert!(both.worker_ids().is_empty());
}

#[test]
fn what_comes_before_the_handshake_is_reset() {
    for kind in ["biz.exec.result", "control.register", "ext.vendor.ping"] {
        let mut server = server_machine(4);
        server.receive(now(), frame(|frame| frame["type"] = json!(kind)));
        assert!(given(&mut server).ids.is_empty());
        let reset = server.poll_frame().unwrap_or_else(|| panic!("{kind} is answered"));
        assert!(reset.payload.get().contains("E.AUTH.HANDSHAKE_REQUIRED"), "{kind}");
        assert_eq!(server.state(), State::New);
    }
}

#[test]
fn a_heartbeat_before_the_handshake_is_not_held_against_the_worker() {
    let mut server = server_machine(4);
    server.receive(now(), frame(|frame| frame["type"] = json!("control.heartbeat")));
    assert!(server.poll_frame().is_none());
    server.receive(now(), frame(|frame| frame["type"] = json!("control.handshake")));
    assert!(matches!(given(&mut server).others[..], [ServerEvent::Handshake { .. }]));
}

#[test]
fn business_between_handshake_and_accept_is_not_applied() {
    let mut server = server_machine(4);
    server.receive(now(), frame(|frame| frame["type"] = json!("control.handshake")));
    server.accept_handshake(now());
    server.receive(now(), frame(|_| {}));
    assert!(given(&mut server).ids.is_empty());
}

#[test]
fn a_closed_machine_hears_and_says_nothing() {
    let mut both = Both::open(4);
    let frames = both.worker_sends(&["a"]);
    both.server.close();
    both.give_server(frames);
    assert!(both.given().ids.is_empty());
    assert!(both.drain_server().is_empty());
    both.worker.close();
    both.give_worker([frame(|frame| frame["sender"]["role"] = json!("scheduler")).into()]);
    assert!(both.worker_ids().is_empty());
    assert!(both.worker.send(both.now, business("b")).is_err());
}

#[test]
fn frames_that_lie_about_their_numbers_do_not_move_the_window() {
    let mut both = Both::open(4);
    for number in [0_u64, 6, 1 << 40, (1 << 53) - 1] {
        let mut other = Both::open(4);
        other.give_server([frame(|frame| frame["session_seq"] = json!(number)).into()]);
        let is_first_of_zero = number == 0;
        assert_eq!(!other.given().ids.is_empty(), is_first_of_zero, "{number}");
    }
    both.give_server([frame(|_| {}).into()]);
    both.give_server([frame(|frame| frame["session_seq"] = json!(0)).into()]);
    assert_eq!(both.drain_server().pop().expect("a reset").kind, "control.reset");
}

#[test]
fn a_frame_that_no_peer_would_read_is_not_sent() {
    let mut both = Both::open(4);
    let sized = |bytes: usize| raw(&format!("{{\"x\":\"{}\"}}", "y".repeat(bytes - 8)));
    let worst = "\u{1}".repeat(NAME_CHARS_MAX);
    let largest = BusinessFrame {
        id: worst.clone(),
        corr: Some(worst.clone()),
        payload: sized(PAYLOAD_BYTES_MAX),
        ..business("a")
    };
    both.server.send(both.now, largest.clone()).expect("the largest");
    let mut frame = Envelope::clone(&both.drain_server()[0]);
    frame.tenant = worst.as_str().into();
    frame.sender.id = worst.as_str().into();
    frame.kind = worst.into();
    let text = frame.to_text().expect("the worst names leave room");
    Envelope::from_text(&text).expect("and are read");

    let larger = BusinessFrame { payload: sized(PAYLOAD_BYTES_MAX + 1), ..business("a") };
    let longer = BusinessFrame { id: "x".repeat(NAME_CHARS_MAX + 1), ..business("a") };
    for frame in [larger, longer] {
        let refusal = both.worker.send(both.now, frame);
        assert!(matches!(refusal, Err(SendError::TooLarge { .. })), "{refusal:?}");
    }
}

fn now() -> Timestamp {
    Timestamp::from_millis(1_000_000)
}
