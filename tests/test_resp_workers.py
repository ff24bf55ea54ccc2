"""Workers at the Redis door: seed 004 sections 2, 3, 6, 7, 8 and 9."""

import json
import time

import pytest

from astra_server import Server
from resp_client import Refused, RespClient
from waiting import wait_until
from wire_worker import WireWorker

WORKER = {
    "worker_id": "worker-macbook-001", "hostname": "macbook-pro.local", "platform": "darwin-arm64",
    "agw_version": "0.1.0",
    "capabilities": {"tools": ["sort", "uniq", "grep", "cut", "jq"], "agentic_units": ["agx-ocr"]},
    "max_concurrent_jobs": 4, "tags": {"environment": "local", "tier": "development"},
}
STATS = {
    "active_jobs": 2, "completed_jobs_total": 150, "failed_jobs_total": 3, "uptime_seconds": 3600,
    "cpu_usage_percent": 45.2, "memory_mb": 512, "disk_available_gb": 120,
}


@pytest.fixture
def worker(shared_server):
    with RespClient(shared_server, "worker") as client:
        yield client


@pytest.fixture
def admin(shared_server):
    with RespClient(shared_server, "admin") as client:
        yield client


def register(client, **changes):
    return client.call("WORKER.REGISTER", json.dumps({**WORKER, **changes}))


def test_the_seeds_registration_is_answered_as_the_seed_says(worker):
    assert register(worker) == "OK worker_id=worker-macbook-001 heartbeat_interval=30"
    assert json.loads(worker.ask("GET", "worker:worker-macbook-001:metadata")) == WORKER
    assert worker.ask("TTL", "worker:worker-macbook-001:metadata") == -1
    assert abs(int(worker.ask("GET", "worker:worker-macbook-001:alive")) - time.time()) < 5
    assert 85 <= worker.ask("TTL", "worker:worker-macbook-001:alive") <= 90
    assert worker.ask("KEYS", "worker:worker-macbook-001:alive") == [b"worker:worker-macbook-001:alive"]
    for tool in ["sort", "agx-ocr"]:
        assert b"worker-macbook-001" in worker.ask("SMEMBERS", f"capability:{tool}:workers")
    assert worker.ask("SISMEMBER", "capability:jq:workers", "worker-macbook-001") == 1
    assert worker.ask("SMEMBERS", "capability:nosuch:workers") == []
    assert register(worker, worker_id="least", platform=None) == "OK worker_id=least heartbeat_interval=30"


def test_capabilities_may_be_one_list(worker):
    assert register(worker, worker_id="flat", capabilities=["ffmpeg"]).startswith("OK worker_id=flat")
    assert worker.ask("SMEMBERS", "capability:ffmpeg:workers") == [b"flat"]


@pytest.mark.parametrize("field", ["worker_id", "hostname", "agw_version", "capabilities"])
def test_a_field_that_is_required_is_missed_by_name(worker, field):
    refused = worker.call("WORKER.REGISTER", json.dumps({key: WORKER[key] for key in WORKER if key != field}))
    assert isinstance(refused, Refused) and refused.startswith("ERR ") and field in refused


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("worker_id", ""), ("worker_id", "a b"), ("worker_id", "a:b"), ("worker_id", "ä"), ("worker_id", "x" * 65),
        ("hostname", ""), ("hostname", "a\nb"), ("hostname", "h" * 300), ("agw_version", ""), ("agw_version", "1.2"), ("agw_version", "latest"),
        ("max_concurrent_jobs", 0), ("max_concurrent_jobs", 10**9), ("tags", {"a b": "x"}), ("tags", {"k": "v" * 5000}),
        ("worker_id", 7), ("hostname", 7), ("agw_version", None), ("platform", 7), ("max_concurrent_jobs", -1),
        ("max_concurrent_jobs", "4"),
        ("tags", "gpu"),
    ],
)
def test_a_field_that_is_wrong_is_named(worker, field, value):
    refused = register(worker, **{"worker_id": "wrong", field: value})
    assert isinstance(refused, Refused) and refused.startswith("ERR ")
    words = {"worker_id": ("worker_id", "worker id", "Worker ID")}.get(field, (field,))
    assert any(word in refused for word in words), refused


