# SPDX-License-Identifier: Apache-2.0
"""Queries on stored rows: the only place that defines what tables count."""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import sqlalchemy as sa
from pydantic import BaseModel
from sqlalchemy.orm import selectinload

from riobed_results.errors import StoreError
from riobed_results.store.campaign import CampaignRow, stored_spec
from riobed_results.store.group import Group, Row, group_of
from riobed_results.store.location import explained
from riobed_results.store.run import RunRow
from riobed_results.store.store import Store
from riobed_results.store.summary import SUMMARIES, GroupRow
from riobed_results.store.trial import FaultRow, TrialRow


class CellCounts(BaseModel):
    """The counts of one cell; `corrupted` counts crashes only.

    `trials` = `crashes` + `stuck` + `survived` + `discards` + trials whose reset in recovery came too late to
    tell anything. A cell of a control counts each of its judged trials as a crash. `traps` are the crashes
    that were protection traps. `infra_errors` counts attempts, not positions.
    """

    trials: int = 0
    crashes: int = 0
    corrupted: int = 0
    stuck: int = 0
    survived: int = 0
    discards: int = 0
    infra_errors: int = 0
    traps: int = 0

    def __add__(self, other: "CellCounts") -> "CellCounts":
        sums = {name: getattr(self, name) + getattr(other, name) for name in CellCounts.model_fields}
        return CellCounts(**sums)


# Which trials' faults to load: all, none, or those of some fault classes.
Faults = bool | Collection[str]


_SUMMARIES: Any = SUMMARIES.c
# Rows read in one transaction: so few that a campaign's writer, which waits meanwhile, does not notice.
_AT_ONCE = 10_000
_ROWS_AT_ONCE = 500
_COUNTED_AT_ONCE = 100_000
# Facts that a query may name.
_FEW = 1000


