"""A data folder that an earlier version left behind, and the workers that were at work in it.

The folder is kept as SQL text in `fixtures/`. It was made at one moment and is opened at another,
years later perhaps, but session tokens end after a day and leases after minutes. So the loader
moves the whole folder in time: every moment in the text, be it a column, a number in JSON or a
text in RFC 3339, is shifted by the time that has passed since the folder was made. To the server
it looks as if the old one had been killed a second ago. Ids of events are not moments, although
they are made of them: they have more digits and stay as they are, because they may only rise.

A session token carries moments under a signature, so it is signed anew, with the key that the
folder holds.
"""

import base64
import hashlib
import hmac
import json
import re
import sqlite3
import time
from datetime import datetime, timedelta, timezone
from itertools import count
from pathlib import Path

from seed000_client import Seed000Client
from wire_worker import WireWorker

FIXTURES = Path(__file__).parent / "fixtures"
# Whatever the fixture says of moments lies this close to the moment when it was made.
NEAR_MS = 400 * 24 * 3_600 * 1_000
MOMENT = re.compile(r"(?<![\w.])(\d{13})(?![\w.])|(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(\.\d+)?Z")


class OldFolder:
    """The text of a folder, and what is known of it."""

    def __init__(self, name: str):
        self.sql = (FIXTURES / f"{name}.sql").read_text()
        self.about = json.loads((FIXTURES / f"{name}.json").read_text())

    def open_in(self, data: Path) -> dict:
        """Makes a data folder of it, and gives what is known of it as of now."""
        made_ms = self.about["made_ms"]
        # Whole seconds, so that what was due at a full second still is.
        shift_ms = (int(time.time() * 1000) - made_ms) // 1000 * 1000
        data.mkdir(mode=0o700)
        database = sqlite3.connect(data / "astra.db")
        database.executescript(shifted(self.sql, made_ms, shift_ms))
        keys = database.execute("SELECT key, json FROM notes WHERE kind = 'session_key'").fetchall()
        floor = database.execute("SELECT json FROM notes WHERE kind = 'event_floor' AND tenant = 'default'").fetchone()
        database.close()
        secrets = {key: json.loads(text)["secret"] for key, text in keys}
        about = json.loads(shifted(json.dumps(self.about), made_ms, shift_ms))
        # Where ids of events begin with the epoch of the shard, no note has to say how far they got.
        about["event_floor"] = int(floor[0]) if floor else about["seen_event_id"]
        for session in about["sessions"].values():
            session["session"]["session_token"] = signed_anew(session["session"]["session_token"], secrets, shift_ms)
        return about


def shifted(text: str, made_ms: int, shift_ms: int) -> str:
    """The text with all its moments moved."""

    def move(found: re.Match) -> str:
        if found[1]:
            is_moment = abs(int(found[1]) - made_ms) < NEAR_MS
            return str(int(found[1]) + shift_ms) if is_moment else found[1]
        moment = datetime.fromisoformat(found[2]).replace(tzinfo=timezone.utc)
        if abs(moment.timestamp() * 1000 - made_ms) >= NEAR_MS:
            return found[0]
        moved = moment + timedelta(milliseconds=shift_ms)
        return f"{moved:%Y-%m-%dT%H:%M:%S}{found[3] or ''}Z"

    return MOMENT.sub(move, text)


