# SPDX-License-Identifier: Apache-2.0
"""A campaign as one self-contained page: tables, plots, stories, controls and provenance.

Anybody may get the page, so no text of the store is trusted: all text is escaped, a log is linked only if it
is a file inside its folder, and the page's policy forbids loading or running anything.
"""

from dataclasses import dataclass, field

from markupsafe import Markup

from riobed_results.report import plots
from riobed_results.report.answer import answer, has_answer, inline
from riobed_results.report.completion import Progress, progress
from riobed_results.rules.clock import CRASH_NOTE
from riobed_results.rules.controls import failed_controls, missing_controls, tells
from riobed_results.store import (
    OTHERS,
    CampaignRow,
    CellCounts,
    Links,
    Results,
    Store,
    in_order,
    numbers,
    read_results,
    utc_now,
)
from riobed_results.tables.corruption.corruption import CORRUPTION, CorruptionTable
from riobed_results.tables.corruption.exposure import ALL, Exposure, ExposureTable
from riobed_results.tables.corruption.protocol import ProtocolTable
from riobed_results.tables.corruption.survival import Curve, SurvivalTable
from riobed_results.tables.cost.performance import PerformanceTable
from riobed_results.tables.crashes.stories import Story, read_stories, told, told_trials
from riobed_results.tables.crashes.titles import Title, has_title, title_table, titled
from riobed_results.tables.framework.render import TEMPLATES, Page
from riobed_results.tables.framework.shares import corrupted_share
from riobed_results.tables.paper.table1 import SYSTEMS, total
from riobed_results.tables.registry import present_tables

SHOWN = 12  # differences shown per story; the store has all
STORIES = 500  # stories shown per mode, the first of the plan; a browser can show no million
TITLES = 2000  # titles shown, the most frequent


@dataclass
class Report:
    """What the template shows; empty parts are left out."""

    campaign: CampaignRow
    written: str
    reload_s: int | None
    progress: Progress
    failed: list[str]
    missing: list[str]
    controls_ran: bool
    link: Links
    # Measured runs, and those that failed.
    runs: tuple[int, int] = (0, 0)
    corruption: Page | None = None
    sections: dict[str, list[Page]] = field(default_factory=dict)
    plots: dict[str, Markup] = field(default_factory=dict)
    # The figure of a protocol.
    claims: Markup | None = None
    # By disk, and number of processors if it is not 1.
    speed: dict[str, Markup] = field(default_factory=dict)
    titles: list[Title] = field(default_factory=list)
    title_modes: list[str] = field(default_factory=list)
    # By mode, the number of stories and the first of them.
    told: dict[str, int] = field(default_factory=dict)
    stories: dict[str, list[Story]] = field(default_factory=dict)


def report(store: Store, name: str | None, link: Links, reload_s: int | None = None) -> str:
    """Return the page of a campaign (None: the latest), which may have no trial yet.

    `reload_s` makes a browser reload the page after that many seconds. Raises StoreUsageError if there is no
    such campaign.
    """
    results = read_results(store, name)
    campaign, rows = results.campaign, results.trials
    tables = present_tables(results)
    made = Report(
        campaign=campaign,
        written=utc_now(),
        reload_s=reload_s,
        progress=progress(results),
        failed=failed_controls(rows, campaign.vocabulary),
        missing=missing_controls(results),
        controls_ran=any(tells(row, campaign.vocabulary) for row in rows),
        link=link,
    )
    ended = [run.outcome == "measured" for run in results.runs]
    made.runs = ended.count(True), ended.count(False)
    protocol: ProtocolTable | None = None
    curves: list[Curve] = []
    for table in tables:
        # The tables of a section are included unchanged.
        if table.section or table is CORRUPTION:
            model = table.compute(results)
            page = table.shown(model, results)
            if table.section:
                made.sections.setdefault(table.section, []).append(page)
            if isinstance(model, CorruptionTable):
                made.corruption = page
                made.plots |= _plots(model, results)
            if isinstance(model, PerformanceTable):
                made.speed = _speed(model)
            if isinstance(model, ExposureTable):
                made.plots["exposure"] = _exposure(model.lines)
            if isinstance(model, SurvivalTable):
                curves = model.curves
                made.plots["survival"] = plots.survival(curves)
            if isinstance(model, ProtocolTable):
                protocol = model
    if protocol and has_answer(protocol):
        made.claims = inline(answer(results, protocol, curves))
    if any(map(has_title, rows)):
        titles = title_table(results)
        made.titles, made.title_modes = titles.titles, titles.modes
    if any(map(told, rows)):
        trials = told_trials(results)
        for mode in in_order(campaign, "modes", trials):
            if ids := trials.get(mode):
                made.told[mode] = len(ids)
                made.stories[mode] = read_stories(results, ids[:STORIES])
    template = TEMPLATES.get_template("report.html.j2")
    host = _host(campaign.host)
    shown = {"shown": SHOWN, "titles_shown": TITLES, "crash_note": CRASH_NOTE, "light": plots.LIGHT}
    return template.render(report=made, host=host, **shown) + "\n"


