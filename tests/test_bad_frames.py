"""Frames that make no sense are answered openly, and hurt nobody else."""

import json
import uuid

import pytest
from websockets.exceptions import ConnectionClosed

import schemas
from wire_worker import WireWorker

MIB = 1 << 20
INVALID = "E.REQUEST.INVALID"
HANDSHAKE_FIRST = "E.AUTH.HANDSHAKE_REQUIRED"
DEEP = '{"a":' * 200 + "1" + "}" * 200
WORKER = {"worker_name": "w", "version": "1", "hostname": "h"}
CAPABILITIES = {"concurrency": {"max_parallel": 1}, "runtimes": ["python"], "features": []}
RESULT = {"run_id": "r", "task_id": "t", "status": "SUCCEEDED", "result": {}}
DISPATCH = {
    "run_id": "r", "task_id": "t", "node_id": "n", "node_type": "x", "package_name": "p",
    "package_version": "1", "parameters": {}, "constraints": {},
}
HEARTBEAT = {"healthy": True, "metrics": {"inflight": 0}}


def frame(frame_type: str, payload: dict, **changes):
    """A frame of the worker that sends it, with some keys of the envelope changed."""
    def text(worker: WireWorker) -> str:
        return json.dumps({**worker.envelope(frame_type, payload), **changes})
    return text


def handshake(worker: WireWorker, **changes) -> str:
    payload = {"protocol": 1, "auth": {"mode": "token", "token": worker.token}, "worker": WORKER}
    return json.dumps({**worker.envelope("control.handshake", payload), **changes})


# What is sent as the first frame of a connection, the code of the reset, and what its reason names.
FIRST_FRAMES = {
    "not JSON": ("hello", INVALID, "JSON"),
    "nothing": ("", INVALID, "JSON"),
    "bytes that are no text": (b"\xff\xfe\x00", INVALID, "utf-8"),
    "a list": ("[1, 2]", INVALID, "object"),
    "a number": ("7", INVALID, "object"),
    "200 levels deep": (DEEP, INVALID, "64 deep"),
    "200 levels deep in the payload": (frame("control.handshake", json.loads(DEEP)), INVALID, "64 deep"),
    "a time without an offset": (lambda worker: handshake(worker, ts="2026-01-01T00:00:00"), INVALID, "frame.ts"),
    "a role that is none": (
        lambda worker: handshake(worker, sender={"role": "boss", "id": "b"}), INVALID, "frame.sender.role"),
    "a handshake without auth": (
        frame("control.handshake", {"protocol": 1, "worker": WORKER}), INVALID, "payload.auth"),
    "a handshake for another tenant": (
        lambda worker: handshake(worker, tenant="acme"), "E.SESSION.TENANT_MISMATCH", "tenant"),
    "a self-made certificate": (
        frame("control.handshake", {"protocol": 1, "auth": {"mode": "mtls", "fingerprint": "f"}, "worker": WORKER}),
        "E.AUTH.MODE_UNSUPPORTED", "token"),
    "a result": (frame("biz.exec.result", RESULT, session_seq=1), HANDSHAKE_FIRST, "handshake"),
    "a dispatch": (frame("biz.exec.dispatch", DISPATCH), HANDSHAKE_FIRST, "handshake"),
    "an extension": (frame("ext.acme.hello", {}), HANDSHAKE_FIRST, "handshake"),
    "a register": (frame("control.register", {"capabilities": CAPABILITIES}), HANDSHAKE_FIRST, "handshake"),
}


@pytest.mark.parametrize("sent, code, named", FIRST_FRAMES.values(), ids=FIRST_FRAMES)
def test_a_bad_first_frame_is_answered_with_a_reset(harmless, sent, code, named):
    with WireWorker(harmless.worker_url, harmless.tokens["worker"]).connect() as worker:
        worker.socket.send(sent(worker) if callable(sent) else sent)
        reset = worker.wait_for_type("control.reset")["payload"]
        assert reset["code"] == code
        assert named in reset["reason"]


def test_a_register_without_capabilities_is_answered_with_a_reset(harmless):
    with WireWorker(harmless.worker_url, harmless.tokens["worker"]).connect() as worker:
        worker.wait_for_ack(worker.handshake())
        worker.say("control.register", {}, ack={"request": True})
        reset = worker.wait_for_type("control.reset")["payload"]
        assert (reset["code"], reset["reason"]) == (INVALID, "payload.capabilities must be present")


