# SPDX-License-Identifier: Apache-2.0
"""The commands that read results: `table`, `trials`, `report`, `publish`. They need neither QEMU nor libvirt.

They raise StoreError; the program that mounts them prints it as one line and exits with its `exit_code`.
"""

import os
import shutil
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from riobed_results.errors import StoreError, StoreUsageError
from riobed_results.report.claims import read_claims, unbacked, write_claims
from riobed_results.report.publish import publish
from riobed_results.store.export import trials_parquet
from riobed_results.store.location import DEFAULT_STORE, REPORT_FILE
from riobed_results.store.logs import Links
from riobed_results.store.queries import read_results
from riobed_results.store.store import open_store
from riobed_results.tables.by_mode import Design, mode_page, mode_table
from riobed_results.tables.comparison import POWER, comparison_page
from riobed_results.tables.controls import CONTROLS
from riobed_results.tables.corruption import comparison_table, corruption_table
from riobed_results.tables.corruption_page import corruption_page
from riobed_results.tables.cost import cost_page, cost_table
from riobed_results.tables.cost_runs import read_runs
from riobed_results.tables.fault_classes import class_page, class_table
from riobed_results.tables.pages import BY_MODE, warned
from riobed_results.tables.phases import phase_page, phase_table
from riobed_results.tables.render import render
from riobed_results.tables.replays import read_replays, replay_page, replay_table
from riobed_results.tables.soak import load_soak
from riobed_results.tables.soak_page import soak_page
from riobed_results.tables.stories import story_page, story_table
from riobed_results.tables.titles import title_page, title_table
from riobed_results.tables.trials import trials_json, trials_text

PIPE_WIDTH = 200  # characters, where there is no terminal to ask

table_app = typer.Typer(help="Tables computed from a results store.", no_args_is_help=True)


class TableFormat(StrEnum):
    """The forms a table is printed in."""

    MD = "md"
    LATEX = "latex"
    CSV = "csv"
    HTML = "html"
    JSON = "json"


class TrialsFormat(StrEnum):
    """The forms the list of trials is printed in."""

    TEXT = "text"
    JSON = "json"
    PARQUET = "parquet"


StoreOption = Annotated[
    str, typer.Option("--store", help="Database URL, SQLite file, or folder with store.sqlite in it.")
]
CampaignOption = Annotated[
    str | None, typer.Option("--campaign", help="Name of the campaign.", show_default="the latest")
]
FormOption = Annotated[TableFormat, typer.Option("--format", help="Form of the table.")]
OutputOption = Annotated[
    Path | None, typer.Option("--output", help="File to write.", show_default="standard output")
]
LogsOption = Annotated[
    Path | None,
    typer.Option(help="Folder with the folder of console logs in it.", show_default="the store's folder"),
]


@table_app.command("corruption")
def corruption(
    store: StoreOption = DEFAULT_STORE,
    campaign: CampaignOption = None,
    form: FormOption = TableFormat.MD,
    output: OutputOption = None,
) -> None:
    """How often a crash corrupted a file, by fault class and cache mode."""
    results = read_results(open_store(store), campaign, faults=CONTROLS)
    page = corruption_page(corruption_table(results))
    emit(render(warned("corruption", page, results), form), output)


@table_app.command("comparison")
def comparison(
    store: StoreOption = DEFAULT_STORE,
    campaign: CampaignOption = None,
    power: Annotated[float, typer.Option(help="Of Fisher's test, for the crashes needed.")] = POWER,
    form: FormOption = TableFormat.MD,
    output: OutputOption = None,
) -> None:
    """Whether cache modes differ, and how many crashes it takes to say so."""
    results = read_results(open_store(store), campaign, faults=CONTROLS)
    page = comparison_page(comparison_table(results, power))
    emit(render(warned("comparison", page, results), form), output)


@table_app.command("titles")
def titles(
    store: StoreOption = DEFAULT_STORE,
    campaign: CampaignOption = None,
    form: FormOption = TableFormat.MD,
    output: OutputOption = None,
) -> None:
    """Crash titles, how often each came, and in which mode."""
    results = read_results(open_store(store), campaign, faults=CONTROLS)
    emit(render(warned("titles", title_page(title_table(results)), results), form), output)


@table_app.command("stories")
def stories(
    store: StoreOption = DEFAULT_STORE,
    campaign: CampaignOption = None,
    form: FormOption = TableFormat.MD,
    output: OutputOption = None,
) -> None:
    """Each corruption: which fault, which crash, what differs, which oracle said so."""
    results = read_results(open_store(store), campaign)
    emit(render(warned("stories", story_page(story_table(results)), results), form), output)


@table_app.command("faults")
def faults(
    store: StoreOption = DEFAULT_STORE,
    campaign: CampaignOption = None,
    form: FormOption = TableFormat.MD,
    output: OutputOption = None,
) -> None:
    """What each fault class did: faults injected and activated, and what became of the trials."""
    results = read_results(open_store(store), campaign)
    emit(render(warned("faults", class_page(class_table(results)), results), form), output)


@table_app.command("phases")
def phases(
    store: StoreOption = DEFAULT_STORE,
    campaign: CampaignOption = None,
    form: FormOption = TableFormat.MD,
    output: OutputOption = None,
) -> None:
    """Where a trial's time goes, by phase and cache mode."""
    results = read_results(open_store(store), campaign, faults=False)
    emit(render(phase_page(phase_table(results)), form), output)


