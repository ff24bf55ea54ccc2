"""A program in a terminal, as a person has it before him."""

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import termios
import time

ANSWER_WITHIN_S = 10
ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


class Terminal:
    """Keys in, screen out."""

    def __init__(self, words: list[str], env: dict):
        self.master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 200, 0, 0))
        self.process = subprocess.Popen(
            words, stdin=slave, stdout=slave, stderr=slave, start_new_session=True,
            env={**env, "TERM": "xterm-256color"},
        )
        os.close(slave)
        self.seen = ""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        os.close(self.master)

    def type(self, keys: str) -> None:
        os.write(self.master, keys.encode())

    def wait_for(self, text: str, within_s: float = ANSWER_WITHIN_S) -> str:
        """What the screen shows up to this text, without colours and movements."""
        deadline = time.monotonic() + within_s
        while text not in (shown := ESCAPES.sub("", self.seen)):
            left = deadline - time.monotonic()
            assert left > 0 and select.select([self.master], [], [], left)[0], f"no {text!r} in {shown!r}"
            self.seen += os.read(self.master, 65536).decode()
        before, _, after = shown.partition(text)
        self.seen = after
        return before + text
