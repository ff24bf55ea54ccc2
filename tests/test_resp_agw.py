"""Unmodified AGX programs against the Redis door."""

import itertools
import json
import time

import pytest

from agw import Agw, agx
from astra_server import Server
from resp_client import Refused, RespClient

STEP = {"plan_id": "step", "tasks": [{"task_number": 1, "command": "sort", "args": ["-u"]}]}
PIPE = {
    "job_id": "ignored", "plan_id": "pipe", "plan_description": "two steps",
    "tasks": [
        {"task_number": 1, "command": "sort", "args": [], "timeout_secs": 300},
        {"task_number": 2, "command": "uniq", "args": ["-c"], "timeout_secs": 300, "input_from_task": 1},
    ],
}
NUMBERS = itertools.count()


@pytest.fixture
def admin(shared_server):
    """An admin; both queues are empty again at the end."""
    with RespClient(shared_server, "admin") as client:
        yield client
        for status in ("pending", "running", "scheduled"):
            for line in client.ask("JOBS.LIST", status):
                client.call("JOB.CANCEL", json.loads(line)["job_id"])


@pytest.fixture
def start(shared_server):
    """Starts workers; they are gone at the end."""
    workers = []

    def start(**options) -> Agw:
        workers.append(Agw(shared_server, f"agw-{next(NUMBERS)}", **options))
        return workers[-1]

    yield start
    for worker in workers:
        worker.close()


@pytest.fixture(params=[False, True], ids=["HEAD", "OLD"])
def agw(start, request):
    return start(old=request.param)


def submit(admin, plan: dict, inputs=(None,)) -> tuple[str, list[str]]:
    """The action and its jobs. HEAD agw knows no inputs, so there is none unless a test says so."""
    admin.ask("PLAN.SUBMIT", json.dumps(plan))
    action = {"action_id": f"a-{next(NUMBERS)}", "plan_id": plan["plan_id"], "inputs": list(inputs)}
    return action["action_id"], admin.json("ACTION.SUBMIT", json.dumps(action))["job_ids"]


def submit_one(admin, agw) -> str:
    """A job that this worker can do."""
    _, (job_id,) = submit(admin, PIPE, [{"text": "b"}]) if agw.old else submit(admin, STEP)
    return job_id


def test_agw_takes_executes_and_finishes(admin, agw):
    action_id, (job_id,) = submit(admin, PIPE, [{"text": "b"}]) if agw.old else submit(admin, STEP)
    popped = agw.fetch()
    job, tasks = agw.job(popped)
    assert admin.status(job_id)["status"] == "running"
    assert [task["command"] for task in tasks] == (["sort", "uniq"] if agw.old else ["sort"])
    assert agw.finish(popped, job, "a\nb\n") == 1
    status = admin.status(job_id)
    assert (status["status"], status["worker_id"]) == ("completed", agw.worker_id)
    assert admin.ask("GET", f"job:{job_id}:stdout") == b"a\nb\n"
    assert admin.json("ACTION.STATUS", action_id)["jobs_completed"] == 1
    assert agw.fetch(0.1) is None


def test_agw_reports_a_failure(admin, agw):
    job_id = submit_one(admin, agw)
    agw.work(status="failed")
    assert admin.status(job_id)["status"] in ("failed", "dead")


def test_a_closed_connection_gives_the_job_back_at_once(start, admin, agw):
    job_id = submit_one(admin, agw)
    agw.job(agw.fetch())
    began = time.monotonic()
    agw.close()
    other = start(old=agw.old)
    job, _ = other.job(other.fetch())
    assert time.monotonic() - began < 2 and job["job_id"] == job_id


def test_a_pop_whose_answer_was_lost_goes_back_at_the_next_ping(start, admin, agw):
    """A heartbeat ticks, redis-rs throws the pending answer away."""
    submit_one(admin, agw)
    assert agw.fetch()
    agw.heartbeat()
    assert start(old=agw.old).work(2) is not None
    assert agw.fetch(0.1) is None, "it never knew of the job, and goes on"


def test_a_pop_whose_answer_was_lost_goes_back_at_the_next_pop(admin, agw):
    job_id = submit_one(admin, agw)
    assert agw.fetch()
    assert agw.work(2)["job_id"] == job_id
    assert admin.status(job_id)["status"] == "completed"


def test_a_pop_that_was_heard_of_is_kept_over_pings(start, admin, agw):
    job_id = submit_one(admin, agw)
    popped = agw.fetch()
    job, _ = agw.job(popped)
    for _ in range(3):
        agw.heartbeat()
    assert start(old=agw.old).fetch(0.3) is None
    assert agw.finish(popped, job, "x") == 1 and admin.status(job_id)["status"] == "completed"


def test_a_late_report_is_answered_ok_and_does_not_count(admin, agw):
    """Anything but OK would make agw try again and leave."""
    job_id = submit_one(admin, agw)
    popped = agw.fetch()
    job, _ = agw.job(popped)
    assert admin.call("JOB.CANCEL", job_id) == "OK"
    agw.finish(popped, job, "late")
    assert admin.status(job_id)["status"] == "cancelled"


def test_a_second_report_is_answered_ok_and_does_not_count(admin, agw):
    job_id = submit_one(admin, agw)
    popped = agw.fetch()
    job, _ = agw.job(popped)
    agw.finish(popped, job, "once")
    agw.finish(popped, job, "twice", "failed")
    assert admin.status(job_id)["status"] == "completed" and admin.ask("GET", f"job:{job_id}:stdout") == b"once"


