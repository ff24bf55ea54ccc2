"""What is known of workers, and what becomes of it: seed 004 sections 1, 2, 4 to 7, 9 and 10."""

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from astra_server import binary
from resp_client import Refused, RespClient
from waiting import wait_until

READY_WITHIN_S = 20


@pytest.fixture
def worker(shared_server):
    with RespClient(shared_server, "worker") as client:
        yield client


@pytest.fixture
def admin(shared_server):
    with RespClient(shared_server, "admin") as client:
        yield client


def listed(client, worker_id: str) -> dict | None:
    lines = map(json.loads, client.ask("WORKERS.LIST"))
    return next((line for line in lines if line["worker_id"] == worker_id), None)


def test_the_protocol_has_its_version(admin):
    assert b"\r\nworker_protocol_version:1.0\r\n" in admin.ask("INFO", "server")


def test_a_worker_does_one_job_at_a_time_unless_it_says_otherwise(worker, admin):
    """Section 2.2."""
    for number in range(2):
        admin.submit(job_id=f"single-{number}", queue="single")
    assert worker.register("of-one-slot").startswith("OK")
    assert worker.pop("queue:single")["job_id"] == "single-0"
    assert worker.pop("queue:single", 0.3) is None
    assert listed(admin, "of-one-slot")["max_concurrent_jobs"] == 1
    assert worker.update("single-0", status="completed") == "OK"
    assert worker.pop("queue:single")["job_id"] == "single-1"
    assert worker.update("single-1", status="completed") == "OK"


def test_tags_may_have_any_keys_and_values(worker, admin):
    tags = {"environment": "local", "gpu": True, "cores": 8, "share": 0.5, "zone.a/b": "eu west 1", "empty": ""}
    assert worker.register("tagged", tags=tags).startswith("OK")
    assert json.loads(worker.ask("GET", "worker:tagged:metadata"))["tags"] == tags
    admin.submit(job_id="tagged-job", queue="tags", tags={"gpu": True, "cores": 8, "zone.a/b": "eu west 1"})
    assert worker.pop("queue:tags")["job_id"] == "tagged-job"
    assert worker.update("tagged-job", status="completed") == "OK"


def test_each_heartbeat_stores_the_time(worker):
    """Section 3.4."""
    assert worker.register("beating").startswith("OK")
    first = int(worker.ask("GET", "worker:beating:alive"))

    def stored() -> int:
        assert worker.call("WORKER.HEARTBEAT", "beating") == "OK"
        return int(worker.ask("GET", "worker:beating:alive"))

    later = wait_until(stored, lambda at: at != first, within_s=3, what="the time of a later heartbeat")
    assert first < later <= time.time() + 1


def test_states_are_active_dead_and_none(server):
    """Section 6. A server that comes back has heard of nobody yet."""
    with RespClient(server, "worker") as client:
        assert listed(client, "stateful") is None
        assert isinstance(client.call("WORKER.HEARTBEAT", "stateful"), Refused), "no heartbeat without a registration"
        assert client.register("stateful").startswith("OK")
        assert listed(client, "stateful")["status"] == "active"
    server.kill()
    server.start()
    with RespClient(server, "admin") as admin, RespClient(server, "worker") as client:
        assert listed(admin, "stateful")["status"] == "dead"
        assert abs(listed(admin, "stateful")["last_seen"] - time.time()) < 60, "when it registered is known"
        assert admin.ask("KEYS", "worker:*:alive") == [], "the dead are not among the active"
        assert admin.ask("KEYS", "worker:*:metadata") == [b"worker:stateful:metadata"]
        # One that is heard of is not dead: a pop is a sign of life.
        admin.submit(job_id="for-the-dead", queue="states")
        assert client.call("WORKER.HEARTBEAT", "stateful") == "OK"
        assert client.pop("queue:states")["job_id"] == "for-the-dead"
        assert listed(admin, "stateful")["status"] == "active"
        assert admin.ask("GET", "job:for-the-dead:worker") == b"stateful"
        assert client.ask("WORKER.UNREGISTER", "stateful") == "OK"
        assert listed(admin, "stateful") is None and admin.ask("KEYS", "worker:stateful:*") == []
        # What it held is gone from it; whoever has a worker's key may still work, in the key's name.
        said = client.update("for-the-dead", status="completed", worker_id="stateful")
        assert str(said).startswith(("CANCELLED", "REJECTED", "ERR Invalid status transition")), said
        assert client.pop("queue:states")["job_id"] == "for-the-dead"
        assert admin.ask("GET", "job:for-the-dead:worker") not in (b"stateful", None)