def _host(stored: object) -> dict[str, str]:
    """Flatten the stored facts about the host to texts by name; a group's name is a prefix of its facts."""
    facts: dict[str, str] = {}
    for name, value in stored.items() if isinstance(stored, dict) else ():
        if isinstance(value, dict):
            facts |= {f"{name}: {each}": str(fact) for each, fact in value.items()}
        else:
            facts[name] = str(value)
    return facts


def _plots(table: CorruptionTable, results: Results) -> dict[str, Markup]:
    timed = results.groups("time_to_crash_s", wants=titled)
    crashes: dict[str, list[float]] = {}
    for line in table.rows:
        seconds = numbers((row for row in timed if row.fault_class == line.fault_class), "time_to_crash_s")
        if seconds:
            crashes[line.fault_class] = seconds
    drawn = {
        "totals": plots.intervals("totals", _totals(table)),
        "classes": plots.intervals("classes", _cells(table), table.modes),
        "outcomes": plots.outcomes(_outcomes(table)),
    }
    if crashes:
        drawn["times"] = plots.crash_times(crashes)
    return drawn


def _exposure(lines: list[Exposure]) -> Markup:
    """Plot corruption with a wrong checksum (full) and all of it (hollow): a series for each arm and class.

    With more of these than there are colours, a series has all classes of an arm.
    """
    shown = {f"{line.arm}, {line.fault_class}": line for line in lines if line.fault_class != ALL}
    if together := len(shown) > len(plots.SERIES):
        shown = {line.arm: line for line in lines}
    series = list(shown)
    points = [
        plots.Point(line.cache[1], series.index(name), end.share, hollow)
        for line in lines
        if (name := line.arm if together else f"{line.arm}, {line.fault_class}") in shown
        and together == (line.fault_class == ALL)
        for end, hollow in ((line.wrong_checksum, False), (line.corrupted, True))
    ]
    return plots.exposure(points, series)


def _speed(table: PerformanceTable) -> dict[str, Markup]:
    """Plot the ratios of seconds, a row for each mode and a series for each workload."""
    timed = [row for row in table.rows if row.kind == "time" and row.over]
    workloads = list(dict.fromkeys(row.workload for row in timed))
    drawn = {}
    for number, (disk, vcpus) in enumerate(dict.fromkeys((row.disk, row.vcpus) for row in timed)):
        lines = [
            plots.PlotRatio(
                row.mode,
                workloads.index(row.workload),
                row.over.median,
                row.over.low,
                row.over.high,
                row.paper_over,
            )
            for row in timed
            if row.over and (row.disk, row.vcpus) == (disk, vcpus)
        ]
        place = disk + (f", {vcpus} vCPUs" if vcpus > 1 else "")
        drawn[place] = plots.ratios(f"speed{number}", lines, workloads)
    return drawn


def _totals(table: CorruptionTable) -> list[plots.PlotLine]:
    """Return a line for each mode, followed by one for the paper's system that it corresponds to."""
    lines = []
    for number, mode in enumerate(table.modes):
        lines.append(plots.PlotLine(mode, number, table.statistics.totals[mode]))
        beside = table.statistics.paper
        if beside and mode in beside.modes:
            share = corrupted_share(total(beside.paper, mode))
            lines.append(plots.PlotLine(f"paper: {SYSTEMS[mode]}", number, share))
    return lines


def _cells(table: CorruptionTable) -> list[plots.PlotLine]:
    return [
        plots.PlotLine(row.fault_class, number, corrupted_share(row.cells[mode]))
        for row in table.of_faults()
        for number, mode in enumerate(table.modes)
    ]


def _outcomes(table: CorruptionTable) -> list[plots.Outcomes]:
    return [
        plots.Outcomes(
            row.fault_class,
            sound=counts.crashes - counts.corrupted,
            corrupted=counts.corrupted,
            others=counts.stuck + counts.survived + counts.discards,
            others_corrupted=sum(_cell(table, other, row.fault_class, mode).corrupted for other in OTHERS),
        )
        for row in table.of_faults()
        for mode, counts in row.cells.items()
    ]


def _cell(table: CorruptionTable, outcome: str, fault_class: str, mode: str) -> CellCounts:
    """Return the counts of the trials of a cell that ended in this way."""
    rows = table.outcomes.get(outcome, [])
    return next((row.cells[mode] for row in rows if row.fault_class == fault_class), CellCounts())
