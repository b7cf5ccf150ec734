# SPDX-License-Identifier: Apache-2.0
"""What a part costs: modes of a bench that differ in one thing each, as ratios of time and of instructions.

Ratios are paired by round, as in `table performance`.
"""

import statistics
from collections.abc import Iterable

from pydantic import BaseModel

from riobed_results.stats.ratios import FEWEST, Ratio
from riobed_results.store import CampaignRow, Provenance, Results, RunRow, stored_spec
from riobed_results.tables.cost.performance import Runs, ratio, runs_of
from riobed_results.tables.framework.render import Grid, Page, csv_text
from riobed_results.tables.framework.table import RunTable, campaign_page
from riobed_results.text import printable

# What kernels count; a table has those that its kernels have.
COUNTERS = (
    "registry_updates", "windows", "flushes", "invalidations", "remote_flushes", "key_writes", "checksums",
    "changes", "shadows", "operations", "records", "nr_dirtied", "nr_written",
    "repetitions", "invlpg", "wrmsr", "ipi_RES", "ipi_CAL", "ipi_TLB",
)  # fmt: skip
# Of these the table has a rate, too.
COSTLY = ("invlpg", "wrmsr", "ipi_RES", "ipi_CAL", "ipi_TLB", "repetitions")
# What the registry has for a page: an entry, or two in kernels with shadow pages, which they count
# (docs/decisions/006-operation-log.md). A kernel that counts no updates has none.
ENTRY_BYTES = 32
_UPDATES, _TWICE = "registry_updates", "shadows"
# The mode with the file system of `rio`, without Rio and without writes.
OFF = "off"
KINDS = ("time", "instructions")
NO_LIMITS = "none"
NOTE = "Ratios are paired by round. Counters are medians of a run."
LEGEND = {
    "time": "by the guest's clock.",
    "instructions": "the guest's, user and kernel, on all processors, counted in runs of their own. "
    "Repeated string instructions are counted apart, once for each repetition; runs without such a count "
    "have each repetition among the instructions.",
    "ratios": "median, and in brackets its 95 % interval by order statistics; of fewer than "
    f"{FEWEST} rounds the smallest and the largest, which is less than a 95 % interval (of 3: 75 %).",
    "invlpg": "executed INVLPG and INVPCID instructions.",
    "wrmsr": "executed WRMSR instructions.",
    "ipi": "interrupts of /proc/interrupts to reschedule (RES), to call a function (CAL) and to drop "
    "addresses (TLB, of which Linux counts the calls as CAL, too).",
}


class CostRow(BaseModel):
    """One mode and workload: ratios by kind to the mode `over`, the first mode and OFF, and medians.

    `workload` has the disk and the number of processors behind it, if they are not none and 1.
    """

    workload: str
    mode: str
    over: str | None
    to_over: dict[str, Ratio]
    to_first: dict[str, Ratio]
    to_off: dict[str, Ratio]
    cost: dict[str, float]
    # Medians of seconds by part of the work, if it has parts.
    parts: dict[str, float] = {}
    idle_s: float
    counters: dict[str, float]
    operations: int | None = None

    def per_thousand(self, name: str) -> float | None:
        """Return a counter per thousand operations on files; None if either is not known."""
        return (
            1000 * self.counters[name] / self.operations
            if self.operations and name in self.counters
            else None
        )


class CostTable(BaseModel):
    """The computed table; the registry's size is None if no mode has one."""

    campaign: str
    rows: list[CostRow]
    registry_bytes_per_page: int | None
    environment: Provenance

    @property
    def counters(self) -> list[str]:
        """The names of the counters, in order."""
        return list(self.rows[0].counters)


def compared(campaign: CampaignRow) -> dict[str, str]:
    """Return for modes of a campaign the one over which their cost is told; empty if the spec has none."""
    over = stored_spec(campaign).get("over")
    return {str(mode): str(other) for mode, other in over.items()} if isinstance(over, dict) else {}


def cost_table(results: Results) -> CostTable:
    """Compute the table; StoreError without measured runs of modes that are told over one another."""
    over = compared(results.campaign)
    if not over:
        raise results.without("measured runs of modes that its spec tells `over` one another")
    of_mode = runs_of(results)
    runs = [run for own in of_mode.values() for run in own]
    counters = [name for name in COUNTERS if any(name in run.events for run in runs)]
    rows = []
    # In the order in which they were made.
    for place in dict.fromkeys(map(_place, sorted(runs, key=lambda run: run.id))):
        here = {mode: found for mode, own in of_mode.items() if (found := _at(own, place))}
        rows += [_row(place, mode, over.get(mode), here, counters) for mode in here]
    return CostTable(
        campaign=results.campaign.name,
        rows=rows,
        registry_bytes_per_page=_registry_bytes(runs),
        environment=results.campaign.provenance,
    )


def _place(run: RunRow) -> str:
    """Return the workload with what else the runs compared have in common."""
    disk = "" if run.disk == NO_LIMITS else f", {run.disk}"
    return f"{run.workload}{disk}" + (f", {run.vcpus} vCPUs" if run.vcpus > 1 else "")


def _at(runs: list[RunRow], place: str) -> list[RunRow]:
    return [run for run in runs if _place(run) == place]


