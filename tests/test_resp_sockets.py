"""The sockets of the Redis door: TCP, TLS and a Unix socket, with real clients, and how their ends are read."""

import json
import os
import select
import socket
import ssl
import stat
import subprocess
import time

import pytest
import redis

from astra_server import START_WITHIN_S, Server, binary
from resp_client import RespClient, packed
from waiting import stall

KINDS = ("tcp", "tls", "unix")
# A job that nobody read is there again at once; one that was read stays where it is.
BACK_WITHIN_S = 3
STAYS_FOR_S = 2


def openssl(*words: str) -> None:
    subprocess.run(["openssl", *words], capture_output=True, timeout=30, check=True)


def make_certificates(folder) -> None:
    """Two authorities, `ca` and `other`, and a certificate of the first for this machine."""
    key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
    for name in ("ca", "other"):
        files = ("-keyout", f"{folder}/{name}.key", "-out", f"{folder}/{name}.pem")
        openssl("req", "-x509", *key, *files, "-days", "2", "-subj", f"/CN={name}")
    openssl("req", *key, "-keyout", f"{folder}/server.key", "-out", f"{folder}/server.csr", "-subj", "/CN=localhost")
    (folder / "names").write_text("subjectAltName=IP:127.0.0.1,DNS:localhost\n")
    by = ("-CA", f"{folder}/ca.pem", "-CAkey", f"{folder}/ca.key", "-CAcreateserial")
    made = ("-in", f"{folder}/server.csr", "-out", f"{folder}/server.pem", "-days", "2")
    openssl("x509", "-req", *made, *by, "-extfile", f"{folder}/names")


def settings_of(kind: str, folder) -> str:
    if kind == "unix":
        return f"resp_unix = '{folder}/redis.sock'\n"
    if kind == "tls":
        make_certificates(folder)
        return f"resp_tls_cert = '{folder}/server.pem'\nresp_tls_key = '{folder}/server.key'\n"
    return ""


@pytest.fixture(scope="module")
def door(request, tmp_path_factory):
    """A server that is reached in one of the three ways."""
    folder = tmp_path_factory.mktemp(request.param)
    server = Server(folder, settings=settings_of(request.param, folder)).start()
    server.kind = request.param
    yield server
    server.stop()
    print(server.log.read_text())


def each(*kinds: str):
    return pytest.mark.parametrize("door", kinds, indirect=True)


class Client(RespClient):
    """The same client, in whichever way."""

    def __init__(self, door, role: str = "worker"):
        if door.kind == "unix":
            self.socket = socket.socket(socket.AF_UNIX)
            self.socket.settimeout(10)
            self.socket.connect(f"{door.folder}/redis.sock")
        else:
            self.socket = socket.create_connection(("127.0.0.1", door.resp_port), 10)
        if door.kind == "tls":
            context = ssl.create_default_context(cafile=f"{door.folder}/ca.pem")
            self.socket = context.wrap_socket(self.socket, server_hostname="localhost")
        self.buffer = b""
        assert self.call("AUTH", door.tokens[role]) == "OK"


def cli(door, *words: str, role: str = "admin", ca: str = "ca") -> subprocess.CompletedProcess:
    way = {
        "tcp": ["-p", str(door.resp_port)],
        "tls": ["-p", str(door.resp_port), "--tls", "--cacert", f"{door.folder}/{ca}.pem"],
        "unix": ["-s", f"{door.folder}/redis.sock"],
    }[door.kind]
    env = {**os.environ, "REDISCLI_AUTH": door.tokens[role]}
    return subprocess.run(
        ["redis-cli", *way, "--raw", *words], env=env, capture_output=True, text=True, timeout=20, check=False
    )


# ----- TLS


@each("tls", "unix")
def test_redis_cli_gets_in(door):
    assert cli(door, "PING").stdout == "PONG\n"
    assert cli(door, "SET", "cli", "a value").stdout == "OK\n"
    assert cli(door, "GET", "cli").stdout == "a value\n"
    assert "NOPERM" in cli(door, "SET", "cli", "x", role="viewer").stdout


