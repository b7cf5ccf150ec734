# SPDX-License-Identifier: Apache-2.0
"""What an NVDIMM is worth in each use of it: seconds, what the disk is spared, and what goes to the NVDIMM.

After Figure 4 of "NVRAM in the cloud". How slow an NVDIMM is cannot be measured under emulation, where it is
as fast as RAM. So its lines are counted, and their delay is computed.
"""

import math
import statistics
from collections.abc import Callable, Iterable
from typing import Annotated

from pydantic import BaseModel

from riobed_results.errors import StoreUsageError
from riobed_results.stats.ratios import FEWEST, Ratio
from riobed_results.store import Provenance, Results, RunRow
from riobed_results.tables.cost.performance import MIB, Runs, Said, ratio, runs_of, said_of
from riobed_results.tables.cost.performance_page import statements_grid
from riobed_results.tables.framework.render import Grid, Page, csv_text
from riobed_results.tables.framework.table import Option, RunTable, campaign_page
from riobed_results.tables.nvdimm.nvram import has_nvdimm
from riobed_results.tables.paper.cloud import ORDERS
from riobed_results.text import printable

LINE = 64
# Izraelevitz et al., Basic Performance Measurements of the Intel Optane DC Persistent Memory Module
# (arXiv:1903.05714): a random load takes 305 ns; one module writes 2.3 GB/s, which are 28 ns for a line.
READ_NS, WRITE_NS = 305.0, 28.0
Over = Annotated[str | None, Option("The cache mode over which ratios are; default: the first.")]
ReadNs = Annotated[float, Option("Nanoseconds that an NVDIMM takes to read a line.")]
WriteNs = Annotated[float, Option("Nanoseconds that an NVDIMM takes to write a line.")]


class SpeedRow(BaseModel):
    """The runs of one mode, workload, disk and number of processors; medians.

    `written_mib` is what the work writes to files, `disk_mib` what the disks got of it until they had all.
    What goes to the NVDIMM is from the counted runs; None in modes that do not use it, or without such runs.
    """

    workload: str
    disk: str
    vcpus: int
    mode: str
    runs: int
    seconds: float
    over: Ratio | None
    written_mib: float | None
    disk_mib: float | None
    counted_runs: int
    loads: float | None
    stores: float | None
    read_mib: float | None
    nvdimm_mib: float | None
    delay_s: float | None

    @property
    def disk_traffic(self) -> float | None:
        """MiB written to disks for each MiB written to files."""
        return _per(self.disk_mib, self.written_mib)

    @property
    def nvdimm_traffic(self) -> float | None:
        """MiB written to the NVDIMM for each MiB written to files."""
        return _per(self.nvdimm_mib, self.written_mib)


class SpeedTable(BaseModel):
    """The computed table; `base` is the mode over which ratios are, the delays are those of a line.

    `orders`: whether what "NVRAM in the cloud" says of the order of modes holds.
    """

    campaign: str
    base: str
    read_ns: float
    write_ns: float
    rows: list[SpeedRow]
    orders: list[Said]
    environment: Provenance


def speed_table(
    results: Results, over: Over = None, read_ns: ReadNs = READ_NS, write_ns: WriteNs = WRITE_NS
) -> SpeedTable:
    """Compute the table; StoreError if no run of a machine with an NVDIMM measured time.

    StoreUsageError if the mode `over` has no run, or a delay is negative.
    """
    for name, delay in (("--read-ns", read_ns), ("--write-ns", write_ns)):
        if not 0 <= delay < math.inf:
            raise StoreUsageError(f"{name} {delay:g}: want a number of nanoseconds from 0 on")
    if not has_nvdimm(results.campaign):
        raise results.without("measured runs of machines with an NVDIMM")
    of_mode = runs_of(results)
    if over is not None and over not in of_mode:
        raise StoreUsageError(f"--over {over}: no run is in that mode; there are: {', '.join(of_mode)}")
    base = over or next(iter(of_mode))

    def delay_s(read: float, written: float) -> float:
        return (read * read_ns + written * write_ns) / 1e9

    rows, orders = [], []
    for workload, disk, vcpus in dict.fromkeys(map(_place, _timed(of_mode))):
        timed = {
            mode: {run.round: run for run in _timed({mode: runs}) if _place(run) == (workload, disk, vcpus)}
            for mode, runs in of_mode.items()
        }
        orders += said_of(ORDERS.get(workload.partition("-")[0], ()), (workload, disk, vcpus), timed)
        # What the processor does is counted on a disk without limits, for all disks.
        alike = [run for run in _counted(of_mode) if (run.workload, run.vcpus) == (workload, vcpus)]
        for mode in (mode for mode in of_mode if timed[mode]):
            rows.append(_row(mode, timed, [run for run in alike if run.mode == mode], base, delay_s))
    if not rows:
        raise results.without("runs that measure time")
    return SpeedTable(
        campaign=results.campaign.name,
        base=base,
        read_ns=read_ns,
        write_ns=write_ns,
        rows=rows,
        orders=orders,
        environment=results.campaign.provenance,
    )


def _timed(of_mode: dict[str, list[RunRow]]) -> list[RunRow]:
    return [run for runs in of_mode.values() for run in runs if run.kind == "time"]


def _counted(of_mode: dict[str, list[RunRow]]) -> list[RunRow]:
    return [run for runs in of_mode.values() for run in runs if run.kind == "instructions"]


def _place(run: RunRow) -> tuple[str, str, int]:
    return run.workload, run.disk, run.vcpus