@pytest.mark.parametrize(
    "capabilities",
    [
        None, "sort", 7, {}, {"tools": "sort"}, {"agentic_units": ["a"]}, {"tools": [7]}, {"tools": ["a b"]},
        [["sort"]], [""],
    ],
)
def test_capabilities_that_cannot_be_read_are_refused_as_the_seed_says(worker, capabilities):
    assert register(worker, worker_id="wrong", capabilities=capabilities).startswith("ERR Invalid capabilities format")


@pytest.mark.parametrize("text", ["", "x", "[]", '"worker"', "{", "null"])
def test_a_registration_that_is_no_object_is_refused(worker, text):
    assert isinstance(worker.call("WORKER.REGISTER", text), Refused)
    assert worker.call("WORKER.REGISTER") == "ERR wrong number of arguments for 'worker.register' command"


def test_ids_may_have_64_letters_digits_hyphens_and_underscores(worker):
    name = "A-z_0" + "x" * 59
    assert register(worker, worker_id=name) == f"OK worker_id={name} heartbeat_interval=30"


def test_a_heartbeat_carries_stats(worker, admin):
    register(worker, worker_id="beating")
    assert worker.call("WORKER.HEARTBEAT", "beating") == "OK"
    assert admin.ask("GET", "worker:beating:stats") is None
    assert worker.call("WORKER.HEARTBEAT", "beating", json.dumps(STATS)) == "OK"
    assert json.loads(admin.ask("GET", "worker:beating:stats")) == STATS
    assert 115 <= admin.ask("TTL", "worker:beating:stats") <= 120
    assert worker.call("WORKER.HEARTBEAT", "nobody") == "ERR Worker not registered: nobody"
    for stats in ["", "x", "[]", "7", '{"a":'] + ['{"a":"' + "x" * 20_000 + '"}']:
        assert str(worker.call("WORKER.HEARTBEAT", "beating", stats)).startswith("ERR"), stats[:20]
    assert json.loads(admin.ask("GET", "worker:beating:stats")) == STATS, "a wrong one changes nothing"


def test_a_heartbeat_refreshes_the_sign_of_life(worker):
    register(worker, worker_id="fresh")
    ttl = lambda: worker.ask("TTL", "worker:fresh:alive")
    wait_until(ttl, lambda seconds: seconds <= 88, within_s=4, what="two seconds of the sign of life to pass")
    assert worker.call("WORKER.HEARTBEAT", "fresh") == "OK"
    assert ttl() >= 89


def test_unregistering_gives_jobs_back_at_once(worker, admin):
    register(worker, worker_id="leaving")
    admin.submit(job_id="left-behind", queue="leaving")
    assert worker.pop("queue:leaving")["job_id"] == "left-behind"
    assert worker.call("WORKER.UNREGISTER", "leaving") == "OK"
    admin.wait_for_status("left-behind", "pending", 2)
    assert admin.ask("EXISTS", "worker:leaving:alive", "worker:leaving:metadata") == 0
    assert b"leaving" not in admin.ask("SMEMBERS", "capability:sort:workers")
    assert worker.call("WORKER.HEARTBEAT", "leaving") == "ERR Worker not registered: leaving"
    assert str(worker.update("left-behind", status="completed", worker_id="leaving")).startswith("CANCELLED expired")
    assert admin.pop("queue:leaving", 2)["job_id"] == "left-behind"


def test_a_worker_leaves_once(worker):
    register(worker, worker_id="left")
    assert worker.call("WORKER.UNREGISTER", "left") == "OK"
    for command in ["WORKER.HEARTBEAT", "WORKER.UNREGISTER"]:
        assert worker.call(command, "left") == "ERR Worker not registered: left"
    assert worker.call("WORKER.UNREGISTER", "nobody") == "ERR Worker not registered: nobody"


