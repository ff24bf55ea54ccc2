"""A Redis client that is nobody's library: bytes in, bytes out, both versions of the protocol."""

import json
import re
import socket
import struct
from pathlib import Path

from waiting import wait_until

ANSWER_WITHIN_S = 10


class Word(str):
    """`+OK` and other simple strings."""


class Refused(str):
    """`-ERR ...`, as a value."""


class Push(list):
    """What was not asked for: a message of a channel in version 3."""


class RespError(AssertionError):
    """An error where an answer was wanted."""


class Closed(Exception):
    """The server ended the connection."""


def packed(*words) -> bytes:
    """A command as programs send it; dictionaries go as JSON."""
    parts = [_bytes_of(word) for word in words]
    return b"*%d\r\n" % len(parts) + b"".join(b"$%d\r\n%s\r\n" % (len(part), part) for part in parts)


class RespClient:
    """One connection."""

    def __init__(self, server, role: str | None = None, *, key: str | None = None, version: int = 2):
        self.socket = socket.create_connection(("127.0.0.1", server.resp_port), ANSWER_WITHIN_S)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.buffer = b""
        key = key or (server.tokens[role] if role and server.tokens else None)
        if key:
            assert self.call("AUTH", key) == "OK"
        if version == 3:
            self.ask("HELLO", 3)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self) -> None:
        self.socket.close()

    def reset(self) -> None:
        """Ends the connection with a RST, as a machine that lost its memory does."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()

    # ----- bytes

    def write(self, data: bytes) -> None:
        self.socket.sendall(data)

    def fill(self) -> None:
        try:
            data = self.socket.recv(65536)
        except ConnectionError as error:
            raise Closed(str(error)) from error
        if not data:
            raise Closed("the server closed the connection")
        self.buffer += data

    def take(self, length: int) -> bytes:
        while len(self.buffer) < length:
            self.fill()
        data, self.buffer = self.buffer[:length], self.buffer[length:]
        return data

    def line(self) -> bytes:
        while b"\r\n" not in self.buffer:
            self.fill()
        line, _, self.buffer = self.buffer.partition(b"\r\n")
        return line

    def rest(self, within_s: float = ANSWER_WITHIN_S) -> bytes:
        """All that comes until the server closes the connection."""
        self.socket.settimeout(within_s)
        try:
            while True:
                self.fill()
        except Closed:
            data, self.buffer = self.buffer, b""
            return data

    def is_closed_within(self, seconds: float) -> bool:
        try:
            self.rest(seconds)
        except TimeoutError:
            return False
        return True

    def quiet_for(self, seconds: float) -> bool:
        """Whether nothing comes for so long."""
        self.socket.settimeout(seconds)
        try:
            self.fill()
        except TimeoutError:
            return True
        finally:
            self.socket.settimeout(ANSWER_WITHIN_S)
        return False

    def wait_until_read(self) -> None:
        """Waits until the server has taken in all that was sent; the system knows what it has not."""
        own, server = (f":{name[1]:04X}" for name in (self.socket.getsockname(), self.socket.getpeername()))

        def unread() -> int:
            rows = map(str.split, Path("/proc/net/tcp").read_text().splitlines()[1:])
            queues = [row[4] for row in rows if row[1].endswith(server) and row[2].endswith(own)]
            return sum(int(queue.partition(":")[2], 16) for queue in queues)

        wait_until(unread, lambda n_bytes: n_bytes == 0, what="the server to read what it was sent")

    # ----- values

    def send(self, *words) -> None:
        self.write(packed(*words))

    def read(self, within_s: float = ANSWER_WITHIN_S):
        self.socket.settimeout(within_s)
        line = self.line()
        kind, text = line[:1], line[1:].decode()
        match kind:
            case b"+":
                return Word(text)
            case b"-":
                return Refused(text)
            case b":":
                return int(text)
            case b",":
                return float(text)
            case b"_":
                return None
            case b"$" | b"=":
                if int(text) < 0:
                    return None
                data = self.take(int(text) + 2)[:-2]
                return data[4:] if kind == b"=" else data
            case b"*" | b"~":
                return None if int(text) < 0 else [self.read(within_s) for _ in range(int(text))]
            case b">":
                return Push(self.read(within_s) for _ in range(int(text)))
            case b"%":
                return {_key(self.read(within_s)): self.read(within_s) for _ in range(int(text))}
        raise AssertionError(f"no reply begins like this: {line!r}")

    def call(self, *words, within_s: float = ANSWER_WITHIN_S):
        """The reply; an error is one too."""
        self.send(*words)
        return self.read(within_s)

    def ask(self, *words, within_s: float = ANSWER_WITHIN_S):
        """The reply of a command that succeeds."""
        reply = self.call(*words, within_s=within_s)
        if isinstance(reply, Refused):
            raise RespError(f"{words[0]}: {reply}")
        return reply

    def json(self, *words):
        return json.loads(self.ask(*words))

    def many(self, commands: list) -> list:
        """A pipeline: all at once, then all replies."""
        self.write(b"".join(packed(*command) for command in commands))
        return [self.read() for _ in commands]

    # ----- jobs

    def submit(self, **job) -> str:
        return self.ask("JOB.SUBMIT", job).decode()

    def pop(self, queue: str = "queue:ready", wait_s: float = 5) -> dict | None:
        popped = self.ask("BRPOP", queue, wait_s, within_s=wait_s + ANSWER_WITHIN_S)
        return None if popped is None else json.loads(popped[1])

    def update(self, job: str, **update):
        return self.call("JOB.UPDATE", job, update)

    def status(self, job: str) -> dict:
        return self.json("JOB.STATUS", job)

    def register(self, worker_id: str, tools=("sort",), **more):
        worker = {
            "worker_id": worker_id, "hostname": "here", "agw_version": "0.1.0",
            "capabilities": {"tools": list(tools)}, **more,
        }
        return self.call("WORKER.REGISTER", worker)

    def wait_for_status(self, job: str, status: str, within_s: float = ANSWER_WITHIN_S) -> dict:
        is_so = lambda seen: seen["status"] == status
        return wait_until(lambda: self.status(job), is_so, within_s=within_s, what=f"{job} to be {status}")

    def n_connected(self) -> int:
        """How many connections the server has, this one included."""
        return int(re.search(rb"connected_clients:(\d+)", self.ask("INFO", "clients"))[1])


def _bytes_of(word) -> bytes:
    if isinstance(word, bytes):
        return word
    return (json.dumps(word) if isinstance(word, dict) else str(word)).encode()


def _key(key) -> str:
    return key.decode() if isinstance(key, bytes) else key