def test_a_handshake_in_the_role_of_a_scheduler_is_answered(harmless):
    with WireWorker(harmless.worker_url, harmless.tokens["worker"]).connect() as worker:
        worker.socket.send(handshake(worker, sender={"role": "scheduler", "id": "s"}, ack={"request": True}))
        assert worker.wait_for_type("control.reset", within_s=3)["payload"]["code"] == INVALID


# What is sent in an open session, the code of the reset, and what its reason names.
LATER_FRAMES = {
    "not JSON": ("hello", INVALID, "JSON"),
    "a list": ("[1, 2]", INVALID, "object"),
    "200 levels deep": (DEEP, INVALID, "64 deep"),
    "another tenant": (frame("control.heartbeat", HEARTBEAT, tenant="acme"), "E.SESSION.TENANT_MISMATCH", "tenant"),
    "a role that is none": (
        frame("control.heartbeat", HEARTBEAT, sender={"role": "boss", "id": "b"}), INVALID, "frame.sender.role"),
}


@pytest.mark.parametrize("sent, code, named", LATER_FRAMES.values(), ids=LATER_FRAMES)
def test_a_bad_frame_ends_its_session_openly(harmless, idle_worker, sent, code, named):
    idle_worker.socket.send(sent(idle_worker) if callable(sent) else sent)
    reset = idle_worker.wait_for_type("control.reset")["payload"]
    assert reset["code"] == code
    assert named in reset["reason"]


def test_a_session_that_was_reset_is_over(harmless, idle_worker):
    idle_worker.socket.send("hello")
    idle_worker.wait_for_type("control.reset")
    idle_worker.drop()
    idle_worker.connect()
    asked = {key: idle_worker.session[key] for key in ("session_id", "session_token")}
    idle_worker.say("control.resume", {**asked, "last_seen_seq": 0}, ack={"request": True})
    assert idle_worker.wait_for_type("control.reset", within_s=3)["payload"]["code"] == "E.SESSION.UNKNOWN"


def test_the_answer_to_a_frame_that_cannot_be_read_is_a_frame_itself(harmless):
    with WireWorker(harmless.worker_url, harmless.tokens["worker"]).connect() as worker:
        worker.socket.send("hello")
        schemas.validate(worker.wait_for_type("control.reset"))
        assert not worker.received[-1]["ts"].startswith("1970")


# Payloads that cannot be understood; the frame is done with, and its ack says why.
REFUSED_PAYLOADS = {
    "a result without status": (
        "biz.exec.result", {"run_id": "r", "task_id": "t", "result": {}},
        "E.REQUEST.INVALID payload.status must be present"),
    "a status that is none": (
        "biz.exec.result", {**RESULT, "status": "DONE"}, "E.REQUEST.INVALID payload.status"),
    "progress beyond the end": (
        "biz.exec.feedback", {"run_id": "r", "task_id": "t", "progress": 7}, "E.REQUEST.INVALID payload.progress"),
    "an error without a code": ("biz.exec.error", {"message": "m"}, "E.REQUEST.INVALID payload.code"),
    "a dispatch by a worker": ("biz.exec.dispatch", DISPATCH, "E.CMD.UNKNOWN"),
}


@pytest.mark.parametrize("kind, payload, info", REFUSED_PAYLOADS.values(), ids=REFUSED_PAYLOADS)
def test_a_bad_payload_is_acked_with_the_reason_and_the_session_goes_on(harmless, idle_worker, kind, payload, info):
    sent = idle_worker.business(kind, payload, corr="c", ack={"request": True})
    ack = idle_worker.wait_for_ack(sent)
    assert ack["info"].startswith(info)
    assert ack["ack_seq"] == 1
    idle_worker.wait_for_ack(idle_worker.register())


def test_a_refresh_without_capabilities_is_refused(harmless, idle_worker):
    ack = idle_worker.wait_for_ack(idle_worker.say("control.register", {}, ack={"request": True}))
    assert "payload.capabilities" in ack.get("info", "")