def test_active_workers_are_the_keys_of_the_living(worker, admin):
    """Section 9.2."""
    names = [f"living-{number}" for number in range(3)]
    for name in names:
        assert worker.register(name).startswith("OK")
    assert set(admin.ask("KEYS", "worker:living-*:alive")) == {f"worker:{name}:alive".encode() for name in names}
    assert {f"worker:{name}:alive".encode() for name in names} <= set(admin.ask("KEYS", "worker:*:alive"))
    assert worker.ask("WORKER.UNREGISTER", names[0]) == "OK"
    assert admin.ask("EXISTS", f"worker:{names[0]}:alive") == 0


@pytest.mark.parametrize(
    ("worker_id", "said"),
    [
        ("a b", "ERR Invalid worker ID characters"), ("a:b", "ERR Invalid worker ID characters"),
        ("w\u00e4", "ERR Invalid worker ID characters"), ("x" * 65, "ERR Worker ID too long"),
    ],
)
def test_ids_are_refused_in_the_words_of_the_seed(worker, worker_id, said):
    """Section 7.2."""
    assert str(worker.register(worker_id)).startswith(said)
    assert str(worker.call("WORKER.HEARTBEAT", worker_id)).startswith(said)
    assert str(worker.call("WORKER.UNREGISTER", worker_id)).startswith(said)


def test_a_foreign_update_is_refused_in_the_words_of_the_seed(worker, admin):
    """Section 7.4."""
    admin.submit(job_id="claimed", queue="claims")
    assert worker.register("claimant").startswith("OK")
    assert worker.pop("queue:claims")["job_id"] == "claimed"
    said = admin.update("claimed", status="completed", worker_id="thief")
    assert "Worker thief cannot update job claimed by claimant" in said and said.startswith("REJECTED not_holder")
    assert worker.update("claimed", status="completed") == "OK"


def test_the_worker_of_a_job_that_took_too_long_is_flagged(worker, admin):
    """Section 5.2."""
    admin.submit(job_id="slow", queue="slow", timeout_secs=1, max_retries=1)
    assert worker.register("slowly").startswith("OK")
    assert worker.pop("queue:slow")["job_id"] == "slow"
    assert listed(admin, "slowly")["timed_out_jobs"] == 0
    assert admin.pop("queue:slow", 10)["job_id"] == "slow", "it is queued again"
    assert listed(admin, "slowly")["timed_out_jobs"] == 1
    assert admin.update("slow", status="completed") == "OK"
    assert worker.register("slowly").startswith("OK")
    assert listed(admin, "slowly")["timed_out_jobs"] == 0, "it begins anew"


def found(client, *words: str) -> dict:
    lines = map(json.loads, client.ask("CAPABILITY.SEARCH", *words))
    return {line["capability"]: line for line in lines}


def test_capabilities_are_found_by_words(worker, admin):
    """Section 10: what units say of themselves is searched too."""
    descriptions = {"agx-ocr": {"does": "Reads TEXT in pictures", "in": ["png"]}, "agx-sum": "adds numbers"}
    capabilities = {"tools": ["zsort"], "agentic_units": ["agx-ocr", "agx-sum"]}
    assert worker.register("describing", capabilities=capabilities, descriptions=descriptions).startswith("OK")
    assert worker.register("silent-twin", tools=["agx-ocr"]).startswith("OK")
    ocr = found(admin, "pictures", "text")["agx-ocr"]
    assert ocr["description"] == descriptions["agx-ocr"] and set(ocr["workers"]) == {"describing", "silent-twin"}
    assert set(found(admin, "agx-")) == {"agx-ocr", "agx-sum"}
    assert set(found(admin, "numbers adds")) == {"agx-sum"} and found(admin, "zsort")["zsort"]["workers"] == ["describing"]
    assert found(admin, "pictures", "numbers") == {} and found(admin, "nosuch") == {}
    assert isinstance(admin.call("CAPABILITY.SEARCH", b"\xff"), Refused)
    assert worker.ask("WORKER.UNREGISTER", "describing") == "OK"
    assert found(admin, "pictures") == {}
    assert worker.ask("WORKER.UNREGISTER", "silent-twin") == "OK"


def test_a_worker_with_very_many_tools_is_listed_in_short(worker, admin):
    assert worker.register("rich", tools=[f"tool{number}" for number in range(2000)]).startswith("OK")
    line = listed(admin, "rich")
    assert len(line["tools"]) == 100 and line["tools_total"] == 2000
    assert found(admin, "tool1999")["tool1999"]["workers"] == ["rich"]
    assert worker.ask("WORKER.UNREGISTER", "rich") == "OK"