@dataclass(frozen=True)
class Results:
    """A campaign and its trials up to the one with the id `last`: the input of tables.

    Trials are only added, so these stay the same while a campaign goes on. They are read when asked for, in
    the order they were added and some at a time. `faults` says which trials' faults `rows` has.
    """

    store: str
    campaign: CampaignRow
    source: Store
    last: int
    faults: Faults = True

    @cached_property
    def rows(self) -> list[TrialRow]:
        """All trials with everything that is stored; `groups` takes far less time and memory."""
        return list(self.stream())

    def stream(self) -> Iterator[TrialRow]:
        """Read the same trials some at a time, and keep none."""
        for row in stream_rows(self.source, self.campaign.id, faults=self.faults):
            if row.id > self.last:
                return
            yield row

    @cached_property
    def runs(self) -> list[RunRow]:
        """All attempts at measured runs."""
        return self.source.runs(self.campaign.id)

    @cached_property
    def trials(self) -> list[Group]:
        """All trials, counted by their facts."""
        return self._counted((), titles=False)

    def each(
        self, column: str, wants: Callable[[Group], bool] | None = None
    ) -> Iterator[tuple[Group, int, Any]]:
        """Read a column of summaries, trial by trial: a group of one with its facts, its id, and the value.

        Only of those that it `wants`. Trials with equal facts have the same group.
        """
        wanted = {number: replace(row, weight=1) for number, row in self._wanted(wants).items()}
        for trial, group_id, value in self._summaries(("group_id", column), wanted):
            if row := wanted.get(group_id):
                yield row, trial, value

    def groups(
        self,
        *columns: str,
        sums: Sequence[str] = (),
        titles: bool = False,
        wants: Callable[[Group], bool] | None = None,
    ) -> list[Group]:
        """Count the trials with the same facts, in order of first appearance; StoreError if one is malformed.

        Only those that it `wants`. `columns` and `sums` are the `numbers` to collect: their values, or only
        their sum. With `titles`, trials are counted together only if their `crash_title` is the same, too.
        """
        rows = list(filter(wants, self._counted(sums, titles) if sums or titles else self.trials))
        if not columns:
            return rows
        rows = [replace(row, numbers=row.numbers | {name: [] for name in columns}) for row in rows]
        adding: dict[int, list[Callable[[Any], None]]] = {}
        for row in rows:
            adding.setdefault(row.group_id, [row.numbers[name].append for name in columns])
        for _, group_id, *values in self._summaries(("group_id", *columns), adding):
            for add, value in zip(adding.get(group_id, ()), values, strict=False):
                if value is not None:
                    add(value)
        return rows

    def _counted(self, sums: Sequence[str], titles: bool) -> list[Group]:
        key = [_SUMMARIES.group_id, *[_SUMMARIES.crash_title] * titles]
        first = sa.func.min(_SUMMARIES.trial_id)
        found: dict[Any, Group] = {}
        query = sa.select(sa.func.count(), first, *(sa.func.sum(_SUMMARIES[name]) for name in sums), *key)
        for after in range(0, self.last, _COUNTED_AT_ONCE):
            upto = min(after + _COUNTED_AT_ONCE, self.last)
            mine = (_SUMMARIES.campaign_id == self.campaign.id) & _SUMMARIES.trial_id.between(after + 1, upto)
            with self.source.session() as session:
                rows = session.execute(query.where(mine).group_by(*key).order_by(first)).fetchall()
            for weight, trial, *values in rows:
                at = tuple(values[len(sums) :])
                row = found.get(at)
                if row is None:
                    row = found[at] = self._empty(at[0], trial, sums)
                    row.crash_title = at[1] if titles else None
                row.weight += weight
                for name, value in zip(sums, values, strict=False):
                    if value is not None:
                        row.numbers[name].append(int(value))
        return list(found.values())

    def rows_at(self, ids: Sequence[int]) -> Iterator[TrialRow]:
        """Read the trials with these ids with everything stored, but of their faults only those activated."""
        activated = selectinload(TrialRow.faults.and_(FaultRow.activated.is_(True)))
        for start in range(0, len(ids), _ROWS_AT_ONCE):
            some = TrialRow.id.in_(ids[start : start + _ROWS_AT_ONCE])
            with self.source.session() as session:
                yield from session.scalars(
                    sa.select(TrialRow).where(some).order_by(TrialRow.id).options(activated)
                ).all()

    def span(self) -> tuple[str, str]:
        """Return when the first trial began and the last one ended, UTC ISO 8601; "" without trials."""
        query = sa.select(sa.func.min(_SUMMARIES.started), sa.func.max(_SUMMARIES.finished))
        mine = query.where(_SUMMARIES.campaign_id == self.campaign.id, _SUMMARIES.trial_id <= self.last)
        with self.source.session() as session:
            first, last = session.execute(mine).one()
        return first or "", last or ""

    def logs_of(self, ids: Sequence[int]) -> dict[int, str | None]:
        """Return the logs of the trials with these ids."""
        found: dict[int, str | None] = {}
        for start in range(0, len(ids), _ROWS_AT_ONCE):
            query = sa.select(TrialRow.id, TrialRow.log)
            with self.source.session() as session:
                some = session.execute(query.where(TrialRow.id.in_(ids[start : start + _ROWS_AT_ONCE])))
                found.update((trial, log) for trial, log in some)
        return found

    @cached_property
    def _keys(self) -> dict[int, str]:
        query = sa.select(GroupRow.id, GroupRow.text).where(GroupRow.campaign_id == self.campaign.id)
        with self.source.session() as session:
            return {row.id: row.text for row in session.execute(query)}

    def _wanted(self, wants: Callable[[Group], bool] | None) -> dict[int, Group]:
        empty = {number: self._empty(number) for number in self._keys}
        return {number: row for number, row in empty.items() if not wants or wants(row)}

    def _empty(self, group_id: int, first: int = 0, columns: Iterable[str] = ()) -> Group:
        with explained(self.source.location):
            row = group_of(self._keys[group_id])
        return replace(row, group_id=group_id, first=first, numbers={name: [] for name in columns})

    def _summaries(self, columns: Sequence[str], facts: Collection[int]) -> Iterator[Any]:
        """Read `trial_id` and columns of each summary, in order; perhaps only of those with some `facts`."""
        chosen = [_SUMMARIES[name] for name in ("trial_id", *columns)]
        query = sa.select(*chosen).where(_SUMMARIES.campaign_id == self.campaign.id)
        if len(facts) <= _FEW:
            query = query.where(_SUMMARIES.group_id.in_(facts))
        after = 0
        while True:
            some = query.where(_SUMMARIES.trial_id > after, _SUMMARIES.trial_id <= self.last)
            with self.source.session() as session:
                rows = session.execute(some.order_by(_SUMMARIES.trial_id).limit(_AT_ONCE)).fetchall()
            yield from rows
            if len(rows) < _AT_ONCE:
                return
            after = rows[-1][0]

    def without(self, what: str) -> StoreError:
        """Make the error for a campaign that has no `what`."""
        return StoreError(
            f"store {self.store}: campaign {self.campaign.name!r} has no {what}; "
            "choose another with --campaign"
        )


