"""What operators see of a run while a worker holds its nodes: the worker in the field, without manners."""

import pytest

from flows import ended, nodes_of, start, until_node, workflow
from wire_worker import WireWorker

SHOT = {"type": "shot.take", "package": {"name": "shot", "version": "2.1.0"}}
LOOKED_FOR_WITHIN_S = 20


class SilentWorker(WireWorker):
    """Takes dispatches in, and acknowledges none until it is told to."""

    is_silent = True

    def acknowledge(self, frame: dict) -> None:
        if not self.is_silent:
            super().acknowledge(frame)


@pytest.fixture
def worker(server):
    with SilentWorker(server.worker_url, server.tokens["worker"]) as worker:
        yield worker.open()


def seen(server, run_id, is_it) -> dict:
    """The node as soon as it looks as wanted."""
    return until_node(server, run_id, "a", is_it, LOOKED_FOR_WITHIN_S)


def test_a_dispatch_that_is_not_acknowledged_is_seen_and_so_is_its_retry(server, worker):
    run_id = start(server, workflow({"a": SHOT}))["runId"]
    first = worker.next_dispatch()
    node = seen(server, run_id, lambda node: node.get("pendingAck"))
    assert node["dispatchId"] == first["id"]
    assert node["workerName"] == "field-worker" and node["attempts"] == 1
    deadline = node["ackDeadline"]
    assert deadline > node["startedAt"]
    # The acknowledgement stalls until its deadline has passed: the node is dispatched anew.
    again = seen(server, run_id, lambda node: node.get("dispatchId") not in (None, first["id"]))
    assert again["dispatchId"].rpartition("-")[0] == first["id"].rpartition("-")[0], "the same task"
    assert again["pendingAck"] is True and again["ackDeadline"] > deadline
    worker.is_silent = False
    worker.wait_for(lambda frame: frame["type"] == "biz.exec.dispatch" and frame["id"] != first["id"], 20)
    confirmed = seen(server, run_id, lambda node: not worker.quiet_for(0.1) and not node.get("pendingAck"))
    assert confirmed.get("ackDeadline") is None
    held = next(frame for frame in worker.dispatches if frame["id"] == confirmed["dispatchId"])
    worker.wait_for_ack(worker.result(held))
    run = ended(server, run_id)
    assert run["status"] == "succeeded"
    assert "pendingAck" not in nodes_of(run)["a"]


def test_what_nodes_left_behind_is_gathered_in_the_run(server, worker):
    worker.is_silent = False
    run_id = start(server, workflow({"a": SHOT, "b": SHOT}, [("a", "b")]))["runId"]
    for name in ("one", "two"):
        dispatch = worker.next_dispatch()
        worker.dispatches.remove(dispatch)
        asked = dispatch["payload"]
        artifact = {"resource_id": f"r-{name}", "worker_name": "field-worker", "type": "file", "size_bytes": 3}
        payload = {
            "run_id": asked["run_id"], "task_id": asked["task_id"], "status": "SUCCEEDED",
            "result": {}, "duration_ms": 1, "artifacts": [artifact],
        }
        frame = worker.business(
            "biz.exec.result", payload, corr=dispatch["id"], seq=dispatch["seq"], ack={"request": True}
        )
        worker.wait_for_ack(frame)
    run = ended(server, run_id)
    of_nodes = [artifact for alias in "ab" for artifact in nodes_of(run)[alias]["artifacts"]]
    assert [artifact["resourceId"] for artifact in of_nodes] == ["r-one", "r-two"]
    gathered = {artifact["resourceId"]: artifact for artifact in run["artifacts"]}
    assert set(gathered) == {"r-one", "r-two"}
    short = server.rest("GET", f"/runs/{run_id}?nodes=false")
    assert "nodes" not in short and short["artifacts"] == run["artifacts"]
    for alias, name in (("a", "one"), ("b", "two")):
        own = nodes_of(run)[alias]
        assert gathered[f"r-{name}"].items() >= own["artifacts"][0].items()
        assert gathered[f"r-{name}"]["nodeId"] == own["nodeId"]