def test_the_same_credential_takes_its_name_over_at_once(shared_server, worker, admin):
    assert register(worker, worker_id="mine").startswith("OK")
    admin.submit(job_id="of-mine", queue="mine")
    assert worker.pop("queue:mine")["job_id"] == "of-mine"
    with RespClient(shared_server, "worker") as again:
        assert register(again, worker_id="mine", hostname="moved").startswith("OK")
        assert json.loads(again.ask("GET", "worker:mine:metadata"))["hostname"] == "moved"
        assert again.update("of-mine", status="completed") == "OK", "it holds what it held"


def test_another_credential_does_not_get_the_name(shared_server, worker):
    assert register(worker, worker_id="taken").startswith("OK")
    _, key = shared_server.new_token("worker")
    with RespClient(shared_server, key=key) as other:
        assert register(other, worker_id="taken") == "ERR Worker ID already registered"
        for words in [("WORKER.HEARTBEAT", "taken"), ("WORKER.UNREGISTER", "taken")]:
            assert isinstance(other.call(*words), Refused), words
        assert isinstance(other.call("SET", "worker:taken:tools", "rm"), Refused)
        assert worker.call("WORKER.UNREGISTER", "taken") == "OK"
        assert register(other, worker_id="taken").startswith("OK"), "now it is free"


def test_a_name_outlives_its_connection_and_the_server(server):
    with RespClient(server, "worker") as client:
        assert register(client, worker_id="staying").startswith("OK")
    _, key = server.new_token("worker")
    with RespClient(server, key=key) as other:
        assert register(other, worker_id="staying") == "ERR Worker ID already registered"
    server.kill()
    server.start()
    with RespClient(server, "worker") as client:
        assert json.loads(client.ask("GET", "worker:staying:metadata"))["hostname"] == WORKER["hostname"]
        assert client.call("WORKER.HEARTBEAT", "staying") == "OK", "it need not register again"
        assert client.ask("EXISTS", "worker:staying:alive") == 1


def test_a_worker_that_was_killed_and_came_back_does_not_keep_its_old_jobs(shared_server):
    queue = "back-again"
    job = shared_server.submit("job", queue=queue, lease_ttl_ms=2_000)
    with RespClient(shared_server, "worker") as first:
        assert register(first, worker_id=queue).startswith("OK")
        assert first.pop(f"queue:{queue}")["job_id"] == job
    with RespClient(shared_server, "worker") as again, RespClient(shared_server, "worker") as other:
        assert register(again, worker_id=queue).startswith("OK")
        taken, deadline = None, time.monotonic() + 20
        while taken is None and time.monotonic() < deadline:
            assert again.call("WORKER.HEARTBEAT", queue) == "OK"
            taken = other.pop(f"queue:{queue}", 0.5)
        assert taken and taken["job_id"] == job, "its heartbeats do not renew what it held before"


def test_a_name_belongs_to_one_worker_at_both_doors(server):
    _, key = server.new_token("worker")
    names = lambda: sorted(one["worker_id"] for one in server.rest("GET", "/workers")["workers"])
    with RespClient(server, key=key) as other:
        with WireWorker(server.worker_url, server.tokens["worker"]).open() as connected:
            task_id = server.submit("shot.take")
            dispatch = connected.next_dispatch()
            assert register(other, worker_id="field-worker") == "ERR Worker ID already registered"
            assert isinstance(other.call("SET", "worker:field-worker:tools", "rm"), Refused)
            # An echo, which says nothing of the worker and ends nothing when its connection closes.
            with RespClient(server, key=key) as pings:
                assert pings.call("PING", "field-worker") == b"field-worker"
            assert connected.wait_for_ack(connected.result(dispatch))["info"] == "COMMITTED"
            assert server.settled(task_id)["attempt"] == 1
            with RespClient(server, "worker") as own:
                assert register(own, worker_id="field-worker").startswith("OK"), "its own credential"
        assert register(other, worker_id="redis-first").startswith("OK")
        assert names() == ["field-worker", "redis-first"]