def signed_anew(token: str, secrets: dict, shift_ms: int) -> str:
    """The same session token, as if it had been issued later. Its claims say which key signed it."""
    claims = json.loads(from_base64(token.split(".")[0]))
    claims |= {name: claims[name] + shift_ms // 1000 for name in ("iat", "exp")}
    text = json.dumps(claims, separators=(",", ":"), sort_keys=True).encode()
    signature = hmac.digest(from_base64(secrets[claims["kid"]]), text, hashlib.sha256)
    return f"{to_base64(text)}.{to_base64(signature)}"


def from_base64(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def to_base64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


# ----- workers that pull


def granted(server, worker_id: str, *, n: int = 1, wait_s: float = 10, role: str = "worker", **wanted) -> list[dict]:
    """So many leases."""
    leases = asked(server, worker_id, n=n, wait_s=wait_s, role=role, **wanted)
    deadline = time.monotonic() + wait_s
    while len(leases) < n and time.monotonic() < deadline:
        leases += asked(server, worker_id, n=n - len(leases), wait_s=1, role=role, **wanted)
    assert len(leases) == n, f"{worker_id} got {len(leases)} of {n} leases: {wanted}"
    return leases


def asked(server, worker_id: str, *, n: int = 1, wait_s: float = 0, role: str = "worker", **wanted) -> list[dict]:
    """The leases that there are."""
    body = {"worker_id": worker_id, "max": n, "wait_ms": int(wait_s * 1000), **wanted}
    return server.rest("POST", "/leases", body, role=role)["leases"]


def completed(server, lease_id: str, worker_id: str, result, *, role: str = "worker", **more) -> dict:
    body = {"worker_id": worker_id, "result": result, **more}
    return server.rest("POST", f"/leases/{lease_id}/complete", body, role=role)


def failed(server, lease_id: str, worker_id: str, **more) -> dict:
    body = {"worker_id": worker_id, "reason": "it did not work", **more}
    return server.rest("POST", f"/leases/{lease_id}/fail", body, role="worker")


# ----- workers with a session


class SessionWorker(WireWorker):
    """Executes the types that it names, and calls the next link of a chain."""

    KEPT = ("instance_id", "session", "base", "next_seq", "features", "dispatches", "calls")

    def __init__(self, server, features=(), **more):
        super().__init__(server.worker_url, server.tokens["worker"], features=features, **more)
        # What was asked and is not answered yet, and the answers, by the id of the request.
        self.calls: dict[str, dict] = {}
        self.answers: dict[str, dict] = {}

    def deliver(self, frame: dict) -> None:
        super().deliver(frame)
        if frame["type"] == "biz.exec.next.response":
            request_id = frame["payload"]["requestId"]
            self.calls.pop(request_id, None)
            self.answers[request_id] = frame["payload"]

    def dispatch_of(self, task_type: str) -> dict:
        """The dispatch of this type, as soon as it is there."""
        found = lambda: [one for one in self.dispatches if one["payload"]["node_type"] == task_type]
        if not found():
            self.wait_for(lambda _: bool(found()))
        return found()[0]

    def call_next(self, dispatch: dict, request_id: str) -> None:
        asked = dispatch["payload"]
        middleware = asked["middleware_chain"][asked["chain_index"]]
        payload = {
            "requestId": request_id, "runId": asked["run_id"], "nodeId": asked["node_id"],
            "middlewareId": middleware, "chainIndex": asked["chain_index"],
        }
        self.calls[request_id] = {"payload": payload, "corr": dispatch["id"]}
        self.repeat_call(request_id)

    def repeat_call(self, request_id: str) -> None:
        """A server that was restarted tells its answer to whoever asks again, under the same id."""
        frame = self.business("biz.exec.next.request", **self.calls[request_id], ack={"request": True})
        self.wait_for_ack(frame)

    def resume(self) -> dict:
        accepted = super().resume()
        for request_id in list(self.calls):
            self.repeat_call(request_id)
        return accepted

    def answer_to(self, request_id: str) -> dict:
        if request_id not in self.answers:
            self.wait_for(lambda _: request_id in self.answers)
        return self.answers[request_id]

    def state(self) -> dict:
        """What the process knows, for one that goes on in its place."""
        number = next(self.message_numbers)
        return {name: getattr(self, name) for name in self.KEPT} | {"message_number": number}

    @classmethod
    def restored(cls, server, state: dict) -> "SessionWorker":
        worker = cls(server, state["features"], instance_id=state["instance_id"])
        for name in cls.KEPT:
            setattr(worker, name, state[name])
        worker.message_numbers = count(state["message_number"])
        return worker


class CountingWorker(Seed000Client):
    """Counts in `seq` from 0, as seed 000 says; executes one type."""

    def __init__(self, server, task_type: str, **more):
        super().__init__(server.worker_url, server.tokens["worker"], **more)
        self.task_type = task_type

    def say(self, frame_type: str, payload: dict, **more) -> dict:
        if frame_type == "control.register":
            payload["capabilities"]["features"] = [f"type:{self.task_type}"]
        return super().say(frame_type, payload, **more)

    def state(self) -> dict:
        names = ("instance_id", "session", "next_seq", "dispatches", "task_type")
        return {name: getattr(self, name) for name in names} | {"seen": sorted(self.seen)}

    @classmethod
    def restored(cls, server, state: dict) -> "CountingWorker":
        worker = cls(server, state["task_type"], instance_id=state["instance_id"])
        for name in ("session", "next_seq", "dispatches"):
            setattr(worker, name, state[name])
        worker.seen = set(state["seen"])
        return worker
