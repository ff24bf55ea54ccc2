"""The worker contract of seed 002, kept by the real worker."""

import subprocess
from pathlib import Path

import pytest

from astra_server import binary
from waiting import stays, wait_until


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
    diary, writer = tmp_path / "diary", tmp_path / "writer"
    # A child of its own, so that stopping the program alone would not be enough.
    script = f"(while true; do echo x >> {diary}; sleep 0.02; done) & echo $! > {writer}; wait"
    task_id = server.submit("command", {"argv": ["sh", "-c", script]}, retry={"max_attempts": 1})
    wait_until(lambda: size_of(diary) > 10 and size_of(writer) > 1, what="the first lines of the program")
    child = writer.read_text().strip()
    assert is_running(child)
    server.rest("POST", f"/tasks/{task_id}/cancel")
    wait_until(lambda: not is_running(child), what="the end of the program's child")
    size = diary.stat().st_size
    stays(lambda: diary.stat().st_size == size, for_s=0.3, why="nobody is left who writes")
    task = server.task(task_id)
    assert task["state"] == "STOPPED" and task.get("result") is None, task


def size_of(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def is_running(pid: str) -> bool:
    """Whether the process is there and not merely uncollected."""
    try:
        return "State:\tZ" not in (Path("/proc") / pid / "status").read_text()
    except OSError:
        return False
