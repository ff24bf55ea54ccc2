"""Jobs at the Redis door: submitted, taken, reported, retried, stopped (seed 004 section 4)."""

import json
import time

import pytest

from resp_client import Refused, RespClient
from waiting import wait_until


@pytest.fixture
def client(shared_server):
    with RespClient(shared_server, "admin") as client:
        yield client


@pytest.fixture
def workers(shared_server):
    """Two workers of one credential, each with a connection."""
    with RespClient(shared_server, "worker") as one, RespClient(shared_server, "worker") as two:
        assert one.register("job-one", max_concurrent_jobs=50).startswith("OK")
        assert two.register("job-two", max_concurrent_jobs=50).startswith("OK")
        yield one, two


def test_the_seeds_job_goes_its_way(client, workers):
    """Seed 004 section 4.2, word for word."""
    worker, _ = workers
    plan = {"tasks": [{"task_number": 1, "command": "sort"}]}
    client.submit(job_id="job-abc123", queue="way", plan=plan, input={"a": 1})
    assert client.status("job-abc123")["status"] == "pending"
    job = worker.pop("queue:way")
    assert job["job_id"] == "job-abc123" and job["inputs"] == [{"a": 1}]
    assert job["plan"]["tasks"][0]["command"] == "sort"
    assert client.ask("GET", "job:job-abc123:worker") == b"job-one"
    assert 3500 < client.ask("TTL", "job:job-abc123:worker") <= 3610
    assert worker.update("job-abc123", status="running", worker_id="job-one", started_at="2025-11-17T10:00:00Z") == "OK"
    assert worker.update("job-abc123", current_task=2, progress_percent=40) == "OK"
    status = client.status("job-abc123")
    assert (status["status"], status["worker_id"], status["progress_percent"]) == ("running", "job-one", 40)
    results = [{"task_number": 1, "command": "sort", "exit_code": 0, "stdout": "a\n", "stderr": "", "duration_ms": 3}]
    ended = {"status": "completed", "completed_at": "2025-11-17T10:00:15Z", "task_results": results}
    assert worker.update("job-abc123", **ended) == "OK"
    status = client.status("job-abc123")
    assert status["status"] == "completed" and status["task_results"] == results
    assert client.ask("GET", "job:job-abc123:worker") is None
    assert client.ask("GET", "job:job-abc123:stdout") == b"a\n"


def test_a_failure_keeps_its_words(client, workers):
    worker, _ = workers
    client.submit(job_id="fails", queue="fails")
    worker.pop("queue:fails")
    ended = {"status": "failed", "failed_at": "2025-11-17T10:00:10Z", "error": "Task 2 timed out", "task_results": []}
    assert worker.update("fails", **ended) == "OK"
    status = client.status("fails")
    assert (status["status"], status["error"]) == ("failed", "Task 2 timed out")


def test_a_job_by_lpush_is_a_job_by_name(client):
    assert client.call("LPUSH", "queue:pushed", '{"job_id":"pushed-1","n":1}') == 1
    length = client.call("LPUSH", "queue:pushed", '{"job_id":"pushed-2"}', '{"job_id":"pushed-3"}')
    assert length == 3, "of the whole list, as in Redis"
    refused = client.call("LPUSH", "queue:pushed", '{"job_id":"pushed-1","n":2}')
    assert isinstance(refused, Refused) and "pushed-1" in refused
    assert client.ask("LLEN", "queue:pushed") == 3
    popped = [client.pop("queue:pushed") for _ in range(3)]
    assert [job["job_id"] for job in popped] == ["pushed-1", "pushed-2", "pushed-3"] and popped[0]["n"] == 1
    for wrong in ["x", "7", '"a"', "", "null"]:
        assert isinstance(client.call("LPUSH", "queue:pushed", wrong), Refused), wrong


def test_a_list_is_no_job(client):
    for wrong in ["[]", '["a-name"]']:
        assert isinstance(client.call("LPUSH", "queue:wrong", wrong), Refused), wrong
        assert isinstance(client.call("JOB.SUBMIT", wrong), Refused), wrong


