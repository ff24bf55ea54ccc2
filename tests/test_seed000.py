"""A worker written from seed 000 works with the server as it is."""

import json
import signal
import subprocess
import time

import pytest

from astra_server import Server, binary
from peer import Background
from seed000_client import Seed000Client
from waiting import wait_until


def test_the_exchange_of_section_7_has_exactly_these_frames(server):
    with Seed000Client(server.worker_url, server.tokens["worker"]).open() as client:
        types = [frame["type"] for frame in client.received]
        assert types == ["control.ack", "control.ack", "control.session.accept"]
        accept = client.session
        assert accept["worker_instance_id"] == client.instance_id
        assert accept["session_token"] and not accept.get("resumed")


def test_a_task_is_completed_and_the_verdict_arrives(server):
    with Seed000Client(server.worker_url, server.tokens["worker"]).open() as client:
        task_id = server.submit("greet", {"name": "Ann"})
        dispatch = client.next_dispatch()
        assert dispatch["payload"]["task_id"] == task_id
        assert dispatch["payload"]["node_type"] == "greet"
        assert dispatch["ack"] == {"request": True}

        ack = client.wait_for_ack(client.finish(dispatch))
        assert ack["info"] == "COMMITTED"
        # It counts from 0, so the first frame that arrived is 0.
        assert (ack["ack_seq"], ack["ack_bitmap"], ack["recv_window"]) == (0, 0, 64)
        verdict = client.wait_for_type("biz.exec.verdict")["payload"]
        assert (verdict["verdict"], verdict["task_state"]) == ("COMMITTED", "COMPLETED")
        assert verdict["lease_id"] == dispatch["id"]

        task = server.settled(task_id)
        assert (task["state"], task["attempt"]) == ("COMPLETED", 1)
        assert task["result"] == {"echo": {"name": "Ann"}}


def test_two_hundred_tasks_are_completed_in_one_session(server):
    client = Seed000Client(server.worker_url, server.tokens["worker"], slots=16).open()
    with Background(client, client.step) as work:
        task_ids = [server.submit("count", {"n": n}) for n in range(200)]
        for n, task_id in enumerate(task_ids):
            task = server.settled(task_id)
            work.check()
            assert (task["state"], task["attempt"], task["result"]) == ("COMPLETED", 1, {"echo": {"n": n}})
    numbers = [ack["ack_seq"] for ack in client.acks if ack.get("info") == "COMMITTED"]
    assert numbers == sorted(numbers) and numbers[-1] == 199


def test_frames_out_of_order_are_delivered_in_order_and_once(server):
    with Seed000Client(server.worker_url, server.tokens["worker"]).open() as client:
        tasks = [server.submit("count", {"n": n}) for n in range(3)]
        client.wait_for(lambda _: len(client.dispatches) == 3)
        results = [
            client.envelope("biz.exec.result", client.result_payload(dispatch), corr=dispatch["id"],
                            seq=seq, ack={"request": True})
            for seq, dispatch in enumerate(client.dispatches)
        ]
        client.send(results[0])
        client.wait_for_ack(results[0])
        client.send(results[2])
        held = client.wait_for(lambda frame: frame["type"] == "control.ack" and frame["payload"].get("ack_bitmap"))
        assert (held["payload"]["ack_seq"], held["payload"]["ack_bitmap"]) == (0, 0b10)
        client.send(results[1])
        assert client.wait_for_ack(results[2])["info"] == "COMMITTED"
        assert [server.settled(task)["state"] for task in tasks] == ["COMPLETED"] * 3


def test_a_duplicate_result_is_acked_again_and_changes_nothing(server):
    with Seed000Client(server.worker_url, server.tokens["worker"]).open() as client:
        task_id = server.submit("greet")
        result = client.finish(client.next_dispatch())
        first = client.wait_for_ack(result)
        before = server.settled(task_id)
        client.send(result)
        assert client.wait_for_ack(result)["info"] == first["info"] == "COMMITTED"
        assert server.task(task_id) == before


