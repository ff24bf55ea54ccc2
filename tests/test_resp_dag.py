"""Thirty jobs that wait for one another, worked off by other people's clients alone."""

import json
import os
import subprocess
import threading
from pathlib import Path

import pytest
import redis

from resp_client import RespClient
from waiting import wait_until

HERE = Path(__file__).parent
LAYERS = 6
DONE_WITHIN_S = 60


def diamonds() -> dict[str, list[str]]:
    """One, four, one, four, ...: each layer waits for the whole layer before it."""
    jobs, before = {}, []
    for layer in range(LAYERS):
        jobs[top := f"n{layer}"] = before
        sides = [f"n{layer}-{side}" for side in "abcd"]
        jobs |= {side: [top] for side in sides}
        before = sides
    return jobs


@pytest.fixture
def dag(server, tmp_path):
    folder = tmp_path / "marks"
    folder.mkdir()
    jobs = diamonds()
    with RespClient(server, "client") as client:
        for name, after in jobs.items():
            client.submit(job_id=name, queue="dag", after=after, needs=" ".join(after))
        assert client.ask("LLEN", "queue:dag") == 1, "all others wait for the first"
    yield folder
    (folder / "stop").touch()


def check_done(server, folder: Path) -> None:
    """Each job once, each after those that it waits for, and all of them completed."""
    jobs = diamonds()
    with RespClient(server, "viewer") as viewer:

        def completed() -> list[bytes]:
            assert not (folder / "faults").exists(), (folder / "faults").read_text()
            return viewer.ask("JOBS.LIST", "completed")

        are_all = lambda lines: len(lines) == len(jobs)
        wait_until(completed, are_all, within_s=DONE_WITHIN_S, what=f"the end of {len(jobs)} jobs")
        attempts = [viewer.status(name)["attempt"] for name in jobs]
    (folder / "stop").touch()
    faults = folder / "faults"
    assert not faults.exists(), faults.read_text()
    log = (folder / "log").read_text().split()
    assert sorted(log) == sorted(jobs) and attempts == [1] * len(jobs)
    for name, after in jobs.items():
        assert all(log.index(one) < log.index(name) for one in after), name


def test_by_redis_cli_and_sh(server, dag):
    words = [str(HERE / "redis_cli_worker.sh"), str(server.resp_port), "dag", str(dag)]
    env = {**os.environ, "REDISCLI_AUTH": server.tokens["worker"]}
    workers = [subprocess.Popen(words, env=env, stdin=subprocess.DEVNULL) for _ in range(4)]
    try:
        check_done(server, dag)
    finally:
        (dag / "stop").touch()
        for worker in workers:
            worker.wait(15)


def test_by_redis_py(server, dag):
    failures = []

    def work(version: int) -> None:
        try:
            client = redis.Redis(port=server.resp_port, password=server.tokens["worker"], protocol=version)
            while not (dag / "stop").exists():
                popped = client.brpop("queue:dag", 1)
                if popped is None:
                    continue
                job = json.loads(popped[1])
                name = job["job_id"]
                for needed in job["needs"].split():
                    if not (dag / needed).exists():
                        (dag / "faults").write_text(f"{name} began before {needed} was done")
                with (dag / "log").open("a") as log:
                    log.write(f"{name}\n")
                (dag / name).touch()
                assert client.execute_command("JOB.UPDATE", name, '{"status":"completed"}') in (b"OK", "OK")
            client.close()
        except BaseException as failure:
            failures.append(failure)

    workers = [threading.Thread(target=work, args=(version,)) for version in (2, 3, 2, 3)]
    for worker in workers:
        worker.start()
    try:
        check_done(server, dag)
    finally:
        (dag / "stop").touch()
        for worker in workers:
            worker.join(15)
    assert not failures


def test_by_ioredis(server, dag, node):
    words = [str(server.resp_port), server.tokens["worker"], "dag", str(dag), "4"]
    worker = node.start("ioredis_worker.mjs", *words)
    try:
        check_done(server, dag)
    finally:
        (dag / "stop").touch()
        assert worker.wait(15) == 0
