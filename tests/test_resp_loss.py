"""Clients and servers that go while a job is handed over: nothing is lost, nothing is done twice."""

import collections
import json
import re
import select
import socket
import struct
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from astra_server import ServerWithClock
from resp_client import Closed, RespClient, packed
from waiting import wait_until

HERE = Path(__file__).parent
N_CLOSES = 10_000
N_THREADS = 4
N_JOBS = 300
# Between two kills, pushed and reported.
JOBS_A_LIFE = 100
PUSH_EVERY_S = 0.002
RECONNECT_AFTER_S = 0.05
# After the last close.
DONE_WITHIN_S = 30
RST = struct.pack("ii", 1, 0)


class Worker(threading.Thread):
    """Takes jobs and reports each, until it is told to stop."""

    def __init__(self, server, queue: str, reports: collections.Counter, pause_s: float = 0.0):
        super().__init__(daemon=True)
        self.server, self.queue, self.reports, self.pause_s = server, queue, reports, pause_s
        self.is_ending = threading.Event()
        self.failure = None

    def run(self) -> None:
        try:
            with RespClient(self.server, "worker") as client:
                while not self.is_ending.is_set():
                    job = client.pop(self.queue, 0.5)
                    if job is None:
                        continue
                    self.is_ending.wait(self.pause_s)
                    said = client.update(job["job_id"], status="completed", lease_id=job["lease_id"])
                    self.reports[job["job_id"], str(said).split(" ")[0]] += 1
        except BaseException as failure:
            self.failure = failure


def submit(server, queue: str, count: int) -> list[str]:
    names = [f"{queue}-{number}" for number in range(count)]
    with RespClient(server, "client") as client:
        for start in range(0, count, 100):
            pushes = [("LPUSH", f"queue:{queue}", {"job_id": name}) for name in names[start : start + 100]]
            replies = client.many(pushes)
            assert all(isinstance(reply, int) for reply in replies), replies
    return names


def check_all_done_once(server, names: list[str], reports: collections.Counter) -> None:
    def unfinished() -> tuple[int, dict | None]:
        """How many are left, and one of them."""
        left = [status for status in map(viewer.status, names) if status["status"] != "completed"]
        return len(left), left[0] if left else None

    with RespClient(server, "viewer") as viewer:
        is_none = lambda seen: seen[0] == 0
        wait_until(unfinished, is_none, within_s=DONE_WITHIN_S, every_s=0.2, what=f"the end of {len(names)} jobs")
    committed = collections.Counter()
    for (name, said), count in reports.items():
        committed[name] += count if said == "OK" else 0
    assert committed == collections.Counter(names), "each job is committed once"


def close_many(server, queue: str, count: int, seed: int) -> None:
    """Asks for a job and goes: at once, with a RST, in the middle of the words, or with the answer unread."""
    hello = packed("AUTH", server.tokens["worker"])
    ask = packed("BRPOP", f"queue:{queue}", 0)
    address = ("127.0.0.1", server.resp_port)
    for number in range(count):
        kind = (number + seed) % 5
        one = socket.create_connection(address, 10)
        try:
            one.sendall(hello + (ask[:-7] if kind == 4 else ask))
            if kind in (1, 3):
                # The answers are there, +OK and a job if there is one, and stay unread.
                select.select([one], [], [], 0.05)
                one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, len(b"+OK\r\n") + 1)
                select.select([one], [], [], 0.002)
            if kind in (2, 3):
                one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RST)
        finally:
            one.close()


