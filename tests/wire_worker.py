"""The worker that exists in the field, as it behaves on the wire.

`session_seq` from 1, message ids `<type>-<n>` from one counter per process, closed objects, a
result whose `corr` is the id of its dispatch, rare heartbeats that begin before the handshake.
"""

import time
from itertools import count

from closed_objects import why_dropped
from peer import Peer

WINDOW = 64
REPEAT_DELAYS_S = (0.2, 0.4, 0.8, 1.6, 3.2, 5.0)
PAYLOAD_TYPES = [
    "biz.exec.dispatch", "biz.exec.result", "biz.exec.error", "biz.exec.feedback",
    "biz.exec.next.request", "biz.exec.next.response",
    "biz.pkg.install", "biz.pkg.uninstall", "biz.pkg.event",
]


class WireWorker(Peer):
    """A new object with the same `instance_id` is a restarted process: its counters begin anew."""

    def __init__(self, url: str, token: str | None = None, *, slots: int = 4, features=("stream",), payload_types=(), **more):
        super().__init__(url, **more)
        self.payload_types = [*PAYLOAD_TYPES, *payload_types]
        self.token, self.slots, self.features = token, slots, list(features)
        self.message_numbers = count()
        self.session: dict | None = None
        self.dropped: list[str] = []
        self.resets: list[dict] = []
        self.dispatches: list[dict] = []
        self.acks: dict[str, dict] = {}
        self.unacked: dict[str, dict] = {}
        self.begin_windows()

    def begin_windows(self) -> None:
        self.next_seq = 1
        self.base = 0
        self.early: dict[int, dict] = {}
        self.unacked.clear()

    def say(self, frame_type: str, payload: dict, **more) -> dict:
        return super().say(frame_type, payload, id=f"{frame_type}-{next(self.message_numbers)}", **more)

    # Session

    def handshake(self) -> dict:
        auth = {"mode": "token", "token": self.token} if self.token else {"mode": "token"}
        worker = {
            "worker_name": "field-worker", "worker_instance_id": self.instance_id,
            "version": "0.1.0", "hostname": "field",
        }
        payload = {"protocol": 1, "auth": auth, "worker": worker}
        return self.say("control.handshake", payload, ack={"request": True})

    def register(self) -> dict:
        capabilities = {
            "concurrency": {"max_parallel": self.slots, "per_node_limits": {}},
            "runtimes": ["python"], "features": self.features,
        }
        manifest = {"name": "shot", "version": "2.1.0", "manifest": {"nodes": [{"type": "shot.take"}]}}
        payload = {
            "capabilities": capabilities,
            "payload_types": self.payload_types,
            "packages": [{"name": "shot", "version": "2.1.0", "status": "installed"}],
            "manifests": [manifest],
        }
        return self.say("control.register", payload, ack={"request": True})

    def beat(self, **load) -> dict:
        metrics = {
            "inflight": 0, "cpu_pct": 3.5, "mem_pct": 40.0, "disk_pct": 50.0, "resource_handles": 0,
            "resource_bytes": 0, "pending_acks": len(self.unacked), "app_queue": 0, "app_queue_drops": 0,
            "conn_state": "open", "send_inflight": 0, "send_waiters": 0, "last_recv_ms": 1,
            "last_send_ms": 1, "last_ack_ms": 1, "recv_queue": 0, "recv_base_seq": self.base, "recv_buffer": 0,
            **load,
        }
        return self.say("control.heartbeat", {"healthy": True, "metrics": metrics})

    def open(self) -> "WireWorker":
        self.connect()
        return self.open_on_this_socket()

    def open_on_this_socket(self) -> "WireWorker":
        self.wait_for_ack(self.handshake())
        self.wait_for_ack(self.register())
        self.wait_for_accept()
        return self

    def wait_for_accept(self) -> dict:
        self.session = self.wait_for_type("control.session.accept")["payload"]
        if not self.session.get("resumed"):
            self.begin_windows()
        return self.session

    def resume(self) -> dict:
        self.connect()
        asked = {key: self.session[key] for key in ("session_id", "session_token")}
        self.wait_for_ack(self.say("control.resume", {**asked, "last_seen_seq": self.base}, ack={"request": True}))
        accepted = self.wait_for_accept()
        for frame in list(self.unacked.values()):
            self.send(frame)
        return accepted

    # Frames in

    def on_frame(self, frame: dict) -> None:
        if why := why_dropped(frame):
            self.dropped.append(f"{frame['type']}: {why}")
        elif frame["type"] == "control.ack":
            named = (frame.get("ack") or {}).get("for") or frame["payload"].get("for")
            self.acks[named] = frame["payload"]
            self.unacked.pop(named, None)
        elif frame["type"] == "control.reset":
            self.resets.append(frame["payload"])
        elif not frame["type"].startswith("control."):
            self.on_business(frame)

    def on_business(self, frame: dict) -> None:
        number = frame.get("session_seq")
        if number is None:
            self.deliver(frame)
        elif self.base < number <= self.base + WINDOW:
            self.early[number] = frame
            while self.base + 1 in self.early:
                self.base += 1
                self.deliver(self.early.pop(self.base))
        self.acknowledge(frame)

    def acknowledge(self, frame: dict) -> None:
        bitmap = sum(1 << (number - self.base - 1) for number in self.early)
        payload = {"ok": True, "ack_seq": self.base, "ack_bitmap": bitmap, "recv_window": WINDOW}
        more = {key: frame[key] for key in ("corr", "seq") if key in frame}
        if (frame.get("ack") or {}).get("request"):
            payload["for"] = frame["id"]
            more["ack"] = {"for": frame["id"]}
        self.say("control.ack", payload, **more)

    def deliver(self, frame: dict) -> None:
        if frame["type"] == "biz.exec.dispatch":
            self.dispatches.append(frame)

    # Frames out

    def business(self, frame_type: str, payload: dict, **more) -> dict:
        frame = self.say(frame_type, payload, session_seq=self.next_seq, **more)
        self.next_seq += 1
        if more.get("ack"):
            self.unacked[frame["id"]] = frame
        return frame

    def feedback(self, dispatch: dict, **payload) -> dict:
        asked = dispatch["payload"]
        about = {"run_id": asked["run_id"], "task_id": asked["task_id"]}
        return self.business("biz.exec.feedback", {**about, **payload}, corr=asked["task_id"])

    def result(self, dispatch: dict, status: str = "SUCCEEDED", result: dict | None = None) -> dict:
        asked = dispatch["payload"]
        self.dispatches.remove(dispatch)
        payload = {
            "run_id": asked["run_id"], "task_id": asked["task_id"], "status": status,
            "result": {"echo": asked["parameters"]} if result is None else result,
            "duration_ms": 1, "metadata": {"concurrency_key": None, "constraints": asked["constraints"]},
        }
        return self.business(
            "biz.exec.result", payload, corr=dispatch["id"], seq=dispatch["seq"], ack={"request": True}
        )

    def error(self, dispatch: dict, code: str, message: str) -> dict:
        details = {key: dispatch["payload"][key] for key in ("run_id", "task_id", "node_id")}
        payload = {"code": code, "message": message, "context": {"where": "executor", "details": details}}
        return self.business(
            "biz.exec.error", payload, corr=dispatch["id"], seq=dispatch["seq"], ack={"request": True}
        )

    # Waiting

    def wait_for_ack(self, frame: dict) -> dict:
        """Repeats the frame until it is acked, as the worker does."""
        for delay in REPEAT_DELAYS_S:
            ends = time.monotonic() + delay
            while frame["id"] not in self.acks and (left := ends - time.monotonic()) > 0:
                try:
                    self.receive(left)
                except TimeoutError:
                    pass
            if frame["id"] in self.acks:
                return self.acks.pop(frame["id"])
            self.send(frame)
        raise AssertionError(f"{frame['id']} was repeated {len(REPEAT_DELAYS_S)} times and never acked")

    def wait_for_receipt(self, number: int) -> None:
        """Waits until an ack says that everything up to this number is done with."""
        says_so = lambda frame: frame["type"] == "control.ack" and frame["payload"].get("ack_seq") == number
        if not any(says_so(frame) for frame in self.received):
            self.wait_for(says_so)

    def next_dispatch(self, within_s: float = 15) -> dict:
        if not self.dispatches:
            self.wait_for(lambda _: bool(self.dispatches), within_s)
        return self.dispatches[0]

    def step(self) -> None:
        """One turn of an ordinary working life."""
        try:
            self.receive(0.1)
        except TimeoutError:
            pass
        for dispatch in list(self.dispatches):
            self.feedback(dispatch, stage="running", message="at it")
            self.result(dispatch)
