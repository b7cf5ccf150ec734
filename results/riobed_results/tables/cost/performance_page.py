# SPDX-License-Identifier: Apache-2.0
"""The page of `table performance`: for each disk the paper's form, then ratios, disk use and instructions."""

from collections.abc import Callable, Iterable

from pydantic import BaseModel

from riobed_results.stats.ratios import FEWEST, Ratio
from riobed_results.tables.cost.performance import (
    BASE,
    Pace,
    PerformanceRow,
    PerformanceTable,
    Said,
    Use,
    performance_table,
)
from riobed_results.tables.framework.render import Grid, Page, csv_text
from riobed_results.tables.framework.table import RunTable, campaign_page
from riobed_results.tables.paper.table2 import TIMES
from riobed_results.text import printable

NOTE = (
    "Medians of the runs, of parts in brackets. Ratios are medians of the ratios of two runs of the same "
    "round. Compare seconds within a column, and not with another processor."
)
LEGEND = {
    "seconds": "of the guest's clock. Under emulation they are what the emulator makes of the guest's "
    "instructions, and a disk is as fast as its model if the emulator's own is (time of the disk's "
    "requests).",
    "ratios": "in brackets the interval of the median by order statistics (scipy.stats.quantile_test): 95 "
    f"%, or of fewer than {FEWEST} rounds from the smallest to the largest, which is less (of 5: 93.8 %).",
    "waited": "the largest share of a run in which the guest waited for a processor of the host.",
    "instructions": "the guest's, user and kernel, on all processors, counted in runs of their own on a disk "
    "without limits; repeated string instructions are counted apart.",
    "operations a second": "medians of the rates of the runs, in files' operations or commits as the "
    "workload has it; fsync: the program was told to make them durable (of SQLite: synchronous = full, else "
    "off).",
    "reads, writes": "requests until the work ends; MiB: read and written ones.",
    "after": "from the end of the work until the file system was read-only, so that its disk had everything.",
    "paper": "Table 2 of Chen et al., ASPLOS 1996; its seconds are of another machine, its ratios are over "
    "the same system as the others.",
}
PACE_NOTE = (
    " Each disk is scaled by the guest's processor speed relative to the disk's original host; "
    "where that is measured, it is measured in each round."
)


# Where it is far above 1, what a statement says of a disk is said of the emulator's, too.
_TAKEN = "(the disk's requests took longer than in its model, at most by this factor)"


def performance_page(table: PerformanceTable) -> Page:
    """Return the page: for each disk the paper's form, ratios and the disk's use, then instructions."""
    grids = []
    for kind in ("time", "instructions"):
        rows = [row for row in table.rows if row.kind == kind]
        for disk, vcpus in dict.fromkeys((row.disk, row.vcpus) for row in rows):
            here = [row for row in rows if (row.disk, row.vcpus) == (disk, vcpus)]
            place = printable(disk) + (f", {vcpus} vCPUs" if vcpus > 1 else "")
            if kind == "time":
                grids += [_seconds(place, here), _ratios(place, here, table.base), *_rates(place, here)]
                grids += _uses(place, here)
                grids += _taken(place, here)
                grids += _paces(place, [p for p in table.paces if (p.disk, p.vcpus) == (disk, vcpus)])
                said = [said for said in table.said if (said.disk, said.vcpus) == (disk, vcpus)]
                what = f"{place}: does the paper's ratio to Rio without protection hold?"
                grids += [statements_grid(what, said)] if said else []
            else:
                processors = f", {vcpus} vCPUs" if vcpus > 1 else ""
                grids.append(_instructions(processors, here, table.base))
    failed = f" {table.infra_errors} runs failed for riobed's own reasons and were made again."
    wrong = f" {table.wrong} runs left wrong output and count for nothing."
    paced = PACE_NOTE if table.paces else ""
    note = NOTE + paced + (failed if table.infra_errors else "") + (wrong if table.wrong else "")
    return campaign_page(table, grids, note, _csv(table), LEGEND)


def _workloads(rows: list[PerformanceRow]) -> list[str]:
    return list(dict.fromkeys(row.workload for row in rows))