# ----- our own worker


class OwnWorker:
    """`astra worker start --resp`, without a name."""

    def __init__(self, server, folder, *words: str, env=None):
        self.log = folder / f"worker-{time.monotonic_ns()}.log"
        command = [binary(), "worker", "start", "--resp", f"127.0.0.1:{server.resp_port}", *words]
        env = {**os.environ, "ASTRA_TOKEN": server.tokens["worker"], **(env or {})}
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                command, cwd=folder, env=env, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )

    def name(self, viewer, others=()) -> str:
        def names() -> set[str]:
            assert self.process.poll() is None, self.log.read_text()
            return {key.decode().split(":")[1] for key in viewer.ask("KEYS", "worker:*:alive")} - set(others)

        return wait_until(names, within_s=READY_WITHIN_S, what=f"a worker that logs to {self.log}").pop()

    def end(self, how=signal.SIGTERM) -> int:
        self.process.send_signal(how)
        return self.process.wait(20)


def test_a_worker_that_starts_again_is_another_one(server, tmp_path):
    """Sections 2.2 and 5.3: the machine's name and the process make the id."""
    with RespClient(server, "admin") as admin:
        first = OwnWorker(server, tmp_path)
        name = first.name(admin)
        assert name.startswith("worker-") and name.endswith(f"-{first.process.pid}")
        first.end(signal.SIGKILL)
        second = OwnWorker(server, tmp_path)
        try:
            other = second.name(admin, {name})
            assert other.endswith(f"-{second.process.pid}") and other != name
            has_load = lambda stats: stats is not None and b"cpu_usage_percent" in stats
            look = lambda: admin.ask("GET", f"worker:{other}:stats")
            stats = json.loads(wait_until(look, has_load, within_s=60, what="a heartbeat with the load"))
            assert 0 <= stats["cpu_usage_percent"] <= 100 and stats["memory_mb"] > 0
        finally:
            assert second.end() == 0
        # The one that crashed stays; the one that left in order does not.
        assert listed(admin, other) is None and listed(admin, name) is not None
        assert admin.ask("EXISTS", f"worker:{name}:metadata") == 1
        server.kill()
        server.start()
    with RespClient(server, "admin") as admin:
        assert listed(admin, name)["status"] == "dead"


def wait_for_program(*words: str) -> None:
    """A job is held before its program runs; until then its worker may still give it back unread."""
    wanted = "\0".join(words).encode()
    runs = lambda: any(wanted in command_line(entry) for entry in Path("/proc").glob("[0-9]*"))
    wait_until(runs, within_s=READY_WITHIN_S, what=f"the program {words}")


def command_line(entry: Path) -> bytes:
    try:
        return (entry / "cmdline").read_bytes()
    except OSError:
        return b""


def test_a_worker_whose_time_is_up_names_its_jobs(server, tmp_path):
    """Section 8.2."""
    with RespClient(server, "admin") as admin:
        worker = OwnWorker(server, tmp_path, "--drain-deadline", "1s")
        worker.name(admin)
        # A time of its own, by which the program is found among all others.
        span = f"60.{worker.process.pid}"
        admin.submit(job_id="endless-1", command="sleep", args=[span])
        wait_for_program("sleep", span)
        worker.end()
        warned = [line for line in worker.log.read_text().splitlines() if "the time is up" in line]
        assert len(warned) == 1 and "endless-1" in warned[0] and "WARN" in warned[0], worker.log.read_text()
        admin.wait_for_status("endless-1", "pending")


def test_units_describe_themselves(server, tmp_path):
    """Section 10."""
    tools = tmp_path / "bin"
    tools.mkdir()
    unit = tools / "agx-count"
    unit.write_text("#!/bin/sh\n[ \"$1\" = --describe ] && echo '{\"does\":\"counts words\"}' || wc -w\n")
    unit.chmod(0o755)
    with RespClient(server, "admin") as admin:
        worker = OwnWorker(
            server, tmp_path, "--unit", "agx-count", env={"PATH": f"{tools}:{os.environ['PATH']}"}
        )
        try:
            name = worker.name(admin)
            metadata = json.loads(admin.ask("GET", f"worker:{name}:metadata"))
            assert metadata["capabilities"]["agentic_units"] == ["agx-count"]
            assert metadata["descriptions"] == {"agx-count": {"does": "counts words"}}
            assert found(admin, "counts", "words")["agx-count"]["workers"] == [name]
            job = admin.submit(command="agx-count", input="a b c\n")
            done = admin.wait_for_status(job, "completed", 20)
            assert done["task_results"][0]["stdout"].strip() == "3"
        finally:
            worker.end()