def read_results(store: Store, name: str | None = None, *, faults: Faults = True) -> Results:
    """Read a campaign (None: the latest); StoreUsageError if there is no such campaign."""
    campaign = store.campaign(name)
    with store.session() as session:
        last = session.scalar(sa.select(sa.func.max(TrialRow.id))) or 0
    return Results(store.location.name, campaign, store, last, faults)


# Classes that inject no fault. They are rows of tables, but not part of their totals.
CONTROLS = frozenset({"none", "panic", "planted"})
# What tables mean by a crash, as in the paper: the machine went down by itself. Stores before schema 3 called
# a stuck workload a crash, too.
CRASHES = frozenset({"panic", "hang", "crash"})
# The other outcomes after which the files were checked.
OTHERS = ("stuck", "survived")


def crashed(row: Row) -> bool:
    """Whether the machine crashed by itself."""
    return row.outcome in CRASHES


def judged(row: Row) -> bool:
    """Whether the machine was reset and recovered and its files were checked."""
    return crashed(row) or row.outcome in OTHERS


def is_counted_crash(row: Row) -> bool:
    """Whether the row counts for its cell: a crash, of a control any judged trial.

    It does not count if its reset in recovery came too late.
    """
    ended = judged(row) if row.fault_class in CONTROLS else crashed(row)
    return ended and not row.late


def other(row: Row) -> bool:
    """Whether a trial with faults was judged, but was no crash, so that it is no counted one."""
    return row.outcome in OTHERS and row.fault_class not in CONTROLS and not row.late


def judges_all(rows: Iterable[Row]) -> bool:
    """Whether these rows are of a store in which every run is judged: of schema 3, not older."""
    return not any(row.outcome in ("crash", "discard") for row in rows)


def cell_counts(
    rows: Iterable[Row], counting: Callable[[Row], bool] = is_counted_crash
) -> dict[tuple[str, str], CellCounts]:
    """Return the counts by (mode, fault class), in order of first appearance.

    `counting` says which rows count as crashes. The schema allows one result per position, so each row except
    infra errors is a position.
    """
    cells: dict[tuple[str, str], CellCounts] = {}
    for row in rows:
        cell = cells.setdefault((row.mode, row.fault_class), CellCounts())
        cell.trials += row.weight * (row.outcome != "infra_error")
        cell.crashes += row.weight * counting(row)
        cell.corrupted += row.weight * (counting(row) and row.corruption != "none")
        cell.stuck += row.weight * (row.outcome == "stuck" and other(row))
        cell.survived += row.weight * (row.outcome == "survived" and other(row))
        cell.discards += row.weight * (row.outcome == "discard")
        cell.infra_errors += row.weight * (row.outcome == "infra_error")
        cell.traps += row.weight * (counting(row) and row.crash_kind == "trap")
    return cells


