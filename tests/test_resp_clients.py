"""Real Redis clients, unchanged: redis-py and ioredis."""

import asyncio
import json
import threading
import time

import pytest
import redis
import redis.asyncio
from redis.backoff import NoBackoff
from redis.retry import Retry

from resp_client import RespClient
from waiting import wait_until

# A refusal is final: no second try.
ONCE = Retry(NoBackoff(), 0)


@pytest.fixture(params=[None, 2, 3], ids=["default", "resp2", "resp3"])
def client(shared_server, request):
    version = {} if request.param is None else {"protocol": request.param}
    with redis.Redis(port=shared_server.resp_port, password=shared_server.tokens["admin"], **version) as client:
        yield client
        for key in client.scan_iter("py-*"):
            client.delete(key)


def test_values_come_back_as_from_redis(client):
    assert client.ping() is True
    assert client.set("py-a", "1", ex=100) and client.get("py-a") == b"1" and 0 < client.ttl("py-a") <= 100
    assert client.get("py-none") is None and client.exists("py-a", "py-none") == 1
    assert client.incr("py-a") == 2 and client.mget("py-a", "py-none") == [b"2", None]
    assert client.hset("py-h", mapping={"a": 1, "b": 2}) == 2
    assert client.hgetall("py-h") == {b"a": b"1", b"b": b"2"}
    assert client.zadd("py-z", {"a": 1.5, "b": 2}) == 2
    assert [tuple(pair) for pair in client.zrange("py-z", 0, -1, withscores=True)] == [(b"a", 1.5), (b"b", 2.0)]
    assert client.zscore("py-z", "a") == 1.5
    with pytest.raises(redis.ResponseError, match="unknown command 'SADD'"):
        client.sadd("py-s", "x", "y")
    assert client.rpush("py-l", *"abc") == 3 and client.lrange("py-l", 0, -1) == [b"a", b"b", b"c"]
    assert tuple(client.blpop("py-l", 1)) == (b"py-l", b"a") and client.blpop("py-none", 0.05) is None
    assert client.lmove("py-l", "py-m", "RIGHT", "LEFT") == b"c"
    assert client.brpoplpush("py-l", "py-m", 1) == b"b"
    client.rpush("py-l", "a")
    assert client.type("py-l") == b"list"
    with pytest.raises(redis.ResponseError, match="WRONGTYPE"):
        client.lpush("py-a", "x")


def test_a_pipeline(client):
    pipe = client.pipeline(transaction=False)
    for number in range(200):
        pipe.set(f"py-p{number}", number).get(f"py-p{number}")
    replies = pipe.execute()
    assert replies[1::2] == [b"%d" % number for number in range(200)] and all(replies[::2])
    pipe.get("py-p1").lpush("py-p1", "x").get("py-p2")
    replies = pipe.execute(raise_on_error=False)
    assert replies[0] == b"1" and isinstance(replies[1], redis.ResponseError) and replies[2] == b"2"


def test_a_transaction_is_refused_whole(client):
    """`pipeline()` is a transaction unless one says otherwise: it must not be half of one."""
    pipe = client.pipeline()
    pipe.set("py-t", "1").incr("py-t")
    with pytest.raises(redis.ResponseError, match="unknown command"):
        pipe.execute()
    assert client.get("py-t") is None, "what was to be all or nothing was half done"


def test_scans(client):
    names = {b"py-scan-%d" % number for number in range(250)}
    for name in names:
        client.set(name, 1)
    assert set(client.scan_iter("py-scan-*", count=20)) == names
    assert client.keys("py-scan-*") and client.dbsize() >= 250
    info = client.info()
    assert info["redis_version"] and info["role"] == "master" and client.info("keyspace")["db0"]["keys"] >= 250
    assert client.config_get("databases") == {"databases": "1"}
    assert client.client_id() > 0 and client.command_count() > 80 and client.time()[0] > 1_600_000_000


def test_jobs(client):
    plan = {"plan_id": "py-plan", "tasks": [{"task_number": 1, "command": "sort"}]}
    client.execute_command("PLAN.SUBMIT", json.dumps(plan))
    name = f"py-{time.time_ns()}"
    action = {"action_id": name, "plan_id": "py-plan", "inputs": [1, 2], "queue": name}
    assert json.loads(client.execute_command("ACTION.SUBMIT", json.dumps(action)))["jobs_created"] == 2
    assert client.llen(f"queue:{name}") == 2
    for _ in range(2):
        _, text = client.brpop(f"queue:{name}", 5)
        job = json.loads(text)
        assert client.execute_command("JOB.UPDATE", job["job_id"], '{"status":"completed"}') in ("OK", b"OK")
    assert client.brpop(f"queue:{name}", 0.05) is None
    assert json.loads(client.execute_command("ACTION.STATUS", name))["status"] == "completed"
    with pytest.raises(redis.ResponseError, match="Job not found"):
        client.execute_command("JOB.STATUS", "nosuch")