@pytest.mark.timeout(150)
def test_ten_thousand_closed_sockets(server):
    names = submit(server, "storm", N_JOBS)
    reports = collections.Counter()
    share = N_CLOSES // N_THREADS
    closers = [threading.Thread(target=close_many, args=(server, "storm", share, seed)) for seed in range(N_THREADS)]
    # Slow, so that there are jobs in the queue while sockets are closed.
    worker = Worker(server, "queue:storm", reports, pause_s=0.05)
    began = time.monotonic()
    for thread in [*closers, worker]:
        thread.start()
    for closer in closers:
        closer.join(75)
    assert not any(closer.is_alive() for closer in closers)
    print(f"{N_CLOSES} closes in {time.monotonic() - began:.1f} s")
    helper = Worker(server, "queue:storm", reports)
    helper.start()
    check_all_done_once(server, names, reports)
    for one in (worker, helper):
        one.is_ending.set()
        one.join(10)
        assert one.failure is None
    with RespClient(server, "admin") as admin:
        assert admin.ask("LLEN", "queue:processing") == admin.ask("LLEN", "queue:storm") == 0
        connections = int(re.search(rb"total_connections_received:(\d+)", admin.ask("INFO"))[1])
        granted = re.findall(rb"^cmd_dispatch_total\{.*\} (\d+)", admin.ask("METRICS"), re.M)
    unread = sum(map(int, granted)) - N_JOBS
    print(f"{connections} connections, {unread} jobs handed over in vain")
    assert connections > N_CLOSES and unread > N_CLOSES // 20, "the storm went past the jobs"


def test_killed_processes(server):
    names = submit(server, "killed", 60)
    for _ in range(8):
        words = [str(server.resp_port), server.tokens["worker"], "queue:killed", "12"]
        program = [sys.executable, "-B", str(HERE / "closing_clients.py")]
        process = subprocess.Popen(program + words, stdout=subprocess.PIPE, text=True)
        assert process.stdout.readline() == "waiting\n"
        process.kill()
        process.wait()
    reports = collections.Counter()
    worker = Worker(server, "queue:killed", reports)
    worker.start()
    check_all_done_once(server, names, reports)
    worker.is_ending.set()
    worker.join(10)


def test_unread_jobs_do_not_use_up_attempts(server):
    """A handover that failed says nothing about the job."""
    submit(server, "again", 1)
    for _ in range(12):
        client = RespClient(server, "worker")
        client.send("BRPOP", "queue:again", 5)
        assert select.select([client.socket], [], [], 5)[0]
        client.close()
    with RespClient(server, "worker") as client:
        job = client.pop("queue:again")
        assert job["job_id"] == "again-0"
        assert client.update("again-0", status="completed") == "OK"


def test_a_waiting_pop_that_ended_takes_nothing(server):
    for _ in range(50):
        client = RespClient(server, "worker")
        client.send("BRPOP", "queue:later", 0)
        client.close()
    with RespClient(server, "viewer") as viewer:
        wait_until(viewer.n_connected, lambda n: n == 1, what="the server to notice that all others are gone")
    names = submit(server, "later", 20)
    with RespClient(server, "worker") as client:
        began = time.monotonic()
        assert [client.pop("queue:later")["job_id"] for _ in range(20)] == names
        assert time.monotonic() - began < 2


@pytest.mark.parametrize("moment", ["after LPUSH", "after BRPOP"])
def test_a_killed_server_forgets_nothing(server, moment):
    names = submit(server, "kept", 20)
    client = RespClient(server, "worker")
    popped = []
    if moment == "after BRPOP":
        popped = [client.pop("queue:kept") for _ in range(5)]
    server.kill()
    server.start()
    reports = collections.Counter()
    with RespClient(server, "worker") as client:
        for job in popped:
            report = {"status": "completed", "lease_id": job["lease_id"]}
            said = client.update(job["job_id"], **report)
            reports[job["job_id"], str(said).split(" ")[0]] += 1
            assert client.update(job["job_id"], **report) == "OK", "the same verdict again"
    worker = Worker(server, "queue:kept", reports)
    worker.start()
    check_all_done_once(server, names, reports)
    worker.is_ending.set()
    worker.join(10)


