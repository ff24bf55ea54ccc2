"""A worker whose memory or disk is almost full is given nothing new, until it has room again."""

import pytest

from waiting import wait_until
from wire_worker import WireWorker

NOTICED_WITHIN_S = 5


@pytest.mark.parametrize(("metric", "full", "room"), [("mem_pct", 90, 80), ("disk_pct", 95, 85)])
def test_pressure_drains_a_worker_and_room_takes_it_back(server, metric, full, room):
    with WireWorker(server.worker_url, server.tokens["worker"]).open() as worker:
        worker.beat(**{metric: full})
        wait_for_causes(server, ["pressure"])
        task_id = server.submit("greet")
        worker.quiet_for(0.5)
        assert server.task(task_id)["state"] == "QUEUED"
        worker.beat(**{metric: room})
        dispatch = worker.next_dispatch()
        worker.wait_for_ack(worker.result(dispatch))
        assert server.settled(task_id)["state"] == "COMPLETED"
        wait_for_causes(server, [])


def wait_for_causes(server, causes: list[str]) -> None:
    look = lambda: causes_of(server, "field-worker")
    wait_until(look, lambda seen: seen == causes, within_s=NOTICED_WITHIN_S, what=f"a worker drained by {causes}")


def causes_of(server, name: str) -> list[str] | None:
    """Why the worker is drained; None as long as nobody has heard of it."""
    workers = server.rest("GET", "/workers")["workers"]
    return next((worker["drained_by"] for worker in workers if worker["worker_id"] == name), None)