def _by_mode(rows: list[PerformanceRow]) -> dict[str, dict[str, PerformanceRow]]:
    found: dict[str, dict[str, PerformanceRow]] = {}
    for row in rows:
        found.setdefault(row.mode, {})[row.workload] = row
    return found


def _columns(
    rows: list[PerformanceRow], cells: Callable[[PerformanceRow], tuple[str, str]], paper: bool
) -> Iterable[tuple[PerformanceRow, list[str]]]:
    """Return for each mode a row and two cells for each workload; the second only if the paper has it."""
    for of_mode in _by_mode(rows).values():
        line = []
        for workload in _workloads(rows):
            here, beside = cells(of_mode[workload]) if workload in of_mode else ("", "")
            line += [here, beside] if paper and workload in TIMES[BASE] else [here]
        yield next(iter(of_mode.values())), line


def _head(rows: list[PerformanceRow], unit: str) -> list[str]:
    head = []
    for workload in _workloads(rows):
        parts = next((row.parts for row in rows if row.workload == workload and row.parts), {})
        told = f" ({' + '.join(map(printable, parts))})" if parts and unit != "over" else ""
        head.append(f"{printable(workload)}{told}{'' if unit == 'over' else f', {unit}'}")
        if workload in TIMES[BASE] and unit != "10^6":
            head.append("paper")
    return head


def _seconds(place: str, rows: list[PerformanceRow]) -> Grid:
    def cells(row: PerformanceRow) -> tuple[str, str]:
        paper = _with_parts(row.paper.seconds, row.paper.parts, "g") if row.paper else ""
        return _with_parts(row.cost, row.parts.values(), ".2f"), paper

    body = [
        [printable(row.mode), printable(row.permanent or ""), *line]
        for row, line in _columns(rows, cells, True)
    ]
    head = ["System", "Data permanent", *_head(rows, "s")]
    return Grid(f"{place}: seconds", head, body, [])


def _with_parts(whole: float, parts: Iterable[float], form: str) -> str:
    told = " + ".join(f"{part:{form}}" for part in parts)
    return f"{whole:{form}}" + (f" ({told})" if told else "")


def _ratios(place: str, rows: list[PerformanceRow], base: str) -> Grid:
    def cells(row: PerformanceRow) -> tuple[str, str]:
        return _ratio(row.over, 2), f"{row.paper_over:.2f}" if row.paper_over else ""

    waited = {mode: max(row.waited or 0 for row in of.values()) for mode, of in _by_mode(rows).items()}
    # Ratios are of two runs of one session.
    pairs = {
        mode: min(row.over.n if row.over else 0 for row in of.values()) for mode, of in _by_mode(rows).items()
    }
    body = [
        [printable(row.mode), *line, f"{100 * waited[row.mode]:.0f} %", str(pairs[row.mode])]
        for row, line in _columns(rows, cells, True)
    ]
    head = ["System", *_head(rows, "over"), "waited", "pairs"]
    return Grid(f"{place}: seconds over those of {printable(base)}", head, body, [])


def _ratio(found: Ratio | None, digits: int) -> str:
    return f"{found.median:.{digits}f} ({found.low:.{digits}f} to {found.high:.{digits}f})" if found else ""


def _rates(place: str, rows: list[PerformanceRow]) -> list[Grid]:
    counted = [row for row in rows if row.rate is not None]
    if not counted:
        return []

    def cells(row: PerformanceRow) -> tuple[str, str]:
        return f"{row.rate:.0f}" + (" (fsync)" if row.fsync else ""), ""

    body = [[printable(row.mode), *line] for row, line in _columns(counted, cells, False)]
    head = ["System", *map(printable, _workloads(counted))]
    return [Grid(f"{place}: operations a second", head, body, [])]


def _uses(place: str, rows: list[PerformanceRow]) -> list[Grid]:
    head = ["System", "reads", "writes", "MiB", "flushes", "writes after", "MiB after", "s until clean"]
    grids = []
    for workload in _workloads(rows):
        body = [
            [printable(row.mode), *_during(row.during), *_after(row.after), _plain(row.clean_s)]
            for row in rows
            if row.workload == workload
        ]
        grids.append(
            Grid(f"{place}, {printable(workload)}: the disk during the work and after it", head, body, [])
        )
    return grids


