"""Peers that mean no good, at the Redis door."""

import contextlib
import socket
import time

import pytest

from astra_server import Server
from resp_client import Closed, Refused, RespClient, packed
from waiting import stays, wait_until

EARLY_PER_ADDRESS_MAX = 100
EARLY_IN_MAX, EARLY_OUT_MAX = 4 * 1024, 1024
# Everything that a peer sends must leave the server within this of where it was.
GROWTH_BYTES_MAX = 48 << 20
# What a client that never reads asks for in vain.
BIG_VALUE_BYTES = 1 << 20
NOT_TEXT = b"\xff\xfe"


def grown(server, before: int) -> int:
    return server.rss_bytes() - before


def is_refused_or_cut(client: RespClient) -> bool:
    try:
        return b"Protocol error" in client.rest(8)
    except TimeoutError:
        return False


class CutOff:
    """Two members, and two strangers that came after them, until the time of the strangers is up."""

    def __init__(self, server):
        self.members = [RespClient(server, "worker") for _ in range(2)]
        self.silent = RespClient(server)
        trickling = RespClient(server)
        began = time.monotonic()
        with contextlib.suppress(Closed, OSError):
            while time.monotonic() - began < 8:
                trickling.write(b"A")
                trickling.quiet_for(0.25)
        self.trickled_s = time.monotonic() - began


@pytest.fixture(scope="module")
def cut_off(shared_server):
    cut_off = CutOff(shared_server)
    yield cut_off
    for client in [*cut_off.members, cut_off.silent]:
        client.close()


def test_a_stranger_has_five_seconds(cut_off):
    assert 4 < cut_off.trickled_s < 7.5
    assert cut_off.silent.is_closed_within(1)


def test_a_member_has_longer(cut_off):
    assert cut_off.members[0].call("PING") == "PONG"


def test_a_member_that_gave_up_its_proof_may_show_it_again(shared_server, cut_off):
    client = cut_off.members[1]
    assert client.call("RESET") == "RESET"
    assert client.quiet_for(1.5), "the time of a stranger begins anew"
    assert client.call("AUTH", shared_server.tokens["worker"]) == "OK"


def test_a_stranger_may_send_four_kilobytes(shared_server):
    with RespClient(shared_server) as client:
        client.write(b"x" * (EARLY_IN_MAX + 1))
        assert client.is_closed_within(2)
    with RespClient(shared_server) as client:
        client.write(packed("AUTH", "k" * 3000))
        assert isinstance(client.read(), Refused)
        client.write(packed("AUTH", "k" * 3000))
        assert client.is_closed_within(2)


def test_a_stranger_is_told_one_kilobyte(shared_server):
    with RespClient(shared_server) as client:
        n_bytes = 0
        try:
            for _ in range(200):
                client.write(b"PING\r\n")
                n_bytes += len(client.line()) + 2
        except (Closed, OSError):
            pass
        assert EARLY_OUT_MAX // 2 < n_bytes <= EARLY_OUT_MAX
    with RespClient(shared_server) as client:
        client.write(b"PING\r\n" * 200)
        assert len(client.rest(3)) <= EARLY_OUT_MAX


@pytest.mark.parametrize(
    ("request_bytes", "text"),
    [
        (b"*11\r\n", b"unauthenticated multibulk length"),
        (b"*1000000\r\n", b"unauthenticated multibulk length"),
        (b"*2\r\n$4\r\nAUTH\r\n$20000\r\n", b"unauthenticated bulk length"),
        (b"*2\r\n$4\r\nAUTH\r\n$2147483648\r\n", b"bulk length"),
    ],
)
def test_a_stranger_cannot_announce_much(shared_server, request_bytes, text):
    with RespClient(shared_server) as client:
        client.write(request_bytes)
        answer = client.rest(3)
        assert answer.startswith(b"-ERR Protocol error") and text in answer


@pytest.mark.parametrize(
    "request_bytes",
    [
        b"*1000000\r\n", b"*2147483647\r\n", b"*9223372036854775807\r\n", b"*99999999999999999999\r\n",
        b"*2\r\n$4\r\nECHO\r\n$2147483648\r\n", b"*2\r\n$4\r\nECHO\r\n$9223372036854775807\r\n",
        b"*2\r\n$4\r\nECHO\r\n$-2\r\n", b"*2\r\n$4\r\nECHO\r\n$99999999999999999999\r\n",
        b"*2\r\n$4\r\nECHO\r\n$3\r\nabcd\r\n", b"x" * (1 << 17), b"*" + b"1" * (1 << 17),
    ],
)
def test_lengths_are_not_believed(shared_server, request_bytes):
    before = shared_server.rss_bytes()
    with RespClient(shared_server, "admin") as client:
        client.write(request_bytes)
        assert is_refused_or_cut(client)
    assert grown(shared_server, before) < GROWTH_BYTES_MAX


