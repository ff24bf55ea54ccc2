"""The real binary as a process of its own, and its REST interface."""

import http.client
import json
import os
import re
import signal
import subprocess
from pathlib import Path

from waiting import wait_until

START_WITHIN_S = 20
STOP_WITHIN_S = 10
REQUEST_WITHIN_S = 30
ROLES = ("admin", "client", "worker", "viewer")
# Where `server start` and `dev` say on which port they listen.
ADDRESS = re.compile(r"(?:address(?:=|\":\")127\.0\.0\.1|http://localhost):(\d+)")
RESP_ADDRESS = re.compile(r"(?:resp(?:=|\":)\"?127\.0\.0\.1:|redis-cli -p )(\d+)")


def binary() -> str:
    path = os.environ.get("ASTRA_BIN")
    if not path:
        raise RuntimeError("set ASTRA_BIN to the astra binary, or run: cargo xtask test")
    return path


class Server:
    """One server on ports of 127.0.0.1 that the system chose. A restart keeps ports and data.

    A folder that is there already knows its tokens: whoever has them gives one for each role.
    """

    def __init__(
        self, folder: Path, *, dev: bool = False, workers: int = 0, settings: str = "", tokens: dict | None = None
    ):
        self.folder = folder
        self.data = folder / "data"
        self.log = folder / "server.log"
        self.dev = dev
        self.workers = workers
        self.port = 0
        self.resp_port = 0
        if settings:
            (folder / "astra.toml").write_text(settings)
        self.process: subprocess.Popen | None = None
        if tokens is None:
            tokens = {} if dev else {"admin": self.make_token("admin")}
        self.tokens = tokens

    def make_token(self, role: str, tenant: str = "default") -> str:
        """A token made in the data folder itself, so only while the server is down."""
        words = ["token", "create", "--role", role, "--tenant", tenant, "--data", str(self.data)]
        made = subprocess.run(
            [binary(), *words, "-o", "quiet"],
            capture_output=True, text=True, timeout=START_WITHIN_S, check=True,
        )
        return made.stdout.strip()

    def start(self) -> "Server":
        words = ["dev", "--workers", str(self.workers)] if self.dev else ["server", "start"]
        words += ["--data", str(self.data), "--http", f"127.0.0.1:{self.port}"]
        words += ["--resp", f"127.0.0.1:{self.resp_port}"]
        offset = self.log.stat().st_size if self.log.exists() else 0
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [binary(), *words],
                cwd=self.folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            )
        self.port, self.resp_port = self._announced_ports(offset)
        if not self.dev:
            missing = [role for role in ROLES if role not in self.tokens]
            self.tokens |= {role: self.new_token(role)[1] for role in missing}
        return self

    def _announced_ports(self, offset: int) -> tuple[int, int]:
        def announced() -> tuple[int, int] | None:
            said = self.log.read_bytes()[offset:].decode()
            found = [pattern.search(said) for pattern in (ADDRESS, RESP_ADDRESS)]
            if all(found):
                return int(found[0][1]), int(found[1][1])
            assert self.process.poll() is None, "the server ended"
            return None

        try:
            return wait_until(announced, within_s=START_WITHIN_S, what="the ports in the server's log")
        except AssertionError as failure:
            self.kill()
            raise RuntimeError(f"the server did not start: {failure}\n{self.log.read_text()}") from failure

    def kill(self) -> None:
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        self._end(signal.SIGTERM)

    def _end(self, how: signal.Signals) -> None:
        process, self.process = self.process, None
        if process is None:
            return
        process.send_signal(how)
        try:
            process.wait(STOP_WITHIN_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise

    @property
    def worker_url(self) -> str:
        return f"ws://127.0.0.1:{self.port}/ws/worker"

    def rss_bytes(self) -> int:
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(r"VmRSS:\s+(\d+) kB", status)[1]) * 1024

    def call(self, method: str, path: str, body=None, *, role: str = "admin", headers=()) -> tuple[int, str]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=REQUEST_WITHIN_S)
        sent = dict(headers)
        if self.tokens and role:
            sent["authorization"] = f"Bearer {self.tokens[role]}"
        if body is not None:
            sent["content-type"] = "application/json"
        try:
            connection.request(method, path, None if body is None else json.dumps(body), sent)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        finally:
            connection.close()

    def rest(self, method: str, path: str, body=None, *, role: str = "admin"):
        """The answer of a call that succeeds."""
        status, text = self.call(method, f"/api/v1{path}", body, role=role)
        assert status < 300, f"{method} {path}: {status} {text}"
        return json.loads(text) if text else None

    def submit(self, task_type: str, parameters=None, **more) -> str:
        task = {"type": task_type, "parameters": parameters or {}, **more}
        return self.rest("POST", "/tasks", {"tasks": [task]})["tasks"][0]["task_id"]

    def task(self, task_id: str) -> dict:
        return self.rest("GET", f"/tasks/{task_id}")

    def settled(self, task_id: str, within_s: float = 20) -> dict:
        """The task at its end."""
        task = self.rest("GET", f"/tasks/{task_id}?wait_ms={int(within_s * 1000)}")
        assert "settled_at" in task, f"still not settled after {within_s} s: {task}"
        return task

    def log_lines(self, task_id: str) -> list[dict]:
        """What the task put out, without the last line that only says where the log stands."""
        status, text = self.call("GET", f"/api/v1/tasks/{task_id}/log")
        assert status == 200, text
        lines = [json.loads(line) for line in text.splitlines()]
        return [line for line in lines if "end" not in line]

    def new_token(self, role: str) -> tuple[str, str]:
        """The id and the secret of a further token."""
        made = self.rest("POST", "/tokens", {"role": role})
        return made["info"]["token_id"], made["token"]

    def revoke(self, token_id: str) -> None:
        self.rest("DELETE", f"/tokens/{token_id}")


class ServerWithClock(Server):
    """The same server as a program for tests, whose clock a test moves ahead instead of waiting."""

    def start(self) -> "ServerWithClock":
        program = Path(binary()).with_name("test-server")
        words = ["--data", str(self.data), "--http", f"127.0.0.1:{self.port}", "--resp", f"127.0.0.1:{self.resp_port}"]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [program, *words], cwd=self.folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True
            )
        said = json.loads(self.process.stdout.readline())
        self.port, self.resp_port = (int(said[door].rsplit(":", 1)[1]) for door in ("http", "resp"))
        self.tokens |= {role: self.new_token(role)[1] for role in ROLES if role not in self.tokens}
        return self

    def move_clock(self, seconds: int) -> None:
        self.process.stdin.write(f"{seconds}\n")
        self.process.stdin.flush()