def test_a_ping_with_another_credential_is_an_echo(server):
    _, key = server.new_token("worker")
    with RespClient(server, "worker") as worker, RespClient(server, "admin") as admin:
        assert register(worker, worker_id="pinged").startswith("OK")
        admin.submit(job_id="of-pinged", queue="pinged")
        assert worker.pop("queue:pinged")["job_id"] == "of-pinged"
        with RespClient(server, key=key) as other:
            assert other.call("PING", "pinged") == b"pinged"
        assert worker.update("of-pinged", status="completed") == "OK", "it still holds its job"


def test_only_workers_work(shared_server, admin):
    admin.submit(job_id="for-workers", queue="roles")
    with RespClient(shared_server, "client") as client:
        for words in [
            ("WORKER.REGISTER", json.dumps(WORKER)), ("BRPOP", "queue:roles", 1), ("RPOP", "queue:roles"),
            ("JOB.UPDATE", "for-workers", '{"status":"completed"}'), ("SET", "worker:x:tools", "a"),
        ]:
            assert str(client.call(*words)).startswith("NOPERM"), words
    with RespClient(shared_server, "worker") as client:
        submits = [("JOB.SUBMIT", "{}"), ("LPUSH", "queue:roles", "{}")]
        for words in [*submits, ("JOB.CANCEL", "for-workers"), ("QUEUE.PAUSE", "roles")]:
            assert str(client.call(*words)).startswith("NOPERM"), words
    with RespClient(shared_server, "viewer") as client:
        assert client.status("for-workers")["status"] == "pending"
        for words in [*submits, ("SET", "a", "1"), ("RPOP", "queue:roles"), ("PLAN.DELETE", "x"), ("DEL", "a")]:
            assert str(client.call(*words)).startswith("NOPERM"), words


def test_a_key_of_the_settings_speaks_for_its_worker_alone(tmp_path):
    """Seed 004 section 7.1."""
    keys = {"worker-001": "a1" * 32, "worker-002": "b2" * 32}
    settings = "[workers]\n" + "".join(f'"{name}" = "{key}"\n' for name, key in keys.items())
    server = Server(tmp_path, settings=settings).start()
    try:
        with RespClient(server, "admin") as admin, RespClient(server, key=keys["worker-001"]) as one:
            admin.submit(job_id="keyed", queue="keyed")
            assert register(one, worker_id="worker-001").startswith("OK")
            assert isinstance(register(one, worker_id="worker-002"), Refused)
            assert isinstance(one.call("SET", "worker:worker-002:tools", "rm"), Refused)
            popped = one.pop("queue:keyed")
            assert popped["worker_id"] == "worker-001"
            with RespClient(server, key=keys["worker-002"]) as two:
                assert str(two.update("keyed", status="completed")).startswith("REJECTED not_holder")
                lie = two.update("keyed", status="completed", worker_id="worker-001")
                assert str(lie).startswith("REJECTED not_holder")
                stolen = two.update("keyed", status="completed", lease_id=popped["lease_id"])
                assert str(stolen).startswith("REJECTED not_holder")
            wait_until(admin.n_connected, lambda n: n == 2, what="the server to notice that the liar is gone")
            assert one.update("keyed", status="completed", lease_id=popped["lease_id"]) == "OK"
        with RespClient(server) as wrong:
            assert wrong.call("AUTH", "worker-002", keys["worker-001"]).startswith("WRONGPASS")
            assert wrong.call("AUTH", "worker-001", keys["worker-001"]) == "OK"
    finally:
        server.stop()


