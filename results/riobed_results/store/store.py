# SPDX-License-Identifier: Apache-2.0
"""The results store: open it, read from it and add rows."""

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

import sqlalchemy as sa
from sqlalchemy.orm import Session
from sqlalchemy.pool import StaticPool

from riobed_results.errors import StoreError, StoreUsageError
from riobed_results.store.base import Base, MetaRow
from riobed_results.store.campaign import CampaignRow
from riobed_results.store.location import SQLITE_MEANING, Location, explained, locate, make_engine
from riobed_results.store.migrations import FIRST_CONTINUED, SCHEMA_VERSION, migrate
from riobed_results.store.run import RunRow
from riobed_results.store.summary import SUMMARIES, GroupRow
from riobed_results.store.trial import FaultRow, TrialRow

# Pages per step when a store is copied; writers may write between two steps.
_PAGES_AT_ONCE = 1000
_CHECKED_BYTES = 256 << 20


class Store:
    """An open store. Every method is one transaction and raises StoreError in one line if it fails.

    Safe to use from several threads and processes at once; holds no connection between calls.
    """

    def __init__(self, location: Location, engine: sa.Engine, writable: bool = False) -> None:
        self.location = location
        self._writable = writable
        self._engine = engine

    @contextmanager
    def session(self) -> Iterator[Session]:
        """Run a block as one transaction; rows read in it stay usable afterwards."""
        with (
            explained(self.location),
            Session(self._engine, expire_on_commit=False) as session,
            session.begin(),
        ):
            yield session

    def migrated(self, found: int) -> "Store":
        """Return a migrated copy of an SQLite store of the older schema `found`.

        SQLite keeps it in memory, or in a temporary file if it is large, until the process ends.
        """
        copy = sqlite3.connect("", check_same_thread=False)
        with explained(self.location), closing(self._engine.raw_connection()) as connection:
            driver: Any = connection.driver_connection
            driver.backup(copy, pages=_PAGES_AT_ONCE)
        store = Store(
            self.location, sa.create_engine("sqlite://", creator=lambda: copy, poolclass=StaticPool)
        )
        with store.session() as session:
            migrate(session, found)
        return store

    def check(self) -> None:
        """Raise StoreError if columns are missing or, in a writable store, if an SQLite file is damaged."""
        with self.session() as session:
            for model in (CampaignRow, TrialRow, FaultRow, GroupRow, SUMMARIES, RunRow):
                session.execute(sa.select(model).limit(0))
            # To look through a large store would take minutes; SQLite notices damage also when it meets it.
            path = self.location.path if self._writable else None
            if path and path.stat().st_size < _CHECKED_BYTES:
                found = session.scalar(sa.text("PRAGMA quick_check(1)"))
                if found != "ok":
                    raise StoreError(f"store {self.location.name}: {SQLITE_MEANING[sqlite3.SQLITE_CORRUPT]}")

    def add_campaign(self, campaign: CampaignRow) -> CampaignRow:
        """Add a campaign and return it with its `id`; StoreError if its name is taken."""
        with self.session() as session:
            session.add(campaign)
        return campaign

    def campaigns(self) -> list[CampaignRow]:
        """Return all campaigns, oldest first."""
        with self.session() as session:
            return list(session.scalars(sa.select(CampaignRow).order_by(CampaignRow.id)))

    def campaign(self, name: str | None = None) -> CampaignRow:
        """Return the campaign `name`, or the latest one; StoreUsageError if there is no such campaign."""
        campaigns = self.campaigns()
        if not campaigns:
            raise StoreError(f"store {self.location.name}: holds no campaign; run one first")
        if name is None:
            return campaigns[-1]
        for campaign in campaigns:
            if campaign.name == name:
                return campaign
        known = ", ".join(campaign.name for campaign in campaigns)
        raise StoreUsageError(f"store {self.location.name}: no campaign {name!r}; it holds: {known}")

    def add_trial(self, trial: TrialRow) -> TrialRow:
        """Add a trial, its faults and its summary atomically, and return it with its `id`.

        StoreError if the schema forbids the row (see trial.py), e.g. because the position has a result.
        """
        with self.session() as session:
            session.add(trial)
        return trial

    def add_run(self, run: RunRow) -> RunRow:
        """Add a measured run and return it with its `id`; StoreError if the same is measured already."""
        with self.session() as session:
            session.add(run)
        return run

    def runs(self, campaign_id: int) -> list[RunRow]:
        """Return all attempts at measured runs of a campaign, in the order they were added."""
        with self.session() as session:
            query = sa.select(RunRow).where(RunRow.campaign_id == campaign_id)
            return list(session.scalars(query.order_by(RunRow.id)))

    def complete_positions(self, campaign_id: int) -> set[int]:
        """Return the plan positions that have a result."""
        query = sa.select(TrialRow.position).where(
            TrialRow.campaign_id == campaign_id, TrialRow.outcome != "infra_error"
        )
        with self.session() as session:
            return set(session.scalars(query))

    def logs(self, campaign_id: int) -> list[tuple[int, str]]:
        """Return position and log of each trial that has a log, in the order the trials were added."""
        query = sa.select(TrialRow.position, TrialRow.log).where(
            TrialRow.campaign_id == campaign_id, TrialRow.log.is_not(None)
        )
        with self.session() as session:
            return [(position, str(log)) for position, log in session.execute(query.order_by(TrialRow.id))]

    def next_attempt(self, campaign_id: int, position: int) -> int:
        """Return the number of the next attempt at `position`; the first is 1."""
        query = sa.select(sa.func.max(TrialRow.attempt)).where(
            TrialRow.campaign_id == campaign_id, TrialRow.position == position
        )
        with self.session() as session:
            return (session.scalar(query) or 0) + 1


