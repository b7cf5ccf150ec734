# SPDX-License-Identifier: Apache-2.0
"""What safety costs: a bench's runs as Table 2 of the paper, with its own numbers beside.

Ratios are paired: two runs of one round and one session, of the same work on the same disk.
"""

import statistics
from collections.abc import Callable, Iterable
from typing import Annotated

from pydantic import BaseModel

from riobed_results.errors import StoreUsageError
from riobed_results.stats.ratios import FEWEST, Ratio, order_interval
from riobed_results.store import DiskCounts, Provenance, Results, RunKind, RunRow, in_order
from riobed_results.tables.framework.table import Option
from riobed_results.tables.paper.table2 import STATEMENTS, TIMES, PaperTime, Statement

BASE = "rio-protected"
MIB = 1 << 20
Over = Annotated[str, Option("The cache mode over which ratios are.")]


class Use(BaseModel):
    """Medians of how the disk was used; `reads` and `writes` are requests, `mib` is both together."""

    reads: float
    writes: float
    mib: float
    written_mib: float
    flushes: float


class PerformanceRow(BaseModel):
    """The runs of one mode, workload, disk and number of processors that measure one kind of cost.

    `cost` and `parts` are medians of seconds or instructions, `over` and `part_over` are the ratios to the
    base, `permanent` when data is permanent in the mode's own words. `waited` is the largest share of a run
    in which the guest waited for the host. `disk_taken` is the median of how many times as long as in their
    models the requests of the slow disks took, None without requests. `rate` is the median of operations a
    second, None if the workload does not count them, `fsync` whether it was told to make each durable.
    """

    workload: str
    disk: str
    vcpus: int
    kind: RunKind
    mode: str
    permanent: str | None
    runs: int
    cost: float
    parts: dict[str, float]
    over: Ratio | None
    part_over: dict[str, Ratio]
    during: Use | None
    after: Use | None
    clean_s: float | None
    disk_taken: float | None
    waited: float | None
    rate: float | None
    fsync: bool
    paper: PaperTime | None
    paper_over: float | None


class Said(BaseModel):
    """What the paper says of a ratio, and the ratios here, by mode; `holds` is None if it cannot be told.

    `disk_taken` is the largest of the rows of the systems compared: where it is far above 1, the ratios are
    not those of the disk's model.
    """

    key: str
    text: str
    workload: str
    disk: str
    vcpus: int
    ratios: dict[str, Ratio]
    disk_taken: float | None
    holds: bool | None


class Pace(BaseModel):
    """How many times as fast as its model a disk was, which may be another number in each round."""

    workload: str
    disk: str
    vcpus: int
    rounds: int
    median: float
    low: float
    high: float


class PerformanceTable(BaseModel):
    """The computed table; `base` is the mode over which ratios are, `paces` are those of faster disks."""

    campaign: str
    base: str
    rows: list[PerformanceRow]
    paces: list[Pace]
    said: list[Said]
    infra_errors: int
    # Runs whose output was wrong, which are in no row.
    wrong: int
    environment: Provenance


# Workload, disk, number of processors, kind.
Cell = tuple[str, str, int, RunKind]
# Runs by mode and round.
Runs = dict[str, dict[int, RunRow]]


def runs_of(results: Results) -> dict[str, list[RunRow]]:
    """Return the measured runs by mode, the modes in the order of the spec; StoreError if there are none."""
    measured = [run for run in results.runs if run.outcome == "measured"]
    if not measured:
        raise results.without("measured runs")
    modes = in_order(results.campaign, "modes", (run.mode for run in measured))
    found = {mode: [run for run in measured if run.mode == mode] for mode in modes}
    return {mode: runs for mode, runs in found.items() if runs}


def performance_table(results: Results, over: Over = BASE) -> PerformanceTable:
    """Compute the table; StoreError without measured runs, StoreUsageError if the mode `over` has none."""
    of_mode = runs_of(results)
    if over not in of_mode:
        # The default need not be one of the bench's modes.
        if over != BASE:
            raise StoreUsageError(f"--over {over}: no run is in that mode; there are: {', '.join(of_mode)}")
        over = next(iter(of_mode))
    cells: dict[Cell, Runs] = {}
    for mode, runs in of_mode.items():
        for run in runs:
            cell = cells.setdefault((run.workload, run.disk, run.vcpus, run.kind), {})
            cell.setdefault(mode, {})[run.round] = run
    return PerformanceTable(
        campaign=results.campaign.name,
        base=over,
        rows=[_row(cell, mode, runs, over) for cell, runs in cells.items() for mode in runs],
        paces=[pace for cell, runs in cells.items() if (pace := _pace(cell, runs))],
        said=[said for cell, runs in cells.items() if cell[-1] == "time" for said in _said(cell, runs)],
        infra_errors=sum(run.outcome == "infra_error" for run in results.runs),
        wrong=sum(run.outcome == "wrong" for run in results.runs),
        environment=results.campaign.provenance,
    )


