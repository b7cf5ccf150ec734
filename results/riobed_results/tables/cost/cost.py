# SPDX-License-Identifier: Apache-2.0
"""The cost of each variant, as ratios of time and of instructions, paired by round."""

import statistics
from collections.abc import Iterable

from pydantic import BaseModel

from riobed_results.errors import StoreError
from riobed_results.stats.ratios import FEWEST, Ratio, bootstrap_interval
from riobed_results.store import Provenance
from riobed_results.tables.cost.cost_runs import CostRun, read_runs
from riobed_results.tables.framework.render import Grid, Page, csv_text, json_text, source_text
from riobed_results.tables.framework.table import FolderTable
from riobed_results.text import printable

# What kernels count; a table has those that its kernel has.
COUNTERS = (
    "registry_updates", "windows", "flushes", "invalidations", "remote_flushes", "key_writes", "checksums",
    "changes", "shadows", "operations", "records", "nr_dirtied", "nr_written",
    "repetitions", "invlpg", "wrmsr", "ipi_RES", "ipi_CAL", "ipi_TLB",
)  # fmt: skip
# Of these the table has a rate, too.
COSTLY = ("invlpg", "wrmsr", "ipi_RES", "ipi_CAL", "ipi_TLB", "repetitions")
# Before its size was stored, the registry had two copies of an entry of 32 bytes for each page.
_OLD_REGISTRY_BYTES = 64
# The variant with the file system of `rio`, without Rio and without writes.
OFF = "off"
KINDS = ("time", "instructions")
NOTE = "Ratios are paired by round. Counters are medians of a run."
LEGEND = {
    "time": "by the guest's clock.",
    "instructions": "the guest's, user and kernel, on all processors, counted in runs of their own. "
    "Repeated string instructions are counted apart, once for each repetition; runs without such a count "
    "have each repetition among the instructions.",
    "ratios": "median, and in brackets its 95 % bootstrap interval; of fewer than "
    f"{FEWEST} rounds the smallest and the largest, which is less than a 95 % interval (of 3: 75 %).",
    "invlpg": "executed INVLPG and INVPCID instructions.",
    "wrmsr": "executed WRMSR instructions.",
    "ipi": "interrupts of /proc/interrupts to reschedule (RES), to call a function (CAL) and to drop "
    "addresses (TLB, of which Linux counts the calls as CAL, too).",
}


class CostRow(BaseModel):
    """One variant and workload: ratios by kind to `versus`, the first variant and OFF, and medians."""

    workload: str
    variant: str
    versus: str | None
    to_versus: dict[str, Ratio]
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
    """The computed table."""

    rows: list[CostRow]
    registry_bytes_per_page: int
    environment: Provenance
    accelerators: dict[str, str]

    @property
    def counters(self) -> list[str]:
        """The names of the counters, in order."""
        return list(self.rows[0].counters)


def cost_table(runs: list[CostRun]) -> CostTable:
    """Compute the table from stored runs alone; StoreError if there are none."""
    if not runs:
        raise StoreError("no run is stored yet; make some with 'riobed cost'")
    rows = []
    for workload in dict.fromkeys(run.label for run in runs):
        here = [run for run in runs if run.label == workload]
        # Runs are in shuffled order; variants are listed in the order in which they build on each other.
        names = _in_order({run.variant: run.versus for run in here})
        rows += [_row(here, name, names[0], _counters(runs)) for name in names]
    return CostTable(
        rows=rows,
        registry_bytes_per_page=_registry_bytes(runs),
        environment=_environment(runs),
        accelerators={run.kind: run.on.accelerator for run in runs},
    )


def _counters(runs: list[CostRun]) -> list[str]:
    return [name for name in COUNTERS if any(run.has_counter(name) for run in runs)]


def _environment(runs: list[CostRun]) -> Provenance:
    """Return the provenance of the last run, with the kernels of variants that had another one."""
    of_variant = {run.variant: run.on for run in runs}
    names = _in_order({run.variant: run.versus for run in runs})
    last = of_variant[names[-1]]
    others = {name: of_variant[name].kernel_of(name) for name in names}
    kernels = {name: kernel for name, kernel in others.items() if kernel.build_id != last.kernel_build_id}
    return last.model_copy(update={"kernels": kernels})


def _registry_bytes(runs: list[CostRun]) -> int:
    """Return the size of what the registry has for a page."""
    return max(run.registry_bytes_per_page or _OLD_REGISTRY_BYTES for run in runs)


def _in_order(versus: dict[str, str | None]) -> list[str]:
    """Sort the variants; each comes after the one that it is compared with."""

    def depth(name: str | None) -> int:
        return 0 if name is None else 1 + depth(versus.get(name))

    return sorted(versus, key=lambda name: (depth(name), name))


