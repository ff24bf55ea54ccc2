"""One job on every surface: Redis door, REST, `astra explain`, metrics, channels."""

import json
import os
import re
import subprocess
import time

import pytest

from astra_server import binary
from resp_client import Push, RespClient
from waiting import wait_until


@pytest.fixture
def client(shared_server):
    with RespClient(shared_server, "admin") as client:
        yield client


def metric(server, name: str) -> float:
    status, text = server.call("GET", "/metrics")
    assert status == 200
    found = [line for line in text.splitlines() if re.match(rf"{name}[{{ ]", line)]
    return sum(float(line.rsplit(" ", 1)[1]) for line in found)


def test_a_job_is_a_task_of_the_rest_interface(shared_server, client):
    client.submit(job_id="seen-1", queue="seen", n=1)
    task_id = client.status("seen-1")["task_id"]
    assert shared_server.task(task_id)["state"] == "QUEUED"
    submitted = metric(shared_server, "tasks_submitted_total")
    reported = metric(shared_server, "reports_total")
    client.pop("queue:seen")
    assert shared_server.task(task_id)["state"] == "RUNNING"
    assert metric(shared_server, "inflight_tasks") >= 1
    client.update("seen-1", status="completed", answer=42)
    task = shared_server.settled(task_id)
    assert task["state"] == "COMPLETED" and task["result"]["answer"] == 42
    assert metric(shared_server, "reports_total") == reported + 1
    assert metric(shared_server, "tasks_submitted_total") == submitted
    assert "tasks_submitted_total" in client.ask("METRICS").decode()


def test_the_words_of_both_sides_mean_the_same(shared_server, client):
    words = {}
    for name, update in {"w-done": "completed", "w-failed": "failed"}.items():
        client.submit(job_id=name, queue=name)
        client.pop(f"queue:{name}")
        client.update(name, status=update, error="no")
    client.submit(job_id="w-stopped", queue="w-stopped")
    client.call("JOB.CANCEL", "w-stopped")
    client.submit(job_id="w-later", queue="w-later", delay_secs=600)
    for name in ["w-done", "w-failed", "w-stopped", "w-later"]:
        status = client.status(name)
        words[status["status"]] = shared_server.task(status["task_id"])["state"]
    assert words == {"completed": "COMPLETED", "failed": "FAILED", "cancelled": "STOPPED", "scheduled": "WAITING"}


def test_a_job_says_why_it_waits(shared_server, client):
    client.submit(job_id="why", queue="why", tools=["unobtainium"])
    client.register("unable", ["sort"])
    assert client.pop("queue:why", 0.1) is None
    task_id = client.status("why")["task_id"]
    explained = subprocess.run(
        [binary(), "explain", task_id, "--server", f"http://127.0.0.1:{shared_server.port}"],
        env={**os.environ, "ASTRA_TOKEN": shared_server.tokens["admin"]},
        capture_output=True, text=True, timeout=20, check=False,
    )
    assert explained.returncode == 0, explained.stderr
    assert "unobtainium" in explained.stdout, explained.stdout


def test_a_stopped_task_is_a_cancelled_job(shared_server, client):
    client.submit(job_id="by-rest", queue="by-rest")
    client.register("rest-worker")
    client.pop("queue:by-rest")
    shared_server.rest("POST", f"/tasks/{client.status('by-rest')['task_id']}/cancel")
    assert client.status("by-rest")["status"] == "cancelled"
    assert str(client.update("by-rest", status="completed")).startswith("CANCELLED task_cancelled")