def test_workers_that_only_ping_are_workers_too(worker, admin):
    assert worker.call("SET", "worker:pinger:tools", "sort,uniq") == "OK"
    assert worker.call("SET", "worker:pinger:tags", "cpu,fast") == "OK"
    assert worker.call("PING", "pinger") == b"pinger"
    assert admin.ask("GET", "worker:pinger:tools") == b"sort,uniq"
    assert admin.ask("GET", "worker:pinger:tags") == b"cpu,fast"
    assert admin.ask("TTL", "worker:pinger:alive") > 80
    assert b"pinger" in admin.ask("SMEMBERS", "capability:uniq:workers")
    for value in ["a b", "a;b"]:
        assert isinstance(worker.call("SET", "worker:pinger:tools", value), Refused), value
    assert worker.call("PING", "no name at all") == b"no name at all"


def test_tools_that_are_set_anew_replace_the_old_ones(worker, admin):
    worker.ask("SET", "worker:changing:tools", "first")
    worker.ask("SET", "worker:changing:tools", "second")
    assert admin.ask("SMEMBERS", "capability:second:workers") == [b"changing"]
    assert admin.ask("SMEMBERS", "capability:first:workers") == []


def test_a_worker_of_this_door_is_seen_at_the_others(shared_server, worker):
    register(worker, worker_id="seen-by-rest", max_concurrent_jobs=3)
    listed = {one["worker_id"]: one for one in shared_server.rest("GET", "/workers")["workers"]}
    assert "seen-by-rest" in listed
    worker.ask("WORKER.UNREGISTER", "seen-by-rest")
    listed = {one["worker_id"]: one for one in shared_server.rest("GET", "/workers")["workers"]}
    assert "seen-by-rest" not in listed or listed["seen-by-rest"]["health"] != "ok"


def test_workers_are_listed_newest_first(worker, admin):
    register(worker, worker_id="older", max_concurrent_jobs=2)
    lines = map(json.loads, admin.ask("WORKERS.LIST"))
    older_seen = next(line["last_seen"] for line in lines if line["worker_id"] == "older")
    seconds = lambda: int(admin.ask("TIME")[0])
    wait_until(seconds, lambda now: now > older_seen, within_s=3, what="the next second of the server's clock")
    register(worker, worker_id="newer", capabilities=["sort"])
    lines = [json.loads(line) for line in admin.ask("WORKERS.LIST")]
    by_id = {line["worker_id"]: line for line in lines}
    assert [name for name in by_id if name in ("older", "newer")] == ["newer", "older"]
    assert by_id["newer"]["status"] == "active" and by_id["newer"]["tools"] == ["sort"]
    assert abs(by_id["newer"]["last_seen"] - time.time()) < 5


def test_a_claim_is_verified_by_a_worker(worker, admin):
    """Seed 004 section 7.3: the challenge is executed, and the tool's words come back."""
    register(worker, worker_id="claims", capabilities=["agx-eye"])
    challenge = '{"command":"agx-eye","args":["--version"]}'
    admin.send("WORKER.VERIFY", "agx-eye", challenge)
    job = worker.pop("queue:default")
    assert (job["command"], job["args"]) == ("agx-eye", ["--version"])
    result = {"task_number": 1, "command": "agx-eye", "exit_code": 0, "stdout": "agx-eye 0.1.0\n", "stderr": ""}
    results = [{**result, "duration_ms": 1}]
    assert worker.update(job["job_id"], status="completed", task_results=results) == "OK"
    verified = admin.read()
    assert verified.startswith("OK") and 'output="agx-eye 0.1.0"' in verified
    assert "nosuch" in admin.call("WORKER.VERIFY", "nosuch", challenge)
    for wrong in ["", "[]", '{"args":[]}', '{"command":"a;b"}']:
        assert isinstance(admin.call("WORKER.VERIFY", "agx-eye", wrong), Refused), wrong


