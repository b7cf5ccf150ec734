# SPDX-License-Identifier: Apache-2.0
"""The order of the test run, with tests that boot guests last, and a PostgreSQL server for tests."""

import os
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

# A process that a shell starts with & ignores SIGINT, and so would the commands that tests end with SIGINT.
signal.signal(signal.SIGINT, signal.default_int_handler)


# Integration tests of a minute and more. They begin first, or one worker would run the last of them alone.
LONGEST = ["survival", "cluster", "pytest_plugin", "replay", "worker", "recovery_crash", "soak"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Move integration tests behind all others, so a failing unit test is seen first."""
    rank = {f"test_{name}": number for number, name in enumerate(LONGEST)}
    items.sort(key=lambda item: (bool(item.get_closest_marker("integration")), rank.get(item.path.stem, 99)))


def _free_port() -> int:
    with socket.socket() as some:
        some.bind(("127.0.0.1", 0))
        return int(some.getsockname()[1])


def _answers(port: int) -> bool:
    with socket.socket() as some:
        return some.connect_ex(("127.0.0.1", port)) == 0


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[str]:
    """URL, without a database's name, of a PostgreSQL server of this test run."""
    programs = max(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: int(path.parent.name))
    # Not below pytest's own folder, which other users cannot read.
    folder = Path(tempfile.mkdtemp(prefix="riobed-test-", dir="/var/tmp"))
    password, port = secrets.token_hex(8), _free_port()
    (folder / "password").write_text(password)
    user: dict[str, Any] = {}
    if os.geteuid() == 0:
        # PostgreSQL refuses to run as root.
        user = {"user": "postgres", "group": "postgres", "extra_groups": []}
        for path in (folder, folder / "password"):
            shutil.chown(path, "postgres", "postgres")
    make = ["initdb", "--no-sync", "-U", "riobed", "-E", "UTF8", "-A", "scram-sha-256"]
    make += [f"--pwfile={folder}/password", "-D", f"{folder}/data"]
    subprocess.run([programs / make[0], *make[1:]], check=True, capture_output=True, **user)
    settings = (
        "listen_addresses=127.0.0.1",
        f"port={port}",
        f"unix_socket_directories={folder}",
        "fsync=off",
    )
    start = [programs / "postgres", "-D", folder / "data", *(word for s in settings for word in ("-c", s))]
    with (folder / "log").open("wb") as log:
        server = subprocess.Popen(start, stderr=log, **user)
    try:
        deadline = time.monotonic() + 60
        while not _answers(port):
            assert server.poll() is None and time.monotonic() < deadline, (folder / "log").read_text()
            time.sleep(0.1)
        yield f"postgresql://riobed:{password}@127.0.0.1:{port}"
    finally:
        # PostgreSQL's "fast shutdown", which does not wait for clients.
        server.send_signal(signal.SIGINT)
        server.wait(60)
        shutil.rmtree(folder)


@pytest.fixture
def postgres(postgres_server: str) -> str:
    """URL of a new, empty database."""
    name = f"test{secrets.token_hex(4)}"
    engine = sa.create_engine(f"{postgres_server}/postgres".replace("://", "+psycopg://"))
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(sa.text(f"CREATE DATABASE {name}"))
    engine.dispose()
    return f"{postgres_server}/{name}"
