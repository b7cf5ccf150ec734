# SPDX-License-Identifier: Apache-2.0
"""The location of a store: parse what the user gives, make a database engine, explain database errors."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from pydantic import ValidationError
from sqlalchemy.exc import ArgumentError, DBAPIError, SQLAlchemyError
from sqlalchemy.pool import NullPool

from riobed_results.errors import StoreError, StoreUsageError
from riobed_results.store.packed import SUFFIX, unpacked

DEFAULT_STORE = "sqlite:///campaigns/riobed.sqlite"
REPORT_FILE = "report.html"  # beside the store
STORE_FILE = "store.sqlite"  # the store's name inside a folder
PACKED_FILE = STORE_FILE + SUFFIX  # inside a published campaign's
READ_TIMEOUT_S = 5.0
WRITE_TIMEOUT_S = 60.0  # waiting takes milliseconds, a lost row may cost hours

# The meaning and the remedy of each of SQLite's primary result codes (sqlite.org/rescode.html).
SQLITE_MEANING = {
    sqlite3.SQLITE_BUSY: "is locked by another program: wait for it to finish, or give ?timeout=SECONDS",
    sqlite3.SQLITE_NOTADB: "is not an SQLite database: give the path of a riobed store",
    sqlite3.SQLITE_CORRUPT: "is damaged: restore it from a copy, or save its rows with sqlite3's .recover",
    sqlite3.SQLITE_CANTOPEN: "cannot be opened: check that it and its folder may be read and written",
    sqlite3.SQLITE_READONLY: "may not be written: make it and its folder writable (a writer killed in the "
    "middle of a row leaves a -journal file beside it, which the next open for writing rolls back)",
    sqlite3.SQLITE_FULL: "has no room left on its disk: free some and run again",
    sqlite3.SQLITE_IOERR: "met an input/output error: check its disk",
}


@dataclass(frozen=True)
class Location:
    """The location of a store: `name` as shown to the user (no password), `path` None unless it is SQLite."""

    name: str
    url: sa.URL
    path: Path | None
    timeout: float | None

    @property
    def packed(self) -> bool:
        """Whether it is a compressed SQLite store, which is only read."""
        return bool(self.path and self.path.suffix == SUFFIX)

    @property
    def folder(self) -> Path:
        """The folder for files that belong to the store: that of an SQLite store, else the current folder."""
        return self.path.parent if self.path else Path.cwd()


def locate(store: str) -> Location:
    """Parse `store`: a database URL, an SQLite file, compressed or not, or a folder that has one or will.

    Raises StoreUsageError for a malformed URL or an unsupported kind of database.
    """
    if not store.strip():
        raise StoreUsageError(f"store: the name is empty; try {DEFAULT_STORE}")
    if "://" not in store:
        return _sqlite_location(sa.URL.create("sqlite", database=store), Path(store))
    try:
        url = sa.make_url(store)
    except (ArgumentError, ValueError):
        raise StoreUsageError(f"store {store}: malformed URL; try {DEFAULT_STORE}") from None
    if url.get_backend_name() not in ("sqlite", "postgresql"):
        raise StoreUsageError(
            f"store {url.render_as_string(hide_password=True)}: {url.get_backend_name()} is not supported, "
            f"only sqlite and postgresql are; try {DEFAULT_STORE}"
        )
    if url.drivername == "postgresql":
        # psycopg 3 is installed; SQLAlchemy 2.0's default is another driver.
        url = url.set(drivername="postgresql+psycopg")
    if url.get_backend_name() != "sqlite":
        return Location(url.render_as_string(hide_password=True), url, None, None)
    if not url.database or url.database == ":memory:":
        raise StoreUsageError(f"store {store}: names no file; try {DEFAULT_STORE}")
    return _sqlite_location(url, Path(url.database))


def store_in(folder: Path) -> Path | None:
    """Return the store in a folder, compressed or not; None if it has none."""
    return next((path for name in (STORE_FILE, PACKED_FILE) if (path := folder / name).exists()), None)


def _sqlite_location(url: sa.URL, path: Path) -> Location:
    query = dict(url.query)
    timeout = query.pop("timeout", None)
    if query:
        raise StoreUsageError(
            f"store {path}: unknown URL option {next(iter(query))!r}; only timeout is known"
        )
    try:
        seconds = None if timeout is None else float(str(timeout))
    except ValueError:
        raise StoreUsageError(f"store {path}: timeout={timeout!s} is not a number of seconds") from None
    # A new store without a suffix is a folder, so that its logs and report lie in it, too.
    if path.is_dir() or not (path.suffix or path.exists()):
        path = store_in(path) or path / STORE_FILE
    elif not path.exists() and (packed := path.with_name(path.name + SUFFIX)).exists():
        path = packed
    return Location(str(path), url, path, seconds)


def make_engine(location: Location, write: bool) -> sa.Engine:
    """Make the engine for `location`. An SQLite file must exist unless `write`, which may create it.

    Raises StoreError if the file is missing, its folder cannot be made, or the database driver is missing.
    """
    if location.path is not None:
        _check_file(location.path, write)
        file = unpacked(location.path) if location.packed else location.path
        return _sqlite_engine(file, write, location.timeout)
    # As with SQLite, nothing stays open between trials, and a reader cannot write.
    options: dict[str, Any] = {"poolclass": NullPool}
    if not write:
        options["execution_options"] = {"postgresql_readonly": True}
    try:
        return sa.create_engine(location.url, **options)
    except SQLAlchemyError:
        raise StoreUsageError(f"store {location.name}: unknown driver; write postgresql:// alone") from None
    except ImportError as error:
        raise StoreError(f"store {location.name}: {error}; install it with pip") from None


def _check_file(path: Path, write: bool) -> None:
    try:
        if path.exists() and not path.is_file():
            raise StoreUsageError(f"store {path}: not a file; give the path of a riobed store")
        if write and path.suffix == SUFFIX:
            raise StoreUsageError(f"store {path}: is compressed, and is only read; give another with --store")
        if write:
            path.parent.mkdir(parents=True, exist_ok=True)
        elif not path.exists():
            raise StoreError(f"store {path}: no such file; run a campaign first or give --store")
    except OSError as error:
        raise StoreError(f"store {path}: {error.strerror}; choose another place with --store") from None


def _sqlite_engine(path: Path, write: bool, timeout: float | None) -> sa.Engine:
    # A reader also opens "rw". SQLite then falls back to read-only if it must, and otherwise can roll back
    # what a killed writer left half done; "ro" refuses that, and "immutable" would show it. query_only
    # prevents all other writes. A rollback journal, not WAL, because a store is one file, readable on
    # read-only media. EXTRA, because a finished trial must survive a power failure of the host.
    pragmas = ("journal_mode=DELETE", "synchronous=EXTRA", "foreign_keys=ON") if write else ("query_only=ON",)
    uri = f"{path.absolute().as_uri()}?mode={'rwc' if write else 'rw'}"
    seconds = timeout if timeout is not None else WRITE_TIMEOUT_S if write else READ_TIMEOUT_S

    def connect() -> sqlite3.Connection:
        connection = sqlite3.connect(uri, uri=True, timeout=seconds, isolation_level=None)
        for pragma in pragmas:
            connection.execute(f"PRAGMA {pragma}")
        return connection

    # No pool, so nothing stays open between trials, and a forked worker inherits no connection.
    engine = sa.create_engine("sqlite://", creator=connect, poolclass=NullPool)

    # Python's sqlite3 begins no transaction before DDL or SELECT. A writer that takes its lock at the first
    # statement waits its turn; one that upgrades a read lock later can only fail.
    @sa.event.listens_for(engine, "begin")
    def begin(connection: sa.Connection) -> None:
        connection.exec_driver_sql("BEGIN IMMEDIATE" if write else "BEGIN")

    return engine


@contextmanager
def explained(location: Location) -> Iterator[None]:
    """Turn database errors and stored values of a wrong shape into a StoreError of one line."""
    try:
        yield
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, (error.title, *first["loc"])))
        raise StoreError(
            f"store {location.name}: a value is malformed: {where}: {first['msg']}; restore it from a copy"
        ) from error
    except (SQLAlchemyError, sqlite3.Error) as error:
        cause = error.orig if isinstance(error, DBAPIError) and error.orig else error
        code = getattr(cause, "sqlite_errorcode", 0) & 0xFF  # extended codes keep the primary one below
        meaning = SQLITE_MEANING.get(code)
        text = meaning or f"refused: {str(cause).strip().splitlines()[0]}"
        raise StoreError(f"store {location.name}: {text}") from error
