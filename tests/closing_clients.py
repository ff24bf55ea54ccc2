"""A process that waits for jobs on many connections and never reads an answer; it is made to be killed.

Usage: closing_clients.py PORT KEY QUEUE COUNT
"""

import signal
import sys

from resp_client import RespClient


class Address:
    """As much of a server as a client needs."""

    def __init__(self, port: str):
        self.resp_port, self.tokens = int(port), {}


def main(port: str, key: str, queue: str, count: str) -> None:
    clients = [RespClient(Address(port), key=key) for _ in range(int(count))]
    for client in clients:
        client.send("BRPOP", queue, 0)
    print("waiting", flush=True)
    signal.pause()


main(*sys.argv[1:])
