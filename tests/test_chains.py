"""Middlewares on a real worker: few slots, lost connections, every kind of end."""

import subprocess

import pytest

from astra_server import Server, binary
from flows import ended, node_id, nodes_of, played, start, workflow
from waiting import wait_until


@pytest.fixture
def flows(tmp_path):
    server = Server(tmp_path).start()
    server.crew = []
    yield server
    for worker in server.crew:
        worker.kill()
        worker.wait()
    server.stop()
    print(server.log.read_text())


def worker_of(server, name="w1", slots=1):
    log = (server.folder / f"{name}.log").open("ab")
    words = ["worker", "start", "--name", name, "--slots", str(slots), "--data", str(server.folder / name)]
    words += ["--server", f"http://127.0.0.1:{server.port}", "--token", server.tokens["worker"]]
    worker = subprocess.Popen([binary(), *words], stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    server.crew.append(worker)
    return worker


def middleware(name, kind, **parameters):
    return {"id": node_id(name), "type": kind, "label": name, "role": "middleware", "parameters": parameters}


def chain(host, *middlewares):
    return workflow({"host": {**host, "middlewares": list(middlewares)}})


def test_one_slot_is_enough_for_three_middlewares_and_their_node(flows):
    worker_of(flows, slots=1)
    run = played(flows, chain(
        {"parameters": {"text": "hello"}},
        middleware("a", "core.retry"), middleware("b", "core.loop", times=2), middleware("c", "core.timeout", ms=20_000),
    ))
    assert run["status"] == "succeeded", run
    result = nodes_of(run)["host"]["result"]
    # Outermost last: the loop's list, the retry's count, and what the node itself gave.
    assert result["text"] == "hello" and result["count"] == 2 and result["attempts"] == 1, result
    assert [item["index"] for item in result["items"]] == [0, 1]


def test_eight_chains_of_three_share_two_slots(flows):
    worker_of(flows, slots=2)
    hosts = {
        f"host{n}": {"type": "core.sleep", "parameters": {"ms": 20}, "middlewares": [
            middleware(f"{n}-{level}", "core.retry") for level in range(3)
        ]}
        for n in range(8)
    }
    run = played(flows, workflow(hosts))
    assert run["status"] == "succeeded", run
    assert all(nodes_of(run)[name]["result"]["slept_ms"] == 20 for name in hosts)


def test_a_retry_calls_until_it_works_and_passes_the_last_failure_on(flows):
    worker_of(flows, slots=1)
    host = {"type": "core.fail", "retry": {"maxAttempts": 1}, "parameters": {"times": 2, "code": "E.BUSY"}}
    run = played(flows, chain(host, middleware("a", "core.retry", attempts=5)))
    assert run["status"] == "succeeded" and nodes_of(run)["host"]["result"]["attempts"] == 3, run
    run = played(flows, chain(host, middleware("a", "core.retry", attempts=2)))
    assert run["status"] == "failed" and run["error"]["code"] == "E.BUSY", run


def test_a_timeout_ends_the_wait(flows):
    worker_of(flows, slots=2)
    host = {"type": "core.sleep", "parameters": {"ms": 60_000}}
    run = played(flows, chain(host, middleware("a", "core.timeout", ms=300)))
    assert run["status"] == "failed" and run["error"]["code"] == "E.TIMEOUT", run


def test_a_cancelled_run_frees_whoever_waits(flows):
    worker_of(flows, slots=1)
    host = {"type": "core.sleep", "parameters": {"ms": 60_000}}
    run_id = start(flows, chain(host, middleware("a", "core.retry")))["runId"]
    until_running(flows, run_id)
    flows.rest("POST", f"/runs/{run_id}/cancel")
    assert ended(flows, run_id)["status"] == "cancelled"
    assert played(flows, workflow({"next": {}}))["status"] == "succeeded", "the slot is free"


def test_an_answer_survives_a_lost_connection_of_either_end(flows):
    """The server is killed while a middleware waits; the call goes on where it was."""
    worker_of(flows, slots=1)
    host = {"type": "core.sleep", "parameters": {"ms": 1500}, "leaseTtlMs": 5_000}
    run_id = start(flows, chain(host, middleware("a", "core.loop", times=2)))["runId"]
    until_running(flows, run_id)
    for _ in range(3):
        flows.kill()
        flows.start()
        is_back = lambda worker: worker.get("session", {}).get("connected")
        wait_until(lambda: flows.rest("GET", "/workers/w1"), is_back, what="the worker to come back")
    run = ended(flows, run_id, within_s=60)
    assert run["status"] == "succeeded", run
    assert nodes_of(run)["host"]["result"]["count"] == 2


def until_running(server, run_id):
    is_running = lambda tasks: any(task["type"] == "core.sleep" for task in tasks)
    look = lambda: server.rest("GET", "/tasks?state=RUNNING")["tasks"]
    wait_until(look, is_running, what=f"the node of run {run_id} to be under way")
