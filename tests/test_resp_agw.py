"""Unmodified AGX programs against the Redis door (WIRE E)."""

import json
import time

import pytest

from agw import Agw, agx
from resp_client import Refused, RespClient

STEP = {"plan_id": "step", "tasks": [{"task_number": 1, "command": "sort", "args": ["-u"]}]}
PIPE = {
    "job_id": "ignored", "plan_id": "pipe", "plan_description": "two steps",
    "tasks": [
        {"task_number": 1, "command": "sort", "args": [], "timeout_secs": 300},
        {"task_number": 2, "command": "uniq", "args": ["-c"], "timeout_secs": 300, "input_from_task": 1},
    ],
}


@pytest.fixture
def admin(server):
    with RespClient(server, "admin") as client:
        yield client


@pytest.fixture(params=[False, True], ids=["HEAD", "OLD"])
def agw(server, request):
    worker = Agw(server, "agw-1", old=request.param)
    yield worker
    worker.close()


def submit(admin, plan: dict, action_id: str = "a1", inputs=({"text": "b"},)) -> list[str]:
    admin.ask("PLAN.SUBMIT", json.dumps(plan))
    made = admin.json("ACTION.SUBMIT", json.dumps({"action_id": action_id, "plan_id": plan["plan_id"], "inputs": list(inputs)}))
    return made["job_ids"]


def test_agw_takes_executes_and_finishes(admin, agw):
    (job_id,) = submit(admin, PIPE if agw.old else STEP)
    popped = agw.fetch()
    job, tasks = agw.job(popped)
    assert admin.status(job_id)["status"] == "running"
    assert [task["command"] for task in tasks] == (["sort", "uniq"] if agw.old else ["sort"])
    assert agw.finish(popped, job, "a\nb\n") == 1
    status = admin.status(job_id)
    assert status["status"] == "completed" and status["worker_id"] == "agw-1"
    assert admin.ask("GET", f"job:{job_id}:stdout") == b"a\nb\n"
    assert admin.json("ACTION.STATUS", "a1")["jobs_completed"] == 1
    assert agw.fetch(0.1) is None


def test_agw_reports_a_failure(admin, agw):
    (job_id,) = submit(admin, PIPE if agw.old else STEP)
    agw.work(status="failed")
    assert admin.status(job_id)["status"] in ("failed", "dead")
    assert admin.json("ACTION.STATUS", "a1")["jobs_failed"] == 1


def test_a_closed_connection_gives_the_job_back_at_once(server, admin, agw):
    (job_id,) = submit(admin, PIPE if agw.old else STEP)
    agw.job(agw.fetch())
    began = time.monotonic()
    agw.close()
    other = Agw(server, "agw-2", old=agw.old)
    job, _ = other.job(other.fetch())
    assert time.monotonic() - began < 2 and job["job_id"] == job_id
    other.close()


def test_a_pop_whose_answer_was_lost_goes_back_at_the_next_ping(server, admin, agw):
    """WIRE E.6.3: a heartbeat ticks, redis-rs throws the pending answer away."""
    submit(admin, PIPE if agw.old else STEP)
    lost = agw.fetch()
    agw.heartbeat()
    other = Agw(server, "agw-2", old=agw.old)
    assert other.work(2) is not None
    # It never knew of the job, and goes on.
    assert lost and agw.fetch(0.1) is None
    other.close()


def test_a_pop_whose_answer_was_lost_goes_back_at_the_next_pop(admin, agw):
    (job_id,) = submit(admin, PIPE if agw.old else STEP)
    assert agw.fetch()
    assert agw.work(2)["job_id"] == job_id
    assert admin.status(job_id)["status"] == "completed"


def test_a_pop_that_was_heard_of_is_kept_over_pings(server, admin, agw):
    (job_id,) = submit(admin, PIPE if agw.old else STEP)
    popped = agw.fetch()
    job, _ = agw.job(popped)
    for _ in range(3):
        agw.heartbeat()
    other = Agw(server, "agw-2", old=agw.old)
    assert other.fetch(0.3) is None
    assert agw.finish(popped, job, "x") == 1 and admin.status(job_id)["status"] == "completed"
    other.close()


def test_a_late_report_is_answered_ok_and_does_not_count(server, admin, agw):
    """WIRE E.6.4: anything but OK would make agw try again and leave."""
    (job_id,) = submit(admin, PIPE if agw.old else STEP)
    popped = agw.fetch()
    job, _ = agw.job(popped)
    assert admin.call("JOB.CANCEL", job_id) == "OK"
    agw.finish(popped, job, "late")
    assert admin.status(job_id)["status"] == "cancelled"
    (second,) = submit(admin, PIPE if agw.old else STEP, "a2")
    popped = agw.fetch()
    job, _ = agw.job(popped)
    agw.finish(popped, job, "once")
    agw.finish(popped, job, "twice", "failed")
    assert admin.status(second)["status"] == "completed" and admin.ask("GET", f"job:{second}:stdout") == b"once"


def test_head_agw_is_given_single_commands_alone(server, admin):
    """It never feeds stdin, so a pipeline would hang it."""
    head = Agw(server, "head")
    submit(admin, PIPE, "a-pipe")
    assert head.fetch(0.3) is None
    submit(admin, STEP, "a-step")
    assert head.work(2)["command"] == "sort"
    old = Agw(server, "old", old=True)
    assert old.work(2)["plan_id"] == "pipe"
    head.close(), old.close()


def test_old_agw_is_given_what_it_can_fetch(server, admin):
    """OLD agw asks `GET job:<popped>`: the popped value must lead there, and the plan must be kept."""
    old = Agw(server, "old", old=True)
    admin.submit(command="sort", args=["-u"], queue="ready")
    assert old.work(2) is not None
    old.close()


def test_a_whole_action_is_worked_off_by_both(server, admin):
    head, old = Agw(server, "head"), Agw(server, "old", old=True)
    jobs = submit(admin, STEP, "a-step", range(10)) + submit(admin, PIPE, "a-pipe", range(10))
    done = []
    while (job := head.work(0.3)) is not None:
        done.append(job["job_id"])
    while (job := old.work(0.3)) is not None:
        done.append(job["job_id"])
    assert sorted(done) == sorted(jobs)
    assert admin.json("ACTION.STATUS", "a-pipe")["status"] == admin.json("ACTION.STATUS", "a-step")["status"] == "completed"
    head.close(), old.close()


def test_tools_of_agw_decide_what_it_gets(server, admin):
    sorter, cutter = Agw(server, "sorter", tools="sort"), Agw(server, "cutter", tools="cut")
    submit(admin, STEP)
    assert cutter.fetch(0.3) is None and sorter.work(2)["command"] == "sort"
    sorter.close(), cutter.close()


def test_agw_is_not_cut_off_between_heartbeats(server):
    worker = Agw(server, "quiet")
    time.sleep(8)
    worker.heartbeat()
    worker.close()


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


def test_every_plan_can_be_used_as_soon_as_it_is_answered(server):
    for number in range(20):
        plan = {**STEP, "plan_id": f"p{number}"}
        with RespClient(server, "client") as one, RespClient(server, "client") as two:
            assert one.call("PLAN.SUBMIT", json.dumps(plan)) == f"p{number}".encode()
            made = two.json("ACTION.SUBMIT", json.dumps({"action_id": f"a{number}", "plan_id": f"p{number}", "inputs": []}))
            assert made["jobs_created"] == 1