@pytest.mark.parametrize(("plan", "inputs"), [(PIPE, [None]), (STEP, [{"text": "b"}])], ids=["pipe", "input"])
def test_head_agw_is_not_given_what_needs_a_stdin(start, admin, plan, inputs):
    """It never feeds one: the job would be done without its input, or hang."""
    submit(admin, plan, inputs)
    assert start().fetch(0.3) is None
    assert start(old=True).work(2)["plan_id"] == plan["plan_id"]


def test_old_agw_takes_single_commands_too(start, admin):
    submit(admin, STEP)
    assert start(old=True).work(2)["plan_id"] == "step"


def test_old_agw_can_fetch_the_plan_of_every_job(start, admin):
    """It asks `GET plan:<plan_id>`, also when the job brought its plan along."""
    admin.submit(tasks=PIPE["tasks"])
    assert start(old=True).work(2) is not None


def test_whole_actions_are_worked_off_by_both(start, admin):
    head, old = start(), start(old=True)
    (steps, step_jobs), (pipes, pipe_jobs) = submit(admin, STEP, [None] * 10), submit(admin, PIPE, range(10))
    done = []
    for worker in (head, old):
        while (job := worker.work(0.3)) is not None:
            done.append(job["job_id"])
    assert sorted(done) == sorted(step_jobs + pipe_jobs)
    assert {admin.json("ACTION.STATUS", action)["status"] for action in (steps, pipes)} == {"completed"}


def test_tools_of_agw_decide_what_it_gets(start, admin):
    sorter, cutter = start(tools="sort"), start(tools="cut")
    submit(admin, STEP)
    assert cutter.fetch(0.3) is None and sorter.work(2)["command"] == "sort"


def test_agw_is_not_cut_off_between_heartbeats(shared_server, start):
    worker = start()
    with RespClient(shared_server) as stranger:
        assert stranger.is_closed_within(8), "one that shows no key is cut off meanwhile"
    worker.heartbeat()


def test_agx_plans_and_actions(server):
    assert agx(server, "PLAN.SUBMIT", json.dumps(PIPE)) == b"pipe"
    listed = [json.loads(line) for line in agx(server, "PLAN.LIST")]
    (plan,) = listed
    assert plan["plan_id"] == "pipe" and plan["task_count"] == 2 and isinstance(plan["created_at"], str)
    assert plan["description"] == plan["plan_description"] == "two steps"
    assert [task["command"] for task in json.loads(agx(server, "PLAN.GET", "pipe"))["tasks"]] == ["sort", "uniq"]
    assert isinstance(agx(server, "PLAN.GET", "nosuch"), Refused)
    made = json.loads(agx(server, "ACTION.SUBMIT", '{"action_id":"a1","plan_id":"pipe","inputs":[]}'))
    assert (made["action_id"], made["plan_id"], made["plan_description"]) == ("a1", "pipe", "two steps")
    assert made["jobs_created"] == len(made["job_ids"]) == 1
    (job,) = agx(server, "JOBS.LIST")
    assert json.loads(job)["job_id"] == made["job_ids"][0]


def test_agx_numbers_and_workers(server):
    worker = Agw(server, "agw-1", tools="sort,uniq")
    (line,) = agx(server, "WORKERS.LIST")
    shown = json.loads(line)
    assert shown["worker_id"] == "agw-1" and shown["status"] and sorted(shown["tools"]) == ["sort", "uniq"]
    assert isinstance(shown["last_seen"], int)
    stats = agx(server, "QUEUE.STATS")
    assert stats[:4] == [b"pending_jobs", 0, b"scheduled_jobs", 0]
    assert all(isinstance(one, (bytes, int)) for one in stats), "strings and numbers, as agx reads them"
    worker.close()


def test_every_plan_can_be_used_as_soon_as_it_is_answered(shared_server):
    for number in range(20):
        plan = {**STEP, "plan_id": f"p{number}"}
        with RespClient(shared_server, "client") as one, RespClient(shared_server, "client") as two:
            assert one.call("PLAN.SUBMIT", json.dumps(plan)) == f"p{number}".encode()
            made = two.json("ACTION.SUBMIT", {"action_id": f"soon-{number}", "plan_id": f"p{number}", "inputs": []})
            assert made["jobs_created"] == 1


def test_the_shapes_of_the_old_server_can_be_had(tmp_path):
    """A setting, for clients that were made for it."""
    server = Server(tmp_path, settings='resp_compat = "agq"\n').start()
    try:
        with RespClient(server) as stranger:
            assert stranger.call("GET", "a") == "ERR NOAUTH Authentication required"
        with RespClient(server, "admin") as client:
            client.submit(job_id="shaped", queue="shaped")
            assert json.loads(client.ask("BRPOP", "queue:shaped", 1))["job_id"] == "shaped"
            client.write(b"BRPOP queue:shaped 0.01\r\nBRPOP none 0.01\r\n")
            assert client.take(10) == b"$-1\r\n$-1\r\n"
            client.ask("LPUSH", "list", "value")
            assert client.ask("BRPOP", "list", 1) == b"value"
            client.ask("ZADD", "sorted", 1, "a")
            client.ask("ZADD", "sorted", 2, "b")
            assert client.ask("ZRANGE", "sorted", 0, -1) == [b"a", b"1", b"b", b"2"]
            assert client.ask("ZRANGEBYSCORE", "sorted", 1, 2) == [b"a", b"1", b"b", b"2"]
    finally:
        server.stop()