def _taken(place: str, rows: list[PerformanceRow]) -> list[Grid]:
    if all(row.disk_taken is None for row in rows):
        return []

    def cells(row: PerformanceRow) -> tuple[str, str]:
        return ("" if row.disk_taken is None else f"{row.disk_taken:.2f}"), ""

    body = [[printable(row.mode), *line] for row, line in _columns(rows, cells, False)]
    head = ["System", *map(printable, _workloads(rows))]
    return [Grid(f"{place}: time of the disk's requests over that in its model", head, body, [])]


def _paces(place: str, paces: list[Pace]) -> list[Grid]:
    head = ["Workload", "median", "smallest", "largest", "rounds"]
    body = [
        [
            printable(each.workload),
            *(f"{x:.3g}" for x in (each.median, each.low, each.high)),
            str(each.rounds),
        ]
        for each in paces
    ]
    return [Grid(f"{place}: how many times as fast as its model", head, body, [])] if body else []


def _during(use: Use | None) -> list[str]:
    return [f"{use.reads:.0f}", *_after(use), f"{use.flushes:.0f}"] if use else [""] * 4


def _after(use: Use | None) -> list[str]:
    return [f"{use.writes:.0f}", f"{use.mib:.1f}"] if use else [""] * 2


def _plain(value: float | None) -> str:
    return "" if value is None else f"{value:.1f}"


def statements_grid(title: str, said: list[Said]) -> Grid:
    """Return a grid that says whether statements hold, by workload."""
    workloads = list(dict.fromkeys(each.workload for each in said))
    body = []
    for text in dict.fromkeys(each.text for each in said):
        cells = {each.workload: _holds(each) for each in said if each.text == text}
        body.append([text, *(cells.get(workload, "") for workload in workloads)])
    taken = {name: [x.disk_taken for x in said if x.workload == name and x.disk_taken] for name in workloads}
    if any(taken.values()):
        cells = {name: f"{max(found):.2f}" for name, found in taken.items() if found}
        body.append([_TAKEN, *(cells.get(workload, "") for workload in workloads)])
    return Grid(title, ["Paper", *workloads], body, [])


def _holds(said: Said) -> str:
    word = {True: "yes", False: "no", None: "cannot be told"}[said.holds]
    return f"{word}: {', '.join(_ratio(found, 2) for found in said.ratios.values())}"


def _instructions(place: str, rows: list[PerformanceRow], base: str) -> Grid:
    def cells(row: PerformanceRow) -> tuple[str, str]:
        millions = _with_parts(row.cost / 1e6, (part / 1e6 for part in row.parts.values()), ".1f")
        return f"{millions}, {_ratio(row.over, 3)}", ""

    body = [[printable(row.mode), *line] for row, line in _columns(rows, cells, False)]
    title = f"10^6 instructions{place}, and over those of {printable(base)}"
    return Grid(title, ["System", *_head(rows, "10^6")], body, [])


_ONE = (
    "workload", "disk", "vcpus", "kind", "mode", "permanent", "runs", "cost", "clean_s", "waited",
    "rate", "fsync",
)  # fmt: skip


def _csv(table: PerformanceTable) -> str:
    lines = []
    for row in table.rows:
        parts = " ".join(f"{name}={cost:.9g}" for name, cost in row.parts.items())
        paper = [row.paper.seconds if row.paper else None, row.paper_over]
        more = [*_fields(Ratio, row.over), *_fields(Use, row.during), *_fields(Use, row.after), *paper]
        lines.append([*(getattr(row, name) for name in _ONE), parts, *more])
    ratios = [f"over_{name}" for name in Ratio.model_fields]
    uses = [f"{when}_{name}" for when in ("during", "after") for name in Use.model_fields]
    return csv_text([*_ONE, "parts", *ratios, *uses, "paper_seconds", "paper_over"], lines)


def _fields(of: type[BaseModel], model: BaseModel | None) -> Iterable[object]:
    return model.model_dump().values() if model else [None] * len(of.model_fields)


PERFORMANCE = RunTable(
    name="performance",
    title="What safety costs",
    help="Seconds, disk use and instructions of each system, as Table 2 of the paper, with ratios.",
    compute=performance_table,
    page=performance_page,
    section="performance",
    about_faults=False,
)
