"""Two tenants at the Redis door: what one has, the other has never heard of."""

import json

import pytest

from astra_server import Server
from resp_client import RespClient

PLAN = {"plan_id": "secret-plan", "tasks": [{"task_number": 1, "command": "sort"}]}
# What names one object: the command, with the place of its name.
OF_JOBS = [
    ["JOB.GET", "@"], ["JOB.STATUS", "@"], ["JOB.CANCEL", "@"], ["JOB.RETRY", "@"], ["GET", "job:@"],
    ["HGETALL", "job:@"], ["GET", "job:@:worker"], ["GET", "job:@:status"], ["EXISTS", "job:@"], ["TYPE", "job:@"],
    ["TTL", "job:@:worker"], ["JOB.UPDATE", "@", '{"status":"completed"}'],
    ["JOB.UPDATE", "@", '{"status":"running","worker_id":"secret-worker"}'],
    ["JOB.UPDATE", "@", '{"progress_percent":5}'],
    ["SET", "job:@:stdout", "x"], ["SET", "job:@:status", "completed"], ["LREM", "queue:processing", "1", "@"],
    ["LREM", "queue:secret", "1", "@"], ["JOBS.SEARCH", "@"], ["JOB.SUBMIT", '{"after":["@"]}'],
]
OF_PLANS = [
    ["PLAN.GET", "@"], ["PLAN.DELETE", "@"], ["PLAN.LIST", "@"], ["GET", "plan:@"], ["EXISTS", "plan:@"],
    ["ACTION.SUBMIT", '{"action_id":"mine","plan_id":"@","inputs":[]}'], ["JOB.SUBMIT", '{"plan_id":"@"}'],
]
OF_ACTIONS = [
    ["ACTION.STATUS", "@"], ["ACTION.GET", "@"], ["JOB.LIST", "@"], ["SMEMBERS", "action:@:jobs"], ["GET", "action:@"],
]
OF_WORKERS = [
    ["WORKER.HEARTBEAT", "@"], ["WORKER.UNREGISTER", "@"], ["WORKER.VERIFY", "@", "sort", '{"command":"sort"}'],
    ["GET", "worker:@:alive"], ["GET", "worker:@:metadata"], ["GET", "worker:@:stats"], ["GET", "worker:@:tools"],
    ["TTL", "worker:@:alive"], ["HGETALL", "worker:@"],
]
OF_QUEUES = [
    ["LLEN", "queue:@"], ["LRANGE", "queue:@", "0", "-1"], ["QUEUE.PEEK", "@"], ["QUEUE.STATS", "@"],
    ["RPOP", "queue:@"], ["BRPOP", "queue:@", "0.01"], ["EXISTS", "queue:@"],
]
LISTS = [
    ["JOBS.LIST"], ["PLAN.LIST"], ["ACTION.LIST"], ["WORKERS.LIST"], ["CAPABILITY.SEARCH"], ["KEYS", "*"], ["SCAN", "0"],
    ["CLIENT", "LIST"],
    ["QUEUE.STATS"], ["SMEMBERS", "capability:sort:workers"], ["SMEMBERS", "plans:all"], ["SMEMBERS", "workers:all"],
    ["LRANGE", "queue:processing", "0", "-1"], ["LRANGE", "queue:scheduled", "0", "-1"], ["METRICS"], ["INFO"],
]
NAMED = {
    "job": OF_JOBS, "task": OF_JOBS, "plan": OF_PLANS, "action": OF_ACTIONS, "worker": OF_WORKERS, "queue": OF_QUEUES,
}
CASES = [
    pytest.param(kind, words, id=f"{kind} {' '.join(words)}"[:60])
    for kind, commands in NAMED.items() for words in commands
]