def _row(runs: list[CostRun], variant: str, first: str, counters: list[str]) -> CostRow:
    own = [run for run in runs if run.variant == variant]
    versus = own[0].versus
    kinds = [kind for kind in KINDS if any(run.kind == kind for run in own)]
    return CostRow(
        workload=own[0].label,
        variant=variant,
        versus=versus,
        to_versus=_ratios(runs, own, versus, kinds),
        to_first=_ratios(runs, own, first, kinds),
        to_off=_ratios(runs, own, OFF, kinds),
        cost={kind: statistics.median(run.cost for run in own if run.kind == kind) for kind in kinds},
        parts=_parts([run for run in own if run.kind == "time"]),
        idle_s=max(run.idle_s for run in own),
        counters={
            name: statistics.median(run.increase(name) for run in (_that_count(own, name) or own))
            for name in counters
        },
        operations=own[0].operations,
    )


def _parts(timed: list[CostRun]) -> dict[str, float]:
    names = timed[0].parts if timed else {}
    return {name: statistics.median(run.parts[name] for run in timed if name in run.parts) for name in names}


def _that_count(runs: list[CostRun], name: str) -> list[CostRun]:
    return [run for run in runs if run.has_counter(name)]


def _ratios(runs: list[CostRun], own: list[CostRun], base: str | None, kinds: list[str]) -> dict[str, Ratio]:
    found = {}
    for kind in kinds:
        bases = {run.round: run.cost for run in runs if (run.variant, run.kind) == (base, kind)}
        pairs = [run.cost / bases[run.round] for run in own if run.kind == kind and run.round in bases]
        if pairs:
            found[kind] = bootstrap_interval(pairs)
    return found


def cost_page(table: CostTable) -> Page:
    """Return the page of the cost table."""
    grids = [grid for name in _workloads(table) for grid in _grids(name, table)]
    size = f" The registry takes {table.registry_bytes_per_page} bytes for each page of RAM and one page."
    return Page(_source(table), grids, NOTE + size, _csv(table), json_text(table), legend=LEGEND)


def _source(table: CostTable) -> str:
    used = ", ".join(f"{kind}: {name}" for kind, name in table.accelerators.items())
    return source_text("cost", table.environment.model_copy(update={"accelerator": used}))


def _workloads(table: CostTable) -> Iterable[str]:
    return dict.fromkeys(row.workload for row in table.rows)


def _grids(workload: str, table: CostTable) -> list[Grid]:
    rows = [row for row in table.rows if row.workload == workload]
    head = ["Variant", "over", *KINDS, *(f"{kind}, over {rows[0].variant}" for kind in KINDS), "rounds"]
    costs = [
        [
            printable(row.variant),
            printable(row.versus or ""),
            *(_ratio_text(row.to_versus.get(kind)) for kind in KINDS),
            *(_ratio_text(row.to_first.get(kind)) for kind in KINDS),
            ", ".join(str(found.n) for found in row.to_first.values()),
        ]
        for row in rows
    ]
    counts = [
        [
            printable(row.variant),
            _seconds(row),
            f"{row.cost['instructions'] / 1e6:.1f}" if "instructions" in row.cost else "",
            *(f"{value:.0f}" for value in row.counters.values()),
        ]
        for row in rows
    ]
    title = printable(workload)
    parts = f" ({' + '.join(map(printable, rows[0].parts))})" if rows[0].parts else ""
    counted = ["Variant", f"s{parts}", "10^6 instructions", *table.counters]
    grids = [
        Grid(f"{title}: ratios", head, costs, []),
        Grid(f"{title}: medians of a run", counted, counts, []),
    ]
    costly = [name for name in COSTLY if rows[0].per_thousand(name) is not None]
    if costly:
        rates = [
            [printable(row.variant), *(f"{row.per_thousand(name):.1f}" for name in costly)] for row in rows
        ]
        grids.append(Grid(f"{title}: per thousand operations on files", ["Variant", *costly], rates, []))
    return grids


def _seconds(row: CostRow) -> str:
    if "time" not in row.cost:
        return ""
    parts = " + ".join(f"{seconds:.3f}" for seconds in row.parts.values())
    return f"{row.cost['time']:.3f}" + (f" ({parts})" if parts else "")


def _ratio_text(found: Ratio | None) -> str:
    return f"{found.median:.3f} ({found.low:.3f} to {found.high:.3f})" if found else ""


def _csv(table: CostTable) -> str:
    # The first variant of a workload is the one that the others build on.
    first = {row.workload: row.variant for row in reversed(table.rows)}
    lines = (
        [row.workload, row.variant, over, kind, *found.model_dump().values()]
        for row in table.rows
        for over, ratios in {row.versus: row.to_versus, first[row.workload]: row.to_first}.items()
        for kind, found in ratios.items()
    )
    return csv_text(["workload", "variant", "over", "kind", *Ratio.model_fields], lines)


COST = FolderTable(
    name="cost",
    title="What each variant costs",
    help="What each part of Rio costs, as ratios of time and of instructions.",
    compute=lambda folder: cost_table(read_runs(folder)),
    page=cost_page,
    folder_help="Folder that 'riobed cost' wrote.",
)