def test_queues_tell_their_numbers(client):
    for number in range(3):
        client.submit(job_id=f"stat-{number}", queue="stat")
    client.submit(job_id="stat-later", queue="stat", delay_secs=600)
    client.pop("queue:stat")
    look = lambda: client.ask("QUEUE.STATS", "stat")
    is_old = lambda flat: dict(zip(flat[::2], flat[1::2]))[b"oldest_job_age_seconds"] >= 1
    flat = wait_until(look, is_old, within_s=5, what="a job that waits for a second")
    stats = {key.decode(): value for key, value in zip(flat[::2], flat[1::2])}
    assert (stats["length"], stats["running"], stats["scheduled"], stats["paused"]) == (2, 1, 1, 0)
    assert 1 <= stats["oldest_job_age_seconds"] < 10
    overall = client.ask("QUEUE.STATS")
    assert overall[0] == b"pending_jobs" and overall[2] == b"scheduled_jobs" and overall[1] >= 2 and overall[3] >= 1
    peeked = [json.loads(line)["job_id"] for line in client.ask("QUEUE.PEEK", "stat")]
    assert peeked == ["stat-1", "stat-2"] and len(client.ask("QUEUE.PEEK", "stat", 1)) == 1
    assert [json.loads(line)["job_id"] for line in client.ask("LRANGE", "queue:stat", 0, -1)] == ["stat-2", "stat-1"]
    assert any(b'"stat-0"' in line for line in client.ask("LRANGE", "queue:processing", 0, -1))
    assert client.ask("LLEN", "queue:processing") >= 1


def test_a_queue_says_when_its_next_job_is_due(client):
    client.submit(job_id="due", queue="due", delay_secs=600)
    flat = client.ask("QUEUE.STATS", "due")
    assert 500 < dict(zip(flat[::2], flat[1::2]))[b"next_job_due_in_seconds"] <= 600


def test_numbers_are_a_map_in_version_3(shared_server):
    with RespClient(shared_server, "admin", version=3) as client:
        client.submit(job_id="map-1", queue="map")
        stats = client.ask("QUEUE.STATS", "map")
        assert stats["length"] == 1 and stats["paused"] == 0


def test_a_paused_queue_gives_nothing_and_says_so_everywhere(shared_server, client):
    client.submit(job_id="paused-1", queue="halt")
    assert client.call("QUEUE.PAUSE", "halt") == "OK"
    assert client.pop("queue:halt", 0.2) is None
    flat = client.ask("QUEUE.STATS", "halt")
    stats = {key.decode(): value for key, value in zip(flat[::2], flat[1::2])}
    assert stats["paused"] == 1 and stats["paused_by"]
    queues = shared_server.rest("GET", "/queues")["queues"]
    assert next(queue for queue in queues if queue["queue"] == "halt").get("paused")
    assert client.call("QUEUE.RESUME", "halt") == "OK"
    assert client.pop("queue:halt")["job_id"] == "paused-1"


def test_a_waiting_pop_is_woken_by_a_push(shared_server, client):
    with RespClient(shared_server, "worker") as worker:
        worker.send("BRPOP", "queue:wake", 10)
        worker.wait_until_read()
        began = time.monotonic()
        client.submit(job_id="woken", queue="wake")
        assert b"woken" in worker.read()[1]
        assert time.monotonic() - began < 0.5


def test_jobs_are_listed_and_searched(client):
    for number in range(4):
        client.submit(job_id=f"find-{number}", queue="find", note="needle" if number == 2 else "hay")
    client.update(client.pop("queue:find")["job_id"], status="completed")
    names = lambda *words: [json.loads(line)["job_id"] for line in client.ask(*words)]
    assert [name for name in names("JOBS.LIST") if name.startswith("find-")] == ["find-3", "find-2", "find-1", "find-0"]
    assert "find-0" in names("JOBS.LIST", "completed") and "find-1" not in names("JOBS.LIST", "completed")
    assert len(names("JOBS.LIST", 0, 2)) == 2 and names("JOBS.LIST", 1, 1) == names("JOBS.LIST")[1:2]
    assert names("JOBS.SEARCH", "needle", "queue:find") == ["find-2"]
    assert names("JOBS.SEARCH", "status:completed", "queue:find") == ["find-0"]
    assert "unknown status" in client.call("JOBS.LIST", "nonsense")


