"""AGX programs, as they are on the wire: nothing that they do not send is sent here."""

import json

from resp_client import RespClient

FORBIDDEN = set("&|;$`\r\n\0")


class AgwExit(Exception):
    """The process ends with an error, as agw does at the first surprise."""


class Agw:
    """A worker of either generation, with one connection for everything."""

    def __init__(self, server, worker_id: str, *, old: bool = False, tools: str = "", tags: str = "cpu"):
        self.worker_id, self.old = worker_id, old
        self.client = client = RespClient(server)
        self.source = "queue:ready" if old else "queue:default"
        # redis-rs pipelines these before anything else and ignores the answers, errors included.
        client.send("CLIENT", "SETINFO", "LIB-NAME", "redis-rs")
        client.send("CLIENT", "SETINFO", "LIB-VER", "0.24.0")
        client.send("AUTH", server.tokens["worker"])
        client.read(), client.read()
        self.must(client.read() == "OK", "AUTH")
        if tools:
            self.must(client.call("SET", f"worker:{worker_id}:tools", tools) == "OK", "SET tools")
        if not old:
            self.must(client.call("SET", f"worker:{worker_id}:tags", tags) == "OK", "SET tags")
        self.heartbeat()

    def must(self, fits: bool, what: str) -> None:
        if not fits:
            raise AgwExit(what)

    def heartbeat(self) -> None:
        self.must(isinstance(self.client.call("PING", self.worker_id), (bytes, str)), "PING")

    def fetch(self, wait_s: float = 5) -> bytes | None:
        popped = self.client.call("BRPOPLPUSH", self.source, "queue:processing", wait_s, within_s=wait_s + 10)
        self.must(popped is None or isinstance(popped, bytes), f"BRPOPLPUSH: {popped}")
        return popped

    def job(self, popped: bytes) -> tuple[dict, list[dict]]:
        """The job and its tasks; whatever is missing ends the process."""
        if self.old:
            job = self.document("GET", b"job:" + popped)
            self.must({"job_id", "plan_id"} <= job.keys(), f"job: {job}")
            plan = self.document("GET", f"plan:{job['plan_id']}")
            tasks = plan.get("tasks") or []
            self.must([task["task_number"] for task in tasks] == list(range(1, len(tasks) + 1)) != [], "tasks")
        else:
            job = self.document("JOB.GET", popped)
            self.must({"id", "action_id", "plan_id", "task_number", "command", "args"} <= job.keys(), f"job: {job}")
            self.must(all(1 <= len(job[name]) <= 128 for name in ("id", "action_id", "plan_id")), f"ids: {job}")
            tasks = [job]
        for task in tasks:
            for word in [task["command"], *(task.get("args") or [])]:
                self.must(not FORBIDDEN & set(word) and ".." not in word[:2] and "../" not in word, word)
        return job, tasks

    def document(self, *words) -> dict:
        text = self.client.call(*words)
        self.must(isinstance(text, bytes), f"{words[0]}: {text!r}")
        return json.loads(text)

    def finish(self, popped: bytes, job: dict, stdout: str, status: str = "completed") -> int:
        name = job["job_id"] if self.old else job["id"]
        for field, value in [("stdout", stdout), ("stderr", ""), ("status", status)]:
            self.must(self.client.call("SET", f"job:{name}:{field}", value) == "OK", f"SET {field}")
        removed = self.client.call("LREM", "queue:processing", 1, popped)
        self.must(isinstance(removed, int), "LREM")
        return removed

    def work(self, wait_s: float = 5, stdout: str = "done\n", status: str = "completed") -> dict | None:
        popped = self.fetch(wait_s)
        if popped is None:
            return None
        job, _ = self.job(popped)
        self.finish(popped, job, stdout, status)
        return job

    def close(self) -> None:
        self.client.close()


def agx(server, *words):
    """A command of agx: a new connection, AUTH, the command, its answer."""
    with RespClient(server, "client") as client:
        return client.call(*words)