@each("tls", "unix")
@pytest.mark.parametrize("version", [2, 3])
def test_redis_py_gets_in(door, version):
    way = {
        "tls": {"port": door.resp_port, "ssl": True, "ssl_ca_certs": f"{door.folder}/ca.pem"},
        "unix": {"unix_socket_path": f"{door.folder}/redis.sock"},
    }[door.kind]
    with redis.Redis(password=door.tokens["admin"], protocol=version, **way) as client:
        big = os.urandom(1_000_000)
        assert client.set("py", big) and client.get("py") == big
        assert client.hset("py-h", mapping={"a": 1}) in (0, 1) and client.hgetall("py-h") == {b"a": b"1"}
        pipe = client.pipeline(transaction=False)
        for number in range(500):
            pipe.set(f"py{number}", number)
        assert all(pipe.execute())


@each("tls")
def test_a_certificate_of_a_foreign_authority_is_refused(door):
    refused = cli(door, "PING", ca="other")
    assert refused.returncode != 0 and "certificate verify failed" in refused.stderr
    way = {"port": door.resp_port, "ssl": True, "ssl_ca_certs": f"{door.folder}/other.pem"}
    with redis.Redis(password=door.tokens["admin"], **way) as client, pytest.raises(redis.ConnectionError):
        client.ping()
    assert cli(door, "PING").stdout == "PONG\n", "nobody else is hurt"


@each("tls")
def test_a_plain_client_at_an_encrypted_address_is_let_go(door):
    with socket.create_connection(("127.0.0.1", door.resp_port), 10) as plain:
        plain.sendall(packed("PING"))
        came = b""
        while data := plain.recv(1024):
            came += data
    assert len(came) < 16 and b"PONG" not in came, "an alert of TLS at most"
    env = {**os.environ, "REDISCLI_AUTH": ""}
    words = ["redis-cli", "-p", str(door.resp_port), "PING"]
    said = subprocess.run(words, env=env, capture_output=True, text=True, timeout=10, check=False)
    assert said.returncode != 0 and "PONG" not in said.stdout


@each("tls")
def test_whoever_begins_no_handshake_is_cut_off(door):
    with socket.create_connection(("127.0.0.1", door.resp_port), 10) as silent:
        began = time.monotonic()
        assert silent.recv(1) == b"" and 3 < time.monotonic() - began < 8


def test_the_ready_line_of_dev_names_what_is_encrypted(tmp_path):
    make_certificates(tmp_path)
    settings = f"resp_tls_cert = 'server.pem'\nresp_tls_key = 'server.key'\nresp_unix = '{tmp_path}/redis.sock'\n"
    server = Server(tmp_path, dev=True, settings=settings).start()
    try:
        said = server.log.read_text()
        assert f"Redis     redis-cli -p {server.resp_port} --tls  (with --cacert: the CA of server.pem)\n" in said
        assert f"Redis     redis-cli -s {tmp_path}/redis.sock\n" in said
    finally:
        server.stop()


def start_with(folder, **settings: str) -> subprocess.CompletedProcess:
    """A start that is refused."""
    env = {**os.environ, **settings}
    words = [binary(), "dev", "--data", str(folder / "data"), "--http", "127.0.0.1:0", "--resp", "127.0.0.1:0"]
    return subprocess.run(words, env=env, capture_output=True, text=True, timeout=START_WITHIN_S, check=False)


def test_a_certificate_that_cannot_be_used_is_named(tmp_path):
    make_certificates(tmp_path)
    cert = f"{tmp_path}/server.pem"
    for key, said in [(f"{tmp_path}/none.key", "none.key"), (f"{tmp_path}/other.key", "KeyMismatch"), (cert, cert)]:
        refused = start_with(tmp_path, ASTRA_RESP_TLS_CERT=cert, ASTRA_RESP_TLS_KEY=key)
        assert refused.returncode != 0 and said in refused.stderr, refused.stderr
    refused = start_with(tmp_path, ASTRA_RESP_TLS_CERT=cert)
    assert refused.returncode != 0 and "resp_tls_key" in refused.stderr


