"""The worker that exists in the field works unmodified."""

import pytest
from websockets.exceptions import ConnectionClosed

from astra_server import Server
from peer import Background
from wire_worker import WireWorker


@pytest.fixture
def worker(server):
    with WireWorker(server.worker_url, server.tokens["worker"]).open() as worker:
        yield worker
        assert worker.dropped == []


def test_a_task_is_completed(server, worker):
    task_id = server.submit("shot.take", {"url": "x"}, requires={"package": {"name": "shot", "version": "2.1.0"}})
    dispatch = worker.next_dispatch()
    assert (dispatch["session_seq"], dispatch["corr"], dispatch["ack"]) == (1, task_id, {"request": True})
    ack = worker.wait_for_ack(worker.result(dispatch))
    assert (ack["info"], ack["ack_seq"], ack["ack_bitmap"]) == ("COMMITTED", 1, 0)
    task = server.settled(task_id)
    assert (task["state"], task["attempt"], task["result"]) == ("COMPLETED", 1, {"echo": {"url": "x"}})


def test_every_optional_field_of_a_dispatch_is_one_that_it_knows(server, worker):
    task_id = server.submit(
        "greet", {"a": [1, {"b": None}]}, priority=7, timeout_ms=60_000, concurrency_key="k",
    )
    worker.wait_for_ack(worker.result(worker.next_dispatch()))
    assert server.settled(task_id)["state"] == "COMPLETED"


def test_two_hundred_tasks_are_completed_in_one_session(server):
    worker = WireWorker(server.worker_url, server.tokens["worker"], slots=16).open()
    with Background(worker, worker.step) as work:
        task_ids = [server.submit("count", {"n": n}) for n in range(200)]
        for n, task_id in enumerate(task_ids):
            task = server.settled(task_id)
            work.check()
            assert (task["state"], task["attempt"], task["result"]) == ("COMPLETED", 1, {"echo": {"n": n}})
    assert worker.dropped == []


def test_a_heartbeat_before_the_handshake_is_passed_over(server):
    with WireWorker(server.worker_url, server.tokens["worker"]) as worker:
        worker.connect()
        worker.beat()
        worker.open_on_this_socket()
        worker.wait_for_ack(completed(server, worker))
        assert worker.resets == [] and worker.dropped == []


def test_a_second_handshake_and_register_on_one_socket_begin_anew(server, worker):
    worker.wait_for_ack(completed(server, worker))
    first = worker.session["session_id"]
    worker.open_on_this_socket()
    assert worker.session["session_id"] != first and not worker.session.get("resumed")
    # Both counters began again at 1.
    ack = worker.wait_for_ack(completed(server, worker))
    assert (ack["info"], ack["ack_seq"]) == ("COMMITTED", 1)


def test_a_second_register_is_a_refresh_and_gets_an_ack_only(server, worker):
    worker.wait_for_ack(worker.register())
    assert [frame["type"] for frame in worker.quiet_for(1)] == []
    worker.wait_for_ack(completed(server, worker))


@pytest.mark.parametrize("ttl_s", [2, 12])
def test_no_heartbeat_is_needed_to_keep_a_lease(server, worker, ttl_s):
    """The first heartbeat of this worker comes after half a minute; pings are answered at once."""
    task_id = server.submit("long", lease_ttl_ms=ttl_s * 1000)
    dispatch = worker.next_dispatch()
    worker.quiet_for(ttl_s + 2)
    assert worker.wait_for_ack(worker.result(dispatch))["info"] == "COMMITTED"
    assert server.settled(task_id)["attempt"] == 1


def test_the_counter_of_a_restarted_process_begins_at_0_again(server, worker):
    for _ in range(3):
        worker.wait_for_ack(completed(server, worker))
    worker.drop()
    again = WireWorker(server.worker_url, server.tokens["worker"], instance_id=worker.instance_id)
    with again.open():
        # Its ids repeat those of the process before, and mean other frames.
        ids = [again.wait_for_ack(completed(server, again))["info"] for _ in range(3)]
        assert ids == ["COMMITTED"] * 3
        assert again.dropped == []


def test_a_task_is_finished_after_a_resume(server, worker):
    task_id = server.submit("long")
    dispatch = worker.next_dispatch()
    worker.drop()
    assert worker.resume()["resumed"] is True
    assert worker.wait_for_ack(worker.result(dispatch))["info"] == "COMMITTED"
    assert server.settled(task_id)["attempt"] == 1


def test_a_task_outlives_a_killed_server(server, worker):
    worker.wait_for_ack(completed(server, worker))
    task_id = server.submit("long")
    dispatch = worker.next_dispatch()
    server.kill()
    worker.close()
    server.start()
    assert worker.resume()["resumed"] is True
    assert worker.wait_for_ack(worker.result(dispatch))["info"] == "COMMITTED"
    assert server.settled(task_id)["attempt"] == 1
    worker.wait_for_ack(completed(server, worker))


