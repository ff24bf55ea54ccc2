"""Reports without authority change nothing, and their senders are told so."""

import json
import uuid

import pytest

from wire_worker import WireWorker


def test_a_replayed_result_is_acked_each_time_and_counts_once(harmless, pair):
    owner, _ = pair
    task_id, dispatch = dispatched(harmless, owner)
    result = owner.result(dispatch)
    owner.wait_for_ack(result)
    before = harmless.settled(task_id)
    for _ in range(100):
        owner.send(result)
    frames = owner.quiet_for(1)
    assert frames and all(frame["type"] == "control.ack" for frame in frames)
    assert all(frame["payload"].get("info") in (None, "COMMITTED") for frame in frames)
    assert harmless.task(task_id) == before


def test_the_same_result_under_new_numbers_gets_the_same_verdict(harmless, pair):
    owner, _ = pair
    task_id, dispatch = dispatched(harmless, owner)
    for _ in range(3):
        owner.dispatches = [dispatch]
        assert owner.wait_for_ack(owner.result(dispatch))["info"] == "COMMITTED"
    assert harmless.settled(task_id)["attempt"] == 1


def test_a_different_result_for_a_reported_lease_is_rejected(harmless, pair):
    owner, _ = pair
    task_id, dispatch = dispatched(harmless, owner)
    owner.wait_for_ack(owner.result(dispatch))
    before = harmless.settled(task_id)
    owner.dispatches = [dispatch]
    ack = owner.wait_for_ack(owner.result(dispatch, result={"echo": "something else"}))
    assert ack["info"] == "REJECTED duplicate_report"
    assert harmless.task(task_id) == before


@pytest.mark.parametrize("names_lease", [True, False], ids=["by its lease", "by its task"])
def test_a_result_for_the_lease_of_another_worker_is_rejected(harmless, pair, names_lease):
    owner, thief = pair
    task_id, dispatch = dispatched(harmless, owner)
    stolen = dispatch if names_lease else {**dispatch, "id": task_id}
    thief.dispatches.append(stolen)
    info = thief.wait_for_ack(thief.result(stolen, result={"echo": "stolen"}))["info"]
    assert info == ("REJECTED not_holder" if names_lease else "REJECTED unknown_lease")
    assert harmless.task(task_id)["state"] == "RUNNING"
    assert owner.wait_for_ack(owner.result(dispatch))["info"] == "COMMITTED"
    assert harmless.settled(task_id)["result"] == {"echo": {}}


def test_a_heartbeat_for_the_lease_of_another_worker_takes_nothing_over(harmless, pair):
    owner, thief = pair
    task_id, dispatch = dispatched(harmless, owner)
    thief.say("control.heartbeat", {"healthy": True, "metrics": {"inflight": 1, "leases": [dispatch["id"]]}})
    thief.dispatches.append(dispatch)
    assert thief.wait_for_ack(thief.result(dispatch))["info"] == "REJECTED not_holder"
    assert owner.wait_for_ack(owner.result(dispatch))["info"] == "COMMITTED"


UNKNOWN_LEASES = {
    "a lease that is none": lambda lease: "nonsense",
    "a task that never was": lambda lease: f"{uuid.uuid4()}-1",
    "an attempt that never was": lambda lease: lease.rsplit("-", 1)[0] + "-7",
}


@pytest.mark.parametrize("change", UNKNOWN_LEASES.values(), ids=UNKNOWN_LEASES)
def test_a_result_for_a_lease_that_nobody_holds_is_rejected(harmless, pair, change):
    owner, _ = pair
    task_id, dispatch = dispatched(harmless, owner)
    payload = {"run_id": "r", "task_id": "t", "status": "SUCCEEDED", "result": {}}
    sent = owner.business("biz.exec.result", payload, corr=change(dispatch["id"]), ack={"request": True})
    assert owner.wait_for_ack(sent)["info"].split()[0] == "REJECTED"
    assert harmless.task(task_id)["state"] == "RUNNING"
    owner.wait_for_ack(owner.result(dispatch))


@pytest.mark.parametrize("sender", [
    pytest.param({"role": "worker", "id": "someone-else"}, id="another worker"),
    pytest.param({"role": "scheduler", "id": "scheduler-control"}, id="the scheduler"),
])
def test_a_result_in_the_name_of_another_is_not_taken(harmless, pair, sender):
    owner, _ = pair
    task_id, dispatch = dispatched(harmless, owner)
    payload = {"run_id": task_id, "task_id": task_id, "status": "SUCCEEDED", "result": {}}
    frame = owner.envelope("biz.exec.result", payload, corr=dispatch["id"], session_seq=1, ack={"request": True})
    owner.socket.send(json.dumps({**frame, "sender": sender}))
    owner.quiet_for(1)
    assert harmless.task(task_id)["state"] == "RUNNING"


@pytest.fixture
def pair(shared_server):
    """The worker that gets the tasks, and another one."""
    task_type = f"own-{uuid.uuid4().hex[:8]}"
    url, token = shared_server.worker_url, shared_server.tokens["worker"]
    owner = WireWorker(url, token, features=[f"type:{task_type}"])
    owner.own_type = task_type
    with owner.open(), WireWorker(url, token, features=["type:none"]).open() as other:
        yield owner, other


def dispatched(server, worker: WireWorker) -> tuple[str, dict]:
    task_id = server.submit(worker.own_type)
    return task_id, worker.next_dispatch()
