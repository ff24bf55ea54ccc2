"""Plans and actions at the Redis door."""

import json

import pytest

from resp_client import Refused, RespClient

DEDUPE = [{"task_number": 1, "command": "sort"}, {"task_number": 2, "command": "uniq", "input_from_task": 1}]


@pytest.fixture
def client(shared_server):
    with RespClient(shared_server, "admin") as client:
        yield client


def submit_plan(client, plan_id: str, tasks=None, **more):
    return client.call("PLAN.SUBMIT", json.dumps({"plan_id": plan_id, "tasks": tasks or DEDUPE, **more}))


def submit_action(client, action_id: str, plan_id: str, inputs, **more):
    action = {"action_id": action_id, "plan_id": plan_id, "inputs": inputs, **more}
    return client.call("ACTION.SUBMIT", action)


def test_a_plan_is_kept_shown_listed_and_deleted(client):
    assert submit_plan(client, "kept", plan_description="what it does") == b"kept"
    plan = client.json("PLAN.GET", "kept")
    assert plan["plan_id"] == "kept" and plan["plan_description"] == "what it does"
    assert [(task["task_number"], task["command"]) for task in plan["tasks"]] == [(1, "sort"), (2, "uniq")]
    assert plan["tasks"][1]["input_from_task"] == 1
    listed = {line["plan_id"]: line for line in map(json.loads, client.ask("PLAN.LIST"))}
    assert listed["kept"]["task_count"] == 2 and isinstance(listed["kept"]["created_at"], str)
    assert client.call("PLAN.DELETE", "kept") == "OK"
    assert client.call("PLAN.GET", "kept") == "ERR Plan not found: kept"
    assert client.call("PLAN.DELETE", "kept") == "ERR Plan not found: kept"


def test_a_plan_is_submitted_once(client):
    assert submit_plan(client, "once") == b"once"
    assert submit_plan(client, "once") == b"once", "the same again is a resend"
    other = submit_plan(client, "once", [{"task_number": 1, "command": "cat"}])
    assert isinstance(other, Refused) and "exists" in other and "once" in other


def test_plans_are_listed_by_pattern_and_in_pages(client):
    for number in range(5):
        submit_plan(client, f"page-{number}")
    names = lambda *words: [json.loads(line)["plan_id"] for line in client.ask("PLAN.LIST", *words)]
    assert sorted(names("page-*")) == [f"page-{number}" for number in range(5)]
    assert len(names("page-*", "LIMIT", 2)) == 2
    assert len(names("page-*", "LIMIT", 2, "OFFSET", 4)) == 1
    assert names("none-*") == []


@pytest.mark.parametrize(
    ("plan", "named"),
    [
        ("{", "plan"), ("[]", "plan"), ("{}", "plan_id"), ('{"plan_id":"p"}', "tasks"),
        ('{"plan_id":"p","tasks":[]}', "tasks"),
        ('{"plan_id":"a b","tasks":[{"task_number":1,"command":"ls"}]}', "plan_id"),
        ('{"plan_id":"p","tasks":[{"task_number":2,"command":"ls"}]}', "task_number"),
        ('{"plan_id":"p","tasks":[{"task_number":1}]}', "command"),
        ('{"plan_id":"p","tasks":[{"task_number":1,"command":""}]}', "command"),
        ('{"plan_id":"p","tasks":[{"task_number":1,"command":"rm;ls"}]}', "command"),
        ('{"plan_id":"p","tasks":[{"task_number":1,"command":"../sh"}]}', "command"),
        ('{"plan_id":"p","tasks":[{"task_number":1,"command":"ls","args":["$(id)"]}]}', "args"),
        ('{"plan_id":"p","tasks":[{"task_number":1,"command":"ls","args":["a\\nb"]}]}', "args"),
        ('{"plan_id":"p","tasks":[{"task_number":1,"command":"ls","args":"x"}]}', "args"),
        ('{"plan_id":"p","tasks":[{"task_number":1,"command":"ls","timeout_secs":0}]}', "timeout_secs"),
        ('{"plan_id":"p","tasks":[{"task_number":1,"command":"ls","input_from_task":1}]}', "input_from_task"),
        ({"plan_id": "p", "tasks": [{"task_number": n + 1, "command": "ls"} for n in range(101)]}, "tasks"),
    ],
)
def test_a_plan_that_would_hurt_a_worker_is_refused_by_field(client, plan, named):
    """One such job would end every AGX worker that pops it."""
    refused = client.call("PLAN.SUBMIT", plan)
    assert isinstance(refused, Refused) and refused.startswith("ERR ") and named in refused, refused
    assert client.call("PLAN.GET", "p") == "ERR Plan not found: p"


def test_an_action_makes_a_job_for_each_input(client):
    submit_plan(client, "each", plan_description="sorts")
    made = json.loads(submit_action(client, "a-each", "each", [{"text": "b"}, {"text": "a"}, "plain"]))
    assert (made["action_id"], made["plan_id"], made["plan_description"]) == ("a-each", "each", "sorts")
    assert made["jobs_created"] == len(made["job_ids"]) == len(set(made["job_ids"])) == 3
    jobs = [client.json("JOB.GET", job) for job in made["job_ids"]]
    assert [job["input"] for job in jobs] == [{"text": "b"}, {"text": "a"}, "plain"]
    assert all(job["action_id"] == "a-each" and job["plan_id"] == "each" for job in jobs)


