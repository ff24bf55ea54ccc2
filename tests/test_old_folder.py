"""A folder that an earlier version left in the middle of everything is opened and brought to its end.

The tests share one server and each finishes its own part, so the last one can say that nothing of
the folder was forgotten. `fixtures/README.md` says what the folder is and how another one is made.
"""

import json
import re
import sqlite3
import struct
import time
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from astra_server import Server
from flows import ended, node_id, nodes_of
from old_folder import CountingWorker, OldFolder, SessionWorker, asked, completed, granted, shifted
from resp_client import RespClient
from waiting import wait_until
from watcher import Watcher

FOLDERS = ["folder-7645a35", "folder-5c29f8a"]
# What the holders of these leases report before the server is killed once more: each of the runs
# has then gone a step in the form that this version writes, and is read back from it.
BEFORE_THE_KILL = {
    "map.each": lambda parameters: {"square": parameters["n"] ** 2},
    "sub.two": lambda _: {"y": 110},
    "each.two": lambda parameters: {"x": parameters["x"] * 10},
    "fan.c": lambda _: {"n": 3},
}
LIVE = ("WAITING", "QUEUED", "RETRYING", "RUNNING")
HAPPENS_WITHIN_S = 30
# Elements of a list that an earlier version could hold.
LARGE_LIST_LENGTH = 12_000


@dataclass
class Opened:
    """The server in the old folder, and how things stood right after its start."""

    server: Server
    about: dict
    tasks: dict[str, dict] = field(default_factory=dict)
    runs: dict[str, dict] = field(default_factory=dict)
    schedules: dict[str, dict] = field(default_factory=dict)
    verdicts: dict[str, dict] = field(default_factory=dict)
    # What was given to a worker that asked for tasks whose moment had not come.
    too_early: list[dict] = field(default_factory=list)

    def look(self) -> "Opened":
        get = lambda path: self.server.rest("GET", path)
        self.schedules = {name: get(f"/schedules/{one}") for name, one in self.about["schedules"].items()}
        self.tasks = {task["task_id"]: task for task in get("/tasks?limit=500")["tasks"]}
        self.too_early = asked(self.server, "hasty", n=9, queues=list(self.about["not_before"]))
        self.runs = {name: get(f"/runs/{run['run_id']}") for name, run in self.about["runs"].items()}
        return self

    def go_a_step(self) -> "Opened":
        for name, hand in BEFORE_THE_KILL.items():
            task = self.tasks[self.about["leases"][name]["lease_id"].rsplit("-", 1)[0]]
            result = hand(self.server.task(task["task_id"])["parameters"])
            self.verdicts[name] = self.report(name, result)
        return self

    def task(self, name: str) -> dict:
        """How a task stood."""
        return self.tasks[self.about["tasks"][name]]

    def settle(self, name: str, **wanted) -> dict:
        """A worker asks for the task and brings it to its end."""
        (lease,) = granted(self.server, "newcomer", queues=[name], wait_s=HAPPENS_WITHIN_S, **wanted)
        assert lease["task_id"] == self.about["tasks"][name] and lease["parameters"] == {"name": name}
        assert completed(self.server, lease["lease_id"], "newcomer", {"did": name})["verdict"] == "COMMITTED"
        task = self.server.settled(lease["task_id"])
        assert (task["state"], task["result"]) == ("COMPLETED", {"did": name})
        return task

    def report(self, name: str, result, **more) -> dict:
        """The holder of a lease of then reports under its old id."""
        lease = self.about["leases"][name]
        return completed(self.server, lease["lease_id"], lease["worker_id"], result, **more)

    def check_committed(self, name: str, verdict: dict) -> dict:
        assert verdict["verdict"] == "COMMITTED", (name, verdict)
        lease = self.about["leases"][name]
        task = self.server.settled(lease["lease_id"].rsplit("-", 1)[0])
        assert (task["state"], task["worker_id"], task["attempt"]) == ("COMPLETED", lease["worker_id"], 1)
        return task

    def finish_run(self, name: str, worker_id: str = "newcomer", **hands) -> dict:
        """Workers do what is left of a run. A hand makes a result of the parameters of its type."""
        run = self.about["runs"][name]
        types = {task_type.replace("_", "."): hand for task_type, hand in hands.items()}
        deadline = time.monotonic() + HAPPENS_WITHIN_S
        while (seen := self.server.rest("GET", f"/runs/{run['run_id']}"))["status"] in ("queued", "running"):
            assert time.monotonic() < deadline, json.dumps(seen)[:3000]
            wanted = {"types": list(types)} if types else {"queues": ["nothing-here"]}
            for lease in asked(self.server, worker_id, n=10, wait_s=0.2, **wanted):
                result = types[lease["type"]](lease["parameters"])
                assert completed(self.server, lease["lease_id"], worker_id, result)["verdict"] == "COMMITTED"
        assert (seen["status"], seen["outputs"]) == ("succeeded", run["outputs"]), json.dumps(seen)[:3000]
        return seen