def test_channels(client):
    channel = client.pubsub()
    channel.subscribe("job:updates")
    channel.psubscribe("job:*")
    assert [channel.get_message(timeout=5)["type"] for _ in range(2)] == ["subscribe", "psubscribe"]
    name = f"py-{time.time_ns()}"
    client.lpush("queue:py-loud", json.dumps({"job_id": name}))
    client.rpop("queue:py-loud")
    client.execute_command("JOB.UPDATE", name, '{"status":"completed"}')
    told = []
    while sum(b'"completed"' in message["data"] for message in told if message["type"] != "subscribe") < 2:
        message = channel.get_message(timeout=5)
        assert message is not None, told
        told.append(message)
    assert {message["type"] for message in told} == {"message", "pmessage"}
    assert all(message["channel"] == b"job:updates" for message in told)
    channel.unsubscribe()
    channel.punsubscribe()
    channel.close()


def test_errors_have_their_classes(shared_server, client):
    port = shared_server.resp_port
    for options in [{}, {"protocol": 2}, {"protocol": 3}]:
        with pytest.raises(redis.AuthenticationError):
            redis.Redis(port=port, retry=ONCE, **options).ping()
    with pytest.raises(redis.ResponseError):
        redis.Redis(port=port, password=shared_server.tokens["admin"], db=1, retry=ONCE).ping()
    with pytest.raises(redis.ResponseError, match="unknown command"):
        client.execute_command("NOSUCH")


def test_a_wrong_password_is_an_authentication_error(server):
    for options in [{"protocol": 2}, {"protocol": 3}]:
        with pytest.raises(redis.AuthenticationError):
            redis.Redis(port=server.resp_port, password="wrong", retry=ONCE, **options).ping()


def test_a_pool_of_many_threads(shared_server):
    client = redis.Redis(port=shared_server.resp_port, password=shared_server.tokens["admin"], max_connections=40)
    failures = []

    def work(number: int) -> None:
        try:
            for turn in range(50):
                client.set(f"py-pool-{number}", turn)
                assert client.get(f"py-pool-{number}") == b"%d" % turn
                client.lpush("queue:py-pool", "{}")
                assert client.brpop("queue:py-pool", 5)
        except BaseException as failure:
            failures.append(failure)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not failures and not any(thread.is_alive() for thread in threads)
    client.close()


def test_a_client_comes_back_after_the_server_was_killed(server):
    client = redis.Redis(port=server.resp_port, password=server.tokens["admin"], health_check_interval=1)
    assert client.set("kept", "1")
    assert client.lpush("queue:kept", '{"job_id":"kept"}') == 1
    server.kill()
    with pytest.raises(redis.ConnectionError):
        client.get("kept")
    server.start()
    assert client.get("kept") == b"1"
    assert json.loads(client.brpop("queue:kept", 5)[1])["job_id"] == "kept"


def test_asyncio(shared_server):
    def wait_for_connections(count: int) -> None:
        """Each pop that waits has a connection of its own."""
        wait_until(viewer.n_connected, lambda n: n >= n_before + count, what=f"{count} pops that wait")

    async def session():
        client = redis.asyncio.Redis(port=shared_server.resp_port, password=shared_server.tokens["admin"])
        waiting = [asyncio.create_task(client.brpop(f"queue:py-async-{number}", 10)) for number in range(20)]
        await asyncio.to_thread(wait_for_connections, 20)
        await asyncio.gather(*(client.lpush(f"queue:py-async-{number}", "{}") for number in range(20)))
        popped = await asyncio.gather(*waiting)
        assert [name for name, _ in popped] == [b"queue:py-async-%d" % number for number in range(20)]
        await client.aclose()

    with RespClient(shared_server, "viewer") as viewer:
        n_before = viewer.n_connected()
        asyncio.run(session())


def test_ioredis(shared_server, node):
    said = node.run("ioredis_session.mjs", str(shared_server.resp_port), shared_server.tokens["admin"])
    assert "all good" in said
    with RespClient(shared_server, "viewer") as viewer:
        assert viewer.status("io-job")["status"] == "completed"