# Control frames that mean nothing from a worker; the session goes on.
PASSED_OVER = {
    "a heartbeat of the wrong shape": ("control.heartbeat", {"healthy": "yes"}),
    "an ack below zero": ("control.ack", {"ack_seq": -1}),
    "an ack of what was never sent": ("control.ack", {"ack_seq": 9999, "ack_bitmap": 0, "recv_window": 64}),
    "an ack with the largest numbers": (
        "control.ack", {"ack_seq": 2**53 - 1, "ack_bitmap": 2**64 - 1, "recv_window": 2**53 - 1}),
    "an accept": (
        "control.session.accept", {"session_id": "a", "session_token": "b", "worker_instance_id": "c"}),
    "a reset": ("control.reset", {"code": "E.INTERNAL", "reason": "r"}),
    "a control frame of the future": ("control.dance", {"steps": 3}),
}


@pytest.mark.parametrize("kind, payload", PASSED_OVER.values(), ids=PASSED_OVER)
def test_a_control_frame_that_means_nothing_is_passed_over(harmless, idle_worker, kind, payload):
    idle_worker.say(kind, payload)
    assert works(harmless, idle_worker)


@pytest.mark.parametrize("number", [5_000, 2**53 - 1])
def test_a_number_outside_the_window_changes_nothing(harmless, idle_worker, number):
    feedback = {"run_id": "r", "task_id": "t"}
    idle_worker.say("biz.exec.feedback", feedback, session_seq=1)
    idle_worker.wait_for(lambda frame: frame["payload"].get("ack_seq") == 1)
    idle_worker.say("biz.exec.feedback", feedback, session_seq=number)
    ack = idle_worker.wait_for_type("control.ack")["payload"]
    assert (ack["ack_seq"], ack["ack_bitmap"]) == (1, 0)
    idle_worker.next_seq = 2
    assert works(harmless, idle_worker)


def test_a_number_before_the_first_ends_the_session_openly(harmless, idle_worker):
    idle_worker.business("biz.exec.feedback", {"run_id": "r", "task_id": "t"})
    idle_worker.say("biz.exec.feedback", {"run_id": "r", "task_id": "t"}, session_seq=0)
    assert idle_worker.wait_for_type("control.reset")["payload"]["code"] == "E.RESULT.SEQ_GAP"


@pytest.mark.parametrize("is_open, size", [(False, 100 << 10), (False, 2 * MIB), (True, MIB + 1), (True, 2 * MIB)])
def test_a_frame_that_is_too_large_ends_the_connection(harmless, own_type, is_open, size):
    worker = WireWorker(harmless.worker_url, harmless.tokens["worker"], features=[f"type:{own_type}"])
    with worker.open() if is_open else worker.connect():
        with pytest.raises(ConnectionClosed):
            worker.socket.send("x" * size)
            worker.receive(5)


def test_a_frame_that_is_too_large_is_named_in_the_close(harmless):
    with WireWorker(harmless.worker_url, harmless.tokens["worker"]).connect() as worker:
        worker.socket.send("x" * (100 << 10))
        closed = worker.closed_within(5)
        assert closed.rcvd is not None and closed.rcvd.code == 1009


def test_a_flood_of_nonsense_is_survived(harmless):
    with WireWorker(harmless.worker_url, harmless.tokens["worker"]).connect() as worker:
        flood(worker)


def test_a_flood_of_nonsense_is_not_answered_with_a_flood(harmless):
    with WireWorker(harmless.worker_url, harmless.tokens["worker"]).connect() as worker:
        flood(worker)
        assert len(worker.received) < 100


def flood(worker: WireWorker) -> None:
    try:
        for _ in range(20_000):
            worker.socket.send('{"type":')
        worker.quiet_for(2)
    except ConnectionClosed:
        pass


@pytest.fixture
def own_type():
    return f"own-{uuid.uuid4().hex[:8]}"


@pytest.fixture
def idle_worker(shared_server, own_type):
    """A worker with an open session that only takes tasks of its own type."""
    worker = WireWorker(shared_server.worker_url, shared_server.tokens["worker"], features=[f"type:{own_type}"])
    worker.own_type = own_type
    with worker.open():
        yield worker


def works(server, worker: WireWorker) -> bool:
    task_id = server.submit(worker.own_type)
    worker.wait_for_ack(worker.result(worker.next_dispatch()))
    return server.settled(task_id)["state"] == "COMPLETED"
