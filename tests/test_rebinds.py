"""The work of a run is given to another worker by hand: who is told, and who gets it from then on."""

import contextlib

import pytest

from flows import ended, start, workflow
from schemas import validate
from wire_worker import WireWorker

REBIND = "biz.run.rebind"
SHOT = {"type": "shot.take", "package": {"name": "shot", "version": "2.1.0"}}
CHAIN = workflow({"a": SHOT, "b": SHOT, "c": SHOT}, [("a", "b"), ("b", "c")])


class ToldWorker(WireWorker):
    """Keeps what it is told of rebinds."""

    def __init__(self, *words, payload_types=(REBIND,), **more):
        super().__init__(*words, payload_types=payload_types, **more)
        self.told: list[dict] = []

    def on_frame(self, frame: dict) -> None:
        if frame["type"] == REBIND:
            validate(frame)
            self.told.append(frame["payload"])
            self.on_business(frame)
        else:
            super().on_frame(frame)


@pytest.fixture
def worker(server):
    with contextlib.ExitStack() as workers:
        yield lambda **more: workers.enter_context(
            ToldWorker(server.worker_url, server.tokens["worker"], **more)).open()


def rebind(server, run_id: str, **body) -> list[dict]:
    return server.rest("POST", f"/scheduler/runs/{run_id}/rebind", body)["bindings"]


def worked(worker) -> None:
    worker.wait_for_ack(worker.result(worker.next_dispatch()))


def test_both_workers_are_told_when_the_work_of_a_run_is_moved(server, worker):
    first = worker()
    run_id = start(server, CHAIN)["runId"]
    first.next_dispatch()
    second = worker()
    names = [one["worker_id"] for one in server.rest("GET", "/workers")["workers"]]
    (other,) = set(names) - {"field-worker"}
    bindings = rebind(server, run_id, mode="move", workerName=other)
    assert [(one["package"], one["worker"]) for one in bindings] == [("shot", other)]
    word = {"run_id": run_id, "mode": "switch", "bindings": [{"package": "shot", "worker_name": other}]}
    for one in (first, second):
        one.wait_for_type(REBIND)
        assert one.told == [word]
    worked(first)
    worked(second)
    worked(second)
    assert ended(server, run_id)["status"] == "succeeded"


def test_a_worker_that_a_run_is_kept_from_is_told_to_drain(server, worker):
    first = worker()
    run_id = start(server, CHAIN)["runId"]
    first.next_dispatch()
    assert rebind(server, run_id, mode="drain") == []
    first.wait_for_type(REBIND)
    assert first.told == [{"run_id": run_id, "mode": "drain", "bindings": [{"package": "shot"}]}]
    worked(first)
    first.quiet_for(0.5)
    assert first.dispatches == [], "it gets nothing more of the run"
    second = worker()
    worked(second)
    worked(second)
    assert ended(server, run_id)["status"] == "succeeded"
    assert second.told == []


def test_a_worker_that_does_not_list_the_frame_is_not_sent_it(server, worker):
    deaf = worker(payload_types=())
    run_id = start(server, CHAIN)["runId"]
    deaf.next_dispatch()
    rebind(server, run_id, mode="drain")
    worked(deaf)
    deaf.quiet_for(0.5)
    assert deaf.told == [] and deaf.dropped == [] and deaf.dispatches == []