# By mode, then by fault class, seed and kernel ("" if it does not matter): whether the crash corrupted.
CrashesBySeed = dict[str, dict[tuple[str, str, str], bool]]


def crashes_by_seed(results: Results) -> CrashesBySeed:
    """Return the crashes of trials with faults; equal keys in two modes mean equal faults.

    A plan has each seed once per mode; of duplicates the first counts.
    """
    crashes: CrashesBySeed = {}
    build = kernel_of_faults(results.campaign)
    for row, _, seed in results.each(
        "seed", lambda row: row.fault_class not in CONTROLS and is_counted_crash(row)
    ):
        of_mode = crashes.setdefault(row.mode, {})
        of_mode.setdefault((row.fault_class, seed, build(row)), row.corruption != "none")
    return crashes


def kernels(campaign: CampaignRow) -> dict[str, str]:
    """Return the build id of each mode's kernel; empty if all modes ran on one."""
    if campaign.kernels:
        modes = in_order(campaign, "modes", campaign.kernels)
        return {mode: campaign.provenance.kernel_of(mode).build_id for mode in modes}
    # The form of stores with schema 1.
    found = (campaign.host or {}).get("kernels")
    return {str(mode): str(build) for mode, build in found.items()} if isinstance(found, dict) else {}


def kernel_of_faults(campaign: CampaignRow) -> Callable[[Row], str]:
    """Return what tells of a row on which kernel its faults depend: the build id, or "" if on none.

    Trials of two modes with one fault class and seed have equal faults if this is equal, too.
    """
    builds, run_time = kernels(campaign), campaign.vocabulary.run_time_classes
    return lambda row: "" if row.fault_class in run_time else builds.get(row.mode, "")


def trial_rows(store: Store, campaign_id: int, *, faults: Faults = True) -> list[TrialRow]:
    """Return all rows of a campaign in the order they were added, with or without their faults."""
    return list(stream_rows(store, campaign_id, faults=faults))


def stream_rows(store: Store, campaign_id: int, *, faults: Faults = True) -> Iterator[TrialRow]:
    """Read all rows of a campaign in the order they were added, some at a time."""
    query = sa.select(TrialRow).where(TrialRow.campaign_id == campaign_id).order_by(TrialRow.id)
    if faults is True:
        query = query.options(selectinload(TrialRow.faults))
    after = 0
    while True:
        with store.session() as session:
            rows = list(session.scalars(query.where(TrialRow.id > after).limit(_ROWS_AT_ONCE)))
            for row in rows:
                if not isinstance(faults, bool) and row.fault_class in faults:
                    session.refresh(row, ["faults"])
        yield from rows
        if len(rows) < _ROWS_AT_ONCE:
            return
        after = rows[-1].id


def result_at(store: Store, campaign_id: int, position: int) -> TrialRow | None:
    """Return the result at a position of the plan, with its faults; None if there is none."""
    query = (
        sa.select(TrialRow)
        .where(
            TrialRow.campaign_id == campaign_id,
            TrialRow.position == position,
            TrialRow.outcome != "infra_error",
        )
        .options(selectinload(TrialRow.faults))
    )
    with store.session() as session:
        return session.scalar(query)


def vcpus(campaign: CampaignRow) -> int:
    """Return the number of processors of a campaign's machine; 1 if its spec does not say."""
    machine = stored_spec(campaign).get("machine")
    found = machine.get("vcpus") if isinstance(machine, dict) else None
    return found if isinstance(found, int) else 1


def in_order(campaign: CampaignRow, key: str, seen: Iterable[str]) -> list[str]:
    """Return names in the order of the spec's list `key`, followed by names that occur only in `seen`."""
    listed = stored_spec(campaign).get(key)
    names = [name for name in listed if isinstance(name, str)] if isinstance(listed, list) else []
    return list(dict.fromkeys([*names, *seen]))
