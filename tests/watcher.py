"""Reads server-sent events, one by one."""

import http.client
import json

TOLD_WITHIN_S = 10


class Watcher:
    """Reads `GET /api/v1/events`, event by event."""

    def __init__(self, server, types: str):
        self.connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=TOLD_WITHIN_S)
        token = {"authorization": f"Bearer {server.tokens['viewer']}"}
        self.connection.request("GET", f"/api/v1/events?types={types}", headers=token)
        self.answer = self.connection.getresponse()
        assert self.answer.status == 200, self.answer.read()
        # The first lines show that the reader has its place.
        assert self.block() == {"retry": "2000"}

    def block(self) -> dict:
        lines = iter(self.answer.readline().decode().rstrip("\n") for _ in range(100))
        return dict(line.split(": ", 1) for line in iter(lambda: next(lines), ""))

    def next(self) -> dict:
        block = self.block()
        envelope = json.loads(block["data"])
        assert envelope["type"] == envelope["data"]["kind"] == block["event"]
        return envelope

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.connection.close()