def test_kills_in_the_middle_of_everything(server):
    """What was answered stands: every pushed job is done once, over several lives of the server."""
    pushed, reports, is_ending = [], collections.Counter(), threading.Event()

    def push() -> None:
        number = 0
        while not is_ending.is_set():
            try:
                with RespClient(server, "client") as client:
                    while not is_ending.is_set():
                        name = f"life-{number}"
                        # Sent again after a cut: the name makes it the same job.
                        assert isinstance(client.ask("LPUSH", "queue:life", json.dumps({"job_id": name})), int)
                        pushed.append(name)
                        number += 1
                        is_ending.wait(PUSH_EVERY_S)
            except (OSError, Closed):
                is_ending.wait(RECONNECT_AFTER_S)

    def work() -> None:
        report = None
        while not is_ending.is_set():
            try:
                with RespClient(server, "worker") as client:
                    while not is_ending.is_set():
                        if report is None:
                            job = client.pop("queue:life", 0.2)
                            report = job and (job["job_id"], job["lease_id"])
                            continue
                        said = client.update(report[0], status="completed", lease_id=report[1])
                        reports[report[0], str(said).split(" ")[0]] += 1
                        report = None
            except (OSError, Closed):
                is_ending.wait(RECONNECT_AFTER_S)

    threads = [threading.Thread(target=push), threading.Thread(target=work), threading.Thread(target=work)]
    for thread in threads:
        thread.start()
    for life in range(5):
        if life:
            server.kill()
            server.start()
        wanted = (len(pushed) + JOBS_A_LIFE, len(reports) + JOBS_A_LIFE)
        is_enough = lambda seen: seen[0] >= wanted[0] and seen[1] >= wanted[1]
        wait_until(lambda: (len(pushed), len(reports)), is_enough, what=f"{wanted} jobs pushed and reported")
    is_ending.set()
    for thread in threads:
        thread.join(15)
    assert len(pushed) >= 5 * JOBS_A_LIFE
    with RespClient(server, "admin") as admin:
        states = {name: admin.status(name)["status"] for name in pushed}
    committed = {name for (name, said) in reports if said == "OK"}
    assert all(states[name] == "completed" for name in committed if name in states)
    assert max(count for (_, said), count in reports.items() if said == "OK") == 1
    assert set(states.values()) <= {"completed", "pending", "running"}
    # A pop whose answer the kill swallowed is held until its lease ends; there is at most one for each life and worker.
    assert sum(status == "running" for status in states.values()) <= 8


@pytest.fixture
def moved_server(tmp_path):
    server = ServerWithClock(tmp_path).start()
    try:
        yield server
    finally:
        server.kill()


def test_a_silent_worker_loses_its_job(moved_server):
    """Seed 004 section 3.2: three heartbeats missed. The server's clock goes ahead; the other worker's signs do not stop."""
    submit(moved_server, "silent", 1)
    with (
        RespClient(moved_server, "worker") as silent,
        RespClient(moved_server, "worker") as other,
        RespClient(moved_server, "admin") as admin,
    ):
        assert silent.register("silent").startswith("OK") and other.register("other").startswith("OK")
        lease = silent.pop("queue:silent")["lease_id"]
        for _ in range(8):
            moved_server.move_clock(10)
            other.ask("WORKER.HEARTBEAT", "other")
            assert admin.ask("EXISTS", "worker:silent:alive") == 1
            assert other.pop("queue:silent", 0.01) is None, "the lease ended before three heartbeats were missed"
        moved_server.move_clock(15)
        other.ask("WORKER.HEARTBEAT", "other")
        wait_until(lambda: admin.ask("EXISTS", "worker:silent:alive") == 0, what="the silent worker's end")
        assert admin.ask("EXISTS", "worker:silent:metadata") == 1
        assert other.pop("queue:silent", 5)["attempt"] == 2
        assert str(silent.update("silent-0", status="completed", lease_id=lease)).startswith("CANCELLED superseded")
        assert other.update("silent-0", status="completed") == "OK"
