"""`astra worker start --resp`: our own worker at the Redis door, and other people's clients beside it."""

import subprocess

import pytest

from astra_server import binary
from resp_client import RespClient
from waiting import wait_until

READY_WITHIN_S = 15
STOP_WITHIN_S = 15


@pytest.fixture(scope="module")
def worker(shared_server, tmp_path_factory):
    folder = tmp_path_factory.mktemp("worker")
    words = ["worker", "start", "--resp", f"127.0.0.1:{shared_server.resp_port}"]
    words += ["--token", shared_server.tokens["worker"]]
    with (folder / "log").open("w") as log:
        process = subprocess.Popen([binary(), *words], cwd=folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    try:
        with RespClient(shared_server, "viewer") as viewer:

            def registered() -> list:
                assert process.poll() is None, "the worker ended"
                return viewer.ask("SMEMBERS", "capability:sort:workers")

            wait_until(registered, within_s=READY_WITHIN_S, what="the worker's registration")
        yield process
        process.terminate()
        assert process.wait(STOP_WITHIN_S) == 0, (folder / "log").read_text()
        with RespClient(shared_server, "viewer") as viewer:
            assert viewer.ask("SMEMBERS", "capability:sort:workers") == [], "it says good-bye"
    finally:
        process.kill()
        print((folder / "log").read_text())


@pytest.fixture
def client(shared_server, worker):
    with RespClient(shared_server, "admin") as client:
        yield client


def test_its_tools_are_verified(client):
    """Seed 004 section 7.3."""
    said = client.ask("WORKER.VERIFY", "sort", '{"command":"sort","args":["--version"]}', within_s=35)
    assert said.startswith("OK") and "sort (GNU coreutils)" in said
    assert "exit" in client.call("WORKER.VERIFY", "sort", '{"command":"sort","args":["--nonsense"]}', within_s=35)


def test_it_does_what_the_first_five_minutes_promise(client):
    plan = {
        "plan_id": "dedupe",
        "tasks": [{"task_number": 1, "command": "sort"}, {"task_number": 2, "command": "uniq", "input_from_task": 1}],
    }
    client.ask("PLAN.SUBMIT", plan)
    inputs = [{"text": "b\na\nb"}, {"text": "z"}]
    made = client.json("ACTION.SUBMIT", {"action_id": "a1", "plan_id": "dedupe", "inputs": inputs})
    first, second = (client.wait_for_status(job, "completed", 20) for job in made["job_ids"])
    assert [step["stdout"].split() for step in first["task_results"]] == [["a", "b", "b"], ["a", "b"]]
    assert [step["exit_code"] for step in first["task_results"]] == [0, 0]
    assert second["task_results"][1]["stdout"] == "z\n"
    assert client.json("ACTION.STATUS", "a1")["status"] == "completed"


def test_a_program_that_fails_fails_the_job(client):
    job = client.submit(tasks=[{"task_number": 1, "command": "false"}, {"task_number": 2, "command": "sort"}])
    status = client.wait_for_status(job, "failed", 20)
    assert [step["exit_code"] for step in status["task_results"]] == [1]


def test_no_shell_looks_at_the_words(client):
    """What looks like more than words is refused at the door, or is words."""
    for command, args in [("sh;id", []), *[("echo", [word]) for word in ["$(id)", "a; id", "`id`", "a\nb"]]]:
        reply = client.call("JOB.SUBMIT", {"command": command, "args": args})
        assert str(reply).startswith("ERR "), reply
    job = client.submit(command="echo", args=["--option=~/*.txt", "a  b", "%s", "{x}"])
    done = client.wait_for_status(job, "completed", 20)
    assert done["task_results"][0]["stdout"] == "--option=~/*.txt a  b %s {x}\n"