# ----- the Unix socket


def test_the_socket_is_its_owners_and_goes_with_the_server(tmp_path):
    path = tmp_path / "redis.sock"
    server = Server(tmp_path, settings=f"resp_unix = '{path}'\n").start()
    server.kind = "unix"
    try:
        mode = path.stat().st_mode
        assert stat.S_ISSOCK(mode) and stat.S_IMODE(mode) == 0o600
        taken = start_with(tmp_path / "second", ASTRA_RESP_UNIX=str(path))
        assert taken.returncode != 0 and str(path) in taken.stderr and "--resp-unix" in taken.stderr
        assert cli(server, "PING").stdout == "PONG\n", "the second server took nothing away"
        server.kill()
        assert path.exists(), "nobody was there to remove it"
        assert cli(server, "PING").returncode != 0
        server.start()
        assert cli(server, "PING").stdout == "PONG\n", "what was left behind is replaced"
    finally:
        server.stop()
    assert not path.exists()


def test_a_file_that_is_no_socket_is_left_alone(tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("mine")
    refused = start_with(tmp_path, ASTRA_RESP_UNIX=str(path))
    assert refused.returncode != 0 and str(path) in refused.stderr
    assert path.read_text() == "mine"


# ----- how an end is read


@each(*KINDS)
def test_a_job_that_was_read_stays_with_its_reader(door):
    """One command for each process: redis-cli reads its job, ends, and another one reports it."""
    with Client(door, "admin") as admin:
        assert admin.ask("LPUSH", "queue:read", {"job_id": f"read-{door.kind}"}) == 1
        queue, job = cli(door, "BRPOP", "queue:read", "5", role="worker").stdout.splitlines()
        assert queue == "queue:read" and json.loads(job)["attempt"] == 1
        assert admin.pop("queue:read", STAYS_FOR_S) is None
        said = cli(door, "JOB.UPDATE", f"read-{door.kind}", '{"status":"completed"}', role="worker").stdout
        assert said == "OK\n"


@each(*KINDS)
@pytest.mark.parametrize("moment", ["in vain", "too early"])
def test_a_job_that_was_not_read_goes_back(door, moment):
    """`in vain`: the answer is there and stays unread. `too early`: the client is gone when it comes."""
    queue = f"queue:unread-{moment[:2]}"
    with Client(door, "admin") as admin:
        for number in range(20):
            name = f"{moment[:2]}-{door.kind}-{number}"
            one = Client(door)
            one.send("BRPOP", queue, 0)
            if moment == "in vain":
                assert admin.ask("LPUSH", queue, {"job_id": name}) == 1
                assert select.select([one.socket], [], [], 5)[0]
                one.close()
            else:
                one.close()
                assert admin.ask("LPUSH", queue, {"job_id": name}) == 1
            assert admin.pop(queue, BACK_WITHIN_S)["job_id"] == name
            assert admin.update(name, status="completed") == "OK"


@each(*KINDS)
def test_an_end_that_crosses_the_answer_holds_nothing_up(door):
    """Whoever goes at the very moment at which its job comes has not read it."""
    with Client(door, "admin") as admin:
        for number in range(300):
            name = f"cross-{door.kind}-{number}"
            one = Client(door)
            one.send("BRPOP", "queue:cross", 0)
            assert admin.call("PING") == "PONG"
            admin.send("LPUSH", "queue:cross", {"job_id": name})
            # From too early to too late.
            stall(number % 50 * 0.0001)
            one.close()
            assert admin.read() in (0, 1)
            job = admin.pop("queue:cross", BACK_WITHIN_S)
            assert job and job["job_id"] == name, f"round {number}: {admin.status(name)}"
            assert admin.update(name, status="completed") == "OK"
