"""redis-cli, as a person and as a script use it."""

import json
import os
import subprocess

import pytest

from resp_client import RespClient
from terminal import Terminal


def prompt(server) -> str:
    return f"127.0.0.1:{server.resp_port}> "


@pytest.fixture
def shell(dev_server):
    env = {key: value for key, value in os.environ.items() if key != "REDISCLI_AUTH"}
    env["REDISCLI_HISTFILE"] = "/dev/null"
    with Terminal(["redis-cli", "-p", str(dev_server.resp_port)], env) as terminal:
        terminal.wait_for(prompt(dev_server))
        yield terminal


def typed(shell, server, line: str) -> str:
    """What is shown after a line, up to the next prompt."""
    shell.type(line + "\r")
    # The line is drawn anew with each key; the answer begins after its last drawing.
    shell.wait_for("\r\n")
    return shell.wait_for(prompt(server)).removesuffix(prompt(server)).replace("\r\n", "\n")


def run(server, *words: str, role: str = "admin") -> str:
    env = {**os.environ, "REDISCLI_AUTH": server.tokens.get(role, "")}
    command = ["redis-cli", "-p", str(server.resp_port), *words]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=20, check=False)
    assert done.returncode == 0, done.stderr + done.stdout
    return done.stdout


def test_the_session_of_the_first_five_minutes(dev_server, shell):
    """As it is printed for users, letter for letter."""
    plan = (
        """PLAN.SUBMIT '{"plan_id":"dedupe","tasks":[{"task_number":1,"command":"sort"},"""
        """{"task_number":2,"command":"uniq","input_from_task":1}]}'"""
    )
    assert typed(shell, dev_server, plan) == "OK plan_id=dedupe\n"
    action = """ACTION.SUBMIT '{"action_id":"a1","plan_id":"dedupe","inputs":[{"text":"b\\na\\nb"}]}'"""
    assert typed(shell, dev_server, action) == "OK action_id=a1 jobs_created=1\n"
    helped = [line for line in typed(shell, dev_server, "HELP JOB.STATUS").splitlines() if line.strip()]
    assert helped[:2] == ["  JOB.STATUS job_id", "  summary: Status and per-task results of a job"]
    with RespClient(dev_server) as client:
        (job,) = client.json("ACTION.GET", "a1")["job_ids"]
        assert client.json("JOB.GET", job)["input"] == {"text": "b\na\nb"}


@pytest.mark.parametrize(
    ("line", "hint"),
    [
        ("PLAN.SUBMIT ", "plan"), ("JOB.STATUS ", "job"), ("job.update ", "job"), ("QUEUE.PAUSE ", "queue"),
        ("WORKER.REGISTER ", "worker"), ("ACTION.SUBMIT ", "action"), ("BRPOP ", "key"),
    ],
)
def test_hints_are_shown_while_one_types(shell, line, hint):
    shell.type(line)
    shown = shell.wait_for(line)
    assert hint in shown + shell.wait_for(hint)


@pytest.mark.parametrize("command", ["PLAN.SUBMIT", "JOB.UPDATE", "WORKER.REGISTER", "QUEUE.STATS", "METRICS", "GET"])
def test_help_says_what_a_command_is_for(dev_server, shell, command):
    helped = typed(shell, dev_server, f"HELP {command}")
    assert f"  {command}" in helped and "summary: " in helped and "group: " in helped
    assert len(helped.split("summary: ")[1].splitlines()[0]) > 10


def test_names_are_completed(shell):
    shell.type("PLAN.SUB\t")
    shell.wait_for("PLAN.SUBMIT")


def test_errors_are_shown_as_errors(dev_server, shell):
    assert typed(shell, dev_server, "JOB.STATUS nosuch") == "(error) ERR Job not found: nosuch\n"
    assert typed(shell, dev_server, "PLAN.SUBMIT {}").startswith("(error) ERR ")


def test_a_script_gets_bare_words(server):
    plan = {"plan_id": "scripted", "tasks": [{"task_number": 1, "command": "sort"}]}
    assert run(server, "PLAN.SUBMIT", json.dumps(plan)) == "scripted\n"
    made = json.loads(run(server, "ACTION.SUBMIT", '{"action_id":"a1","plan_id":"scripted","inputs":[]}'))
    assert made["jobs_created"] == 1
    assert run(server, "PING") == "PONG\n" and run(server, "-3", "PING") == "PONG\n"
    assert "redis_version" in run(server, "INFO") and run(server, "LLEN", "queue:default") == "1\n"


def test_tools_of_redis_cli_work(server):
    run(server, "SET", "cli-a", "1")
    assert "cli-a" in run(server, "--scan", "--pattern", "cli-*")
    assert "biggest" in run(server, "--bigkeys").lower()
    lines = "SET cli-b 2\nGET cli-b\nNOSUCH\nPING\n"
    command = ["redis-cli", "-p", str(server.resp_port)]
    env = {**os.environ, "REDISCLI_AUTH": server.tokens["admin"]}
    piped = subprocess.run(command, env=env, input=lines, capture_output=True, text=True, timeout=20, check=False)
    assert piped.stdout.splitlines()[:2] == ["OK", "2"] and "unknown command" in piped.stdout + piped.stderr
    wrong = subprocess.run(
        [*command, "-a", "wrong", "PING"], capture_output=True, text=True, timeout=20, check=False
    )
    assert "WRONGPASS" in wrong.stdout + wrong.stderr and "NOAUTH" in wrong.stdout + wrong.stderr


def test_redis_benchmark_runs(server):
    words = ["redis-benchmark", "-p", str(server.resp_port), "-a", server.tokens["admin"], "-q"]
    words += ["-t", "ping,set,get,lpush,rpop,hset,zadd", "-n", "2000", "-c", "20", "-P", "8"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0 and done.stdout.count("requests per second") >= 7, done.stdout + done.stderr
