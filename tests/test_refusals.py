"""Who may not open or resume a session learns it late, openly, and without learning anything else."""

import time

import pytest

from wire_worker import WireWorker

# A refusal is slow, so that guessing is.
REFUSED_NOT_BEFORE_S = 0.9

REFUSED_TOKENS = {
    "a wrong token": ("astra_0000000000000000_" + "0" * 64, "E.AUTH.INVALID_TOKEN", "not valid"),
    "nonsense": ("nonsense", "E.AUTH.INVALID_TOKEN", "not valid"),
    "no token": (None, "E.AUTH.MISSING_TOKEN", "no token"),
    "a client's token": ("client", "E.AUTH.FORBIDDEN", "client"),
    "a viewer's token": ("viewer", "E.AUTH.FORBIDDEN", "viewer"),
}


@pytest.mark.parametrize("token, code, named", REFUSED_TOKENS.values(), ids=REFUSED_TOKENS)
def test_a_handshake_is_refused(harmless, token, code, named):
    with WireWorker(harmless.worker_url, harmless.tokens.get(token, token)).connect() as worker:
        reset, took_s = reset_after(worker, worker.handshake)
        assert reset["code"] == code
        assert named in reset["reason"]
        assert took_s >= REFUSED_NOT_BEFORE_S
        assert [frame["type"] for frame in worker.received] == ["control.reset"]


def test_a_token_with_one_letter_changed_is_refused_like_any_other(harmless):
    token = harmless.tokens["worker"]
    changed = token[:-1] + ("0" if token[-1] != "0" else "1")
    resets = []
    for wrong in (changed, "nonsense"):
        with WireWorker(harmless.worker_url, wrong).connect() as worker:
            resets.append(reset_after(worker, worker.handshake)[0])
    assert resets[0] == resets[1]


def test_a_refused_worker_may_try_again_on_the_same_socket(harmless):
    with WireWorker(harmless.worker_url, "nonsense", features=["type:none"]).connect() as worker:
        reset_after(worker, worker.handshake)
        worker.token = harmless.tokens["worker"]
        assert not worker.open_on_this_socket().session.get("resumed")


def mutated(token: str) -> str:
    """The token with one letter of its signature changed."""
    payload, signature = token.split(".")
    return f"{payload}.{'A' if signature[0] != 'A' else 'B'}{signature[1:]}"


def with_other_claims(token: str, other: str) -> str:
    """The claims of another session under the signature of this one."""
    return f"{other.split('.')[0]}.{token.split('.')[1]}"


# From the sessions of the worker itself and of another one: what is asked for.
BAD_RESUMES = {
    "a session that never was": lambda own, other: ("00000000-0000-4000-8000-000000000000", own["session_token"]),
    "a token that is none": lambda own, other: (own["session_id"], "nonsense"),
    "a mutated token": lambda own, other: (own["session_id"], mutated(own["session_token"])),
    "claims that were not signed": lambda own, other: (
        own["session_id"], with_other_claims(own["session_token"], other["session_token"])),
    "another worker's token": lambda own, other: (own["session_id"], other["session_token"]),
    "another worker's session": lambda own, other: (other["session_id"], own["session_token"]),
    "another worker's session and token": lambda own, other: (other["session_id"], other["session_token"]),
}


@pytest.mark.parametrize("ask", BAD_RESUMES.values(), ids=BAD_RESUMES)
def test_a_bad_resume_gets_one_answer_whatever_is_wrong(harmless, ask):
    with opened(harmless) as own, opened(harmless) as other:
        session_id, session_token = ask(own.session, other.session)
        own.drop()
        own.connect()
        asked = {"session_id": session_id, "session_token": session_token, "last_seen_seq": 0}
        reset, took_s = reset_after(own, lambda: own.say("control.resume", asked, ack={"request": True}))
        assert reset == {"code": "E.SESSION.UNKNOWN", "reason": "this session cannot be resumed; begin anew"}
        assert took_s >= REFUSED_NOT_BEFORE_S
        # The other one did not notice.
        other.wait_for_ack(other.register())
        assert other.resets == []


def test_a_resume_for_another_tenant_gets_the_same_answer(harmless):
    with opened(harmless) as own:
        own.drop()
        own.tenant = "acme"
        own.connect()
        asked = {key: own.session[key] for key in ("session_id", "session_token")}
        reset, _ = reset_after(own, lambda: own.say("control.resume", asked, ack={"request": True}))
        assert reset == {"code": "E.SESSION.UNKNOWN", "reason": "this session cannot be resumed; begin anew"}


def test_a_session_whose_token_was_revoked_cannot_be_resumed(harmless):
    token_id, token = harmless.new_token("worker")
    with opened(harmless, token) as own:
        own.drop()
        harmless.revoke(token_id)
        own.connect()
        asked = {key: own.session[key] for key in ("session_id", "session_token")}
        reset, _ = reset_after(own, lambda: own.say("control.resume", asked, ack={"request": True}))
        # The session ended with the token, if the server had not noticed yet that its worker was away.
        assert reset["code"] in ("E.AUTH.INVALID_TOKEN", "E.SESSION.UNKNOWN")


def opened(server, token: str | None = None) -> WireWorker:
    return WireWorker(server.worker_url, token or server.tokens["worker"], features=["type:none"]).open()


def reset_after(worker: WireWorker, say) -> tuple[dict, float]:
    began = time.monotonic()
    say()
    reset = worker.wait_for_type("control.reset")["payload"]
    return reset, time.monotonic() - began
