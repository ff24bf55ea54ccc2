"""The Redis door, byte for byte: what tools that know nothing of jobs send, and what they must get."""

import re

import pytest

from resp_client import Closed, Refused, RespClient, packed

HELLO_KEYS = ["server", "version", "proto", "id", "mode", "role", "modules"]
WRONGPASS = b"-WRONGPASS invalid username-password pair or user is disabled.\r\n"
NOAUTH = b"-NOAUTH Authentication required.\r\n"
PORT = (
    b"this port takes the commands of AstraFlow's workers, plans and jobs, and some for keys; "
    b"COMMAND LIST names them all"
)
NO_SETS = b"no key of yours can be a set: this port has strings, lists, hashes and sorted sets"

# Requests whose replies are the same in both versions.
BOTH = [
    (b"PING\r\n", b"+PONG\r\n"),
    (b"ping\r\n", b"+PONG\r\n"),
    (b"*1\r\n$4\r\nPiNg\r\n", b"+PONG\r\n"),
    (b"*2\r\n$4\r\nECHO\r\n$5\r\na\r\nbc\r\n", b"$5\r\na\r\nbc\r\n"),
    (b'ECHO "a \\x41\\n"\r\n', b"$4\r\na A\n\r\n"),
    (b"ECHO 'it\\'s'\r\n", b"$4\r\nit's\r\n"),
    (b"\r\n\r\nPING\r\n", b"+PONG\r\n"),
    (b"*0\r\n*-1\r\nPING\r\n", b"+PONG\r\n"),
    (b"PING\n", b"+PONG\r\n"),
    (b"SELECT 0\r\n", b"+OK\r\n"),
    (b"SELECT 1\r\n", b"-ERR DB index is out of range\r\n"),
    (b"MODULE LIST\r\n", b"*0\r\n"),
    (b"SET golden 1\r\n", b"+OK\r\n"),
    (b"TYPE golden\r\n", b"+string\r\n"),
    (b"LPUSH golden x\r\n", b"-WRONGTYPE Operation against a key holding the wrong kind of value\r\n"),
    (b"INCR golden\r\n", b":2\r\n"),
    (b"EXPIRE golden x\r\n", b"-ERR value is not an integer or out of range\r\n"),
    (b"GET golden\r\n", b"$1\r\n2\r\n"),
    (b"TTL golden\r\n", b":-1\r\n"),
    (b"EXPIRE golden 100\r\n", b":1\r\n"),
    (b"TTL golden\r\n", b":100\r\n"),
    (b"EXISTS golden golden none\r\n", b":2\r\n"),
    (b"DEL golden none\r\n", b":1\r\n"),
    (b"TYPE golden\r\n", b"+none\r\n"),
    (b"TTL golden\r\n", b":-2\r\n"),
    (b"RPUSH golden a b c\r\n", b":3\r\n"),
    (b"LRANGE golden 0 -1\r\n", b"*3\r\n$1\r\na\r\n$1\r\nb\r\n$1\r\nc\r\n"),
    (b"BRPOP golden 1\r\n", b"*2\r\n$6\r\ngolden\r\n$1\r\nc\r\n"),
    (b"DEL golden\r\n", b":1\r\n"),
    (b"ZADD golden 1.5 a 2 b\r\n", b":2\r\n"),
    (b"ZRANGE golden 0 -1\r\n", b"*2\r\n$1\r\na\r\n$1\r\nb\r\n"),
    (b"DEL golden\r\n", b":1\r\n"),
    (b"HSET golden f 1 g 2\r\n", b":2\r\n"),
    (b"HGET golden f\r\n", b"$1\r\n1\r\n"),
    (b"NOSUCH\r\n", b"-ERR unknown command 'NOSUCH': " + PORT + b"\r\n"),
    (b"nosuch a b\r\n", b"-ERR unknown command 'nosuch': " + PORT + b"\r\n"),
    (b"SADD golden a\r\n", b"-ERR unknown command 'SADD': " + PORT + b"\r\n"),
    (b"INCRBYFLOAT golden 1\r\n", b"-ERR unknown command 'INCRBYFLOAT': " + PORT + b"\r\n"),
    (b"SMEMBERS golden\r\n", b"-ERR " + NO_SETS + b"\r\n"),
    (b"GET\r\n", b"-ERR wrong number of arguments for 'get' command\r\n"),
    (b"SET k\r\n", b"-ERR wrong number of arguments for 'set' command\r\n"),
    (b"AUTH\r\n", b"-ERR wrong number of arguments for 'auth' command\r\n"),
    (b"JOB.GET\r\n", b"-ERR wrong number of arguments for 'job.get' command\r\n"),
    (b"PLAN.SUBMIT a b\r\n", b"-ERR wrong number of arguments for 'plan.submit' command\r\n"),
    (b"BRPOP queue:ready\r\n", b"-ERR wrong number of arguments for 'brpop' command\r\n"),
    (b"BRPOP queue:ready x\r\n", b"-ERR timeout is not a float or out of range\r\n"),
    (b"BRPOP queue:ready -1\r\n", b"-ERR timeout is negative\r\n"),
    (b"PLAN.GET nosuch\r\n", b"-ERR Plan not found: nosuch\r\n"),
    (b"JOB.GET nosuch\r\n", b"-ERR Job not found: nosuch\r\n"),
    (b"HELLO 4\r\n", b"-NOPROTO unsupported protocol version\r\n"),
    (b"CLIENT SETNAME me\r\n", b"+OK\r\n"),
    (b"CLIENT GETNAME\r\n", b"$2\r\nme\r\n"),
    (b"CLIENT SETINFO LIB-NAME redis-rs\r\n", b"+OK\r\n"),
    (b"CLIENT SETINFO LIB-VER 0.24.0\r\n", b"+OK\r\n"),
    (b"CLIENT NO-EVICT on\r\n", b"+OK\r\n"),
]

