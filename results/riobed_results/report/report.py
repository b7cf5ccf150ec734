# SPDX-License-Identifier: Apache-2.0
"""A campaign as one self-contained page: tables, plots, stories, controls and provenance.

Anybody may get the page, so no text of the store is trusted: all text is escaped, a log is linked only if it
is a file inside its folder, and the page's policy forbids loading or running anything.
"""

from dataclasses import dataclass, field

from markupsafe import Markup

from riobed_results.report import plots
from riobed_results.report.completion import Progress, progress
from riobed_results.store import CampaignRow, Links, Store, TrialRow, in_order, read_results, utc_now
from riobed_results.tables.controls import failed_controls, judged, losing_modes, missing_controls
from riobed_results.tables.corruption import CORRUPTION, CorruptionTable, corruption_table
from riobed_results.tables.paper import SYSTEMS, total
from riobed_results.tables.proportions import corrupted_share
from riobed_results.tables.registry import CAMPAIGN_TABLES, campaign_pages
from riobed_results.tables.render import TEMPLATES, Page
from riobed_results.tables.stories import Story, story_table, told
from riobed_results.tables.titles import Title, title_table, titled

SHOWN = 12  # differences shown per story; the store has all


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
    corruption: Page | None
    sections: dict[str, list[Page]]
    plots: dict[str, Markup] = field(default_factory=dict)
    titles: list[Title] = field(default_factory=list)
    title_modes: list[str] = field(default_factory=list)
    stories: dict[str, list[Story]] = field(default_factory=dict)


def report(store: Store, name: str | None, link: Links, reload_s: int | None = None) -> str:
    """Return the page of a campaign (None: the latest), which may have no trial yet.

    `reload_s` makes a browser reload the page after that many seconds. Raises StoreUsageError if there is no
    such campaign.
    """
    results = read_results(store.snapshot(), name)
    campaign, rows = results.campaign, results.rows
    pages = campaign_pages(results)
    made = Report(
        campaign=campaign,
        written=utc_now(),
        reload_s=reload_s,
        progress=progress(campaign, rows),
        failed=failed_controls(rows, losing_modes(campaign)),
        missing=missing_controls(results),
        controls_ran=any(map(judged, rows)),
        link=link,
        corruption=pages.get(CORRUPTION.name),
        sections=_sections(pages),
    )
    if made.corruption:
        made.plots |= _plots(corruption_table(results), rows)
    if any(map(titled, rows)):
        table = title_table(results)
        made.titles, made.title_modes = table.titles, table.modes
    if any(map(told, rows)):
        stories = story_table(results).stories
        modes = in_order(campaign, "modes", (story.mode for story in stories))
        by_mode = {mode: [story for story in stories if story.mode == mode] for mode in modes}
        made.stories = {mode: of_mode for mode, of_mode in by_mode.items() if of_mode}
    template = TEMPLATES.get_template("report.html.j2")
    return template.render(report=made, host=_host(campaign.host), shown=SHOWN) + "\n"


def _sections(pages: dict[str, Page]) -> dict[str, list[Page]]:
    """Return the pages that the report includes unchanged, by section."""
    sections: dict[str, list[Page]] = {}
    for table in CAMPAIGN_TABLES:
        if table.section and table.name in pages:
            sections.setdefault(table.section, []).append(pages[table.name])
    return sections


def _host(stored: object) -> dict[str, str]:
    """Flatten the stored facts about the host to texts by name; a group's name is a prefix of its facts."""
    facts: dict[str, str] = {}
    for name, value in stored.items() if isinstance(stored, dict) else ():
        if isinstance(value, dict):
            facts |= {f"{name}: {each}": str(fact) for each, fact in value.items()}
        else:
            facts[name] = str(value)
    return facts


def _plots(table: CorruptionTable, rows: list[TrialRow]) -> dict[str, Markup]:
    crashes: dict[str, list[float]] = {}
    for line in table.rows:
        seconds = [
            row.time_to_crash_s
            for row in rows
            if titled(row) and row.fault_class == line.fault_class and row.time_to_crash_s is not None
        ]
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


def _totals(table: CorruptionTable) -> list[plots.Line]:
    """Return a line for each mode, followed by one for the paper's system that it corresponds to."""
    lines = []
    for number, mode in enumerate(table.modes):
        lines.append(plots.Line(mode, number, table.statistics.totals[mode]))
        beside = table.statistics.paper
        if beside and mode in beside.modes:
            share = corrupted_share(total(beside.paper, mode))
            lines.append(plots.Line(f"paper: {SYSTEMS[mode]}", number, share))
    return lines


def _cells(table: CorruptionTable) -> list[plots.Line]:
    return [
        plots.Line(row.fault_class, number, corrupted_share(row.cells[mode]))
        for row in table.of_faults()
        for number, mode in enumerate(table.modes)
    ]


def _outcomes(table: CorruptionTable) -> list[plots.Outcomes]:
    return [
        plots.Outcomes(
            row.fault_class,
            sound=counts.crashes - counts.corrupted,
            corrupted=counts.corrupted,
            discards=counts.discards,
        )
        for row in table.of_faults()
        for counts in row.cells.values()
    ]
