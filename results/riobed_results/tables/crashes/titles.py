# SPDX-License-Identifier: Apache-2.0
"""Crash titles: the different crashes and stuck workloads, and how often each occurred."""

from pydantic import BaseModel

from riobed_results.store import CONTROLS, Group, Provenance, Results, Row, crashed, how_many, in_order
from riobed_results.tables.framework.render import Grid, Page, csv_text
from riobed_results.tables.framework.table import CampaignTable, campaign_page
from riobed_results.text import printable

NOTE = (
    "Crashes by title, which is what the kernel said without addresses and numbers, so that equal crashes "
    "count as one; of a crash in no known format the line that tells most."
)
LEGEND = {
    "Corrupted": "of these crashes.",
    "Damaged": "crashes whose report has lost or mixed lines; what, is in the row.",
    "Log": "console of the first, relative to the store's folder.",
}
STUCK_NOTE = " Stuck workloads have titles, too, but are no crashes in other tables."


class Title(BaseModel):
    """Crashes of one kind with one title; `crashes` by mode, `log` is the first crash's log.

    `corrupted` counts crashes that damaged a file, `damaged` those whose log is damaged.
    """

    title: str
    kind: str
    total: int
    corrupted: int
    damaged: int
    crashes: dict[str, int]
    log: str | None


class TitleTable(BaseModel):
    """The titles, most frequent first."""

    campaign: str
    modes: list[str]
    titles: list[Title]
    environment: Provenance


def titled(row: Row) -> bool:
    """Whether this is a crash of a trial with faults."""
    return crashed(row) and row.fault_class not in CONTROLS


def has_title(row: Row) -> bool:
    """Whether this trial with faults has a title that tells something: it crashed or is stuck."""
    return titled(row) or (row.outcome == "stuck" and row.fault_class not in CONTROLS)


def title_table(results: Results) -> TitleTable:
    """Count the crash titles of a campaign without controls; StoreError if it has no crash."""
    campaign = results.campaign
    rows = results.groups(titles=True, wants=has_title)
    if not rows:
        raise results.without("crashes yet")
    groups: dict[tuple[str, str], list[Group]] = {}
    for row in rows:
        kind = row.crash_kind if crashed(row) else row.outcome
        groups.setdefault((row.crash_title or "", kind or ""), []).append(row)
    modes = in_order(campaign, "modes", (row.mode for row in rows))
    first = {key: min((row.first for row in rows if row.logged), default=0) for key, rows in groups.items()}
    logs = results.logs_of(list(filter(None, first.values())))
    titles = [_title(*key, of_title, modes, logs.get(first[key])) for key, of_title in groups.items()]
    return TitleTable(
        campaign=campaign.name,
        modes=modes,
        titles=sorted(titles, key=lambda title: -title.total),
        environment=campaign.provenance,
    )


def _title(title: str, kind: str, rows: list[Group], modes: list[str], log: str | None) -> Title:
    return Title(
        title=title,
        kind=kind,
        total=how_many(rows),
        corrupted=how_many(row for row in rows if row.corruption != "none"),
        damaged=how_many(row for row in rows if row.log_damaged),
        crashes={mode: how_many(row for row in rows if row.mode == mode) for mode in modes},
        log=log,
    )


def title_page(table: TitleTable) -> Page:
    """Return the page of the titles."""
    head = ["Crash title", "Kind", *map(printable, table.modes), "Crashes", "Corrupted", "Damaged", "Log"]
    grid = Grid(f"{len(table.titles)} crash titles", head, list(map(_cells, table.titles)), [])
    stuck = STUCK_NOTE if any(title.kind == "stuck" for title in table.titles) else ""
    return campaign_page(table, [grid], NOTE + stuck, _csv(table), LEGEND)


def _cells(title: Title) -> list[str]:
    return [*_names(title), *(str(count or "") for count in _counts(title)), printable(title.log or "")]


def _names(title: Title) -> list[str]:
    """Return title and kind in the form of the table `stories`, so rows of the two can be joined."""
    return [printable(title.title), printable(title.kind)]


def _counts(title: Title) -> list[int]:
    return [*title.crashes.values(), title.total, title.corrupted, title.damaged]


def _csv(table: TitleTable) -> str:
    head = ["title", "kind", *table.modes, "total", "corrupted", "damaged", "log"]
    return csv_text(head, ([*_names(title), *_counts(title), title.log] for title in table.titles))


TITLES = CampaignTable(
    name="titles",
    title="Crash titles",
    help="Crash titles, how often each came, and in which mode.",
    compute=title_table,
    page=title_page,
    present=lambda rows: any(map(has_title, rows)),
)
