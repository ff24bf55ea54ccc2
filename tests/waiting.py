"""Waiting with a deadline. No other file of these tests sleeps, and `cargo xtask tidy` checks it."""

import time

LOOK_EVERY_S = 0.02


def wait_until(look, is_wanted=bool, *, what: str, within_s: float = 20, every_s: float = LOOK_EVERY_S):
    """Looks again and again until it sees what is wanted, and gives it.

    `what` completes the sentence "waited for ..."; the failure also shows what was seen last.
    """
    deadline = time.monotonic() + within_s
    while not is_wanted(seen := look()):
        assert time.monotonic() < deadline, f"waited {within_s} s for {what}; seen last: {seen!r}"
        time.sleep(every_s)
    return seen


def stays(is_so, *, for_s: float, why: str) -> None:
    """Fails as soon as it is not so within this span.

    Only for what no later event can prove: a test that waits for an event is faster and surer.
    """
    ends = time.monotonic() + for_s
    while (now := time.monotonic()) < ends:
        assert is_so(), f"{why}: not so after {for_s - (ends - now):.2f} s"
        time.sleep(LOOK_EVERY_S)
    assert is_so(), f"{why}: not so after {for_s} s"


def stall(for_s: float) -> None:
    """A peer that is slow on purpose: the pause is the scenario, and nothing is waited for."""
    time.sleep(for_s)
