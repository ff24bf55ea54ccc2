"""What comes before the first frame, and peers that do not listen."""

import json
import socket
import time
import uuid

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus

from peer import Background
from waiting import wait_until
from wire_worker import WireWorker

CLOSED_WITHIN_S = 6
# Three beats of ten seconds, and one more to notice.
CUT_WITHIN_S = 45


def test_a_web_page_may_not_be_a_worker(harmless):
    with pytest.raises(InvalidStatus) as refused:
        WireWorker(harmless.worker_url).connect(origin="https://example.com")
    answer = refused.value.response
    assert answer.status_code == 403
    error = json.loads(answer.body)["error"]
    assert error["code"] == "E.AUTH.HOST" and error["message"] and error["hint"]


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_a_plain_request_is_told_what_this_path_is_for(harmless, method):
    status, text = harmless.call(method, "/ws/worker", role="")
    if method == "POST":
        assert status == 405
        return
    assert status in (400, 422, 426)
    error = json.loads(text)["error"]
    assert "WebSocket" in error["message"] and "astra worker start" in error["hint"]


def test_a_websocket_of_another_version_is_refused(harmless):
    headers = {
        "connection": "upgrade", "upgrade": "websocket",
        "sec-websocket-version": "8", "sec-websocket-key": "dGhlIHNhbXBsZSBub25jZQ==",
    }
    status, text = harmless.call("GET", "/ws/worker", role="", headers=headers)
    assert status in (400, 422, 426)
    assert "version" in json.loads(text)["error"]["message"]


def test_a_peer_that_says_nothing_is_closed(harmless):
    with WireWorker(harmless.worker_url).connect() as worker:
        began = time.monotonic()
        closed = worker.closed_within(CLOSED_WITHIN_S + 2)
        assert 4 < time.monotonic() - began < CLOSED_WITHIN_S
        assert closed.rcvd.code == 1008 and "no session" in closed.rcvd.reason


def test_a_peer_that_stops_after_its_handshake_is_closed(harmless):
    with WireWorker(harmless.worker_url, harmless.tokens["worker"]).connect() as worker:
        worker.wait_for_ack(worker.handshake())
        assert worker.closed_within(CLOSED_WITHIN_S + 2).rcvd.code == 1008


def test_heartbeats_alone_do_not_keep_a_connection(harmless):
    with WireWorker(harmless.worker_url).connect() as worker, pytest.raises(ConnectionClosed):
        for _ in range(2 * CLOSED_WITHIN_S):
            worker.beat()
            worker.quiet_for(1)


def test_nonsense_does_not_keep_a_connection(harmless):
    with WireWorker(harmless.worker_url).connect() as worker, pytest.raises(ConnectionClosed):
        for _ in range(2 * CLOSED_WITHIN_S):
            worker.socket.send("hello")
            worker.quiet_for(1)


def test_a_worker_that_never_reads_is_cut_off(harmless):
    own_type = f"own-{uuid.uuid4().hex[:8]}"
    deaf = WireWorker(harmless.worker_url, harmless.tokens["worker"], slots=64, features=[f"type:{own_type}"])
    deaf.connect(sock=deaf_socket(harmless.port), max_queue=1, ping_interval=None)
    with deaf:
        deaf.open_on_this_socket()
        for _ in range(24):
            harmless.submit(own_type, {"text": "x" * 400_000}, retry={"max_attempts": 10, "backoff_ms": 1})
        wait_until(lambda: was_cut(harmless, deaf), within_s=CUT_WITHIN_S, every_s=0.1, what="the cut in the log")


def test_a_task_that_a_worker_never_acks_goes_to_another(harmless, mute):
    task_id = harmless.submit(mute.own_type, retry={"max_attempts": 10, "backoff_ms": 1})
    mute.wait_for_type("biz.exec.dispatch")
    good = WireWorker(harmless.worker_url, harmless.tokens["worker"], features=mute.features).open()
    with Background(good, good.step):
        assert harmless.settled(task_id)["state"] == "COMPLETED"


def test_a_task_that_no_worker_ever_acks_ends_with_that_reason(harmless, mute):
    """Seed 001 section 4.1: the dispatch is tried again, and then surfaces as unavailable."""
    task_id = harmless.submit(mute.own_type, retry={"max_attempts": 10, "backoff_ms": 1})
    mute.quiet_for(17)
    task = harmless.task(task_id)
    assert (task["state"], task["error"]["code"]) == ("DEAD", "E.DISPATCH.UNAVAILABLE")
    leases = {frame["id"] for frame in mute.received if frame["type"] == "biz.exec.dispatch"}
    assert len(leases) == 3


@pytest.fixture
def mute(shared_server):
    own_type = f"own-{uuid.uuid4().hex[:8]}"
    token = shared_server.tokens["worker"]
    with MuteWorker(shared_server.worker_url, token, features=[f"type:{own_type}"]).open() as worker:
        worker.own_type = own_type
        yield worker


class MuteWorker(WireWorker):
    """It reads and answers pings, and never says that a dispatch arrived."""

    def acknowledge(self, frame: dict) -> None:
        pass


def deaf_socket(port: int) -> socket.socket:
    """A connection that takes in next to nothing on its own."""
    made = socket.socket()
    made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    made.connect(("127.0.0.1", port))
    return made


def was_cut(server, worker: WireWorker) -> bool:
    """Whether the server says so; the worker itself does not listen."""
    lines = [line for line in server.log.read_text().splitlines() if "worker disconnected" in line]
    name = f"field-worker-{worker.instance_id[:4]}"
    return any(name in line and ("does not read" in line or "is silent" in line) for line in lines)