ONLY_2 = [
    (b"GET none\r\n", b"$-1\r\n"),
    (b"MGET none golden\r\n", b"*2\r\n$-1\r\n$-1\r\n"),
    (b"HGETALL golden\r\n", b"*4\r\n$1\r\nf\r\n$1\r\n1\r\n$1\r\ng\r\n$1\r\n2\r\n"),
    (b"DEL golden\r\n", b":1\r\n"),
    (b"ZADD golden 1.5 a 2 b\r\n", b":2\r\n"),
    (b"ZRANGE golden 0 -1 WITHSCORES\r\n", b"*4\r\n$1\r\na\r\n$3\r\n1.5\r\n$1\r\nb\r\n$1\r\n2\r\n"),
    (b"ZSCORE golden a\r\n", b"$3\r\n1.5\r\n"),
    (b"DEL golden\r\n", b":1\r\n"),
    (b"SMEMBERS capability:nobody:workers\r\n", b"*0\r\n"),
    (b"BRPOP queue:nobody 0.01\r\n", b"*-1\r\n"),
    (b"BRPOP none 0.01\r\n", b"*-1\r\n"),
    (b"RPOP queue:nobody\r\n", b"$-1\r\n"),
    (b"BRPOPLPUSH queue:nobody queue:processing 0.01\r\n", b"$-1\r\n"),
    (b"CONFIG GET databases\r\n", b"*2\r\n$9\r\ndatabases\r\n$1\r\n1\r\n"),
]

ONLY_3 = [
    (b"GET none\r\n", b"_\r\n"),
    (b"MGET none golden\r\n", b"*2\r\n_\r\n_\r\n"),
    (b"HGETALL golden\r\n", b"%2\r\n$1\r\nf\r\n$1\r\n1\r\n$1\r\ng\r\n$1\r\n2\r\n"),
    (b"DEL golden\r\n", b":1\r\n"),
    (b"ZADD golden 1.5 a 2 b\r\n", b":2\r\n"),
    (b"ZRANGE golden 0 -1 WITHSCORES\r\n", b"*2\r\n*2\r\n$1\r\na\r\n,1.5\r\n*2\r\n$1\r\nb\r\n,2\r\n"),
    (b"ZSCORE golden a\r\n", b",1.5\r\n"),
    (b"DEL golden\r\n", b":1\r\n"),
    (b"SMEMBERS capability:nobody:workers\r\n", b"~0\r\n"),
    (b"BRPOP queue:nobody 0.01\r\n", b"_\r\n"),
    (b"BRPOP none 0.01\r\n", b"_\r\n"),
    (b"RPOP queue:nobody\r\n", b"_\r\n"),
    (b"BRPOPLPUSH queue:nobody queue:processing 0.01\r\n", b"_\r\n"),
    (b"CONFIG GET databases\r\n", b"%1\r\n$9\r\ndatabases\r\n$1\r\n1\r\n"),
]


