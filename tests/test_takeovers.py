"""Two connections that say they are the same worker."""

import sqlite3
import uuid
from contextlib import closing

import pytest
from websockets.exceptions import ConnectionClosed

from astra_server import Server
from resp_client import Refused, RespClient
from wire_worker import WireWorker


def test_the_first_connection_is_closed_before_the_second_is_accepted(harmless):
    with twin(harmless) as first, twin(harmless, first) as second:
        first.open()
        second.open()
        # The close left before the accept did, so it is there already.
        with pytest.raises(ConnectionClosed) as closed:
            first.receive(0.5)
        assert (closed.value.rcvd.code, closed.value.rcvd.reason) == (1011, "superseded session")
        assert completes(harmless, second)


def test_nothing_that_the_first_connection_still_says_is_applied(harmless):
    with twin(harmless) as first, twin(harmless, first) as second:
        first.open()
        task_id = harmless.submit(first.own_type)
        dispatch = first.next_dispatch()
        second.open()
        with pytest.raises(ConnectionClosed):
            first.result(dispatch, result={"from": "first"})
            first.receive(1)
        second.dispatches.append(dispatch)
        assert second.wait_for_ack(second.result(dispatch, result={"from": "second"}))["info"] == "COMMITTED"
        assert harmless.settled(task_id)["result"] == {"from": "second"}


def test_a_resume_takes_a_session_over_from_a_connection_that_still_seems_alive(harmless):
    with twin(harmless) as first, twin(harmless, first) as second:
        first.open()
        task_id = harmless.submit(first.own_type)
        dispatch = first.next_dispatch()
        second.session, second.base, second.next_seq = first.session, first.base, first.next_seq
        assert second.resume()["resumed"] is True
        with pytest.raises(ConnectionClosed):
            first.receive(0.5)
        second.dispatches.append(dispatch)
        assert second.wait_for_ack(second.result(dispatch))["info"] == "COMMITTED"
        assert harmless.settled(task_id)["attempt"] == 1


def test_a_worker_that_changes_hands_too_often_is_denied_and_its_holder_goes_on(harmless):
    holder = twin(harmless).open()
    for _ in range(3):
        successor = twin(harmless, holder).open()
        holder.close()
        holder = successor
    with holder, twin(harmless, holder).connect() as late:
        late.wait_for_ack(late.handshake())
        late.register()
        reset = late.wait_for_type("control.reset")["payload"]
        assert reset["code"] == "E.SESSION.DENIED"
        assert "share one instance id" in reset["reason"]
        assert reset["retry_after_ms"] >= 1_000
        assert completes(harmless, holder)


def test_a_worker_that_reconnects_often_is_not_taken_for_two(harmless):
    """What was closed before is not taken over."""
    worker = twin(harmless)
    for _ in range(6):
        worker.open()
        assert completes(harmless, worker)
        worker.close()


def test_a_worker_whose_connection_breaks_often_is_not_taken_for_two(harmless):
    with twin(harmless).open() as worker:
        for _ in range(6):
            worker.break_off()
            assert worker.resume()["resumed"] is True
            assert completes(harmless, worker)


def test_a_worker_behind_a_bad_cable_is_not_taken_for_two(harmless):
    """Its session token proves that it is the same process."""
    with twin(harmless).open() as worker:
        for _ in range(5):
            worker.drop()
            assert worker.resume()["resumed"] is True
            assert completes(harmless, worker)


def test_another_tenants_worker_with_the_same_id_is_another_worker(tmp_path):
    server = Server(tmp_path)
    acme_token = server.make_token("worker", tenant="acme")
    server.start()
    try:
        with twin(server) as ours:
            ours.open()
            theirs = WireWorker(server.worker_url, acme_token, tenant="acme", instance_id=ours.instance_id)
            with theirs.open():
                assert completes(server, ours)
                # A task of one tenant never goes to a worker of another, whatever it offers.
                server.submit("anything")
                assert theirs.quiet_for(1) == []
    finally:
        server.stop()


def test_a_connection_whose_tenant_another_server_claimed_is_closed_and_may_come_back(tmp_path):
    """The server does not claim the tenant back before somebody asks it."""
    server = Server(tmp_path).start()
    try:
        with twin(server) as worker:
            worker.open()
            claimed = claim_elsewhere(server)
            status, text = server.call("POST", "/api/v1/tasks", {"type": worker.own_type})
            assert (status, "E.STORE.UNAVAILABLE" in text) == (503, True)
            closed = worker.closed_within(20)
            assert (closed.rcvd.code, closed.rcvd.reason) == (1001, "another server has the tenant")
            assert epoch(server) == claimed
            worker.open()
            assert epoch(server) == claimed + 1
            assert completes(server, worker)
    finally:
        server.stop()


def test_a_redis_client_finds_a_tenant_again_that_another_server_had_claimed(tmp_path):
    server = Server(tmp_path).start()
    try:
        with RespClient(server, "admin") as client, RespClient(server, "admin") as waiting:
            assert client.call("SET", "k", "1") == "OK"
            waiting.send("BLPOP", "q", "0")
            claimed = claim_elsewhere(server)
            status, _ = server.call("POST", "/api/v1/tasks", {"type": "any"})
            assert status == 503
            assert isinstance(waiting.read(), Refused)
            assert epoch(server) == claimed
            assert client.call("GET", "k") == b"1"
            assert epoch(server) == claimed + 1
            assert waiting.call("RPUSH", "q", "1") == 1
    finally:
        server.stop()


def claim_elsewhere(server) -> int:
    """What a claim by another server does. Gives its epoch."""
    with closing(sqlite3.connect(server.data / "astra.db", timeout=10)) as database, database:
        database.execute("UPDATE shards SET epoch = epoch + 10 WHERE tenant = 'default'")
    return epoch(server)


def epoch(server) -> int:
    with closing(sqlite3.connect(server.data / "astra.db", timeout=10)) as database:
        return database.execute("SELECT epoch FROM shards WHERE tenant = 'default'").fetchone()[0]


def twin(server, of: WireWorker | None = None) -> WireWorker:
    """A worker with a type of its own, or another process with the same identity."""
    own_type = of.own_type if of else f"own-{uuid.uuid4().hex[:8]}"
    worker = WireWorker(
        server.worker_url, server.tokens["worker"], features=[f"type:{own_type}"],
        instance_id=of.instance_id if of else None,
    )
    worker.own_type = own_type
    return worker


def completes(server, worker: WireWorker) -> bool:
    task_id = server.submit(worker.own_type)
    worker.wait_for_ack(worker.result(worker.next_dispatch()))
    return server.settled(task_id)["state"] == "COMPLETED"
