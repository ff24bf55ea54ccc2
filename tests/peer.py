"""A WebSocket to `/ws/worker`, frame by frame. It knows JSON and envelopes, and no rule of the session."""

import json
import socket
import threading
import time
import uuid
from datetime import datetime, timezone

from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

ANSWER_WITHIN_S = 10


class Peer:
    """Everything that arrives goes through `on_frame`, and is kept in `received`."""

    def __init__(self, url: str, *, tenant: str = "default", instance_id: str | None = None):
        self.url = url
        self.tenant = tenant
        self.instance_id = instance_id or str(uuid.uuid4())
        self.received: list[dict] = []
        self.socket = None
        # Connections that nobody uses any more, and that still seem alive to the server.
        self.lost = []

    def connect(self, **options) -> "Peer":
        # No proxy: the server is on this machine, whatever the environment says.
        self.socket = connect(self.url, proxy=None, close_timeout=1, **options)
        return self

    def close(self) -> None:
        for connection in [*self.lost, self.socket]:
            if connection is not None:
                connection.close()
        self.lost.clear()

    def drop(self) -> None:
        """Loses the connection without a word, as a pulled cable does: the server does not notice."""
        self.lost.append(self.socket)
        self.socket = None

    def break_off(self) -> None:
        """Ends the connection without a goodbye, as a killed process does: the server notices."""
        self.socket.socket.shutdown(socket.SHUT_RDWR)
        self.socket = None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def envelope(self, frame_type: str, payload: dict, **more) -> dict:
        return {
            "type": frame_type,
            "id": more.pop("id", None) or str(uuid.uuid4()),
            "ts": datetime.now(timezone.utc).isoformat(),
            "tenant": self.tenant,
            "sender": {"role": "worker", "id": self.instance_id},
            **more,
            "payload": payload,
        }

    def send(self, frame: dict) -> dict:
        self.socket.send(json.dumps(frame))
        return frame

    def say(self, frame_type: str, payload: dict, **more) -> dict:
        return self.send(self.envelope(frame_type, payload, **more))

    def receive(self, within_s: float = ANSWER_WITHIN_S) -> dict:
        frame = json.loads(self.socket.recv(timeout=max(within_s, 0.001)))
        self.received.append(frame)
        self.on_frame(frame)
        return frame

    def on_frame(self, frame: dict) -> None:
        """What the peer does by itself with a frame."""

    def wait_for(self, is_wanted, within_s: float = ANSWER_WITHIN_S) -> dict:
        """The next frame that is wanted; what comes before it is taken in too."""
        deadline = time.monotonic() + within_s
        others = []
        while time.monotonic() < deadline:
            try:
                frame = self.receive(deadline - time.monotonic())
            except TimeoutError:
                break
            if is_wanted(frame):
                return frame
            others.append(frame["type"])
        raise AssertionError(f"the wanted frame did not come within {within_s} s, but: {others}")

    def wait_for_type(self, frame_type: str, within_s: float = ANSWER_WITHIN_S) -> dict:
        return self.wait_for(lambda frame: frame["type"] == frame_type, within_s)

    def quiet_for(self, seconds: float) -> list[dict]:
        """Takes in whatever comes for so long."""
        deadline, frames = time.monotonic() + seconds, []
        while (left := deadline - time.monotonic()) > 0:
            try:
                frames.append(self.receive(left))
            except TimeoutError:
                break
        return frames

    def closed_within(self, seconds: float) -> ConnectionClosed:
        """How the server closed the connection."""
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            try:
                self.receive(left)
            except ConnectionClosed as closed:
                return closed
            except TimeoutError:
                break
        raise AssertionError(f"still open after {seconds} s; received {self.received}")


class Background:
    """Runs a peer's loop in a thread: `step()` again and again until the end of the block."""

    def __init__(self, peer: Peer, step):
        self.peer, self.step = peer, step
        self.failure: BaseException | None = None
        self.is_ending = threading.Event()
        self.thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        try:
            while not self.is_ending.is_set():
                self.step()
        except BaseException as failure:
            self.failure = failure

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.is_ending.set()
        self.thread.join(ANSWER_WITHIN_S)
        self.peer.close()

    def check(self) -> None:
        assert self.failure is None, f"the worker in the background failed: {self.failure!r}"
