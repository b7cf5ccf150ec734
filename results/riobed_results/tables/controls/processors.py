# SPDX-License-Identifier: Apache-2.0
"""Resets without a fault by number of processors: a folder with a campaign for each in its subfolders."""

from pathlib import Path

from pydantic import BaseModel

from riobed_results.errors import StoreError
from riobed_results.store import (
    Provenance,
    Results,
    in_order,
    open_store,
    read_results,
    store_in,
    vcpus,
)
from riobed_results.tables.controls.losses import NO_FAULT
from riobed_results.tables.framework.by_mode import Value
from riobed_results.tables.framework.render import Grid, Page, csv_text, json_text, source_text
from riobed_results.tables.framework.table import FolderTable
from riobed_results.text import printable


class ProcessorsLine(BaseModel):
    """The resets of one mode with one number of processors; `counts` maps a name to a value."""

    vcpus: int
    mode: str
    counts: dict[str, Value]


class ProcessorsTable(BaseModel):
    """The computed table; `accelerators` maps a campaign to the one that it ran on."""

    lines: list[ProcessorsLine]
    accelerators: dict[str, str]
    environment: Provenance


def read_campaigns(folder: Path) -> list[Results]:
    """Read the campaigns in the subfolders of `folder`, by number of processors; [] if there are none.

    StoreError if one cannot be read, or if they ran on different kernels.
    """
    found = [read_results(open_store(str(path))) for path in sorted(folder.glob("*/")) if store_in(path)]
    one_kernel_a_mode(found)
    return sorted(found, key=lambda results: vcpus(results.campaign))


def one_kernel_a_mode(campaigns: list[Results]) -> None:
    """Raise StoreError if campaigns have a mode in common that ran on different kernels.

    The kernel of modes that have none of their own must be the same, whether such a mode is common or not.
    """
    first: dict[str, tuple[str, str]] = {}
    for results in campaigns:
        provenance = results.campaign.provenance
        # By what an error says of them.
        builds = {"kernel_build_id is": provenance.kernel.build_id}
        for mode in in_order(results.campaign, "modes", ()):
            builds[f"mode {mode} ran on kernel"] = provenance.kernel_of(mode).build_id
        for ran, build in builds.items():
            there, store = first.setdefault(ran, (build, results.store))
            if build != there:
                raise StoreError(
                    f"{results.store}: {ran} {build}, not {there} as in {store}; keep these apart"
                )


def processors_table(folder: Path) -> ProcessorsTable:
    """Compute the table of a folder; StoreError if none of its campaigns has resets without a fault."""
    campaigns = read_campaigns(folder)
    lines = [line for results in campaigns for line in _lines(results)]
    if not lines:
        raise StoreError(f"{folder}: no campaign with resets in its subfolders; publish some there")
    return ProcessorsTable(
        lines=lines,
        accelerators={results.campaign.name: results.campaign.accelerator for results in campaigns},
        environment=campaigns[0].campaign.provenance,
    )


def _lines(results: Results) -> list[ProcessorsLine]:
    rows = NO_FAULT.read(results)
    return [
        ProcessorsLine(
            vcpus=vcpus(results.campaign),
            mode=mode,
            counts=NO_FAULT.lines([row for row in rows if row.mode == mode], results.campaign.vocabulary),
        )
        for mode in in_order(results.campaign, "modes", (row.mode for row in rows))
        if any(row.mode == mode for row in rows)
    ]


def processors_page(table: ProcessorsTable) -> Page:
    """Return the table's page."""
    names = list(table.lines[0].counts)
    body = [
        [str(line.vcpus), printable(line.mode), *(_text(line.counts[name]) for name in names)]
        for line in table.lines
    ]
    used = ", ".join(f"{campaign}: {accelerator}" for campaign, accelerator in table.accelerators.items())
    source = source_text("processors", table.environment.model_copy(update={"accelerator": used}))
    grid = Grid("Resets without a fault", ["vCPUs", "Mode", *names], body, [])
    return Page(source, [grid], NO_FAULT.note, _csv(table, names), json_text(table), legend=NO_FAULT.legend)


def _text(value: Value) -> str:
    return "-" if value is None else f"{value:g}"


def _csv(table: ProcessorsTable, names: list[str]) -> str:
    lines = ([line.vcpus, line.mode, *(line.counts[name] for name in names)] for line in table.lines)
    return csv_text(["vcpus", "mode", *names], lines)


PROCESSORS = FolderTable(
    name="processors",
    title="Resets without a fault, by number of processors",
    help="What resets without a fault lost, by number of processors and cache mode.",
    compute=processors_table,
    page=processors_page,
    folder_help="Folder with a published campaign in each subfolder.",
)
