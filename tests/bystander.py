"""A worker that has nothing to do with what a test does to the server, and must not notice it."""

import threading

from peer import Background
from waiting import wait_until
from wire_worker import WireWorker

TASK_TYPE = "bystander"
PAUSE_S = 0.1
# A busy machine is slow; a server that is held up by one peer is slower than this.
TASK_WITHIN_S = 5
GROWTH_BYTES_MAX = 64 << 20


class Bystander:
    """Submits a task, sees it completed, and again."""

    def __init__(self, server):
        self.server = server
        worker = WireWorker(server.worker_url, server.tokens["worker"], features=[f"type:{TASK_TYPE}"])
        self.work = Background(worker.open(), worker.step)
        self.n_completed = 0
        self.failure: BaseException | None = None
        self.is_ending = threading.Event()
        self.thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self):
        self.work.__enter__()
        self.thread.start()
        self.wait_for_more()
        self.rss_before = self.server.rss_bytes()
        return self

    def __exit__(self, *_):
        self.is_ending.set()
        self.thread.join(2 * TASK_WITHIN_S)
        self.work.__exit__()

    def _run(self) -> None:
        try:
            while not self.is_ending.wait(PAUSE_S):
                task = self.server.settled(self.server.submit(TASK_TYPE), TASK_WITHIN_S)
                assert (task["state"], task["attempt"]) == ("COMPLETED", 1), task
                self.n_completed += 1
        except BaseException as failure:
            self.failure = failure

    def wait_for_more(self) -> None:
        """Sees further tasks completed that began after this call."""
        wanted = self.n_completed + 2
        is_seen = lambda n_completed: n_completed >= wanted or self.failure is not None
        wait_until(lambda: self.n_completed, is_seen, within_s=3 * TASK_WITHIN_S, what="the bystander's next tasks")
        self.work.check()
        assert self.failure is None, f"the bystander was harmed: {self.failure!r}"

    def check_unharmed(self) -> None:
        self.wait_for_more()
        grown = self.server.rss_bytes() - self.rss_before
        assert grown < GROWTH_BYTES_MAX, f"the server grew by {grown >> 20} MiB"