def test_a_list_may_begin_anywhere_and_carries_no_large_payloads(server):
    with RespClient(server, "admin") as client:
        client.many([("LPUSH", "queue:long", json.dumps({"job_id": f"long-{n}", "n": n})) for n in range(1_200)])
        names = lambda *words: [json.loads(line)["job_id"] for line in client.ask(*words)]
        assert names("JOBS.LIST", "all", 2**64 - 1, 1) == [] and client.call("PING") == "PONG"
        assert names("JOBS.LIST", "all", 1_150, 1_000) == [f"long-{n}" for n in reversed(range(50))]
        assert names("JOBS.LIST", "all", "LIMIT", 3, "OFFSET", 1_000) == ["long-199", "long-198", "long-197"]
        assert names("JOBS.SEARCH", '"n":7}') == ["long-7"], "beyond the first page of the store"

        plan = {"job_id": "planned", "action_id": "group", "plan_id": "sort-it", "command": "sort",
                "input": "x" * 600_000 + "needle", "queue": "big"}
        client.call("JOB.SUBMIT", json.dumps(plan))
        client.submit(job_id="settled", queue="big2")
        client.pop("queue:big2")
        client.update("settled", status="completed", answer="y" * 100_000)
        settled, planned = (json.loads(line) for line in client.ask("JOBS.LIST", "all", 0, 2))
        assert (planned["job_id"], planned["action_id"], planned["plan_id"]) == ("planned", "group", "sort-it")
        assert settled["status"] == "completed" and "result" not in settled, "a line of a list is short"
        assert len(json.loads(client.ask("JOB.STATUS", "settled"))["result"]["answer"]) == 100_000
        assert names("JOBS.SEARCH", "needle") == ["planned"], "words are looked for in whole payloads"
        assert names("JOBS.SEARCH", "needle", "queue:big2") == names("JOBS.SEARCH", "queue:no queue") == []


def test_one_word_is_enough_for_a_search(client):
    client.submit(job_id="alone", queue="alone", note="haystack")
    assert [json.loads(line)["job_id"] for line in client.ask("JOBS.SEARCH", "haystack")] == ["alone"]


def test_who_listens_does_nothing_else_in_version_2(shared_server, client):
    with RespClient(shared_server, "admin") as listener:
        listener.ask("SUBSCRIBE", "job:updates")
        jobs = [("BRPOP", "queue:none", 1), ("LPUSH", "queue:none", "{}"), ("JOB.UPDATE", "a", "{}"), ("JOBS.LIST",)]
        for words in [("GET", "a"), *jobs]:
            refused = str(listener.call(*words))
            assert refused.startswith(f"ERR Can't execute '{words[0].lower()}'"), refused
        assert client.ask("LLEN", "queue:none") == 0


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("kind", ["SUBSCRIBE", "PSUBSCRIBE"])
def test_updates_are_told_as_they_happen(shared_server, client, version, kind):
    name = f"told-{version}-{kind.lower()}"
    channel = "job:updates" if kind == "SUBSCRIBE" else "job:*"
    with RespClient(shared_server, "viewer", version=version) as listener:
        assert listener.call(kind, channel) == [kind.lower().encode(), channel.encode(), 1]
        client.submit(job_id=name, queue=name)
        client.pop(f"queue:{name}")
        client.update(name, status="running", progress_percent=5)
        client.update(name, status="completed")
        told = []
        while "completed" not in told:
            message = listener.read()
            assert isinstance(message, Push) == (version == 3)
            head = [b"message", b"job:updates"] if kind == "SUBSCRIBE" else [b"pmessage", b"job:*", b"job:updates"]
            assert message[:-1] == head
            update = json.loads(message[-1])
            assert update["job_id"] == name
            told.append(update["status"])
        assert told == ["pending", "running", "completed"] or told == ["running", "completed"], told
        if version == 3:
            assert listener.call("ECHO", "still answers") == b"still answers"
        else:
            assert listener.call("PING") == [b"pong", b""]
        ended = listener.call("P" * (kind[0] == "P") + "UNSUBSCRIBE")
        assert ended[1:] == [channel.encode(), 0]
        assert listener.call("PING") == "PONG"


def test_a_listener_that_never_reads_harms_nobody(shared_server, client):
    before = shared_server.rss_bytes()
    deaf = RespClient(shared_server, "viewer")
    deaf.ask("SUBSCRIBE", "job:updates")
    for _ in range(20):
        client.many([("LPUSH", "queue:loud", "{}")] * 100)
    for _ in range(2):
        client.ask("RPOP", "queue:loud", 1000)
    assert client.call("PING") == "PONG"
    assert shared_server.rss_bytes() - before < 64 << 20
    deaf.close()
