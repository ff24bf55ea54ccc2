"""A worker written from seed 001 works with the server as it is."""

import json

import pytest

from flows import ended, node_id, start, workflow
from peer import Background
from seed001_client import Seed001Client

QUICK_RETRY = {"max_attempts": 3, "backoff_ms": 1}


@pytest.fixture
def client(server):
    with Seed001Client(server.worker_url, server.tokens["worker"], packages=[("shot", "2.1.0")]).open() as client:
        yield client
        assert foreign_names(client) == []


def test_a_task_is_completed(server, client):
    task_id = server.submit("greet", {"name": "Ann"})
    dispatch = client.next_dispatch()
    assert (dispatch["seq"], dispatch["ack"]) == (1, {"request": True})
    assert "session_seq" not in dispatch
    ack = client.wait_for_ack(client.result(dispatch))
    assert ack["ok"] is True
    task = server.settled(task_id)
    assert (task["state"], task["attempt"]) == ("COMPLETED", 1)
    assert task["result"] == {"echo": {"name": "Ann"}}


def test_a_task_that_needs_a_package_comes_to_the_worker_that_has_it(server, client):
    package = {"name": "shot", "version": "2.1.0"}
    task_id = server.submit("shot.take", requires={"package": package})
    dispatch = client.next_dispatch()
    assert dispatch["payload"]["package_name"] == "shot"
    assert dispatch["payload"]["package_version"] == "2.1.0"
    client.result(dispatch)
    assert server.settled(task_id)["state"] == "COMPLETED"


def test_two_hundred_tasks_are_completed_over_one_connection(server):
    client = Seed001Client(server.worker_url, server.tokens["worker"], slots=16).open()
    with Background(client, client.step) as work:
        task_ids = [server.submit("count", {"n": n}) for n in range(200)]
        for n, task_id in enumerate(task_ids):
            task = server.settled(task_id)
            work.check()
            assert (task["state"], task["attempt"], task["result"]) == ("COMPLETED", 1, {"echo": {"n": n}})
    assert foreign_names(client) == []


def test_a_task_may_take_longer_than_a_delivery(server, client):
    task_id = server.submit("long")
    dispatch = client.next_dispatch()
    client.quiet_for(6)
    client.wait_for_ack(client.result(dispatch))
    assert server.settled(task_id)["attempt"] == 1
    assert len(client.started) == 1


def test_feedback_is_the_log_of_the_task(server, client):
    task_id = server.submit("talk")
    dispatch = client.next_dispatch()
    chunks = [{"channel": "stdout", "text": "first line\n"}, {"channel": "stderr", "text": "oh\n"}]
    client.feedback(dispatch, stage="running", progress=0.5, message="half way", chunks=chunks)
    client.feedback(dispatch, chunks=[{"channel": "stdout", "text": "second line\n"}])
    client.wait_for_ack(client.result(dispatch))
    server.settled(task_id)
    lines = [(line["channel"], line["text"], line["attempt"]) for line in server.log_lines(task_id)]
    assert lines == [("stdout", "first line\n", 1), ("stderr", "oh\n", 1), ("stdout", "second line\n", 1)]


def test_a_duplicate_result_is_acked_and_changes_nothing(server, client):
    task_id = server.submit("greet")
    result = client.result(client.next_dispatch())
    client.wait_for_ack(result)
    before = server.settled(task_id)
    client.send(result)
    client.wait_for_ack(result)
    assert server.task(task_id) == before


def test_another_result_for_the_same_task_is_acked_and_changes_nothing(server, client):
    task_id = server.submit("greet")
    dispatch = client.next_dispatch()
    client.wait_for_ack(client.result(dispatch))
    before = server.settled(task_id)
    client.dispatches.append(dispatch)
    client.wait_for_ack(client.result(dispatch, result={"echo": "something else"}))
    assert server.task(task_id) == before


def test_a_cancelled_runner_makes_the_task_be_tried_again(server, client):
    task_id = server.submit("greet", retry=QUICK_RETRY)
    client.wait_for_ack(client.error(client.next_dispatch(), "E.RUNNER.CANCELLED", "shutting down"))
    again = client.next_dispatch()
    assert again["payload"]["task_id"] == task_id and again["seq"] == 2
    client.wait_for_ack(client.result(again))
    assert server.settled(task_id)["state"] == "COMPLETED"


def test_a_cancelled_runner_costs_no_attempt(server, client):
    task_id = server.submit("greet", retry={"max_attempts": 1, "backoff_ms": 1})
    client.wait_for_ack(client.error(client.next_dispatch(), "E.RUNNER.CANCELLED", "shutting down"))
    client.wait_for_ack(client.result(client.next_dispatch(within_s=3)))
    assert server.settled(task_id)["state"] == "COMPLETED"


@pytest.mark.parametrize("code", ["E.RUNNER.FAILURE", "E.RESOURCE.MISSING", "E.SOMETHING.ELSE"])
def test_any_other_error_counts_as_a_failed_attempt(server, client, code):
    task_id = server.submit("greet", retry={"max_attempts": 1})
    client.wait_for_ack(client.error(client.next_dispatch(), code, "no luck"))
    task = server.settled(task_id)
    assert task["state"] in ("FAILED", "DEAD") and task["attempt"] == 1
    assert task["error"] == {"code": code, "reason": "no luck"}