def test_a_task_in_the_middle_is_finished_in_the_same_session_after_a_resume(server):
    with Seed000Client(server.worker_url, server.tokens["worker"]).open() as client:
        task_id = server.submit("long")
        dispatch = client.next_dispatch()
        old = client.session["session_id"]
        client.drop()

        accepted = client.resume()
        assert accepted["resumed"] is True and accepted["session_id"] == old
        assert client.wait_for_ack(client.finish(dispatch))["info"] == "COMMITTED"
        task = server.settled(task_id)
        assert (task["state"], task["attempt"]) == ("COMPLETED", 1)
        assert runs_of(client, task_id) == 1


def test_a_result_whose_ack_was_lost_is_acked_after_a_resume(server):
    with Seed000Client(server.worker_url, server.tokens["worker"]).open() as client:
        task_id = server.submit("long")
        result = client.finish(client.next_dispatch())
        client.break_off()
        assert client.resume()["resumed"] is True
        ends = time.monotonic() + 5
        while result["id"] not in client.named and time.monotonic() < ends:
            client.step()
        assert result["id"] in client.named, "repeated for 5 s, and never acked"
        assert client.named[result["id"]]["info"] == "COMMITTED"
        assert server.settled(task_id)["attempt"] == 1


def test_a_session_goes_on_after_a_result_whose_ack_was_lost(server):
    with Seed000Client(server.worker_url, server.tokens["worker"]).open() as client:
        server.submit("long")
        client.finish(client.next_dispatch())
        client.break_off()
        client.resume()
        tasks = [server.submit("short") for _ in range(80)]
        ends = time.monotonic() + 40
        # A look at the server costs more than a frame, so it is asked when nothing is left to do.
        while time.monotonic() < ends and len(client.committed()) < 81:
            client.step()
        states = [server.settled(task)["state"] for task in tasks]
        assert states == ["COMPLETED"] * 80


@pytest.mark.parametrize("n_finished_before", [0, 3])
def test_a_task_outlives_a_killed_server(server, n_finished_before):
    with Seed000Client(server.worker_url, server.tokens["worker"]).open() as client:
        for _ in range(n_finished_before):
            server.submit("short")
            client.wait_for_ack(client.finish(client.next_dispatch()))
        task_id = server.submit("long")
        dispatch = client.next_dispatch()
        old = client.session["session_id"]

        server.kill()
        client.close()
        server.start()

        accepted = client.resume()
        assert accepted["resumed"] is True and accepted["session_id"] == old
        result = client.finish(dispatch)
        assert client.wait_for_ack(result, within_s=15)["info"] == "COMMITTED"
        task = server.settled(task_id)
        assert (task["state"], task["attempt"]) == ("COMPLETED", 1)
        assert runs_of(client, task_id) == 1

        later = server.submit("short")
        client.wait_for_ack(client.finish(client.next_dispatch()))
        assert server.settled(later)["state"] == "COMPLETED"


def test_a_worker_without_a_token_works_in_dev(dev_server):
    client = Seed000Client(dev_server.worker_url).open()
    with Background(client, client.step) as work:
        task = dev_server.settled(dev_server.submit("greet"))
        work.check()
        assert task["state"] == "COMPLETED"


def test_a_first_task_may_take_longer_than_a_delivery(server):
    with Seed000Client(server.worker_url, server.tokens["worker"]).open() as client:
        task_id = server.submit("long")
        dispatch = client.next_dispatch()
        client.quiet_for(6)
        assert server.task(task_id)["attempt"] == 1
        assert runs_of(client, task_id) == 1
        assert client.wait_for_ack(client.finish(dispatch))["info"] == "COMMITTED"


def test_a_later_task_may_take_longer_than_a_delivery(server):
    with Seed000Client(server.worker_url, server.tokens["worker"]).open() as client:
        server.submit("short")
        client.wait_for_ack(client.finish(client.next_dispatch()))
        task_id = server.submit("long")
        dispatch = client.next_dispatch()
        client.quiet_for(6)
        assert client.wait_for_ack(client.finish(dispatch))["info"] == "COMMITTED"
        assert server.settled(task_id)["attempt"] == 1
        assert runs_of(client, task_id) == 1


