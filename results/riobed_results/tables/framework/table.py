# SPDX-License-Identifier: Apache-2.0
"""Definitions of tables: each entry gives a command, a page and a part of the report."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Generic, Literal, Protocol, TypeVar

from pydantic import BaseModel

from riobed_results.rules.controls import control_warnings
from riobed_results.store import CampaignRow, Provenance, Results, Row
from riobed_results.tables.framework.render import Dumped, Grid, Page, json_text, source_text

Model = TypeVar("Model", bound=BaseModel)
# The report's sections.
Section = Literal["protocol", "corruptions", "faults", "times", "phases", "controls", "performance"]


@dataclass(frozen=True)
class Option:
    """Says in the annotation of a parameter of `compute` what it is."""

    help: str


@dataclass(frozen=True)
class Table(Generic[Model]):
    """A table: `compute` makes its model, `page` makes the model's page.

    `name` is the name of the command and of the published file. Parameters of `compute` after the first have
    defaults, are annotated with an Option, and become options of the command. `compute` raises StoreError if
    there is nothing to show, StoreUsageError if an option has no such value.
    """

    name: str
    title: str
    help: str
    compute: Callable[..., Model]
    page: Callable[[Model], Page]

    @property
    def options(self) -> list[inspect.Parameter]:
        """The parameters of `compute` besides the rows."""
        return list(inspect.signature(self.compute).parameters.values())[1:]


@dataclass(frozen=True)
class CampaignTable(Table[Model]):
    """A table of a campaign's rows.

    `present` says whether rows with results give this table any content, `asked` whether the campaign asked
    for it. `section` is the report's section for it; None if the report shows it in another form, or not at
    all. A table `about_faults` carries the warnings about controls.
    """

    present: Callable[[Sequence[Row]], bool]
    section: Section | None = None
    about_faults: bool = True
    asked: Callable[[CampaignRow], bool] = lambda campaign: True

    def has(self, results: Results) -> bool:
        """Whether a campaign has this table."""
        return self.asked(results.campaign) and self.present(results.trials)

    def of(self, results: Results, **options: Any) -> Page:
        """Return the page of a campaign, with its warnings."""
        return self.shown(self.compute(results, **options), results)

    def shown(self, model: Model, results: Results) -> Page:
        """Return the page of a computed model of a campaign."""
        page = replace(self.page(model), title=f"{self.title} of {results.campaign.name}")
        return replace(page, warnings=control_warnings(results)) if self.about_faults else page


@dataclass(frozen=True)
class RunTable(CampaignTable[Model]):
    """A table of a bench's measured runs; a bench is a campaign without trials."""

    present: Callable[[Sequence[Row]], bool] = lambda rows: False

    def has(self, results: Results) -> bool:
        """Whether a campaign has measured runs of the kind that the table is for."""
        return self.asked(results.campaign) and any(run.outcome == "measured" for run in results.runs)


@dataclass(frozen=True)
class FolderTable(Table[Model]):
    """A table of the runs stored in a folder; `folder_help` says which folder."""

    folder_help: str

    def of(self, folder: Path, **options: Any) -> Page:
        """Return the page of a folder."""
        return replace(self.page(self.compute(folder, **options)), title=self.title)


class CampaignModel(Dumped, Protocol):
    """The interface of a campaign table's model."""

    @property
    def campaign(self) -> str:
        """The campaign's name."""

    @property
    def environment(self) -> Provenance:
        """The campaign's provenance."""


def campaign_page(
    model: CampaignModel, grids: list[Grid], note: str, csv: str, legend: Mapping[str, str] | None = None
) -> Page:
    """Return the page of a campaign's table, still without title and warnings."""
    source = source_text(model.campaign, model.environment)
    return Page(source, grids, note, csv, json_text(model), legend=legend or {})