def test_a_failed_result_is_tried_again(server, client):
    task_id = server.submit("greet", retry=QUICK_RETRY)
    error = {"code": "E.RUNNER.FAILURE", "message": "no luck"}
    client.wait_for_ack(client.result(client.next_dispatch(), "FAILED", error=error))
    client.wait_for_ack(client.result(client.next_dispatch()))
    task = server.settled(task_id)
    assert (task["state"], task["attempt"]) == ("COMPLETED", 2)


def test_a_reconnect_begins_with_handshake_and_register_and_keeps_the_task(server, client):
    """Seed 001 section 4.4: the lease is valid but the session is new, so the task is rebound."""
    task_id = server.submit("long")
    dispatch = client.next_dispatch()
    client.drop()
    client.open()
    assert client.wait_for_ack(client.result(dispatch))["info"] == "COMMITTED"
    task = server.settled(task_id)
    assert (task["state"], task["attempt"]) == ("COMPLETED", 1)


def test_a_reset_is_said_as_an_error(server):
    with Seed001Client(server.worker_url, "no-such-token").connect() as client:
        client.say("handshake", {
            "protocol": 1, "auth": {"mode": "token", "token": "no-such-token"},
            "worker": {"worker_id": "w", "version": "1", "hostname": "h"},
        }, ack={"request": True})
        said = client.wait_for_type("error")["payload"]
        assert said["code"] == "E.AUTH.INVALID_TOKEN" and said["message"]
        assert foreign_names(client) == []


def hinted(kind: str, least: str) -> dict:
    node = {"type": kind, "package": {"name": "shot"}}
    return workflow({"shot": node}, runtimes={"any": {"workerHints": {"package": "shot", "minVersion": least}}})


def test_a_least_version_is_met_by_the_newest_that_a_worker_has(server):
    packages = [("shot", "1.9.0"), ("shot", "2.1.0"), ("shot", "2.0.3")]
    with Seed001Client(server.worker_url, server.tokens["worker"], packages=packages).open() as client:
        run = start(server, hinted("shot.take", "2.0.0"))
        dispatch = client.next_dispatch()
        payload = dispatch["payload"]
        assert (payload["package_name"], payload["package_version"]) == ("shot", "2.1.0")
        client.wait_for_ack(client.result(dispatch))
        assert ended(server, run["runId"])["status"] == "succeeded"


def test_a_worker_with_older_versions_only_is_not_given_the_task_and_is_named_as_the_reason(server):
    with Seed001Client(server.worker_url, server.tokens["worker"], packages=[("shot", "2.9.0")]).open() as client:
        run = start(server, hinted("shot.take", "2.10.0"))
        client.quiet_for(1)
        assert client.dispatches == []
        told = server.rest("GET", f"/runs/{run['runId']}/nodes/{node_id('shot')}/explain")
        assert "shot@2.10.0+" in json.dumps(told), told
        server.rest("POST", f"/runs/{run['runId']}/cancel")


def test_the_trace_of_middlewares_is_extra_and_the_node_has_no_place_in_it(server, client):
    """Seed 001 section 3: the fields are for a trace, and `chain_index` is null for the host."""
    around = {"id": node_id("around"), "type": "own.around", "label": "around", "parameters": {}}
    host = {"type": "own.host", "parameters": {"n": 1}}
    alone = start(server, workflow({"host": host}))
    plain = client.next_dispatch()
    client.wait_for_ack(client.result(plain))
    assert ended(server, alone["runId"])["status"] == "succeeded"

    run = start(server, workflow({"host": {**host, "middlewares": [around]}}))
    outer = client.next_dispatch()
    assert outer["payload"]["chain_index"] == 0 and outer["payload"]["host_node_id"] == node_id("host")
    call = {
        "requestId": "call-1", "runId": outer["payload"]["run_id"], "nodeId": node_id("around"),
        "middlewareId": node_id("around"), "chainIndex": 0,
    }
    client.dispatches.clear()
    client.say("middleware.next_request", call, corr=outer["payload"]["task_id"], ack={"request": True})
    inner = client.next_dispatch()
    trace = {"host_node_id", "middleware_chain", "chain_index"}
    assert inner["payload"].get("chain_index") is None
    assert inner["payload"]["middleware_chain"] == [node_id("around")]
    names = {"run_id", "task_id"}
    rest = {key: value for key, value in inner["payload"].items() if key not in trace | names}
    assert rest == {key: value for key, value in plain["payload"].items() if key not in trace | names}
    client.wait_for_ack(client.result(inner))
    client.dispatches.append(outer)
    client.wait_for_ack(client.result(outer))
    assert ended(server, run["runId"])["status"] == "succeeded"


def foreign_names(client: Seed001Client) -> list[str]:
    return [frame["type"] for frame in client.received if frame["type"].startswith(("control.", "biz."))]