def add_keys(data: Path) -> None:
    """Keys that the version of the folder could hold: some end, some are larger than a key may be now."""
    database = sqlite3.connect(data / "astra.db")
    (shard,) = database.execute("SELECT shard FROM scratch_keys WHERE key = x'74657874'").fetchone()
    soon_ms = int(time.time() * 1000) + 3_600_000
    place = lambda index: (index ^ 1 << 63).to_bytes(8, "big")
    keys = [
        (b"ending-hash", "hash", soon_ms, b"", [(b"field", b"value")]),
        (b"ending-zset", "zset", soon_ms, b"", [(b"low", struct.pack(">d", -1.5)), (b"high", struct.pack(">d", 20))]),
        (b"ended", "list", soon_ms - 7_200_000, b"", [(place(0), b"gone")]),
        (b"large-list", "list", None, b"", [(place(n), b"%d" % n) for n in range(LARGE_LIST_LENGTH)]),
        (b"large-hash", "hash", None, b"", [(b"field", b"x" * 300_000)]),
        (b"large-text", "string", None, b"x" * 2_000_000, []),
        (b"another-set", "set", None, b"", [(b"member", b"")]),
    ]
    for key, kind, expires_at, value, items in keys:
        database.execute("INSERT INTO scratch_keys VALUES (?, ?, ?, ?, ?)", (shard, key, kind, expires_at, value))
        rows = [(shard, key, item, of_item) for item, of_item in items]
        database.executemany("INSERT INTO scratch_items VALUES (?, ?, ?, ?)", rows)
    database.commit()
    database.close()