def test_jobs_of_an_action_are_numbered_by_their_inputs(client):
    submit_plan(client, "numbered")
    made = json.loads(submit_action(client, "a-numbered", "numbered", [5, 6, 7]))
    assert [client.json("JOB.GET", job).get("input_index") for job in made["job_ids"]] == [0, 1, 2]


def test_the_same_action_again_is_the_same_action(client):
    submit_plan(client, "again")
    first = submit_action(client, "a-again", "again", [1, 2])
    assert submit_action(client, "a-again", "again", [1, 2]) == first
    assert "exists" in submit_action(client, "a-again", "again", [1, 2, 3])
    assert client.json("ACTION.STATUS", "a-again")["jobs_total"] == 2


@pytest.mark.parametrize(
    ("action", "named"),
    [
        ("{", "action"), ("{}", "action_id"), ('{"action_id":"a"}', "plan_id"),
        ('{"action_id":"a","plan_id":"nosuch"}', "nosuch"), ('{"action_id":"a b","plan_id":"again"}', "action_id"),
        ('{"action_id":"a","plan_id":"again","inputs":7}', "inputs"),
        ('{"action_id":"a","plan_id":"again","inputs":' + json.dumps([0] * 1001) + "}", "inputs"),
        ('{"action_id":"a","plan_id":"again","inputs":[1],"priority":"high"}', "priority"),
    ],
)
def test_an_action_that_cannot_be_is_refused_by_field(client, action, named):
    submit_plan(client, "again")
    refused = client.call("ACTION.SUBMIT", action)
    assert isinstance(refused, Refused) and named in refused, refused


def test_an_action_counts_its_jobs(client):
    submit_plan(client, "counted")
    made = json.loads(submit_action(client, "a-counted", "counted", [1, 2, 3, 4], queue="counted"))
    status = lambda: client.json("ACTION.STATUS", "a-counted")
    counts = lambda: {key[5:]: value for key, value in status().items() if key.startswith("jobs_") and value}
    assert status()["status"] == "pending" and counts() == {"total": 4, "pending": 4}
    jobs = [client.pop("queue:counted")["job_id"] for _ in range(3)]
    assert status()["status"] == "running" and counts() == {"total": 4, "pending": 1, "running": 3}
    client.update(jobs[0], status="completed")
    client.update(jobs[1], status="failed", error="no")
    client.call("JOB.CANCEL", jobs[2])
    assert counts() == {"total": 4, "pending": 1, "completed": 1, "failed": 1, "cancelled": 1}
    client.update(client.pop("queue:counted")["job_id"], status="completed")
    assert status()["status"] == "failed"
    assert sorted(made["job_ids"]) == sorted(client.json("ACTION.GET", "a-counted")["job_ids"])
    failed = [json.loads(line) for line in client.ask("JOB.LIST", "a-counted", "failed")]
    assert [job["job_id"] for job in failed] == [jobs[1]] and failed[0]["error"] == "no"
    assert len(client.ask("JOB.LIST", "a-counted")) == 4
    assert client.call("ACTION.STATUS", "nosuch") == "ERR Action not found: nosuch"
    assert client.call("JOB.LIST", "nosuch") == "ERR Action not found: nosuch"


def test_actions_are_listed_by_status_and_in_pages(client):
    submit_plan(client, "listed")
    for number in range(3):
        submit_action(client, f"l-{number}", "listed", [1], queue="listed")
    client.update(client.pop("queue:listed")["job_id"], status="completed")
    names = lambda *words: [json.loads(line)["action_id"] for line in client.ask("ACTION.LIST", *words)]
    assert [name for name in names() if name.startswith("l-")] == ["l-2", "l-1", "l-0"]
    assert "l-0" in names("completed") and "l-1" not in names("completed")
    assert "l-1" in names("all", 0, 100) and len(names("all", 0, 1)) == 1
    done = json.loads(next(line for line in client.ask("ACTION.LIST") if b'"l-0"' in line))
    assert (done["jobs_total"], done["jobs_completed"], done["jobs_failed"], done["jobs_pending"]) == (1, 1, 0, 0)


def test_a_page_of_actions_is_full_when_enough_have_the_status(client):
    submit_plan(client, "full")
    for number in range(4):
        submit_action(client, f"f-{number}", "full", [1], queue=f"full-{number}")
    client.call("JOB.CANCEL", client.json("ACTION.GET", "f-0")["job_ids"][0])
    listed = [json.loads(line)["action_id"] for line in client.ask("ACTION.LIST", "cancelled", 0, 1)]
    assert listed == ["f-0"]


def test_a_plan_with_active_jobs_is_not_deleted(client):
    submit_plan(client, "busy")
    submit_action(client, "a-busy", "busy", [1], queue="busy")
    refused = client.call("PLAN.DELETE", "busy")
    assert isinstance(refused, Refused) and "active" in refused
    client.update(client.pop("queue:busy")["job_id"], status="completed")
    assert client.call("PLAN.DELETE", "busy") == "OK"


def test_plans_and_actions_survive_a_kill(server):
    with RespClient(server, "admin") as client:
        submit_plan(client, "durable")
        made = json.loads(submit_action(client, "a-durable", "durable", [1, 2]))
    server.kill()
    server.start()
    with RespClient(server, "admin") as client:
        assert client.json("PLAN.GET", "durable")["plan_id"] == "durable"
        assert client.json("ACTION.GET", "a-durable")["job_ids"] == made["job_ids"]
        assert client.ask("LLEN", "queue:ready") == 2
