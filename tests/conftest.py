"""Fixtures: servers that end with the test, whatever happens in it."""

import pytest

from astra_server import Server


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