def check(client, request: bytes, reply: bytes) -> None:
    """The reply, and nothing after it."""
    client.write(request + packed("ECHO", "end"))
    wanted = reply + b"$3\r\nend\r\n"
    client.socket.settimeout(5)
    got = b""
    while len(got) < len(wanted):
        client.buffer or client.fill()
        got, client.buffer = got + client.buffer, b""
        if not wanted.startswith(got):
            break
    assert got == wanted, f"{request!r}"


@pytest.mark.parametrize("version", [2, 3])
def test_replies_are_those_of_redis(shared_server, version):
    with RespClient(shared_server, "admin", version=version) as client:
        for request, reply in BOTH + (ONLY_2 if version == 2 else ONLY_3):
            check(client, request, reply)


def test_a_pipeline_is_answered_in_order(shared_server):
    with RespClient(shared_server, "admin") as client:
        wanted = []
        for number in range(300):
            wanted += [b"+OK", b"$%d" % len(str(number)), b"%d" % number, b"-ERR", b":1", b"+PONG"]
            client.write(
                packed("SET", "pipe", number) + packed("GET", "pipe") + packed("NOSUCH")
                + packed("DEL", "pipe") + b"PING\r\n"
            )
        for one in wanted:
            assert client.line().startswith(one), one


def test_a_pipeline_of_jobs_keys_and_pops_is_answered_in_order(shared_server):
    with RespClient(shared_server, "admin") as client:
        replies = client.many([
            ("LPUSH", "queue:order", '{"job_id":"order-1"}'), ("SET", "order", "1"),
            ("RPOP", "queue:order"), ("GET", "order"),
            ("JOB.UPDATE", "order-1", '{"status":"completed"}'), ("JOB.STATUS", "order-1"), ("PING",),
        ])
    assert replies[0] == 1 and replies[1] == "OK" and replies[3] == b"1" and replies[4] == "OK"
    assert b"order-1" in replies[2] and b'"completed"' in replies[5] and replies[6] == "PONG"


@pytest.mark.parametrize("version", [2, 3])
def test_hello_says_seven_things(shared_server, version):
    with RespClient(shared_server) as client:
        client.send("HELLO", version, "AUTH", "default", shared_server.tokens["admin"], "SETNAME", "me")
        assert client.line() == (b"%7" if version == 3 else b"*14")
        parts = [client.read() for _ in range(14)]
        said = dict(zip([key.decode() for key in parts[::2]], parts[1::2]))
        assert list(said) == HELLO_KEYS
        assert (said["proto"], said["mode"], said["role"]) == (version, b"standalone", b"master")
        assert isinstance(said["id"], int) and said["modules"] == []
        check(client, b"CLIENT GETNAME\r\n", b"$2\r\nme\r\n")
        check(client, b"GET none\r\n", b"_\r\n" if version == 3 else b"$-1\r\n")


def test_hello_changes_the_version_back_and_forth(shared_server):
    with RespClient(shared_server, "admin", version=3) as client:
        check(client, b"GET none\r\n", b"_\r\n")
        client.ask("HELLO", 2)
        check(client, b"GET none\r\n", b"$-1\r\n")
        client.ask("HELLO")
        check(client, b"GET none\r\n", b"$-1\r\n")


def test_nothing_is_said_to_strangers(shared_server):
    with RespClient(shared_server) as client:
        for request in [b"GET a\r\n", b"PING\r\n", b"NOSUCH\r\n", b"CLIENT SETINFO LIB-NAME x\r\n", b"JOBS.LIST\r\n"]:
            client.write(request)
            assert client.take(len(NOAUTH)) == NOAUTH, request
        client.write(b"HELLO 3\r\n")
        assert client.line().startswith(b"-NOAUTH HELLO must be called with the client already authenticated")


def test_a_wrong_key_is_named_so(server):
    for words in [("AUTH", "wrong"), ("AUTH", "default", "wrong"), ("HELLO", 3, "AUTH", "default", "wrong")]:
        with RespClient(server) as client:
            client.send(*words)
            assert client.take(len(WRONGPASS)) == WRONGPASS, words
            assert client.call("PING").startswith("NOAUTH")
    with RespClient(server) as client:
        assert client.call("AUTH", "").startswith(("ERR", "WRONGPASS"))
        assert client.call("AUTH", "default", server.tokens["client"]) == "OK"