def _row(
    mode: str, timed: Runs, counted: list[RunRow], base: str, delay_s: Callable[[float, float], float]
) -> SpeedRow:
    own = list(timed[mode].values())
    read, written = _event(counted, "lines_read"), _event(counted, "lines_written")
    first = own[0]
    return SpeedRow(
        workload=first.workload,
        disk=first.disk,
        vcpus=first.vcpus,
        mode=mode,
        runs=len(own),
        seconds=statistics.median(run.cost for run in own),
        over=ratio(timed, mode, base),
        written_mib=_median(None if run.written_bytes is None else run.written_bytes / MIB for run in own),
        disk_mib=_median(map(_to_disk, own)),
        counted_runs=len(counted),
        loads=_event(counted, "loads"),
        stores=_event(counted, "stores"),
        read_mib=None if read is None else read * LINE / MIB,
        nvdimm_mib=None if written is None else written * LINE / MIB,
        delay_s=None if read is None or written is None else delay_s(read, written),
    )


def _event(counted: list[RunRow], name: str) -> float | None:
    """Return the median of a counter of the NVDIMM; None if nothing went there in any run."""
    if not any(any(_counts(run).values()) for run in counted):
        return None
    return _median(_counts(run).get(name, 0) for run in counted)


def _counts(run: RunRow) -> dict[str, int]:
    prefix = "nvdimm_"
    return {name.removeprefix(prefix): n for name, n in run.events.items() if name.startswith(prefix)}


def _to_disk(run: RunRow) -> float | None:
    used = [run.disk_during, run.disk_after]
    return sum(use.write_bytes for use in used if use) / MIB if any(used) else None


def _median(values: Iterable[float | None]) -> float | None:
    found = [value for value in values if value is not None]
    return statistics.median(found) if found else None


def _per(part: float | None, whole: float | None) -> float | None:
    return part / whole if part is not None and whole else None


NOTE = (
    "Medians of the runs. Seconds are without the NVDIMM's delay: an emulated NVDIMM is as fast as RAM, and "
    "an emulated processor many times slower than a real one."
)
LEGEND = {
    "s": "seconds of the guest's clock.",
    "over": "median of the ratios of two runs of one round, with its interval as in table performance.",
    "to disks": "MiB that the disks under test got, swapped memory included, until the file system was "
    "read-only.",
    "NVDIMM": "lines of 64 bytes that a cache of 2 MiB, direct-mapped and written back, reads and writes, "
    "counted in runs of their own.",
    "delay": "of these lines, at {read_ns:g} ns for one that is read and {write_ns:g} ns for one that is "
    "written (the defaults are of an Intel Optane module, arXiv:1903.05714), one after the other, which a "
    "processor overlaps; of a line that is flushed again and again only the last write, and of what the "
    "cache has at the end none.",
    "order": "whether the other mode takes at least as long as the first named, by the paired ratios of "
    f"their seconds; it cannot be told if the interval has 1 in it, or of fewer than {FEWEST} pairs.",
}
_HEAD = (
    "System", "runs", "s", "over", "MiB to files", "to disks", "per MiB",
    "NVDIMM: loads, 10^6", "stores, 10^6", "MiB read", "MiB written", "per MiB", "delay, s",
)  # fmt: skip


def speed_page(table: SpeedTable) -> Page:
    """Return the page: a grid for each workload, disk and number of processors."""
    grids = []
    for place in dict.fromkeys((row.workload, row.disk, row.vcpus) for row in table.rows):
        rows = [row for row in table.rows if (row.workload, row.disk, row.vcpus) == place]
        workload, disk, vcpus = place
        title = f"{printable(workload)} on {printable(disk)}" + (f", {vcpus} vCPUs" if vcpus > 1 else "")
        head = [f"over {printable(table.base)}" if name == "over" else name for name in _HEAD]
        grids.append(Grid(title, head, list(map(_cells, rows)), []))
    for disk in dict.fromkeys(each.disk for each in table.orders):
        said = [each for each in table.orders if each.disk == disk]
        grids.append(statements_grid(f"{printable(disk)}: does the paper's order hold?", said))
    delay = LEGEND["delay"].format(read_ns=table.read_ns, write_ns=table.write_ns)
    return campaign_page(table, grids, NOTE, _csv(table), LEGEND | {"delay": delay})


def _cells(row: SpeedRow) -> list[str]:
    over = row.over
    return [
        printable(row.mode),
        str(row.runs),
        f"{row.seconds:.2f}",
        f"{over.median:.2f} ({over.low:.2f} to {over.high:.2f})" if over else "",
        *map(_plain, (row.written_mib, row.disk_mib)),
        _two(row.disk_traffic),
        *(_two(None if n is None else n / 1e6) for n in (row.loads, row.stores)),
        *map(_plain, (row.read_mib, row.nvdimm_mib)),
        *map(_two, (row.nvdimm_traffic, row.delay_s)),
    ]


def _plain(value: float | None) -> str:
    return "" if value is None else f"{value:.1f}"


def _two(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"


def _csv(table: SpeedTable) -> str:
    names = [name for name in SpeedRow.model_fields if name != "over"] + ["disk_traffic", "nvdimm_traffic"]
    ratios = list(Ratio.model_fields)
    lines = [
        [*(getattr(row, name) for name in names), *(getattr(row.over, name, None) for name in ratios)]
        for row in table.rows
    ]
    return csv_text([*names, *(f"over_{name}" for name in ratios)], lines)


NVRAM_SPEED = RunTable(
    name="nvram-speed",
    title="What an NVDIMM is worth",
    help="Seconds, traffic of disk and NVDIMM, and modelled delays, by what a machine uses its NVDIMM for.",
    compute=speed_table,
    page=speed_page,
    section="performance",
    about_faults=False,
    asked=has_nvdimm,
)
