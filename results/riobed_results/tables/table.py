# SPDX-License-Identifier: Apache-2.0
"""What a table is: one entry, from which its command, its page and its part of the report are made."""

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Generic, Literal, Protocol, TypeVar

from pydantic import BaseModel

from riobed_results.store import Provenance, Results, Store, TrialRow, read_results
from riobed_results.tables.controls import CONTROLS, control_warnings
from riobed_results.tables.render import Dumped, Grid, Page, json_text, source_text

Model = TypeVar("Model", bound=BaseModel)
# Where the report shows a table.
Section = Literal["corruptions", "faults", "phases", "controls"]


@dataclass(frozen=True)
class Table(Generic[Model]):
    """A table: `compute` makes its model, `page` makes the model's page.

    `name` is that of the command and of the published file. Parameters of `compute` after the first have
    defaults and are options of the command. `compute` raises StoreError if there is nothing to show.
    """

    name: str
    title: str
    help: str
    compute: Callable[..., Model]
    page: Callable[[Model], Page]

    @property
    def options(self) -> list[inspect.Parameter]:
        """Return what `compute` takes besides the rows."""
        return list(inspect.signature(self.compute).parameters.values())[1:]


@dataclass(frozen=True)
class CampaignTable(Table[Model]):
    """A table of a campaign's rows.

    `present` says whether rows with results give this table anything to show. `section` is where the report
    shows it; None if the report has a form of its own for it, or leaves it out. A table about faults
    carries the warnings about controls. Only with `every_fault` do trials other than controls have
    their faults.
    """

    present: Callable[[Sequence[TrialRow]], bool]
    section: Section | None = None
    about_faults: bool = True
    every_fault: bool = False

    def read(self, store: Store, campaign: str | None) -> Results:
        """Read what the table needs of a campaign (None: the latest)."""
        return read_results(store, campaign, faults=True if self.every_fault else CONTROLS)

    def of(self, results: Results, **options: Any) -> Page:
        """Return the page of a campaign, with its warnings."""
        page = replace(
            self.page(self.compute(results, **options)), title=f"{self.title} of {results.campaign.name}"
        )
        return replace(page, warnings=control_warnings(results)) if self.about_faults else page


@dataclass(frozen=True)
class FolderTable(Table[Model]):
    """A table of the runs stored in a folder; `folder_help` says which folder."""

    folder_help: str

    def of(self, folder: Path, **options: Any) -> Page:
        """Return the page of a folder."""
        return replace(self.page(self.compute(folder, **options)), title=self.title)


class CampaignModel(Dumped, Protocol):
    """What the model of a campaign's table has."""

    @property
    def campaign(self) -> str:
        """Name of the campaign."""

    @property
    def environment(self) -> Provenance:
        """What the campaign ran on."""


def campaign_page(model: CampaignModel, grids: list[Grid], note: str, csv: str) -> Page:
    """Return the page of a campaign's table, as yet without title and warnings."""
    return Page(source_text(model.campaign, model.environment), grids, note, csv, json_text(model))
