# SPDX-License-Identifier: Apache-2.0
"""Tables with one line per counted quantity and one column per cache mode."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from pydantic import BaseModel

from riobed_results.store import Group, Provenance, Results, Row, RowType, Vocabulary, in_order, judges_all
from riobed_results.tables.framework.render import Grid, Page, csv_text
from riobed_results.tables.framework.table import CampaignTable, Section, campaign_page
from riobed_results.text import printable

Value = int | float | None


@dataclass(frozen=True)
class ModeCounts:
    """The definition of such a table: which rows it `wants`, and the `lines` counted from one mode's rows
    by the campaign's vocabulary.

    It is empty without a row that it `needs` (None: any row that it wants); `lacks` says then what the
    campaign has not. `old_note` and
    `old_legend` are for stores in which not every run is judged; empty and None if they are the same.
    `numbers` are the columns whose values the lines need, `sums` those of which they need the sum. The other
    fields are those of CampaignTable.
    """

    name: str
    title: str
    help: str
    note: str
    section: Section
    wants: Callable[[Row], bool]
    lines: Callable[[Sequence[Row], Vocabulary], dict[str, Value]]
    numbers: tuple[str, ...] = ()
    sums: tuple[str, ...] = ()
    needs: Callable[[Row], bool] | None = None
    lacks: str = ""
    about_faults: bool = False
    old_note: str = ""
    legend: Mapping[str, str] = field(default_factory=dict)
    old_legend: Mapping[str, str] | None = None

    def read(self, results: Results) -> list[Group]:
        """Read the trials that it wants of a campaign."""
        return results.groups(*self.numbers, sums=self.sums, wants=self.wants)

    def of(self, rows: Iterable[RowType]) -> list[RowType]:
        """Return the rows that it wants; empty if the rows that it needs are missing."""
        wanted = list(filter(self.wants, rows))
        return wanted if any(map(self.needs or self.wants, wanted)) else []


def by_mode(counts: ModeCounts) -> "CampaignTable[ModeTable]":
    """Make the table of such counts."""
    return CampaignTable(
        name=counts.name,
        title=counts.title,
        help=counts.help,
        compute=lambda results: mode_table(results, counts),
        page=lambda table: mode_page(counts, table),
        present=lambda rows: bool(counts.of(rows)),
        section=counts.section,
        about_faults=counts.about_faults,
    )


class ModeTable(BaseModel):
    """The computed table; `lines` maps name and mode to a value, None where nothing was counted.

    A line without a value in any mode is left out.
    """

    campaign: str
    modes: list[str]
    lines: dict[str, dict[str, Value]]
    environment: Provenance
    judges_all: bool


def mode_table(results: Results, counts: ModeCounts) -> ModeTable:
    """Compute a table of a campaign; StoreError if there is no row to count."""
    campaign = results.campaign
    rows = counts.of(counts.read(results))
    if not rows:
        raise results.without(counts.lacks or f"trials for the table {counts.name}")
    modes = in_order(campaign, "modes", (row.mode for row in rows))
    of_mode = {mode: [row for row in rows if row.mode == mode] for mode in modes}
    # No zeros where nothing was counted: they would be a claim.
    columns = {
        mode: counts.lines(found, campaign.vocabulary) if found else {} for mode, found in of_mode.items()
    }
    names = dict.fromkeys(name for column in columns.values() for name in column)
    lines = {name: {mode: columns[mode].get(name) for mode in modes} for name in names}
    return ModeTable(
        campaign=campaign.name,
        modes=modes,
        lines={name: cells for name, cells in lines.items() if set(cells.values()) != {None}},
        environment=campaign.provenance,
        judges_all=judges_all(results.trials),
    )


def mode_page(counts: ModeCounts, table: ModeTable) -> Page:
    """Return the table's page."""
    head = ["", *map(printable, table.modes)]
    body = [
        [printable(name), *(_text(cells[mode]) for mode in table.modes)]
        for name, cells in table.lines.items()
    ]
    note, legend = counts.note, counts.legend
    if not table.judges_all:
        note = counts.old_note or note
        legend = legend if counts.old_legend is None else counts.old_legend
    return campaign_page(table, [Grid(counts.title, head, body, [])], note, _csv(table), legend)


def _text(value: Value) -> str:
    return "-" if value is None else f"{value:g}" if isinstance(value, float) else str(value)


def _csv(table: ModeTable) -> str:
    lines = ([name, *(cells[mode] for mode in table.modes)] for name, cells in table.lines.items())
    return csv_text(["line", *table.modes], lines)
