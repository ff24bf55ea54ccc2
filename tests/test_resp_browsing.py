"""What tools ask before they show anything: RedisInsight's and redis-cli's questions."""

import json

import pytest

from resp_client import RespClient

OWN_COMMANDS = [
    "plan.submit", "plan.list", "plan.get", "plan.delete", "action.submit", "action.status", "action.get",
    "action.list", "job.submit", "job.get", "job.status", "job.update", "job.list", "job.retry", "job.cancel",
    "jobs.list", "jobs.search", "queue.stats", "queue.peek", "queue.pause", "queue.resume", "metrics",
    "worker.register", "worker.heartbeat", "worker.unregister", "worker.verify", "workers.list",
    "capability.search",
]
INFO_SECTIONS = ["Server", "Clients", "Memory", "Persistence", "Stats", "Replication", "Cluster", "Keyspace"]


@pytest.fixture
def client(shared_server):
    with RespClient(shared_server, "admin") as client:
        yield client


def pairs(flat: list) -> dict:
    return {key.decode(): value for key, value in zip(flat[::2], flat[1::2])}


def test_every_command_can_be_counted_listed_and_described(client):
    count = client.ask("COMMAND", "COUNT")
    names = [name.decode() for name in client.ask("COMMAND", "LIST")]
    assert count == len(names) == len(client.ask("COMMAND")) == len(client.ask("COMMAND", "INFO"))
    assert set(OWN_COMMANDS) <= set(names)
    docs = pairs(client.ask("COMMAND", "DOCS"))
    assert set(docs) == set(names)
    for name in OWN_COMMANDS:
        described = pairs(docs[name])
        assert described["summary"] and described["group"], name


def test_a_command_describes_itself_as_in_redis(client):
    get, nothing = client.ask("COMMAND", "INFO", "get", "nosuch")
    assert get[:6] == [b"get", 2, get[2], 1, 1, 1] and "readonly" in get[2] and nothing is None
    docs = pairs(client.ask("COMMAND", "DOCS", "plan.submit"))
    (argument,) = pairs(docs["plan.submit"])["arguments"]
    assert pairs(argument)["type"] == b"string" and b"json" in pairs(argument)["name"]
    assert client.ask("COMMAND", "DOCS", "nosuch") == []
    assert client.ask("COMMAND", "GETKEYS", "SET", "a", "b") == [b"a"]


def test_docs_are_maps_in_version_3(shared_server):
    with RespClient(shared_server, "admin", version=3) as client:
        docs = client.ask("COMMAND", "DOCS", "job.status")
        assert docs["job.status"]["summary"] and docs["job.status"]["arguments"][0]["name"]


def test_info_has_sections_and_gives_one_alone(client):
    text = client.ask("INFO").decode()
    assert [line[2:] for line in text.splitlines() if line.startswith("# ")] == INFO_SECTIONS
    lines = dict(line.split(":", 1) for line in text.splitlines() if ":" in line)
    assert lines["redis_version"][0].isdigit() and lines["redis_mode"] == "standalone"
    assert lines["role"] == "master" and lines["cluster_enabled"] == "0"
    assert int(lines["connected_clients"]) >= 1 and int(lines["total_commands_processed"]) >= 1
    for section in INFO_SECTIONS:
        only = client.ask("INFO", section.lower()).decode()
        assert only.startswith(f"# {section}\r\n") and only.count("# ") == 1
    assert client.ask("INFO", "nosuch") == b""


def test_keys_are_counted_listed_scanned_and_typed(client):
    names = {f"browse:{number}" for number in range(150)}
    before = client.ask("DBSIZE")
    client.many([("SET", name, "1") for name in sorted(names)])
    client.ask("HSET", "browse-hash", "a", "1")
    assert client.ask("DBSIZE") == before + 151
    assert {key.decode() for key in client.ask("KEYS", "browse:*")} == names
    assert client.ask("KEYS", "browse:1?") and client.ask("KEYS", "nosuch*") == []
    assert {key.decode() for key in scanned(client, "MATCH", "browse:*", "COUNT", 10)} == names
    assert scanned(client, "MATCH", "browse*", "TYPE", "hash") == [b"browse-hash"]
    client.ask("DEL", "browse-hash", *names)
    assert client.ask("DBSIZE") == before


def test_own_keys_are_found_by_scan_and_keys_and_have_a_type(client):
    client.ask("PLAN.SUBMIT", json.dumps({"plan_id": "seen", "tasks": [{"task_number": 1, "command": "sort"}]}))
    client.register("browsed", ["sort"])
    client.submit(job_id="browsed-1", queue="browsed")
    own = {b"plan:seen", b"worker:browsed:alive", b"worker:browsed:metadata", b"capability:sort:workers"}
    listed = scanned(client)
    assert own <= set(listed) and len(listed) == len(set(listed))
    assert own <= set(client.ask("KEYS", "*"))
    kinds = {key: client.ask("TYPE", key) for key in sorted(own)}
    assert kinds[b"capability:sort:workers"] == "set" and kinds[b"worker:browsed:alive"] == "string"
    assert client.ask("TYPE", "queue:browsed") == "list" and client.ask("LLEN", "queue:browsed") == 1
    assert client.ask("TYPE", "job:browsed-1") in ("hash", "string")


def test_a_scan_for_one_type_finds_own_keys_too(client):
    only_sets = scanned(client, "TYPE", "set")
    assert b"capability:sort:workers" in only_sets and b"worker:browsed:alive" not in only_sets


def test_queues_are_among_the_keys(client):
    assert b"queue:browsed" in scanned(client, "MATCH", "queue:*") and b"queue:browsed" in client.ask("KEYS", "queue:*")


@pytest.mark.parametrize("key", ["plan:seen", "job:browsed-1", "worker:browsed:metadata"])
def test_a_shown_key_can_be_read_by_the_command_of_its_type(client, key):
    """Tools ask TYPE, then read as the type says."""
    kind = client.ask("TYPE", key)
    if kind == "string":
        assert json.loads(client.ask("GET", key))
    else:
        assert kind == "hash" and client.ask("HLEN", key) > 0
        assert len(client.ask("HGETALL", key)) == 2 * client.ask("HLEN", key)


def test_a_set_that_is_shown_can_be_read(client):
    assert client.ask("SMEMBERS", "capability:sort:workers") == [b"browsed"]
    assert client.ask("SISMEMBER", "capability:sort:workers", "browsed") == 1


@pytest.mark.parametrize("command", ["SET", "LPUSH", "DEL", "EXPIRE", "HSET"])
@pytest.mark.parametrize("key", ["plan:seen", "worker:browsed:alive", "capability:sort:workers", "astra:x"])
def test_keys_of_the_server_cannot_be_written(client, command, key):
    words = {"SET": ["1"], "LPUSH": ["1"], "DEL": [], "EXPIRE": ["1"], "HSET": ["a", "b"]}[command]
    reply = client.call(command, key, *words)
    assert str(reply).startswith("ERR") and "server" in reply, reply
    assert client.ask("EXISTS", "plan:seen", "worker:browsed:alive") == 2


def scanned(client, *options) -> list:
    keys, cursor = [], b"0"
    while True:
        cursor, page = client.ask("SCAN", cursor, *options)
        keys += page
        if cursor == b"0":
            return keys
