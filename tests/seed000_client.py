"""A worker written from seed 000 alone: `control.*` and `biz.*` frames, transport counter in `seq` from 0.

It checks every frame of the server against the published schemas before it looks at it.
"""

import time

import schemas
from peer import Peer

WINDOW = 64
HEARTBEAT_EVERY_S = 2
# Seed 000 leaves open how often a frame is repeated; this is the upper end of seed 001.
REPEAT_AFTER_S = 1


class Seed000Client(Peer):
    def __init__(self, url: str, token: str | None = None, *, slots: int = 4, verdicts: bool = True, **more):
        super().__init__(url, **more)
        self.token, self.slots, self.verdicts = token, slots, verdicts
        self.session: dict | None = None
        self.next_seq = 0
        self.unacked: dict[str, tuple[dict, float]] = {}
        self.seen: set[int] = set()
        self.dispatches: list[dict] = []
        self.acks: list[dict] = []
        self.named: dict[str, dict] = {}
        self.beaten_at = 0.0

    # Session

    def handshake(self) -> dict:
        auth = {"mode": "token", "token": self.token} if self.token else {"mode": "token"}
        worker = {
            "worker_name": "seed000", "worker_instance_id": self.instance_id,
            "version": "0.0.1", "hostname": "somewhere",
        }
        payload = {"protocol": 1, "auth": auth, "worker": worker}
        return self.say("control.handshake", payload, ack={"request": True})

    def register(self) -> dict:
        types = ["biz.exec.dispatch", "biz.exec.cancel"] + ["biz.exec.verdict"] * self.verdicts
        capabilities = {
            "concurrency": {"max_parallel": self.slots}, "runtimes": ["python"], "features": [],
        }
        payload = {"capabilities": capabilities, "payload_types": types}
        return self.say("control.register", payload, ack={"request": True})

    def open(self, **options) -> "Seed000Client":
        """NEW to READY, as seed 000 section 7 writes it."""
        self.connect(**options)
        self.wait_for_ack(self.handshake())
        self.wait_for_ack(self.register())
        self.session = self.wait_for_type("control.session.accept")["payload"]
        self.beat()
        return self

    def resume(self, **options) -> dict:
        """Goes on with the session over a new connection; gives what was accepted."""
        self.connect(**options)
        asked = {key: self.session[key] for key in ("session_id", "session_token")}
        if self.seen:
            asked["last_seen_seq"] = self.contiguous()
        frame = self.say("control.resume", asked, ack={"request": True})
        self.wait_for_ack(frame)
        self.session = self.wait_for_type("control.session.accept")["payload"]
        for unacked in list(self.unacked):
            self.repeat(unacked)
        self.beat()
        return self.session

    def beat(self) -> None:
        self.beaten_at = time.monotonic()
        self.say("control.heartbeat", {"healthy": True, "metrics": {"inflight": len(self.dispatches)}})

    # Frames in

    def on_frame(self, frame: dict) -> None:
        schemas.validate(frame)
        assert frame["sender"]["role"] == "scheduler"
        if frame["type"].startswith("control."):
            assert frame.get("session_seq") is None, "only business frames are counted"
            self.on_control(frame)
        else:
            self.on_business(frame)

    def on_control(self, frame: dict) -> None:
        if frame["type"] == "control.ack":
            assert frame["payload"].get("for") == (frame.get("ack") or {}).get("for")
            self.acks.append(frame["payload"])
            if named := frame["payload"].get("for"):
                self.unacked.pop(named, None)
                self.named[named] = frame["payload"]

    def number_of(self, frame: dict) -> int:
        """The number in the stream from 0. Until the server has seen how this side counts, it stands
        in `session_seq` alone, from 1."""
        if frame.get("session_seq") is not None:
            return frame["session_seq"] - 1
        return frame["seq"]

    def on_business(self, frame: dict) -> None:
        number = self.number_of(frame)
        is_new = number not in self.seen
        self.seen.add(number)
        self.acknowledge(frame)
        if is_new and frame["type"] == "biz.exec.dispatch":
            self.dispatches.append(frame)

    def contiguous(self) -> int:
        """The highest number up to which everything arrived; -1 before the first."""
        contiguous = -1
        while contiguous + 1 in self.seen:
            contiguous += 1
        return contiguous

    def acknowledge(self, frame: dict) -> None:
        contiguous = self.contiguous()
        bitmap = sum(1 << (n - contiguous - 1) for n in self.seen if contiguous < n <= contiguous + WINDOW)
        payload = {"ok": True, "ack_seq": max(contiguous, 0), "ack_bitmap": bitmap, "recv_window": WINDOW}
        more = {}
        if (frame.get("ack") or {}).get("request"):
            payload["for"] = frame["id"]
            more["ack"] = {"for": frame["id"]}
        self.say("control.ack", payload, **more)

    # Frames out

    def business(self, frame_type: str, payload: dict, corr: str) -> dict:
        frame = self.envelope(frame_type, payload, corr=corr, seq=self.next_seq, ack={"request": True})
        self.next_seq += 1
        self.unacked[frame["id"]] = (frame, time.monotonic())
        return self.send(frame)

    def repeat(self, frame_id: str) -> None:
        frame, _ = self.unacked[frame_id]
        self.unacked[frame_id] = (frame, time.monotonic())
        self.send(frame)

    def result_payload(self, dispatch: dict, status: str = "SUCCEEDED") -> dict:
        asked = dispatch["payload"]
        return {
            "run_id": asked["run_id"], "task_id": asked["task_id"],
            "status": status, "result": {"echo": asked["parameters"]},
        }

    def finish(self, dispatch: dict) -> dict:
        self.dispatches.remove(dispatch)
        return self.business("biz.exec.result", self.result_payload(dispatch), dispatch["id"])

    # Waiting

    def wait_for_ack(self, frame: dict, within_s: float = 10) -> dict:
        """The ack that names the frame, each one once."""
        if frame["id"] not in self.named:
            self.wait_for(lambda _: frame["id"] in self.named, within_s)
        return self.named.pop(frame["id"])

    def committed(self) -> set[str]:
        """The leases whose results were committed."""
        return {ack["for"] for ack in self.acks if ack.get("info") == "COMMITTED" and ack.get("for")}

    def next_dispatch(self, within_s: float = 15) -> dict:
        if not self.dispatches:
            self.wait_for(lambda frame: bool(self.dispatches), within_s)
        return self.dispatches[0]

    def step(self) -> None:
        """One turn of an ordinary working life, short enough to be ended at any time."""
        if time.monotonic() - self.beaten_at > HEARTBEAT_EVERY_S:
            self.beat()
        for frame_id, (_, sent_at) in list(self.unacked.items()):
            if time.monotonic() - sent_at > REPEAT_AFTER_S:
                self.repeat(frame_id)
        try:
            self.receive(0.1)
        except TimeoutError:
            pass
        for dispatch in list(self.dispatches):
            self.finish(dispatch)
