# SPDX-License-Identifier: Apache-2.0
"""Tables with a line for each thing counted and a column for each cache mode."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from pydantic import BaseModel

from riobed_results.store import Provenance, Results, TrialRow, in_order
from riobed_results.tables.render import Grid, Page, csv_text, printable
from riobed_results.tables.table import CampaignTable, Section, campaign_page

Value = int | float | None


@dataclass(frozen=True)
class Design:
    """What such a table is about: which rows, and what is counted in those of one mode.

    Without a row that it `needs` (None: one it wants) the table would say nothing. The rest is as in a
    CampaignTable.
    """

    name: str
    title: str
    note: str
    section: Section
    wants: Callable[[TrialRow], bool]
    lines: Callable[[list[TrialRow]], dict[str, Value]]
    needs: Callable[[TrialRow], bool] | None = None
    about_faults: bool = False

    def of(self, rows: Iterable[TrialRow]) -> list[TrialRow]:
        """Return the rows it wants; none if those it needs are missing."""
        wanted = list(filter(self.wants, rows))
        return wanted if any(map(self.needs or self.wants, wanted)) else []


def by_mode(design: Design) -> "CampaignTable[ModeTable]":
    """Return the table of a design."""
    return CampaignTable(
        name=design.name,
        title=design.title,
        help=f"{design.title}, by cache mode.",
        compute=lambda results: mode_table(results, design),
        page=lambda table: mode_page(design, table),
        present=lambda rows: bool(design.of(rows)),
        section=design.section,
        about_faults=design.about_faults,
    )


class ModeTable(BaseModel):
    """A table as a program reads it; `lines` by name and mode, None where nothing can be said."""

    campaign: str
    modes: list[str]
    lines: dict[str, dict[str, Value]]
    environment: Provenance


def mode_table(results: Results, design: Design) -> ModeTable:
    """Compute a table of a campaign; StoreError if it has no row that the design wants."""
    campaign = results.campaign
    rows = design.of(results.rows)
    if not rows:
        raise results.without(f"trials for the table {design.name}")
    modes = in_order(campaign, "modes", (row.mode for row in rows))
    of_mode = {mode: [row for row in rows if row.mode == mode] for mode in modes}
    # Zeros would be a claim where nothing was counted.
    columns = {mode: design.lines(found) if found else {} for mode, found in of_mode.items()}
    names = dict.fromkeys(name for column in columns.values() for name in column)
    return ModeTable(
        campaign=campaign.name,
        modes=modes,
        lines={name: {mode: columns[mode].get(name) for mode in modes} for name in names},
        environment=campaign.provenance,
    )


def mode_page(design: Design, table: ModeTable) -> Page:
    """Return such a table for people and programs."""
    head = ["", *map(printable, table.modes)]
    body = [
        [printable(name), *(_text(cells[mode]) for mode in table.modes)]
        for name, cells in table.lines.items()
    ]
    return campaign_page(table, [Grid(design.title, head, body, [])], design.note, _csv(table))


def _text(value: Value) -> str:
    return "-" if value is None else f"{value:g}" if isinstance(value, float) else str(value)


def _csv(table: ModeTable) -> str:
    lines = ([name, *(cells[mode] for mode in table.modes)] for name, cells in table.lines.items())
    return csv_text(["line", *table.modes], lines)