@pytest.fixture(scope="module")
def two(tmp_path_factory):
    """A server, what one tenant has on it, and the other tenant's key."""
    server = Server(tmp_path_factory.mktemp("tenants"))
    other = server.make_token("admin", "other")
    server.start()
    try:
        with RespClient(server, "admin") as owner:
            owner.ask("PLAN.SUBMIT", json.dumps(PLAN))
            owner.ask("ACTION.SUBMIT", {"action_id": "secret-action", "plan_id": "secret-plan", "inputs": [1]})
            owner.submit(job_id="secret-job", queue="secret")
            held = owner.submit(job_id="secret-held", queue="secret-held")
            assert owner.register("secret-worker", ["sort"]).startswith("OK")
            popped = owner.pop("queue:secret-held")
            owner.ask("SET", "secret-key", "1")
            names = {
                "job": held, "task": owner.status(held)["task_id"], "plan": "secret-plan", "action": "secret-action",
                "worker": "secret-worker", "queue": "secret", "lease": popped["lease_id"],
            }
            yield server, names, other
            assert owner.status(held)["status"] == "running", "nobody else may have touched it"
            assert owner.call("WORKER.HEARTBEAT", "secret-worker") == "OK"
    finally:
        server.stop()
        print(server.log.read_text())


def unknown(kind: str, name: str) -> str:
    """A name like this one that nobody has."""
    if kind == "task":
        # The shard is part of a task's id; its last digits count the tasks.
        return name[:-4] + ("0000" if name[-4:] != "0000" else "1111")
    return "x" * len(name)


@pytest.mark.parametrize(("kind", "words"), CASES)
def test_a_foreign_name_is_an_unknown_name(two, kind, words):
    server, names, other = two
    name, nobody = names[kind], unknown(kind, names[kind])
    with RespClient(server, key=other) as stranger:
        foreign = stranger.call(*[word.replace("@", name) for word in words])
        missing = stranger.call(*[word.replace("@", nobody) for word in words])
    assert repr(foreign).replace(name, "@") == repr(missing).replace(nobody, "@")


def test_a_foreign_lease_is_no_lease(two):
    server, names, other = two
    with RespClient(server, key=other) as stranger:
        update = json.dumps({"status": "completed", "lease_id": names["lease"]})
        for job in [names["job"], names["task"], "any"]:
            assert str(stranger.call("JOB.UPDATE", job, update)).startswith(("REJECTED", "ERR"))


@pytest.mark.parametrize("words", LISTS, ids=" ".join)
def test_lists_show_ones_own_alone(two, words):
    server, names, other = two
    with RespClient(server, key=other) as stranger:
        shown = repr(stranger.ask(*words))
    assert "secret" not in shown and names["task"] not in shown
    if words == ["QUEUE.STATS"]:
        assert "[b'pending_jobs', 0, b'scheduled_jobs', 0" in shown


def test_both_may_use_the_same_names(two):
    server, names, other = two
    with RespClient(server, key=other) as stranger:
        assert stranger.call("SET", "secret-key", "2") == "OK"
        assert stranger.submit(job_id=names["job"], queue="secret-held") == names["job"]
        assert stranger.call("PLAN.SUBMIT", json.dumps(PLAN)) == b"secret-plan"
        assert stranger.register("secret-worker", ["sort"]).startswith("OK"), "no name is taken by others"
        assert stranger.pop("queue:secret-held")["job_id"] == names["job"]
        assert stranger.update(names["job"], status="completed") == "OK"
        assert stranger.call("DEL", "secret-key") == 1
    with RespClient(server, "admin") as owner:
        assert owner.ask("GET", "secret-key") == b"1"


def test_channels_tell_ones_own_alone(two):
    server, _, other = two
    with RespClient(server, key=other) as listener, RespClient(server, "admin") as owner:
        listener.ask("SUBSCRIBE", "job:updates")
        owner.submit(job_id="secret-loud", queue="secret-loud")
        owner.update(owner.pop("queue:secret-loud")["job_id"], status="completed")
        assert listener.quiet_for(0.5)


def test_a_foreign_tenant_in_the_payload_means_nothing(two):
    server, _, other = two
    with RespClient(server, key=other) as stranger, RespClient(server, "admin") as owner:
        stranger.call("JOB.SUBMIT", json.dumps({"job_id": "sneaky", "tenant": "default", "queue": "sneaky"}))
        assert owner.call("JOB.GET", "sneaky") == "ERR Job not found: sneaky"
        assert owner.ask("LLEN", "queue:sneaky") == 0