def test_a_job_that_is_pushed_again_is_not_counted_again(client):
    job = '{"job_id":"resent"}'
    assert [client.call("LPUSH", "queue:resent", job) for _ in range(2)] == [1, 1]
    assert client.ask("LLEN", "queue:resent") == 1


@pytest.mark.parametrize(
    ("job", "named"),
    [
        ({"job_id": "a b"}, "job_id"), ({"job_id": "x" * 65}, "job_id"), ({"job_id": 7}, "job_id"),
        ({"priority": 10**6}, "priority"), ({"max_retries": -1}, "max_retries"),
        ({"max_retries": 10**6}, "max_retries"), ({"timeout_secs": 0}, "timeout_secs"),
        ({"delay_secs": -1}, "delay_secs"), ({"queue": "a b"}, "queue"),
        ({"plan_id": "nosuch"}, "nosuch"), ({"command": "a|b"}, "command"),
        ({"tags": 7}, "tags"),
        ({"after": ["nosuch"]}, "nosuch"), ({"after": "nosuch"}, "after"), ({"run_at": "soon"}, "run_at"),
        ({"run_at": 1, "delay_secs": 1}, "delay_secs"), ({"tools": ["a b"]}, "tools"),
    ],
)
def test_a_job_that_cannot_be_is_refused_by_field(client, job, named):
    refused = client.call("JOB.SUBMIT", json.dumps(job))
    assert isinstance(refused, Refused) and refused.startswith("ERR ") and named in refused, refused


def test_words_follow_one_another_or_are_refused(client, workers):
    worker, _ = workers
    client.submit(job_id="words", queue="words")
    for status in ["completed", "running", "failed"]:
        refused = worker.update("words", status=status)
        assert isinstance(refused, Refused) and "Invalid status transition" in refused, refused
    assert client.status("words")["status"] == "pending"
    worker.pop("queue:words")
    for status in ["pending", "nonsense", "dead", ""]:
        assert isinstance(worker.update("words", status=status), Refused), status
    assert worker.update("words", status="running") == "OK" and worker.update("words", status="running") == "OK"
    assert worker.update("words", status="completed") == "OK"
    refused = worker.update("words", status="running")
    assert isinstance(refused, Refused) and "Invalid status transition" in refused
    assert isinstance(client.call("JOB.CANCEL", "words"), Refused)
    assert "Invalid status transition" in client.call("JOB.RETRY", "words")


def test_retries_are_counted_and_wait(client, workers):
    worker, _ = workers
    client.submit(job_id="retried", queue="retried", max_retries=1)
    assert worker.pop("queue:retried")["attempt"] == 1
    assert worker.update("retried", status="failed", error="first") == "OK"
    assert client.status("retried")["status"] in ("pending", "scheduled")
    job = worker.pop("queue:retried", 10)
    assert job["attempt"] == 2
    assert worker.update("retried", status="failed", error="second") == "OK"
    status = client.status("retried")
    assert status["status"] in ("failed", "dead") and status["error"] == "second"
    assert client.call("JOB.RETRY", "retried") == "OK"
    assert worker.pop("queue:retried")["job_id"] == "retried"
    assert worker.update("retried", status="completed") == "OK"
    assert client.status("retried")["status"] == "completed"


def test_a_job_waits_for_its_moment(client):
    began = time.time()
    client.submit(job_id="delayed", queue="moment", delay_secs=2)
    client.submit(job_id="dated", queue="moment", run_at=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(began + 3)))
    client.submit(job_id="far", queue="moment", run_at=int(began) + 3600)
    assert client.status("delayed")["status"] == "scheduled" and client.ask("LLEN", "queue:moment") == 0
    assert client.ask("LLEN", "queue:scheduled") >= 3
    assert any(b'"far"' in line for line in client.ask("LRANGE", "queue:scheduled", 0, -1))
    assert client.pop("queue:moment", 0.3) is None
    assert client.pop("queue:moment", 6)["job_id"] == "delayed" and time.time() - began >= 1.9
    assert client.pop("queue:moment", 6)["job_id"] == "dated" and time.time() - began >= 2
    assert client.call("JOB.CANCEL", "far") == "OK" and client.status("far")["status"] == "cancelled"


