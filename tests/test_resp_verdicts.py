"""Who may speak about a job, and what a report is worth (ADR 2), at the Redis door."""

import pytest

from resp_client import Refused, RespClient


@pytest.fixture
def client(shared_server):
    with RespClient(shared_server, "admin") as client:
        yield client


@pytest.fixture
def workers(shared_server):
    """Two workers of one credential, each with a connection."""
    with RespClient(shared_server, "worker") as one, RespClient(shared_server, "worker") as two:
        assert one.register("verdict-one", max_concurrent_jobs=50).startswith("OK")
        assert two.register("verdict-two", max_concurrent_jobs=50).startswith("OK")
        yield one, two


def test_only_the_holder_may_speak(client, workers):
    one, two = workers
    client.submit(job_id="held", queue="held")
    lease = one.pop("queue:held")["lease_id"]
    for update in [{"status": "running"}, {"status": "completed"}, {"status": "failed"}, {"progress_percent": 1}]:
        assert str(two.update("held", **update)).startswith("REJECTED not_holder"), update
    assert str(two.update("held", status="completed", lease_id=lease)).startswith("REJECTED not_holder")
    assert client.status("held")["status"] == "running"
    assert one.update("held", status="completed") == "OK"
    assert str(two.update("held", status="completed")).startswith(("REJECTED", "ERR"))


def test_one_verdict_for_one_report(client, workers):
    """ADR 2: a resend gets the stored verdict, another report none."""
    one, _ = workers
    client.submit(job_id="verdict", queue="verdict")
    one.pop("queue:verdict")
    report = {"status": "completed", "task_results": [{"n": 1}]}
    assert one.update("verdict", **report) == "OK"
    assert one.update("verdict", **report) == "OK"
    assert str(one.update("verdict", status="completed", task_results=[])).startswith("REJECTED duplicate_report")
    assert str(one.update("verdict", status="failed", error="x")).startswith("REJECTED duplicate_report")
    assert client.status("verdict")["status"] == "completed" and client.status("verdict")["task_results"] == [{"n": 1}]


def test_who_lost_the_job_is_told_so(client, workers):
    one, two = workers
    client.submit(job_id="lost", queue="lost")
    old = one.pop("queue:lost")["lease_id"]
    assert one.call("WORKER.UNREGISTER", "verdict-one") == "OK"
    new = two.pop("queue:lost", 5)["lease_id"]
    assert new != old
    report = {"worker_id": "verdict-one", "lease_id": old}
    for status in ["running", "completed"]:
        assert str(one.update("lost", status=status, **report)).startswith("CANCELLED superseded")
    assert two.update("lost", status="completed") == "OK"
    assert str(one.update("lost", status="completed", **report)).startswith("CANCELLED superseded")


@pytest.mark.parametrize("lease", ["x", "", "00000000-0000-0000-0000-000000000000-1"])
def test_a_lease_that_never_was_is_refused(client, workers, lease):
    one, _ = workers
    client.submit(job_id="leased", queue="leased")
    assert str(one.update("leased", status="completed", lease_id=lease)).startswith("REJECTED")
    assert client.status("leased")["status"] == "pending"


def test_a_report_about_another_job_than_the_leases_is_refused(client, workers):
    one, _ = workers
    client.submit(job_id="mix-a", queue="mix-a")
    client.submit(job_id="mix-b", queue="mix-b")
    lease = one.pop("queue:mix-a")["lease_id"]
    assert isinstance(one.update("mix-b", status="completed", lease_id=lease), Refused)
    assert (client.status("mix-a")["status"], client.status("mix-b")["status"]) == ("running", "pending")
    one.update("mix-a", status="completed")


def test_a_running_job_can_be_stopped(client, workers):
    one, _ = workers
    client.submit(job_id="stopped", queue="stopped")
    one.pop("queue:stopped")
    assert client.call("JOB.CANCEL", "stopped") == "OK"
    assert client.status("stopped")["status"] == "cancelled"
    assert str(one.update("stopped", status="running")).startswith("CANCELLED task_cancelled")
    assert str(one.update("stopped", status="completed")).startswith("CANCELLED task_cancelled")
    assert client.status("stopped")["status"] == "cancelled"
    assert client.call("JOB.CANCEL", "nosuch") == "ERR Job not found: nosuch"


def test_verdicts_survive_a_kill(server):
    with RespClient(server, "admin") as client:
        client.submit(job_id="kept-done", queue="kept")
        client.submit(job_id="kept-held", queue="kept")
        assert client.register("keeper", max_concurrent_jobs=4).startswith("OK")
        assert [client.pop("queue:kept")["job_id"] for _ in range(2)] == ["kept-done", "kept-held"]
        assert client.update("kept-done", status="completed", result=7) == "OK"
    server.kill()
    server.start()
    with RespClient(server, "admin") as client:
        assert client.call("WORKER.HEARTBEAT", "keeper") == "OK"
        assert client.update("kept-done", status="completed", result=7) == "OK"
        assert str(client.update("kept-done", status="completed", result=8)).startswith("REJECTED duplicate_report")
        assert client.status("kept-held")["status"] == "running"
        assert client.update("kept-held", status="completed") == "OK"


@pytest.mark.parametrize(
    "words",
    [
        ("JOB.UPDATE", "listed-report", '["completed"]'), ("PLAN.SUBMIT", '["p",null,[[1,"sort"]]]'),
        ("WORKER.REGISTER", '["w","here",null,"0.1",["sort"]]'),
    ],
)
def test_a_list_is_no_object(client, words):
    client.submit(job_id="listed-report", queue="listed-report")
    client.ask("RPOP", "queue:listed-report")
    assert isinstance(client.call(*words), Refused)