def open_store(store: str, *, create: bool = False) -> Store:
    """Open the store at `store` (see `locate`), read-only unless `create`.

    With `create` it is opened for writing, made if it is missing or empty, and brought to the newest schema.
    Otherwise a copy of an SQLite store of an older schema is migrated. Raises StoreError if the store is
    missing, locked, damaged, not a riobed store, or of a schema that this riobed cannot work with;
    StoreUsageError for a malformed URL.
    """
    location = locate(store)
    opened = Store(location, make_engine(location, create), create)
    with opened.session() as session:
        connection = session.connection()
        tables = sa.inspect(connection).get_table_names()
        if create and not tables:
            Base.metadata.create_all(connection)
            session.add(MetaRow(key="schema_version", value=str(SCHEMA_VERSION)))
            session.flush()
        elif MetaRow.__tablename__ not in tables:
            raise StoreError(f"store {location.name}: is not a riobed store; give another with --store")
        found = session.scalar(sa.select(MetaRow.value).filter_by(key="schema_version"))
        version = _older(found)
        if create and version and version >= FIRST_CONTINUED:
            migrate(session, version)
            found = str(SCHEMA_VERSION)
    if version and location.path and not create:
        return opened.migrated(version)
    _check_version(location, found)
    opened.check()
    return opened


def _older(found: str | None) -> int | None:
    """Return the number of a schema before the newest; None if it is no such schema."""
    return next((version for version in range(1, SCHEMA_VERSION) if str(version) == found), None)


def try_store(store: str) -> None:
    """Raise the errors that `open_store` with `create` would raise, without making anything."""
    location = locate(store)
    if location.path is None or location.path.exists():
        open_store(store, create=True)
        return
    folder = next(folder for folder in location.path.absolute().parents if folder.exists())
    if not folder.is_dir() or not os.access(folder, os.W_OK | os.X_OK):
        raise StoreError(f"store {location.name}: {folder} may not be written; choose another with --store")


def _check_version(location: Location, found: str | None) -> None:
    if found != str(SCHEMA_VERSION):
        able = f"{SCHEMA_VERSION}{f' (of {found} it only reads SQLite files)' if _older(found) else ''}"
        raise StoreError(
            f"store {location.name}: has schema version {found}, this riobed works with {able}; "
            "use the riobed that wrote it, or another store"
        )
