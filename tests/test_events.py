"""What those hear who watch workers: server-sent events beside a real session."""

import json
import re
import time

import pytest

from watcher import TOLD_WITHIN_S, Watcher
from wire_worker import WireWorker


@pytest.fixture
def watched(server):
    """A worker, and a function that watches it."""
    if "viewer" not in server.tokens:
        server.tokens["viewer"] = server.new_token("viewer")[1]
    with WireWorker(server.worker_url, server.tokens["worker"]) as worker:
        yield worker.open(), lambda types: Watcher(server, types)


def test_a_heartbeat_is_told_with_what_it_said(watched):
    worker, watch = watched
    with watch("worker.*") as watcher:
        worker.beat(inflight=2, cpu_pct=61.5, latency_ms=7)
        told = watcher.next()
    assert told["type"] == "worker.heartbeat"
    assert told["scope"]["workerName"] == told["data"]["workerName"] == "field-worker"
    data = told["data"]
    assert (data["instanceId"], data["hostname"], data["version"]) == (worker.instance_id, "field", "0.1.0")
    assert (data["connected"], data["registered"]) == (True, True)
    assert data["heartbeat"]["healthy"] is True
    metrics = data["heartbeat"]["metrics"]
    assert (metrics["inflight"], metrics["cpuPct"], metrics["memPct"]) == (2, 61.5, 40.0)


def test_what_became_of_a_package_is_told(watched):
    worker, watch = watched
    with watch("worker.package") as watcher:
        worker.beat()
        worker.business("biz.pkg.event", {"name": "shot", "version": "2.2.0", "status": "installed"})
        failed = {"name": "shot", "version": "3.0.0", "status": "failed", "details": {"message": "no room"}}
        worker.business("biz.pkg.event", failed)
        installed, refused = watcher.next()["data"], watcher.next()["data"]
    about = {"kind": "worker.package", "workerName": "field-worker", "package": "shot"}
    assert installed == {**about, "version": "2.2.0", "status": "installed"}
    assert refused == {**about, "version": "3.0.0", "status": "failed", "message": "no room"}


def test_a_command_to_a_worker_is_told_with_what_became_of_it(server, watched):
    worker, watch = watched
    path = "/workers/field-worker/commands"
    with watch("command.*") as watcher:
        accepted = server.rest("POST", path, {"type": "drain", "reason": "new disk"})
        told = watcher.next()
        assert (told["type"], told["data"]["commandId"]) == ("command.ack", accepted["command_id"])
        status, text = server.call("POST", f"/api/v1{path}", {"type": "drain", "reason": "x" * 100_000})
        assert status == 422, text
        told = watcher.next()
        assert told["type"] == "command.error"
        refusal = json.loads(text)["error"]
        assert told["data"]["error"] == {key: refusal[key] for key in ("code", "message")}


def test_the_way_to_a_worker_and_back_is_measured(server, watched):
    worker, _ = watched

    def measured() -> int:
        status, text = server.call("GET", "/metrics")
        assert status == 200, text
        counts = re.search(r'^ws_heartbeat_latency_ms_count\{tenant="default"\} (\d+)$', text, re.M)
        return int(counts[1]) if counts else 0

    deadline = time.monotonic() + TOLD_WITHIN_S
    while measured() == 0 and time.monotonic() < deadline:
        worker.quiet_for(0.1)
    assert measured() > 0
