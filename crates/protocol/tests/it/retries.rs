//! How long an end tries, and when a session begins to live.

use std::time::Duration;

use protocol::session::event::{ServerEvent, WorkerEvent};
use protocol::session::outgoing::REPEATS_MAX;
use protocol::session::state::State;

use crate::support::{Both, acks_of, business_of, grant, server_machine, worker_machine};

#[test]
fn a_frame_is_repeated_until_it_is_acked_and_no_more() {
    let mut both = Both::open(4);
    let first = both.worker_sends(&["a"]);
    let mut n_sent = first.len();
    for _ in 0..3 {
        both.later(Duration::from_secs(2));
        n_sent += both.worker_sends(&[]).len();
    }
    assert!(n_sent > 1, "nobody answered");
    both.give_server(first);
    let tokens = both.given().tokens;
    both.commit(tokens);
    let acks = both.drain_server();
    assert_eq!(acks_of(&acks).len(), 1);
    both.give_worker(acks);
    for _ in 0..20 {
        both.later(Duration::from_secs(2));
        assert!(both.worker_sends(&[]).is_empty(), "it is acked");
    }
}

#[test]
fn a_frame_that_nobody_acks_is_given_up_after_the_most_attempts() {
    let mut both = Both::open(4);
    let mut n_sent = both.worker_sends(&["a"]).len();
    let mut lost = Vec::new();
    for _ in 0..100 {
        both.later(Duration::from_secs(1));
        n_sent += business_of(both.drain_worker()).len();
        while let Some(event) = both.worker.poll_event() {
            if let WorkerEvent::SessionLost { unconfirmed, .. } = event {
                lost.extend(unconfirmed.into_iter().map(|frame| frame.id));
            }
        }
        if !lost.is_empty() {
            break;
        }
    }
    assert_eq!(lost, ["a"], "the frame is given back, not forgotten");
    assert_eq!(n_sent, 1 + REPEATS_MAX as usize);
}

/// Seed 000 section 2: heartbeats begin in READY.
#[test]
fn no_heartbeat_is_due_before_the_session_is_open() {
    let mut both = {
        let now = model::Timestamp::from_millis(1_000_000);
        let mut worker = worker_machine(4);
        let connection = worker.connected(now);
        Both { now, server: server_machine(4), worker, connection }
    };
    let beats = |both: &mut Both| {
        let events = std::iter::from_fn(|| both.worker.poll_event());
        events.filter(|event| matches!(event, WorkerEvent::HeartbeatDue)).count()
    };
    for _ in 0..3 {
        let frames = both.drain_worker();
        assert!(frames.iter().all(|frame| frame.kind != "control.heartbeat"), "{frames:?}");
        both.give_server(frames);
        while let Some(event) = both.server.poll_event() {
            // The handshake is accepted, and the session is not: nothing more is said to a register.
            if matches!(event, ServerEvent::Handshake { .. }) {
                both.server.accept_handshake(both.now);
            }
        }
        let frames = both.drain_server();
        both.give_worker(frames);
        both.later(Duration::from_secs(2));
        assert_eq!(beats(&mut both), 0, "{:?}", both.worker.state());
    }
    both.server.accept(both.now, grant("s"));
    let frames = both.drain_server();
    both.give_worker(frames);
    assert_eq!(both.worker.state(), State::Ready);
    both.later(Duration::from_secs(12));
    assert!(beats(&mut both) > 0, "it lives");
}
