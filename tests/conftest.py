"""Fixtures: servers that end with the test, whatever happens in it."""

import pytest

from astra_server import Server
from bystander import Bystander
from node_modules import Node


def serving(folder, **options):
    server = Server(folder, **options).start()
    try:
        yield server
    finally:
        server.stop()
        # Shown by pytest when a test fails.
        print(server.log.read_text())


@pytest.fixture
def server(tmp_path):
    """`astra server start`: everyone must show a token."""
    yield from serving(tmp_path)


@pytest.fixture
def dev_server(tmp_path):
    """`astra dev --workers 0`: no token is asked for."""
    yield from serving(tmp_path, dev=True)


@pytest.fixture(scope="module")
def shared_server(tmp_path_factory):
    """One server for all tests of a file."""
    yield from serving(tmp_path_factory.mktemp("server"))


@pytest.fixture(scope="module")
def bystander(shared_server):
    with Bystander(shared_server) as bystander:
        yield bystander


@pytest.fixture
def harmless(shared_server, bystander):
    """The shared server; at the end of the test a bystander must not have noticed anything."""
    yield shared_server
    bystander.check_unharmed()


@pytest.fixture(scope="session")
def node():
    return Node()
