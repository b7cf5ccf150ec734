# SPDX-License-Identifier: Apache-2.0
"""Who runs a campaign: one process at a time, by a lock that ends with it, however it ends."""

import fcntl
import zlib
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from typing import BinaryIO

import sqlalchemy as sa

from riobed_results.errors import StoreError
from riobed_results.store.location import Location, explained, locate, make_engine

# The first of the two keys of an advisory lock in PostgreSQL: riobed's, of all that share a database.
_RIOBED_KEY = zlib.crc32(b"riobed") >> 1


@contextmanager
def locked(store: str, name: str) -> Iterator[None]:
    """Hold the campaign `name` of the store at `store` (see `locate`); StoreError if another process does.

    Two that run one campaign would run each trial twice, of which the store takes one.
    """
    location = locate(store)
    # Names may share a key; then one waits for the other's end.
    key = zlib.crc32(name.encode()) >> 1
    if location.path:
        with _lock_file(location) as file:
            _check_held(_in_file(file, key), location, name)
            yield
        return
    with explained(location):
        connection = make_engine(location, write=True).connect()
    with closing(connection):
        with explained(location):
            held = _in_database(connection, key)
        _check_held(held, location, name)
        yield


def _check_held(held: bool, location: Location, name: str) -> None:
    if not held:
        raise StoreError(
            f"store {location.name}: campaign {name!r} is being run by another process; wait for its end or "
            "stop it"
        )


def _lock_file(location: Location) -> BinaryIO:
    assert location.path
    try:
        return location.path.with_name(location.path.name + ".lock").open("ab")
    except OSError as error:
        raise StoreError(
            f"store {location.name}: its lock file: {error.strerror}; choose another place with --store"
        ) from None


def _in_file(file: BinaryIO, key: int) -> bool:
    """A record lock (fcntl(2)) on one byte."""
    with suppress(BlockingIOError, PermissionError):
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, key)
        return True
    return False


def _in_database(connection: sa.Connection, key: int) -> bool:
    """An advisory lock of PostgreSQL: it ends with the connection, which has no transaction meanwhile."""
    query = sa.select(sa.func.pg_try_advisory_lock(_RIOBED_KEY, key))
    return bool(connection.execution_options(isolation_level="AUTOCOMMIT").scalar(query))
