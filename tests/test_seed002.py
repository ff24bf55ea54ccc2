"""The worker contract of seed 002, kept by the real worker."""

import subprocess
import time

import pytest

from astra_server import binary


@pytest.fixture
def worker(server):
    words = ["worker", "start", "--name", "w1", "--data", str(server.folder / "w1")]
    words += ["--server", f"http://127.0.0.1:{server.port}", "--token", server.tokens["worker"]]
    process = subprocess.Popen([binary(), *words], stdin=subprocess.DEVNULL)
    yield process
    process.kill()
    process.wait()


def test_after_cancelled_nothing_more_happens_outside(server, worker, tmp_path):
    """Sections 3.2 and 4: no side effects, and no external state changes, after CANCELLED."""
    diary = tmp_path / "diary"
    # A child of its own, so that stopping the program alone would not be enough.
    script = f"(while true; do echo x >> {diary}; sleep 0.02; done) & wait"
    task_id = server.submit("command", {"argv": ["sh", "-c", script]}, retry={"max_attempts": 1})
    wait_until(lambda: diary.exists() and diary.stat().st_size > 10)
    server.rest("POST", f"/tasks/{task_id}/cancel")
    wait_until(lambda: is_still(diary))
    size = diary.stat().st_size
    time.sleep(1)
    assert diary.stat().st_size == size, "it wrote on"
    task = server.task(task_id)
    assert task["state"] == "STOPPED" and task.get("result") is None, task


def is_still(path) -> bool:
    size = path.stat().st_size
    time.sleep(0.3)
    return path.stat().st_size == size


def wait_until(is_true, within_s: float = 20) -> None:
    deadline = time.monotonic() + within_s
    while not is_true():
        assert time.monotonic() < deadline
        time.sleep(0.05)