@table_app.command("cost")
def cost(
    folder: Annotated[Path, typer.Argument(help="Folder that 'riobed cost' wrote.")],
    form: FormOption = TableFormat.MD,
    output: OutputOption = None,
) -> None:
    """What each part of Rio costs, as ratios of time and of instructions."""
    emit(render(cost_page(cost_table(read_runs(folder))), form), output)


@table_app.command("replays")
def replays(
    folder: Annotated[Path, typer.Argument(help="Folder that 'riobed replay --crashes' wrote.")],
    form: FormOption = TableFormat.MD,
    output: OutputOption = None,
) -> None:
    """How many replayed crashes ended the same way, by fault class."""
    emit(render(replay_page(replay_table(read_replays(folder))), form), output)


def _add_by_mode(design: Design) -> None:
    """Give `table` the command of a table by mode."""

    @table_app.command(design.name, help=f"{design.title}, by cache mode.")
    def by_mode(
        store: StoreOption = DEFAULT_STORE,
        campaign: CampaignOption = None,
        form: FormOption = TableFormat.MD,
        output: OutputOption = None,
    ) -> None:
        results = read_results(open_store(store), campaign, faults=CONTROLS)
        page = mode_page(design, mode_table(results, design))
        emit(render(warned(design.name, page, results), form), output)


for _design in BY_MODE:
    _add_by_mode(_design)


@table_app.command("soak")
def soak(
    folder: Annotated[Path, typer.Argument(help="Folder of the soak.")],
    form: FormOption = TableFormat.MD,
    output: OutputOption = None,
) -> None:
    """What stressors met, and whether every file was as before after a reset."""
    emit(render(soak_page(load_soak(folder)), form), output)


def trials(
    store: StoreOption = DEFAULT_STORE,
    campaign: CampaignOption = None,
    form: Annotated[TrialsFormat, typer.Option("--format", help="Form of the list.")] = TrialsFormat.TEXT,
    output: OutputOption = None,
) -> None:
    """The trials of a campaign; json and parquet have everything stored of them."""
    results = read_results(open_store(store), campaign, faults=form is not TrialsFormat.TEXT)
    name, rows = results.campaign.name, results.rows
    if not rows:
        raise results.without("trials yet")
    if form is TrialsFormat.JSON:
        emit(trials_json(name, rows), output)
    elif form is TrialsFormat.PARQUET:
        if output is None:
            raise StoreUsageError("trials: Parquet is no text; give a file with --output")
        emit(trials_parquet(name, rows), output)
    else:
        to_terminal = output is None and sys.stdout.isatty()
        width = shutil.get_terminal_size().columns if to_terminal else PIPE_WIDTH
        emit(trials_text(rows, width), output)


def publish_campaign(
    folder: Annotated[Path, typer.Argument(help="Folder to write, e.g. results/published/NAME.")],
    store: StoreOption = DEFAULT_STORE,
    campaign: CampaignOption = None,
    logs: LogsOption = None,
) -> None:
    """Write a campaign's spec, rows, tables and the logs that matter to a folder."""
    opened = open_store(store)
    publish(opened, campaign, logs or opened.location.folder, folder)


def claims(
    folder: Annotated[Path, typer.Argument(help="A published folder.", show_default=False)],
) -> None:
    """Write the figures of a folder's rows to its claims.json; list those of its README that none backs."""
    write_claims(folder)
    if figures := unbacked(folder, read_claims(folder)):
        typer.echo("\n".join(figures))
        raise typer.Exit(1)


def report_page(
    store: StoreOption = DEFAULT_STORE,
    campaign: CampaignOption = None,
    logs: LogsOption = None,
    output: Annotated[
        Path | None, typer.Option(help="File to write.", show_default="report.html in the store's folder")
    ] = None,
    reload: Annotated[
        int | None, typer.Option(min=1, hidden=True, help="Seconds after which a browser reads it again.")
    ] = None,
) -> None:
    """Write a campaign's tables, plots, corruptions and environment as one page that needs nothing else."""
    from riobed_results.report.report import report  # its plots take a second to import

    opened = open_store(store)
    place = output or opened.location.folder / REPORT_FILE
    link = Links(logs or opened.location.folder, place.parent)
    emit(report(opened, campaign, link, reload), place)


def mount(app: typer.Typer) -> None:
    """Give `app` the commands `table`, `trials`, `report`, `publish` and `claims`."""
    app.add_typer(table_app, name="table")
    app.command("trials")(trials)
    app.command("report")(report_page)
    app.command("publish")(publish_campaign)
    app.command("claims")(claims)


def emit(content: str | bytes, output: Path | None) -> None:
    """Print `content`, or put it into the file `output`, whole or not at all; StoreError if it cannot be."""
    if output is None:
        typer.echo(content, nl=False)
        return
    data = content if isinstance(content, bytes) else content.encode()
    try:
        if output.exists() and not output.is_file():
            output.write_bytes(data)  # a device or pipe cannot be replaced
        else:
            _replace(output.resolve(), data)
    except OSError as error:
        raise StoreError(f"output {output}: {error.strerror}; choose another file") from error


def _replace(path: Path, data: bytes) -> None:
    new = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        new.write_bytes(data)
        new.replace(path)
    finally:
        new.unlink(missing_ok=True)
