# SPDX-License-Identifier: Apache-2.0
"""A lock that lets one process at a time run a campaign; it ends with the process, however that ends."""

import fcntl
import zlib
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from typing import BinaryIO

import sqlalchemy as sa

from riobed_results.errors import StoreError
from riobed_results.store.location import Location, explained, locate, make_engine

# First of the two keys of a PostgreSQL advisory lock; it keeps riobed's locks apart from other programs'.
_RIOBED_KEY = zlib.crc32(b"riobed") >> 1


@contextmanager
def locked(store: str, name: str) -> Iterator[None]:
    """Lock the campaign `name` of the store at `store` (see `locate`); StoreError if another process has it.

    Two processes that run one campaign would run each trial twice, and the store takes only one result.
    """
    location = locate(store)
    # Two names may have the same key; the second campaign must then wait for the first to end.
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
    """Try to take a record lock (fcntl(2)) on one byte."""
    with suppress(BlockingIOError, PermissionError):
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, key)
        return True
    return False


def _in_database(connection: sa.Connection, key: int) -> bool:
    """Try to take a PostgreSQL advisory lock, which ends with the connection; no transaction stays open."""
    query = sa.select(sa.func.pg_try_advisory_lock(_RIOBED_KEY, key))
    return bool(connection.execution_options(isolation_level="AUTOCOMMIT").scalar(query))