@pytest.fixture(scope="module", params=FOLDERS)
def old(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("old")
    about = OldFolder(request.param).open_in(folder / "data")
    add_keys(folder / "data")
    server = Server(folder, tokens=about["tokens"]).start()
    try:
        opened = Opened(server, about).look().go_a_step()
        server.kill()
        server.start()
        yield opened
    finally:
        server.stop()
        print(server.log.read_text())


@pytest.fixture(scope="module")
def chaining(old):
    """The worker that holds two middlewares of a chain and a task."""
    with SessionWorker.restored(old.server, old.about["sessions"]["chaining"]) as worker:
        accepted = worker.resume()
        assert accepted["resumed"] is True, accepted
        yield worker


# ----- how it is loaded


def test_the_loader_moves_moments_and_nothing_else():
    made, shift = 1_794_963_356_287, 3_600_000
    for text, moved in (
        ("VALUES(1794963356287,NULL)", "VALUES(1794966956287,NULL)"),
        ('{"at":"2026-11-18T00:55:56.287Z"}', '{"at":"2026-11-18T01:55:56.287Z"}'),
        ("order:1794963356287", "order:1794966956287"),
        ("1794963356287123", "1794963356287123"),
        ("X'1794963356287A'", "X'1794963356287A'"),
        ("1099511627776", "1099511627776"),
        ("1999-12-31T23:59:59Z", "1999-12-31T23:59:59Z"),
    ):
        assert shifted(text, made, shift) == moved


# ----- how it stood


def test_every_task_is_where_it_was(old):
    states = {name: old.task(name)["state"] for name in old.about["tasks"]}
    ready = ("ready", "keyed", "demanding", "first", "expired", "undelivered", "one-at-a-time-2", "paused", "for-the-drained")
    held = ("one-at-a-time-1", "held-by-http", "held-by-bound", "held-by-session", "counted")
    assert states == {
        "completed": "COMPLETED", "skipped": "COMPLETED", "failed": "FAILED", "dead": "DEAD", "stopped": "STOPPED",
        "second": "WAITING", "later": "WAITING", "in-backoff": "RETRYING", "timed-out": "RETRYING",
        **dict.fromkeys(ready, "QUEUED"), **dict.fromkeys(held, "RUNNING"),
    }


def test_every_task_still_asks_for_what_it_asked_for(old):
    """Values that the version of then left out are stated, with the defaults of then."""
    database = sqlite3.connect(f"{(old.server.data / 'astra.db').as_uri()}?mode=ro", uri=True)
    rows = database.execute("SELECT queue, json FROM tasks JOIN task_specs ON task_specs.id = spec_id").fetchall()
    database.close()
    specs = {queue: json.loads(text) for queue, text in rows}
    retry = {"max_attempts": 3, "backoff_ms": 1_000, "backoff_max_ms": 60_000}
    for name, told in (
        ("keyed", {}),
        ("ready", {"priority": 7}),
        ("dead", {"lease_ttl_ms": 100, "retry": retry | {"max_attempts": 1}}),
        ("expired", {"lease_ttl_ms": 100, "retry": retry | {"backoff_ms": 1}}),
        ("timed-out", {"timeout_ms": 100, "lease_ttl_ms": 600_000, "retry": retry | {"backoff_ms": 1}}),
    ):
        demand = {"queue": name, "task_type": f"task.{name}", "tools": [], "tags": {}, "package": None}
        usual = {"demand": demand, "priority": 0, "lease_ttl_ms": 30_000, "timeout_ms": None, "retry": retry}
        assert specs[name] == usual | told, name
    package = {"name": "shot", "version": "2.1.0"}
    asked_for = specs["demanding"]["demand"]
    assert (asked_for["tools"], asked_for["tags"], asked_for["package"]) == (["saw"], {"zone": "a"}, package)


def test_nothing_starts_before_its_moment(old):
    assert {name: old.task(name)["not_before"] for name in old.about["not_before"]} == old.about["not_before"]
    assert old.too_early == []


def test_what_was_settled_is_told_as_it_was(old):
    task = lambda name: old.server.task(old.about["tasks"][name])
    assert task("completed")["result"] == {"sum": 6} and task("completed")["worker_id"] == "puller"
    assert task("skipped")["result"] == {"kept": True}
    assert task("failed")["error"]["code"] == "E.WRONG" and task("failed")["error"]["details"] == {"line": 7}
    assert task("failed")["error"]["reason"] == "it did not work"
    endings = {name: task(name)["ended_attempts"][0]["ending"] for name in ("dead", "expired", "timed-out", "undelivered")}
    assert endings == {"dead": "EXPIRED", "expired": "EXPIRED", "timed-out": "TIMED_OUT", "undelivered": "UNDELIVERED"}


def test_ended_runs_are_told_as_they_were(old):
    assert {name: old.runs[name]["status"] for name in ("succeeded", "failed", "cancelled")} == {
        "succeeded": "succeeded", "failed": "failed", "cancelled": "cancelled",
    }
    assert old.runs["succeeded"]["outputs"] == old.about["runs"]["succeeded"]["outputs"]
    assert old.runs["failed"]["error"]["code"] == "E.BAD"


def test_the_ids_of_events_go_on_rising(old):
    with Watcher(old.server, "run.*") as watcher:
        told = int(watcher.next()["id"])
    assert told > old.about["event_floor"] >= old.about["seen_event_id"] > 0
    assert told < 2**53


# ----- tasks


def test_a_task_that_was_ready_is_granted(old):
    assert old.settle("ready")["priority"] == 7


def test_a_submit_with_a_known_key_makes_no_second_task(old):
    task = {"type": "task.keyed", "parameters": {"name": "keyed"}, "queue": "keyed", "idempotency_key": "order-1"}
    (again,) = old.server.rest("POST", "/tasks", {"tasks": [task]})["tasks"]
    assert again["task_id"] == old.about["tasks"]["keyed"] and again["existed"] is True
    status, text = old.server.call("POST", "/api/v1/tasks", {"tasks": [task | {"priority": 1}]})
    assert status == 409 and "E.TASK.IDEMPOTENCY" in text, text
    old.settle("keyed")


def test_a_task_that_demands_something_goes_to_a_worker_that_has_it(old):
    assert asked(old.server, "poor", queues=["demanding"]) == []
    old.settle("demanding", tools=["saw"], tags={"zone": "a"}, packages=[{"name": "shot", "version": "2.1.0"}])


def test_a_task_waits_for_the_one_before_it(old):
    assert asked(old.server, "newcomer", queues=["second"]) == []
    old.settle("first")
    assert old.settle("second")["after"] == [old.about["tasks"]["first"]]


@pytest.mark.parametrize("how", ["expired", "timed-out", "undelivered"])
def test_a_task_whose_attempt_was_lost_is_tried_again(old, how):
    task = old.settle(how)
    assert len(task["ended_attempts"]) == 1


def test_a_concurrency_key_is_held_until_its_holder_reports(old):
    assert asked(old.server, "newcomer", queues=["one-at-a-time-2"]) == []
    old.check_committed("one-at-a-time-1", old.report("one-at-a-time-1", {"done": 1}))
    old.settle("one-at-a-time-2")


@pytest.mark.parametrize("name", ["failed", "dead", "stopped"])
def test_a_task_that_ended_badly_is_requeued(old, name):
    old.server.rest("POST", f"/tasks/{old.about['tasks'][name]}/requeue", {})
    old.settle(name)


# ----- leases that were held


def test_a_worker_that_pulls_reports_under_its_old_lease(old):
    lease = old.about["leases"]["held-by-http"]
    beat = old.server.rest("POST", f"/leases/{lease['lease_id']}/heartbeat", {"worker_id": "puller"}, role="worker")
    assert beat["verdict"] == "EXTENDED"
    status, text = old.server.call("POST", f"/api/v1/leases/{lease['lease_id']}/complete", {"worker_id": "another"}, role="worker")
    assert json.loads(text)["verdict"] == "REJECTED" and json.loads(text)["reason"] == "not_holder", (status, text)
    task = old.check_committed("held-by-http", old.report("held-by-http", {"late": True}))
    assert task["result"] == {"late": True}
    again = completed(old.server, lease["lease_id"], "puller", {"late": True})
    assert again["verdict"] == "COMMITTED", "the same report again gets the same verdict"


def test_a_token_speaks_for_its_one_worker(old):
    body = {"worker_id": "puller"}
    assert old.server.call("POST", "/api/v1/leases", body, role="bound")[0] == 403
    old.check_committed("held-by-bound", old.report("held-by-bound", {"by": "bound"}, role="bound"))


def test_a_session_goes_on_and_its_lease_is_committed(old, chaining):
    dispatch = chaining.dispatch_of("ws.hold")
    assert dispatch["payload"]["task_id"] == old.about["tasks"]["held-by-session"]
    ack = chaining.wait_for_ack(chaining.result(dispatch, result={"from": "then"}))
    assert ack["info"] == "COMMITTED", ack
    task = old.server.settled(dispatch["payload"]["task_id"])
    assert (task["result"], task["attempt"]) == ({"from": "then"}, 1)
    assert chaining.resets == [] and chaining.dropped == []


def test_a_session_whose_token_an_older_key_signed_goes_on(old):
    with CountingWorker.restored(old.server, old.about["sessions"]["counting"]) as worker:
        assert worker.resume()["resumed"] is True
        (dispatch,) = worker.dispatches
        assert worker.wait_for_ack(worker.finish(dispatch))["info"] == "COMMITTED"
        assert old.server.settled(old.about["tasks"]["counted"])["attempt"] == 1


def test_a_forged_session_token_opens_nothing(old):
    forger = SessionWorker.restored(old.server, old.about["sessions"]["chaining"])
    forger.session = forger.session | {"session_token": forger.session["session_token"][:-4] + "AAAA"}
    with forger.connect():
        words = {key: forger.session[key] for key in ("session_id", "session_token")}
        forger.say("control.resume", {**words, "last_seen_seq": forger.base}, ack={"request": True})
        assert forger.wait_for_type("control.reset")["payload"]["code"].startswith("E.SESSION")


# ----- runs


def test_a_map_goes_on_with_the_elements_that_are_left(old):
    row = nodes_of(old.runs["map"])["each"]
    assert (row["map"]["total"], row["map"]["done"]) == (5, 2)
    old.check_committed("map.each", old.verdicts["map.each"])
    total = lambda parameters: {"total": sum(item["square"] for item in parameters["items"])}
    run = old.finish_run("map", map_each=BEFORE_THE_KILL["map.each"], map_total=total)
    assert nodes_of(run)["each"]["map"]["done"] == 5


def test_a_chain_goes_on_with_its_open_calls(old, chaining):
    outer, inner = (chaining.dispatch_of(f"chain.{name}") for name in ("outer", "inner"))
    old.check_committed("chain.host", old.report("chain.host", {"host": "second"}))
    answer = chaining.answer_to("inner-2")
    assert answer["result"] == {"host": "second"}, answer
    assert chaining.wait_for_ack(chaining.result(inner, result={"inner": answer["result"]}))["info"] == "COMMITTED"
    answer = chaining.answer_to("outer-2")
    result = {"calls": 2, **answer["result"]}
    assert chaining.wait_for_ack(chaining.result(outer, result=result))["info"] == "COMMITTED"
    old.finish_run("chain", chain_after=lambda parameters: {"got": parameters["calls"]})


def test_a_subgraph_goes_on_in_its_middle(old):
    old.check_committed("sub.two", old.verdicts["sub.two"])
    old.finish_run("subgraph", sub_end=lambda parameters: {"z": parameters["y"] + 1})


def test_a_list_of_subgraphs_goes_on_with_those_that_are_left(old):
    assert nodes_of(old.runs["list-of-subgraphs"])["boxes"]["map"]["done"] == 1
    old.check_committed("each.two", old.verdicts["each.two"])
    ten_times = BEFORE_THE_KILL["each.two"]
    old.finish_run("list-of-subgraphs", each_one=ten_times, each_two=ten_times)


def test_a_fan_out_comes_together(old):
    statuses = {alias: node["status"] for alias, node in nodes_of(old.runs["fan-out"]).items()}
    assert statuses == {"a": "succeeded", "b": "succeeded", "c": "running", "d": "queued", "never": "skipped", "e": "queued"}
    old.check_committed("fan.c", old.verdicts["fan.c"])
    old.finish_run("fan-out", fan_d=lambda _: {"n": 4}, fan_e=lambda _: {"n": 5})


def test_a_run_that_takes_up_another_reuses_what_was_done(old):
    run = old.finish_run("taken-up", again_bad=lambda parameters: {"n": parameters["n"] + 1})
    assert nodes_of(run)["good"]["reused"] is True
    assert run["retryOf"] == old.about["runs"]["failed"]["run_id"]


def test_a_run_stays_with_the_worker_that_a_person_gave_it_to(old):
    having = {"types": ["cut.two"], "packages": [{"name": "cut", "version": "1.0.0"}]}
    assert asked(old.server, "cutter-1", **having) == []
    (lease,) = granted(old.server, "cutter-2", **having)
    assert completed(old.server, lease["lease_id"], "cutter-2", {"by": "cutter-2"})["verdict"] == "COMMITTED"
    old.finish_run("rebound")


def test_a_run_stays_with_the_worker_that_has_its_key(old):
    if "pinned" not in old.about["runs"]:
        pytest.skip("the folder has no such run")
    old.finish_run("pinned", worker_id="sticker", pin_two=lambda _: {"by": "sticker"})


def test_an_approval_still_waits_for_its_word(old):
    run_id = old.about["runs"]["approval"]["run_id"]
    assert nodes_of(old.runs["approval"])["ask"]["status"] == "running"
    old.server.rest("POST", f"/runs/{run_id}/nodes/{node_id('ask')}/signal", {"approved": True})
    old.finish_run("approval", approval_after=lambda parameters: {"said": parameters["said"]})


def test_a_wait_for_an_event_still_hears_it(old):
    run_id = old.about["runs"]["event"]["run_id"]
    word = {"event": "delivered", "payload": {"carrier": "post"}}
    old.server.rest("POST", f"/runs/{run_id}/nodes/{node_id('wait')}/signal", word)
    old.finish_run("event")


def test_a_start_with_a_known_key_makes_no_second_run(old):
    run = old.about["runs"]["succeeded"]
    status, text = old.server.call("POST", "/api/v1/runs", run["body"], headers={"idempotency-key": "order-66"})
    again = json.loads(text)
    assert (again["runId"], again["existed"]) == (run["run_id"], True), (status, text)


# ----- what people set


def test_a_pause_still_holds_and_can_be_lifted(old):
    queues = {queue["queue"]: queue for queue in old.server.rest("GET", "/queues")["queues"]}
    assert queues["paused"]["paused"]["by"] and queues["paused"]["depth"] == 1
    assert asked(old.server, "newcomer", queues=["paused"], wait_s=0.5) == []
    old.server.rest("POST", "/queues/paused/resume", {})
    old.settle("paused")


def test_a_drain_still_holds_and_can_be_lifted(old):
    assert asked(old.server, "drained-puller", queues=["for-the-drained"], wait_s=0.5) == []
    worker = old.server.rest("GET", "/workers/drained-puller")
    assert worker["drained_by"] == ["person"]
    old.server.rest("POST", "/workers/drained-puller/commands", {"type": "undrain"})
    (lease,) = granted(old.server, "drained-puller", queues=["for-the-drained"])
    assert completed(old.server, lease["lease_id"], "drained-puller", None)["verdict"] == "COMMITTED"


def test_a_kept_workflow_is_there_in_each_version(old):
    workflow_id = old.about["workflow_id"]
    versions = old.server.rest("GET", f"/workflows/{workflow_id}/versions")["items"]
    assert sorted((one["version"], one["name"], one["comment"]) for one in versions) == [(1, "test", "first"), (2, "better", "second")]
    assert old.server.call("GET", f"/api/v1/workflows/{old.about['deleted_workflow_id']}")[0] == 404
    for body, task_type in (({"version": 1}, "saved.one"), ({}, "saved.two")):
        run = old.server.rest("POST", "/runs", {"workflowId": workflow_id, **body})
        old.about["runs"][task_type] = {"run_id": run["runId"], "outputs": {"n": 1}}
        old.finish_run(task_type, **{task_type.replace(".", "_"): lambda _: {"n": 1}})


def test_a_hook_starts_its_workflow(old):
    status, text = old.server.call("POST", old.about["hook"]["url"], {"commit": 7}, role="")
    assert status == 202, text
    run_id = json.loads(text)["runId"]
    old.about["runs"]["hooked"] = {"run_id": run_id, "outputs": {"n": 2}}
    run = old.finish_run("hooked", saved_two=lambda _: {"n": 2})
    assert run["inputs"]["body"] == {"commit": 7}
    assert run["startedBy"] == f"hook {old.about['hook']['hookId']}"


def test_tokens_open_what_they_opened(old):
    for role, path, status in (("viewer", "/tasks", 200), ("ending", "/tasks", 200), ("client", "/tokens", 403), ("revoked", "/tasks", 401)):
        old.server.tokens["revoked"] = old.about["revoked_token"]
        assert old.server.call("GET", f"/api/v1{path}", role=role)[0] == status, role


def test_another_tenant_has_its_own_part_of_the_folder(old):
    other = old.about["other"]
    said = completed(old.server, other["lease_id"], "puller", {"of": "other"}, role="other")
    assert said["verdict"] == "COMMITTED"
    assert asked(old.server, "puller", queues=["paused"], role="other", wait_s=0.5) == []
    old.server.rest("POST", "/queues/paused/resume", {}, role="other")
    (lease,) = granted(old.server, "puller", queues=["paused"], role="other")
    assert lease["task_id"] == other["tasks"][1]
    assert completed(old.server, lease["lease_id"], "puller", None, role="other")["verdict"] == "COMMITTED"
    assert old.server.call("GET", f"/api/v1/tasks/{other['tasks'][0]}")[0] == 404


# ----- the Redis door


@pytest.fixture
def redis(old):
    with RespClient(old.server, "admin") as client:
        yield client


def test_keys_of_every_type_read_back(redis):
    assert redis.ask("GET", "text") == b"a value"
    assert redis.ask("GET", b"\x00bytes\xff") == b"\x01\x02\xff"
    assert 3_000 < redis.ask("TTL", "passing") <= 3_600
    assert redis.ask("LRANGE", "list", 0, -1) == [b"a", b"b", b"c"]
    assert redis.ask("HGET", "hash", "one") == b"1" and redis.ask("HLEN", "hash") == 2
    assert redis.ask("ZRANGE", "zset", 0, -1, "WITHSCORES") == [b"low", b"1.5", b"high", b"20"]
    assert redis.ask("LPUSH", "list", "z") == 4 and redis.ask("LRANGE", "list", 0, 0) == [b"z"]
    assert redis.ask("HGETALL", "ending-hash") == [b"field", b"value"]
    assert redis.ask("ZRANGE", "ending-zset", 0, -1, "WITHSCORES") == [b"low", b"-1.5", b"high", b"20"]
    assert all(3_000 < redis.ask("TTL", key) <= 3_600 for key in ("ending-hash", "ending-zset"))
    assert redis.ask("EXISTS", "ended") == 0


@pytest.mark.parametrize(
    ("key", "read", "length", "writes", "limit"),
    [
        ("large-list", ["LRANGE", "large-list", 0, -1], 12_000, [["LPUSH", "large-list", "x"], ["RPOP", "large-list"]], "10000 elements"),
        ("large-hash", ["HGET", "large-hash", "field"], 300_000, [["HSET", "large-hash", "a", "b"], ["HDEL", "large-hash", "field"]], "262144 bytes"),
        ("large-text", ["GET", "large-text"], 2_000_000, [["SET", "large-text", "x"], ["INCR", "large-text"]], "1048576 bytes"),
    ],
)
def test_a_key_over_the_limits_can_be_read_and_deleted_and_not_changed(redis, key, read, length, writes, limit):
    assert len(redis.ask(*read)) == length
    for write in writes:
        assert limit in redis.call(*write), write
    assert len(redis.ask(*read)) == length
    assert redis.ask("DEL", key) == 1 and redis.ask("EXISTS", key) == 0


def test_sets_are_kept_aside_and_reported(old, redis):
    assert redis.ask("TYPE", "set") == "none"
    database = sqlite3.connect(old.server.folder / "data" / "astra.db")
    kept = database.execute("SELECT key, member FROM retired_sets ORDER BY key, member").fetchall()
    database.close()
    assert kept == [(b"another-set", b"member"), (b"set", b"x"), (b"set", b"y")]
    lines = [line for line in old.server.log.read_text().splitlines() if "retired_sets" in line]
    assert lines and all(re.search(r'keys"?[=:] ?2\b', line) for line in lines), lines


def test_a_worker_that_popped_reports_under_its_old_lease(old, redis):
    job = old.about["jobs"]["job-held"]
    assert asked(old.server, "newcomer", queues=["jobs-second"]) == []
    with RespClient(old.server, "worker") as worker:
        assert worker.call("WORKER.HEARTBEAT", "popper") == "OK", "it is still registered"
        report = {"status": "completed", "worker_id": "popper", "lease_id": job["lease_id"]}
        assert worker.update("job-held", **report) == "OK"
        assert redis.status("job-held")["status"] == "completed" and redis.status("job-held")["attempt"] == 1
        for name in ("job-ready", "job-second"):
            popped = worker.pop(f"queue:jobs-{name.removeprefix('job-')}")
            assert popped["job_id"] == name
            assert worker.update(name, status="completed") == "OK"


def test_plans_and_actions_go_on(old, redis):
    plan = redis.json("PLAN.GET", "dedupe")
    assert plan["plan_description"] == "sorts" and [task["command"] for task in plan["tasks"]] == ["sort", "uniq"]
    assert redis.json("ACTION.GET", "a-1")["job_ids"] == old.about["action"]["job_ids"]
    held = old.about["jobs"]["of-action"]
    with RespClient(old.server, "worker") as worker:
        report = {"status": "completed", "worker_id": "popper", "lease_id": held["lease_id"]}
        assert worker.update(held["job_id"], **report) == "OK"
        worker.register("popper", tools=("sort", "uniq"), signals=True, max_concurrent_jobs=8)
        last = worker.pop("queue:plans")
        done = old.about["jobs"]["of-action-done"]
        assert {last["job_id"], held["job_id"], done["job_id"]} == set(old.about["action"]["job_ids"])
        assert worker.update(last["job_id"], status="completed") == "OK"
    status = redis.json("ACTION.STATUS", "a-1")
    assert (status["jobs_total"], status["jobs_completed"]) == (3, 3), status


def test_a_queue_that_was_paused_at_the_redis_door_is_still_paused(old, redis):
    assert asked(old.server, "newcomer", queues=["jobs-paused"], wait_s=0.5) == []
    redis.ask("QUEUE.RESUME", "jobs-paused")
    (lease,) = granted(old.server, "newcomer", queues=["jobs-paused"])
    assert completed(old.server, lease["lease_id"], "newcomer", None)["verdict"] == "COMMITTED"


def test_a_drain_with_a_deadline_still_holds_at_the_redis_door(old):
    with RespClient(old.server, "worker") as worker:
        assert worker.call("WORKER.HEARTBEAT", "drained-popper") == "OK quiet"
        worker.register("drained-popper", signals=True)
        assert worker.pop("queue:jobs-drained", 0.5) is None
        old.server.rest("POST", "/workers/drained-popper/commands", {"type": "undrain"})
        assert worker.call("WORKER.HEARTBEAT", "drained-popper") == "OK"
        assert worker.pop("queue:jobs-drained")["job_id"] == "job-for-nobody"
        assert worker.update("job-for-nobody", status="completed") == "OK"


# ----- the clock


def test_a_schedule_goes_on_firing(old):
    before = old.schedules["often"]["lastRun"]
    now = until(old, "often", lambda now: now["lastRun"]["dueAt"] > before["dueAt"])
    assert now["inputs"] == {"a": 1} and now["overlap"] == "allow"
    run = ended(old.server, now["lastRun"]["runId"])
    assert run["status"] == "succeeded" and run["inputs"]["scheduledFor"] == now["lastRun"]["dueAt"]


def test_a_paused_schedule_fires_when_it_is_resumed(old):
    schedule = f"/schedules/{old.about['schedules']['paused']}"
    now = old.server.rest("GET", schedule)
    assert now["paused"] is True and "lastRun" not in now
    old.server.rest("POST", f"{schedule}/resume", {})
    now = until(old, "paused", lambda now: "lastRun" in now)
    old.server.rest("DELETE", schedule)
    assert ended(old.server, now["lastRun"]["runId"])["status"] == "succeeded"


def test_times_that_wait_in_line_start_one_after_another(old):
    opened = old.schedules["queue"]
    assert opened["waiting"] >= 2
    first = opened["lastRun"]
    assert old.server.rest("GET", f"/runs/{first['runId']}")["status"] == "running"
    approve(old, first["runId"])
    now = until(old, "queue", lambda now: now["lastRun"]["runId"] != first["runId"])
    waited = datetime.fromisoformat(now["lastRun"]["dueAt"]) - datetime.fromisoformat(first["dueAt"])
    assert waited == timedelta(seconds=2), "the one that waited longest"
    old.server.rest("DELETE", f"/schedules/{old.about['schedules']['queue']}")
    approve(old, now["lastRun"]["runId"])


def test_times_that_people_asked_for_start_one_after_another(old):
    times = old.about["backfilled"]["waiting"]
    assert len(times) == 3 and old.schedules["backfill"]["waiting"] == 2
    for due in times:
        now = until(old, "backfill", lambda now: now["lastRun"]["dueAt"] == due)
        approve(old, now["lastRun"]["runId"])
    assert not now.get("waiting")


# ----- what had to wait longest


def test_a_task_starts_at_the_moment_that_it_was_given(old):
    task = old.settle("later")
    assert task["settled_at"] > old.about["not_before"]["later"]


def test_a_task_is_tried_again_after_its_backoff(old):
    task = old.settle("in-backoff")
    assert task["attempt"] == 2 and len(task["ended_attempts"]) == 1


def test_a_delay_ends(old):
    assert nodes_of(old.runs["delay"])["delay"]["status"] == "running"
    old.finish_run("delay", delay_after=lambda parameters: {"n": parameters["n"]})


def test_nothing_of_the_folder_is_left(old):
    """The last of this file: the tests before it have finished everything."""
    old.server.rest("DELETE", f"/schedules/{old.about['schedules']['often']}")
    open_tasks = {task["task_id"] for task in old.server.rest("GET", f"/tasks?limit=500&state={','.join(LIVE)}")["tasks"]}
    assert open_tasks & old.tasks.keys() == set()
    runs = old.server.rest("GET", "/runs?limit=200")["items"]
    assert [run for run in runs if run["runId"] and run["status"] in ("queued", "running")] == []


def until(old: Opened, schedule: str, is_so) -> dict:
    look = lambda: old.server.rest("GET", f"/schedules/{old.about['schedules'][schedule]}")
    return wait_until(look, is_so, within_s=HAPPENS_WITHIN_S, what=f"schedule {schedule} to be as wanted")


def approve(old: Opened, run_id: str) -> None:
    old.server.rest("POST", f"/runs/{run_id}/nodes/{node_id('ask')}/signal", {"approved": True})
    run = ended(old.server, run_id)
    assert (run["status"], run["outputs"]) == ("succeeded", {"said": True})
