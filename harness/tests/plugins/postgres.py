# SPDX-License-Identifier: Apache-2.0
"""A PostgreSQL server for tests. It ends with the test run, however that ends."""

import os
import secrets
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from riobed.vm.host.scratch import scratch_dir


def _free_port() -> int:
    with socket.socket() as some:
        some.bind(("127.0.0.1", 0))
        return int(some.getsockname()[1])


def _answers(port: int) -> bool:
    with socket.socket() as some:
        return some.connect_ex(("127.0.0.1", port)) == 0


def _initialise(programs: Path, folder: Path, user: dict[str, Any]) -> str:
    """Make a new database cluster in a folder; return the password of its user `riobed`."""
    password = secrets.token_hex(8)
    (folder / "password").write_text(password)
    if user:
        for path in (folder, folder / "password"):
            shutil.chown(path, "postgres", "postgres")
    make = [programs / "initdb", "--no-sync", "-U", "riobed", "-E", "UTF8", "-A", "scram-sha-256"]
    make += [f"--pwfile={folder}/password", "-D", f"{folder}/data"]
    subprocess.run(make, check=True, capture_output=True, **user)
    return password


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[str]:
    """URL, without a database's name, of a PostgreSQL server of this test run."""
    programs = max(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: int(path.parent.name))
    # The next run removes it if this one is killed.
    folder = scratch_dir() / "postgres"
    folder.mkdir()
    # PostgreSQL refuses to run as root.
    user: dict[str, Any] = {}
    become: list[str] = []
    if os.geteuid() == 0:
        user = {"user": "postgres", "group": "postgres", "extra_groups": []}
        become = ["--reuid=postgres", "--regid=postgres", "--clear-groups"]
    password, port = _initialise(programs, folder, user), _free_port()
    settings = [
        f"port={port}",
        f"unix_socket_directories={folder}",
        "listen_addresses=127.0.0.1",
        "fsync=off",
    ]
    # Not in /dev/shm, where it would stay behind.
    settings.append("dynamic_shared_memory_type=mmap")
    # QUIT is PostgreSQL's immediate shutdown; setpriv(1) has it sent when this process is gone.
    start = [
        "setpriv",
        *become,
        "--pdeathsig",
        "QUIT",
        str(programs / "postgres"),
        "-D",
        str(folder / "data"),
    ]
    start += [word for setting in settings for word in ("-c", setting)]
    with (folder / "log").open("wb") as log:
        server = subprocess.Popen(start, stderr=log)
    try:
        deadline = time.monotonic() + 300
        while not _answers(port):
            assert server.poll() is None and time.monotonic() < deadline, (folder / "log").read_text()
            time.sleep(0.1)
        yield f"postgresql://riobed:{password}@127.0.0.1:{port}"
    finally:
        # PostgreSQL's "fast shutdown", which does not wait for clients.
        server.send_signal(signal.SIGINT)
        server.wait(300)
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
