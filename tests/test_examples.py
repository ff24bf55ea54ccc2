"""The programs in `examples/` do what their pages say."""

import subprocess
import sys
from pathlib import Path

PULL = Path(__file__).parents[1] / "examples" / "workers" / "pull.py"


def test_a_worker_over_http_executes_and_reports(dev_server):
    worker = subprocess.Popen([sys.executable, PULL, f"http://127.0.0.1:{dev_server.port}"], stdin=subprocess.DEVNULL)
    try:
        counted = dev_server.settled(dev_server.submit("text.count", {"text": "to be\nor not to be"}))
        assert counted["state"] == "COMPLETED", counted
        assert counted["result"] == {"letters": 18, "words": 6, "lines": 2}
        refused = dev_server.settled(dev_server.submit("text.count", {"letters": 1}, retry={"max_attempts": 1}))
        assert refused["state"] == "FAILED" and "KeyError" in refused["error"]["reason"], refused
    finally:
        worker.kill()
        worker.wait()