def test_the_first_named_queue_goes_first(client):
    for number in range(3):
        client.submit(job_id=f"low-{number}", queue="low")
        client.submit(job_id=f"high-{number}", queue="high")
    order = []
    for _ in range(6):
        key, job = client.ask("BRPOP", "queue:high", "queue:low", 1)
        order.append(json.loads(job)["job_id"])
        assert key.decode().split(":")[1] == order[-1].split("-")[0]
    assert order == ["high-0", "high-1", "high-2", "low-0", "low-1", "low-2"]


def test_priority_goes_before_age(client):
    for priority in [0, 5, -5, 5]:
        client.ask("JOB.SUBMIT", json.dumps({"queue": "prio", "priority": priority}))
    assert [client.pop("queue:prio")["priority"] for _ in range(4)] == [5, 5, 0, -5]


@pytest.mark.parametrize(
    ("demand", "able"),
    [
        ({"tools": ["jq"]}, {"capabilities": {"tools": ["jq", "sort"]}}),
        ({"agentic_units": ["agx-ocr"]}, {"capabilities": {"tools": [], "agentic_units": ["agx-ocr"]}}),
        ({"tags": {"gpu": True}}, {"tags": {"gpu": True}}),
        ({"tags": {"zone": "a"}}, {"tags": {"zone": "a", "more": "x"}}),
        ({"tags": ["fast"]}, {"tags": ["fast"]}),
        ({"command": "ffmpeg", "args": ["-version"]}, {"capabilities": ["ffmpeg"]}),
    ],
)
def test_a_job_goes_to_a_worker_that_can(shared_server, client, demand, able):
    queue = "able-" + "".join(ch for ch in json.dumps(demand) if ch.isalnum())[:40]
    job = client.submit(queue=queue, **demand)
    with RespClient(shared_server, "worker") as unable_one, RespClient(shared_server, "worker") as able_one:
        assert unable_one.register(f"un-{queue}", ["cat"], tags={"gpu": False, "zone": "b"}).startswith("OK")
        assert able_one.register(f"be-{queue}", **{"capabilities": {"tools": ["cat"]}, **able}).startswith("OK")
        assert unable_one.pop(f"queue:{queue}", 0.3) is None
        assert able_one.pop(f"queue:{queue}", 2)["job_id"] == job
        assert able_one.update(job, status="completed") == "OK"


def test_a_job_waits_for_those_before_it(client, workers):
    worker, _ = workers
    client.submit(job_id="dep-a", queue="dep")
    client.submit(job_id="dep-b", queue="dep", after=["dep-a"])
    client.submit(job_id="dep-c", queue="dep", dependencies=["dep-a", "dep-b"])
    assert worker.pop("queue:dep")["job_id"] == "dep-a" and worker.pop("queue:dep", 0.2) is None
    assert client.status("dep-b")["status"] in ("scheduled", "pending", "waiting")
    worker.update("dep-a", status="completed")
    assert worker.pop("queue:dep")["job_id"] == "dep-b" and worker.pop("queue:dep", 0.2) is None
    worker.update("dep-b", status="completed")
    assert worker.pop("queue:dep")["job_id"] == "dep-c"
    worker.update("dep-c", status="completed")


def test_what_waits_for_a_failure_is_told(client, workers):
    worker, _ = workers
    client.submit(job_id="fail-a", queue="depf")
    client.submit(job_id="fail-b", queue="depf", after=["fail-a"])
    worker.pop("queue:depf")
    worker.update("fail-a", status="failed", error="no")
    is_over = lambda seen: seen["status"] in ("failed", "cancelled", "dead")
    wait_until(lambda: client.status("fail-b"), is_over, within_s=5, what="the end of fail-b")
    assert worker.pop("queue:depf", 0.2) is None