def test_a_restarted_server_may_speak_first(server):
    with Seed000Client(server.worker_url, server.tokens["worker"]).open() as client:
        server.submit("long")
        client.next_dispatch()
        server.kill()
        client.close()
        server.start()
        client.resume()
        second = server.submit("second")
        client.quiet_for(3)
        assert second in [dispatch["payload"]["task_id"] for dispatch in client.dispatches]


def test_a_resume_without_last_seen_seq_is_reset_openly_after_a_restart(server):
    """Nobody knows then which numbers are taken; the task is not lost by it."""
    with Seed000Client(server.worker_url, server.tokens["worker"]).open() as client:
        task_id = server.submit("long")
        dispatch = client.next_dispatch()
        server.kill()
        client.close()
        server.start()
        client.connect()
        asked = {key: client.session[key] for key in ("session_id", "session_token")}
        client.say("control.resume", asked, ack={"request": True})
        assert client.wait_for_type("control.reset")["payload"]["code"] == "E.RESULT.SEQ_GAP"
    with Seed000Client(server.worker_url, server.tokens["worker"], instance_id=client.instance_id).open() as anew:
        anew.dispatches.append(dispatch)
        assert anew.wait_for_ack(anew.finish(dispatch))["info"] == "COMMITTED"
        assert server.settled(task_id)["attempt"] == 1


def test_seq_alone_numbers_what_the_server_sends(server):
    """Seed 000 section 4, taken at its word: `seq` starts at 0 per direction and rises by one."""
    with Seed000Client(server.worker_url, server.tokens["worker"], verdicts=False).open() as client:
        for _ in range(3):
            server.submit("short")
            client.wait_for_ack(client.finish(client.next_dispatch()))
        sent = [frame["seq"] for frame in client.received if frame["type"].startswith("biz.")]
        assert sent == [0, 1, 2]


def test_a_worker_that_misses_its_heartbeats_is_closed(server):
    """Seed 000 section 2: CLOSED is reached by missed heartbeats."""
    words = ["worker", "start", "--name", "frozen", "--data", str(server.folder / "frozen")]
    words += ["--server", f"http://127.0.0.1:{server.port}", "--token", server.tokens["worker"]]
    worker = subprocess.Popen([binary(), *words], stdin=subprocess.DEVNULL)
    try:
        wait_for_log(server, "session opened", 15)
        worker.send_signal(signal.SIGSTOP)
        wait_for_log(server, "the worker is silent", 50)
        worker.send_signal(signal.SIGCONT)
        wait_for_log(server, "session opened", 30, times=2)
    finally:
        worker.kill()
        worker.wait()


def test_the_log_is_json_with_the_fields_of_section_6(tmp_path):
    server = Server(tmp_path, settings='[log]\nformat = "json"\nlevel = "debug"\n').start()
    try:
        with Seed000Client(server.worker_url, server.tokens["worker"]).open() as client:
            server.submit("long")
            client.wait_for_ack(client.finish(client.next_dispatch()))
            client.say("control.ack", {"ok": "nonsense"}, tenant="other")
            client.wait_for_type("control.reset")
    finally:
        server.stop()
    lines = [json.loads(line) for line in server.log.read_text().splitlines() if line.startswith("{")]
    frames = [line for line in lines if line.get("message") == "frame"]
    dispatch = next(line for line in frames if line["type"] == "biz.exec.dispatch")
    assert dispatch["tenant"] == "default" and dispatch["sender.id"] and dispatch["id"] and dispatch["corr"]
    assert dispatch["ack.request"] is True, "seed 003 section 9: the log shows that a dispatch asks for an ack"
    result = next(line for line in frames if line["type"] == "biz.exec.result")
    assert result["seq"] == 0 and result["sender.id"] == client.instance_id
    assert any(line.get("code", "").startswith("E.") for line in lines), "errors are logged with their code"


def wait_for_log(server, text: str, within_s: float, times: int = 1) -> None:
    look = lambda: server.log.read_text().count(text)
    wait_until(look, lambda n: n >= times, within_s=within_s, what=f"{text!r} in the log, {times} times")


def runs_of(client: Seed000Client, task_id: str) -> int:
    """Dispatches of the task under different leases."""
    return len({
        frame["id"] for frame in client.received
        if frame["type"] == "biz.exec.dispatch" and frame["payload"]["task_id"] == task_id
    })