def test_announced_arguments_take_no_room(shared_server):
    before = shared_server.rss_bytes()
    halves = [RespClient(shared_server, "admin") for _ in range(60)]
    for half in halves:
        half.write(b"*60000\r\n$4\r\nMGET\r\n$8000000\r\nabc")
    for half in halves:
        half.wait_until_read()
    with RespClient(shared_server, "admin") as other:
        assert other.call("PING") == "PONG"
    assert grown(shared_server, before) < GROWTH_BYTES_MAX
    for half in halves:
        half.close()


def test_a_request_beyond_ten_megabytes_is_refused(shared_server):
    with RespClient(shared_server, "admin") as client:
        try:
            client.write(b"*3\r\n$4\r\nMGET\r\n" + b"$6000000\r\n" + b"a" * 6_000_000 + b"\r\n$6000000\r\n")
        except OSError:
            pass
        assert b"too big" in client.rest(5)


def test_a_client_that_never_reads_fills_nothing(shared_server):
    """Replies wait in the sender's place, not in the server's memory."""
    with contextlib.ExitStack() as deaf, RespClient(shared_server, "admin") as writer:
        writer.ask("SET", "big", b"b" * BIG_VALUE_BYTES)
        before = shared_server.rss_bytes()
        for _ in range(8):
            client = deaf.enter_context(RespClient(shared_server, "admin"))
            client.socket.settimeout(0.2)
            try:
                client.write(packed("GET", "big") * 200)
            except TimeoutError:
                pass
        is_small = lambda: writer.call("PING") == "PONG" and grown(shared_server, before) < GROWTH_BYTES_MAX
        stays(is_small, for_s=1, why="replies that nobody reads take no memory")
        writer.ask("DEL", "big")


def test_keys_and_values_may_hold_any_byte(shared_server):
    with RespClient(shared_server, "admin") as client:
        key, value = b"nul\x00\xff\r\nkey", bytes(range(256))
        assert client.call("SET", key, value) == "OK"
        assert client.call("GET", key) == value and client.call("DEL", key) == 1


@pytest.mark.parametrize(
    "words",
    [
        ("JOB.GET", NOT_TEXT), ("JOB.STATUS", NOT_TEXT), ("JOB.CANCEL", NOT_TEXT), ("JOB.RETRY", NOT_TEXT),
        ("JOB.UPDATE", NOT_TEXT, "{}"), ("JOB.UPDATE", "a", NOT_TEXT), ("JOB.SUBMIT", NOT_TEXT),
        ("JOB.SUBMIT", b'{"job_id":"\xff"}'), ("JOB.SUBMIT", b'{"x":"\xff"}'), ("JOB.LIST", NOT_TEXT),
        ("JOB.SUBMIT", b'{"job_id":"ok","x":"\xff"}'), ("LPUSH", "queue:ready", b'{"job_id":"ok","x":"\xff"}'),
        ("LPUSH", "queue:ready", b'{"\xff":1}'), ("JOB.SUBMIT", b'{"input":{"a":"\xff"}}'),
        ("ACTION.SUBMIT", b'{"action_id":"a","plan_id":"p","inputs":["\xff"]}'),
        ("JOBS.LIST", NOT_TEXT), ("JOBS.SEARCH", NOT_TEXT, "a"), ("PLAN.SUBMIT", NOT_TEXT), ("PLAN.GET", NOT_TEXT),
        ("PLAN.DELETE", NOT_TEXT), ("ACTION.SUBMIT", NOT_TEXT), ("ACTION.STATUS", NOT_TEXT), ("ACTION.GET", NOT_TEXT),
        ("WORKER.REGISTER", NOT_TEXT), ("WORKER.REGISTER", b'{"worker_id":"a\x00"}'), ("WORKER.HEARTBEAT", NOT_TEXT),
        ("WORKER.HEARTBEAT", "a", NOT_TEXT), ("WORKER.UNREGISTER", NOT_TEXT), ("WORKER.VERIFY", NOT_TEXT, "{}"),
        ("QUEUE.PEEK", NOT_TEXT), ("QUEUE.STATS", NOT_TEXT), ("QUEUE.PAUSE", NOT_TEXT), ("LPUSH", b"queue:\xff", "{}"),
        ("LPUSH", "queue:ready", NOT_TEXT), ("BRPOP", b"queue:\xff", 1), ("LLEN", b"queue:\x00"),
        ("SET", b"worker:\xff:tools", "a"), ("SET", "worker:a:tools", NOT_TEXT), ("CLIENT", NOT_TEXT),
        ("CLIENT", "SETNAME", b"a\x00b"), (b"\x00\xff", "a"), (b"JOB.GET\x00", "a"), ("COMMAND", NOT_TEXT),
        ("CONFIG", NOT_TEXT), ("SELECT", NOT_TEXT), ("HELLO", NOT_TEXT), ("AUTH", NOT_TEXT, b"\x00"),
    ],
)
def test_what_must_be_text_is_refused_if_it_is_not(shared_server, words):
    with RespClient(shared_server, "admin") as client:
        reply = client.call(*words)
        assert isinstance(reply, Refused) and "\n" not in reply, reply
        assert client.call("PING") == "PONG"


