"""A worker written from seed 001 alone: plain names, `seq` per run, no session frames.

It knows the frames of seed 001 section 3 and passes over every other one, such as `session.accept`.
"""

import time

from peer import Peer

HEARTBEAT_EVERY_S = 2


class Seed001Client(Peer):
    def __init__(self, url: str, token: str | None = None, *, slots: int = 4, packages=(), **more):
        super().__init__(url, **more)
        self.token, self.slots = token, slots
        self.packages = [
            {"name": name, "version": version, "status": "installed"} for name, version in packages
        ]
        self.dispatches: list[dict] = []
        self.acks: dict[str, dict] = {}
        self.errors: list[dict] = []
        self.started: set[str] = set()
        self.beaten_at = 0.0

    def open(self) -> "Seed001Client":
        self.connect()
        auth = {"mode": "token", "token": self.token} if self.token else {"mode": "token"}
        worker = {"worker_id": self.instance_id, "version": "0.0.1", "hostname": "somewhere"}
        handshake = {"protocol": 1, "auth": auth, "worker": worker}
        self.wait_for_ack(self.say("handshake", handshake, ack={"request": True}))
        capabilities = {
            "concurrency": {"max_parallel": self.slots}, "runtimes": ["python"], "features": [],
        }
        register = {"capabilities": capabilities, "packages": self.packages}
        self.wait_for_ack(self.say("register", register, ack={"request": True}))
        self.beat()
        return self

    def beat(self) -> None:
        self.beaten_at = time.monotonic()
        self.say("heartbeat", {"healthy": True, "metrics": {"inflight": len(self.dispatches)}})

    def on_frame(self, frame: dict) -> None:
        kind = frame["type"]
        if kind == "ack":
            assert frame["payload"]["ok"] is True
            if named := frame["payload"].get("for"):
                self.acks[named] = frame["payload"]
        elif kind == "error":
            self.errors.append(frame["payload"])
        elif kind == "cmd.dispatch":
            assert frame["seq"] >= 1 and frame["corr"] == frame["payload"]["task_id"]
            self.say("ack", {"ok": True, "for": frame["id"]})
            # Seed 001 section 4.3: a repeated command is acked again and not started again.
            if frame["id"] not in self.started:
                self.started.add(frame["id"])
                self.dispatches.append(frame)

    def feedback(self, dispatch: dict, **payload) -> dict:
        asked = dispatch["payload"]
        about = {"run_id": asked["run_id"], "task_id": asked["task_id"]}
        return self.say("feedback", {**about, **payload}, corr=asked["task_id"])

    def result(self, dispatch: dict, status: str = "SUCCEEDED", **payload) -> dict:
        asked = dispatch["payload"]
        self.dispatches.remove(dispatch)
        said = {
            "run_id": asked["run_id"], "task_id": asked["task_id"], "status": status,
            "result": {"echo": asked["parameters"]}, **payload,
        }
        return self.say("result", said, corr=asked["task_id"], seq=dispatch["seq"], ack={"request": True})

    def error(self, dispatch: dict, code: str, message: str) -> dict:
        asked = dispatch["payload"]
        self.dispatches.remove(dispatch)
        said = {"code": code, "message": message}
        return self.say("error", said, corr=asked["task_id"], seq=dispatch["seq"], ack={"request": True})

    def wait_for_ack(self, frame: dict) -> dict:
        """The ack that names the frame, each one once."""
        if frame["id"] not in self.acks:
            self.wait_for(lambda _: frame["id"] in self.acks)
        return self.acks.pop(frame["id"])

    def next_dispatch(self, within_s: float = 15) -> dict:
        if not self.dispatches:
            self.wait_for(lambda _: bool(self.dispatches), within_s)
        return self.dispatches[0]

    def step(self) -> None:
        """One turn of an ordinary working life."""
        if time.monotonic() - self.beaten_at > HEARTBEAT_EVERY_S:
            self.beat()
        try:
            self.receive(0.1)
        except TimeoutError:
            pass
        for dispatch in list(self.dispatches):
            self.result(dispatch)