def _row(cell: Cell, mode: str, runs: Runs, over: str) -> PerformanceRow:
    workload, disk, vcpus, kind = cell
    own = list(runs[mode].values())
    paper = TIMES.get(mode, {}).get(workload)
    base = TIMES.get(over, {}).get(workload)
    return PerformanceRow(
        workload=workload,
        disk=disk,
        vcpus=vcpus,
        kind=kind,
        mode=mode,
        permanent=own[0].permanent,
        runs=len(own),
        cost=statistics.median(run.cost for run in own),
        parts={name: statistics.median(run.part_costs[name] for run in own) for name in own[0].part_costs},
        over=ratio(runs, mode, over),
        part_over={name: found for name in own[0].part_costs if (found := ratio(runs, mode, over, name))},
        during=_use(run.disk_during for run in own),
        after=_use(run.disk_after for run in own),
        clean_s=_median(run.clean_s for run in own),
        disk_taken=_median(_taken(run) for run in own),
        waited=max((run.delayed_s or 0) / (run.host_s or 1) for run in own) if kind == "time" else None,
        rate=_median(_rate(run) for run in own) if kind == "time" else None,
        fsync="--fsync" in (own[0].work or "").split(),
        paper=paper if kind == "time" else None,
        paper_over=paper.seconds / base.seconds if paper and base and kind == "time" else None,
    )


def _pace(cell: Cell, runs: Runs) -> Pace | None:
    """Return the pace of a cell's disk; None if it is that of its model, or was not stored."""
    workload, disk, vcpus, _ = cell
    # A round in which the bench was stopped has one for each session.
    of_round = {(run.round, run.session): run.disk_speedup for of in runs.values() for run in of.values()}
    found = [times for times in of_round.values() if times is not None]
    if not found or set(found) == {1.0}:
        return None
    span = {"median": statistics.median(found), "low": min(found), "high": max(found)}
    return Pace.model_validate(
        {"workload": workload, "disk": disk, "vcpus": vcpus, "rounds": len(found)} | span
    )


def _taken(run: RunRow) -> float | None:
    return run.disk_taken_s / run.disk_model_s if run.disk_taken_s is not None and run.disk_model_s else None


def _rate(run: RunRow) -> float | None:
    return run.operations / run.seconds if run.operations and run.seconds else None


def _use(counts: Iterable[DiskCounts | None]) -> Use | None:
    found = [each for each in counts if each]
    if not found:
        return None

    def median(value: Callable[[DiskCounts], float]) -> float:
        return statistics.median(map(value, found))

    return Use(
        reads=median(lambda use: use.read_requests),
        writes=median(lambda use: use.write_requests),
        mib=median(lambda use: (use.read_bytes + use.write_bytes) / MIB),
        written_mib=median(lambda use: use.write_bytes / MIB),
        flushes=median(lambda use: use.flushes),
    )


def _median(values: Iterable[float | None]) -> float | None:
    found = [value for value in values if value is not None]
    return statistics.median(found) if found else None


def ratio(runs: Runs, mode: str, over: str, part: str | None = None) -> Ratio | None:
    """Return how many times the cost of `over` a mode has, of the whole work or of a part of it.

    It is paired by round; None without a common round.

    Benches of before 2026-11-27 made the rest of a round in which they were stopped later, perhaps on a
    busier host, which a count of instructions does not see.
    """
    own, base = runs.get(mode, {}), runs.get(over, {})
    both = [(own[number], base[number]) for number in sorted(own.keys() & base.keys())]
    pairs = [
        _cost(mine, part) / _cost(other, part)
        for mine, other in both
        if mine.kind == "instructions" or mine.session == other.session
    ]
    return order_interval(pairs) if pairs else None


def _cost(run: RunRow, part: str | None) -> float:
    return run.cost if part is None else run.part_costs[part]


def _said(cell: Cell, runs: Runs) -> list[Said]:
    workload, disk, vcpus, _ = cell
    return said_of(STATEMENTS, (workload, disk, vcpus), runs) if workload in TIMES[BASE] else []


def said_of(statements: Iterable[Statement], place: tuple[str, str, int], runs: Runs) -> list[Said]:
    """Return whether statements hold for runs of one workload, disk and number of processors, if all ran.

    That cannot be told by fewer than FEWEST pairs of runs.
    """
    workload, disk, vcpus = place
    found = []
    for each in statements:
        ratios = {mode: known for mode in each.modes if (known := ratio(runs, mode, each.over))}
        if len(ratios) == len(each.modes):
            said = {"key": each.key, "text": each.text, "workload": workload, "disk": disk, "vcpus": vcpus}
            of_modes = (_median(map(_taken, runs[mode].values())) for mode in (*each.modes, each.over))
            taken = max((value for value in of_modes if value is not None), default=None)
            holds = _all(each, ratios.values())
            found.append(Said.model_validate(said | {"ratios": ratios, "disk_taken": taken, "holds": holds}))
    return found


def _all(statement: Statement, ratios: Iterable[Ratio]) -> bool | None:
    each = [statement.holds(found.low, found.high) if found.n >= FEWEST else None for found in ratios]
    return False if False in each else None if None in each else True