@pytest.mark.parametrize("command", ["JOB.SUBMIT", "PLAN.SUBMIT", "ACTION.SUBMIT", "WORKER.REGISTER"])
def test_deep_json_is_refused(shared_server, command):
    deep = '{"input":' + "[" * 10_000 + "]" * 10_000 + "}"
    with RespClient(shared_server, "admin") as client:
        assert isinstance(client.call(command, deep), Refused)
        assert client.call("PING") == "PONG"


def test_a_hundred_strangers_of_one_address_are_let_in(server):
    strangers = [RespClient(server) for _ in range(EARLY_PER_ADDRESS_MAX)]
    assert strangers[-1].call("PING").startswith("NOAUTH")
    for _ in range(3):
        late = RespClient(server)
        assert late.is_closed_within(1), "one more than a hundred"
    assert strangers[0].call("AUTH", server.tokens["worker"]) == "OK", "those who are in are not harmed"
    strangers.pop().close()
    wait_until(lambda: is_let_in(server), within_s=1.2, what="the place of one that left")
    for one in strangers:
        one.close()


def is_let_in(server) -> bool:
    with RespClient(server) as stranger:
        try:
            return stranger.call("PING").startswith("NOAUTH")
        except (Closed, OSError):
            return False


def test_members_are_not_counted_as_strangers(server):
    """A pool of connections is opened in one go, and each proves at once who it is."""
    pool = [RespClient(server, "worker") for _ in range(2 * EARLY_PER_ADDRESS_MAX)]
    assert all(one.call("PING") == "PONG" for one in pool)
    for one in pool:
        one.close()


def test_who_guesses_keys_has_to_wait(server):
    for _ in range(5):
        with RespClient(server) as client:
            assert client.call("AUTH", "guess").startswith("WRONGPASS")
    with RespClient(server) as client:
        refused = client.call("AUTH", server.tokens["admin"])
        assert isinstance(refused, Refused) and "try again in" in refused, "even a right key must wait"
        assert isinstance(client.call("HELLO", 3, "AUTH", "default", server.tokens["admin"]), Refused)

    def said_to_the_right_key() -> str:
        with RespClient(server) as client:
            return client.call("AUTH", server.tokens["admin"])

    wait_until(said_to_the_right_key, lambda said: said == "OK", within_s=2.2, what="the end of the wait")


def test_keys_are_never_logged(tmp_path):
    worker_key = "c0ffee" * 11
    server = Server(tmp_path, settings=f'[log]\nlevel = "trace"\n[workers]\n"w1" = "{worker_key}"\n').start()
    wrong = "canary-of-a-wrong-key"
    try:
        for key in [worker_key, server.tokens["worker"]]:
            with RespClient(server, key=key) as client:
                client.register("w1")
                assert key.encode() not in client.ask("CLIENT", "LIST") + client.ask("INFO")
        for words in [("AUTH", wrong), ("AUTH", "user", wrong), ("HELLO", 3, "AUTH", "default", wrong)]:
            with RespClient(server) as client:
                assert wrong not in client.call(*words)
                client.write(packed("NOSUCH", wrong) + f"AUTH {wrong}\r\n".encode())
                client.write(b"*2\r\n$4\r\nAUTH\r\n:" + wrong.encode() + b"\r\n")
                assert wrong.encode() not in client.rest(3)
    finally:
        server.stop()
    log = server.log.read_text()
    assert "serving" in log
    for secret in [wrong, worker_key, *server.tokens.values(), server.tokens["worker"].split("_")[-1]]:
        assert secret not in log


@pytest.mark.parametrize("doing", ["nothing", "waiting", "listening"])
def test_a_revoked_token_ends_its_connection(shared_server, doing):
    token_id, key = shared_server.new_token("admin")
    with RespClient(shared_server, key=key) as client:
        if doing == "waiting":
            client.send("BRPOP", "queue:nobody", 0)
            client.wait_until_read()
        elif doing == "listening":
            client.ask("SUBSCRIBE", "job:updates")
        shared_server.revoke(token_id)
        assert client.is_closed_within(2)
    with RespClient(shared_server) as client:
        assert client.call("AUTH", key).startswith("WRONGPASS")


def test_a_storm_of_broken_connections_leaves_nothing(shared_server):
    before = shared_server.rss_bytes()
    with RespClient(shared_server, "admin") as client:
        n_connected = client.n_connected()
        for number in range(600):
            with socket.create_connection(("127.0.0.1", shared_server.resp_port)) as one:
                one.sendall((b"*2\r\n$4\r\nAUTH\r\n$3000\r\n" + b"x" * 2900)[: 1 + number * 5])
        # Connections are accepted in their order: one that is answered comes after all of them.
        wait_until(lambda: is_let_in(shared_server), within_s=7, what="room for a stranger")
        wait_until(client.n_connected, lambda n: n == n_connected, within_s=7, what="the end of each of them")
    assert grown(shared_server, before) < GROWTH_BYTES_MAX