def _registry_bytes(runs: list[RunRow]) -> int | None:
    """Return the size of what the registry has for a page."""
    if not any(_UPDATES in run.events for run in runs):
        return None
    return 2 * ENTRY_BYTES if any(_TWICE in run.events for run in runs) else ENTRY_BYTES


def _row(
    place: str, mode: str, over: str | None, here: dict[str, list[RunRow]], counters: list[str]
) -> CostRow:
    own, first = here[mode], next(iter(here))
    kinds = [kind for kind in KINDS if any(run.kind == kind for run in own)]
    by_round = {kind: _by_round(here, kind) for kind in kinds}

    def ratios(base: str | None) -> dict[str, Ratio]:
        every = {kind: ratio(by_round[kind], mode, base) for kind in kinds} if base else {}
        return {kind: found for kind, found in every.items() if found}

    return CostRow(
        workload=place,
        mode=mode,
        over=over,
        to_over=ratios(over),
        to_first=ratios(first),
        to_off=ratios(OFF),
        cost={kind: statistics.median(run.cost for run in own if run.kind == kind) for kind in kinds},
        parts=_parts([run for run in own if run.kind == "time"]),
        idle_s=max(run.idle_s or 0 for run in own),
        counters={name: _median(own, name) for name in counters},
        operations=own[0].operations,
    )


def _by_round(here: dict[str, list[RunRow]], kind: str) -> Runs:
    return {mode: {run.round: run for run in runs if run.kind == kind} for mode, runs in here.items()}


def _median(runs: list[RunRow], name: str) -> float:
    """Return the median of a counter in the runs that count it; 0 if none does."""
    return statistics.median([run.events[name] for run in runs if name in run.events] or [0])


def _parts(timed: list[RunRow]) -> dict[str, float]:
    names = timed[0].parts if timed else {}
    return {name: statistics.median(run.parts[name] for run in timed if name in run.parts) for name in names}


def cost_page(table: CostTable) -> Page:
    """Return the page of the cost table."""
    grids = [grid for name in _workloads(table) for grid in _grids(name, table)]
    size = table.registry_bytes_per_page
    registry = f" The registry takes {size} bytes for each page of RAM and one page." if size else ""
    return campaign_page(table, grids, NOTE + registry, _csv(table), LEGEND)


def _workloads(table: CostTable) -> Iterable[str]:
    return dict.fromkeys(row.workload for row in table.rows)


def _grids(workload: str, table: CostTable) -> list[Grid]:
    rows = [row for row in table.rows if row.workload == workload]
    head = ["Mode", "over", *KINDS, *(f"{kind}, over {rows[0].mode}" for kind in KINDS), "rounds"]
    costs = [
        [
            printable(row.mode),
            printable(row.over or ""),
            *(_ratio_text(row.to_over.get(kind)) for kind in KINDS),
            *(_ratio_text(row.to_first.get(kind)) for kind in KINDS),
            ", ".join(str(found.n) for found in row.to_first.values()),
        ]
        for row in rows
    ]
    counts = [
        [
            printable(row.mode),
            _seconds(row),
            f"{row.cost['instructions'] / 1e6:.1f}" if "instructions" in row.cost else "",
            *(f"{value:.0f}" for value in row.counters.values()),
        ]
        for row in rows
    ]
    title = printable(workload)
    parts = f" ({' + '.join(map(printable, rows[0].parts))})" if rows[0].parts else ""
    counted = ["Mode", f"s{parts}", "10^6 instructions", *table.counters]
    grids = [
        Grid(f"{title}: ratios", head, costs, []),
        Grid(f"{title}: medians of a run", counted, counts, []),
    ]
    costly = [name for name in COSTLY if rows[0].per_thousand(name) is not None]
    if costly:
        rates = [[printable(row.mode), *(f"{row.per_thousand(name):.1f}" for name in costly)] for row in rows]
        grids.append(Grid(f"{title}: per thousand operations on files", ["Mode", *costly], rates, []))
    return grids


def _seconds(row: CostRow) -> str:
    if "time" not in row.cost:
        return ""
    parts = " + ".join(f"{seconds:.3f}" for seconds in row.parts.values())
    return f"{row.cost['time']:.3f}" + (f" ({parts})" if parts else "")


def _ratio_text(found: Ratio | None) -> str:
    return f"{found.median:.3f} ({found.low:.3f} to {found.high:.3f})" if found else ""


def _csv(table: CostTable) -> str:
    # The first mode of a workload is the one that the others build on.
    first = {row.workload: row.mode for row in reversed(table.rows)}
    lines = (
        [row.workload, row.mode, over, kind, *found.model_dump().values()]
        for row in table.rows
        for over, ratios in {row.over: row.to_over, first[row.workload]: row.to_first}.items()
        for kind, found in ratios.items()
    )
    return csv_text(["workload", "mode", "over", "kind", *Ratio.model_fields], lines)


COST = RunTable(
    name="cost",
    title="What each part costs",
    help="Ratios of time and of instructions of modes that differ in one thing each, and costly events.",
    compute=cost_table,
    page=cost_page,
    section="performance",
    about_faults=False,
    asked=lambda campaign: bool(compared(campaign)),
)