def test_a_revoked_token_resets_the_session_and_leaves_the_socket_open(server):
    token_id, token = server.new_token("worker")
    with WireWorker(server.worker_url, token).open() as worker:
        task_id = server.submit("long")
        dispatch = worker.next_dispatch()
        server.revoke(token_id)
        reset = worker.wait_for_type("control.reset")["payload"]
        assert reset["code"] == "E.AUTH.INVALID_TOKEN"
        # Closing now would leave the worker disconnected for good; it closes by itself.
        assert worker.quiet_for(2) == []
        worker.close()

        worker.token = server.tokens["worker"]
        worker.open()
        # The task went on meanwhile; its result names the dispatch of the session before.
        assert worker.wait_for_ack(worker.result(dispatch))["info"] == "COMMITTED"
        task = server.settled(task_id)
        assert (task["state"], task["attempt"]) == ("COMPLETED", 1)
        assert worker.dropped == []


def test_a_new_handshake_on_the_socket_of_a_reset_is_heard(server):
    token_id, token = server.new_token("worker")
    with WireWorker(server.worker_url, token).open() as worker:
        server.revoke(token_id)
        worker.wait_for_type("control.reset")
        worker.token = server.tokens["worker"]
        worker.open_on_this_socket()
        worker.wait_for_ack(completed(server, worker))


def test_a_failing_handler_is_a_failed_attempt_with_its_text(server, worker):
    task_id = server.submit("greet", retry={"max_attempts": 1})
    worker.wait_for_ack(worker.result(worker.next_dispatch(), "FAILED", {"error": "division by zero"}))
    assert server.settled(task_id)["error"] == {"code": "E.RUNNER.FAILURE", "reason": "division by zero"}


def test_a_refused_second_execution_leaves_the_first_alone(server, worker):
    task_id = server.submit("greet")
    dispatch = worker.next_dispatch()
    worker.wait_for_ack(worker.error(dispatch, "E.CMD.CONCURRENCY_VIOLATION", "in flight"))
    assert server.task(task_id)["state"] == "RUNNING"
    assert worker.wait_for_ack(worker.result(dispatch))["info"] == "COMMITTED"
    assert server.settled(task_id)["attempt"] == 1


def test_feedback_without_an_ack_request_is_counted_and_logged(server, worker):
    task_id = server.submit("talk")
    dispatch = worker.next_dispatch()
    worker.feedback(dispatch, chunks=[{"channel": "llm", "index": 0, "text": "once upon"}])
    ack = worker.wait_for_ack(worker.result(dispatch))
    assert ack["info"] == "COMMITTED"
    # The log has a file of its own: it may be written before or after the result is committed.
    worker.wait_for_receipt(2)
    server.settled(task_id)
    assert [(line["channel"], line["text"]) for line in server.log_lines(task_id)] == [("llm", "once upon")]


@pytest.mark.parametrize("size, state", [(1_000_000, "COMPLETED"), (1_045_000, "FAILED")])
def test_no_frame_is_larger_than_it_takes(server, worker, size, state):
    """A frame over 1 MiB would end its connection with 1009."""
    task_id = server.submit("big", {"text": "x" * size}, retry={"max_attempts": 1})
    if state == "COMPLETED":
        worker.wait_for_ack(worker.result(worker.next_dispatch(), result={}))
    task = server.settled(task_id)
    assert task["state"] == state, task["error"]
    if state == "FAILED":
        assert task["error"]["code"] == "E.DISPATCH.TOO_LARGE"
    worker.wait_for_ack(completed(server, worker))


def test_a_graceful_stop_of_the_server_closes_the_socket_with_1001(server, worker):
    server.stop()
    with pytest.raises(ConnectionClosed) as closed:
        worker.receive()
    assert closed.value.rcvd.code == 1001
    server.start()
    assert worker.resume()["resumed"] is True
    worker.wait_for_ack(completed(server, worker))


def completed(server, worker: WireWorker) -> dict:
    """The result frame of a further task."""
    server.submit("short")
    return worker.result(worker.next_dispatch())


class Unmoved(WireWorker):
    """Takes in whatever comes, and confirms nothing."""

    def acknowledge(self, frame: dict) -> None:
        """Not at all."""


def test_the_window_of_sessions_is_a_setting_of_the_server(tmp_path):
    server = Server(tmp_path, settings="session_window = 2\n").start()
    try:
        with Unmoved(server.worker_url, server.tokens["worker"], slots=16).open() as worker:
            for number in range(6):
                server.submit("shot.take", {"n": number})
            worker.quiet_for(1)
            assert {frame["session_seq"] for frame in worker.dispatches} == {1, 2}
            ack = worker.wait_for_ack(worker.result(worker.dispatches[0]))
            assert ack["recv_window"] == 2
    finally:
        server.stop()