def test_what_a_tool_showed_is_listed_until_its_worker_registers_anew(server):
    def verified(admin):
        lines = (json.loads(line) for line in admin.ask("WORKERS.LIST"))
        return next(line["verified_tools"] for line in lines if line["worker_id"] == "shows")

    with RespClient(server, "admin") as admin, RespClient(server, "worker") as worker:
        register(worker, worker_id="shows", capabilities=["agx-eye"])
        admin.send("WORKER.VERIFY", "agx-eye", '{"command":"agx-eye","args":["--version"]}')
        job = worker.pop("queue:default")
        assert worker.update(job["job_id"], status="completed", stdout="agx-eye 0.1.0") == "OK"
        assert admin.read().startswith("OK")
        said = verified(admin)
        assert list(said) == ["agx-eye"]
    server.kill()
    server.start()
    with RespClient(server, "admin") as admin, RespClient(server, "worker") as worker:
        assert worker.call("WORKER.HEARTBEAT", "shows") == "OK"
        assert verified(admin) == said
        register(worker, worker_id="shows", capabilities=["agx-eye"])
        assert verified(admin) == {}


def test_a_claim_that_is_a_lie_is_told(worker, admin):
    register(worker, worker_id="lies", capabilities=["unicorn"])
    admin.send("WORKER.VERIFY", "lies", "unicorn", '{"command":"unicorn"}')
    job = worker.pop("queue:default")
    assert worker.update(job["job_id"], status="failed", error="no such program") == "OK"
    assert "no such program" in admin.read()


@pytest.mark.parametrize("signals", [True, False])
def test_a_drained_worker_is_told_to_be_quiet_if_it_understands(shared_server, worker, admin, signals):
    name = f"draining-{signals}".lower()
    register(worker, worker_id=name, signals=signals)
    assert worker.call("WORKER.HEARTBEAT", name) == "OK"
    shared_server.rest("POST", f"/workers/{name}/commands", {"type": "drain"})
    admin.submit(job_id=f"undone-{name}", queue=name)
    assert worker.call("WORKER.HEARTBEAT", name) == ("OK quiet" if signals else "OK")
    assert worker.pop(f"queue:{name}", 0.5) is None, "a drained worker gets nothing"
    shared_server.rest("POST", f"/workers/{name}/commands", {"type": "undrain"})
    assert worker.call("WORKER.HEARTBEAT", name) == "OK"
    assert worker.pop(f"queue:{name}")["job_id"] == f"undone-{name}"


def test_the_deadline_of_a_drain_survives_a_restart(server):
    with RespClient(server, "worker") as worker:
        register(worker, worker_id="leaving", signals=True)
        deadline = time.monotonic() + 3
        server.rest("POST", "/workers/leaving/commands", {"type": "drain", "deadline_ms": 3000})
        assert worker.call("WORKER.HEARTBEAT", "leaving") == "OK quiet"
    server.kill()
    server.start()
    with RespClient(server, "worker") as worker:
        beat = lambda: worker.call("WORKER.HEARTBEAT", "leaving")
        said = wait_until(beat, lambda said: said != "OK quiet", within_s=5, what="the order to leave")
        assert time.monotonic() < deadline + 2
        assert said == "OK terminate" and time.monotonic() > deadline - 0.1
        server.rest("POST", "/workers/leaving/commands", {"type": "undrain"})
        assert worker.call("WORKER.HEARTBEAT", "leaving") == "OK"
    server.kill()
    server.start()
    with RespClient(server, "worker") as worker:
        assert worker.call("WORKER.HEARTBEAT", "leaving") == "OK"


def test_a_worker_takes_no_more_than_it_can_do(worker, admin):
    register(worker, worker_id="two-hands", max_concurrent_jobs=2)
    for number in range(3):
        admin.submit(job_id=f"hand-{number}", queue="hands")
    first, second = worker.pop("queue:hands"), worker.pop("queue:hands")
    assert first and second and worker.pop("queue:hands", 0.5) is None
    assert worker.update(first["job_id"], status="completed") == "OK"
    assert worker.pop("queue:hands")["job_id"] == "hand-2"