@pytest.mark.parametrize(
    ("request_bytes", "reply"),
    [
        (b"*1\r\n:4\r\n", b"-ERR Protocol error: expected '$', got ':'\r\n"),
        (b"*a\r\n", b"-ERR Protocol error: invalid multibulk length\r\n"),
        (b"*1\r\n$a\r\n", b"-ERR Protocol error: invalid bulk length\r\n"),
        (b"*1\r\n$-1\r\n", b"-ERR Protocol error: invalid bulk length\r\n"),
        (b'GET "a\r\n', b"-ERR Protocol error: unbalanced quotes in request\r\n"),
        (b"*2147483648\r\n", b"-ERR Protocol error: invalid multibulk length\r\n"),
    ],
)
def test_what_cannot_be_read_ends_the_connection(shared_server, request_bytes, reply):
    with RespClient(shared_server, "admin") as client:
        client.write(b"PING\r\n" + request_bytes)
        assert client.rest() == b"+PONG\r\n" + reply


@pytest.mark.parametrize(
    "lines",
    [
        b"POST / HTTP/1.1\r\nHost: x\r\n\r\nSET a 1\r\n", b"Host: x\r\nSET a 1\r\n",
        b"post / HTTP/1.0\r\n\r\n", b"GET / HTTP/1.1\r\nHost: localhost:6380\r\n\r\nSET a 1\r\n",
    ],
)
def test_a_browser_is_hung_up_on(dev_server, lines):
    """A page can make a browser on this machine send this, so a dev server must not obey."""
    with RespClient(dev_server) as client:
        client.write(lines)
        assert b"+OK" not in client.rest()
    with RespClient(dev_server) as client:
        assert client.call("EXISTS", "a") == 0


def test_quit_says_ok_and_ends(shared_server):
    with RespClient(shared_server, "admin") as client:
        client.write(b"PING\r\nQUIT\r\nPING\r\n")
        assert client.rest() == b"+PONG\r\n+OK\r\n"
    with RespClient(shared_server) as client:
        client.write(b"QUIT\r\n")
        assert client.rest() == b"+OK\r\n"


def test_reset_begins_anew(shared_server):
    with RespClient(shared_server, "admin", version=3) as client:
        client.ask("CLIENT", "SETNAME", "me")
        client.ask("SUBSCRIBE", "job:updates")
        client.write(b"RESET\r\n")
        assert client.take(8) == b"+RESET\r\n"
        assert client.call("PING").startswith("NOAUTH")
        assert client.call("AUTH", shared_server.tokens["admin"]) == "OK"
        check(client, b"GET none\r\n", b"$-1\r\n")
        assert client.call("CLIENT", "GETNAME") in (b"", None)


def test_connections_are_numbered_named_and_listed(shared_server):
    with RespClient(shared_server, "admin") as one, RespClient(shared_server, "admin") as two:
        one.ask("CLIENT", "SETNAME", "one")
        assert two.ask("CLIENT", "ID") > one.ask("CLIENT", "ID") > 0
        lines = two.ask("CLIENT", "LIST").decode().splitlines()
        assert len(lines) >= 2, "both are listed"
        assert all(re.match(r"id=\d+ addr=127\.0\.0\.1:\d+ .*name=", line) for line in lines)
        assert sum("name=one " in line for line in lines) == 1
        assert one.ask("CLIENT", "INFO").decode().startswith(f"id={one.ask('CLIENT', 'ID')} ")
        assert isinstance(one.call("CLIENT", "NOSUCH"), Refused)
        assert isinstance(one.call("CLIENT", "SETNAME", "a b"), Refused)
        assert shared_server.tokens["admin"] not in "".join(lines)


def test_a_connection_is_listed_as_soon_as_it_is_known(shared_server):
    with RespClient(shared_server, "admin") as client:
        assert b"addr=" in client.ask("CLIENT", "LIST")


def test_silence_is_kept_or_refused_but_never_half(shared_server):
    with RespClient(shared_server, "admin") as client:
        client.write(b"CLIENT REPLY OFF\r\nSET quiet 1\r\nGET quiet\r\nCLIENT REPLY ON\r\nPING\r\n")
        replies = [client.line()]
        while replies[-1] != b"+PONG":
            replies.append(client.line())
        is_refused = replies[0].startswith(b"-ERR") and len(replies) == 6
        assert is_refused or replies == [b"+OK", b"+PONG"], replies


def test_a_closed_connection_is_closed(shared_server):
    client = RespClient(shared_server, "admin")
    client.write(b"QUIT\r\n")
    client.rest()
    with pytest.raises((Closed, OSError)):
        client.call("PING")
        client.call("PING")
