# SPDX-License-Identifier: Apache-2.0
"""The commands that read results: `table`, `trials`, `publish`. They need neither QEMU nor libvirt.

They raise StoreError; the program that mounts them prints it as one line and exits with its `exit_code`.
"""

import os
import shutil
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from riobed_results.by_mode import Design, mode_page, mode_table
from riobed_results.corruption import corruption_table
from riobed_results.corruption_page import corruption_page
from riobed_results.cost import cost_page, cost_table
from riobed_results.cost_runs import read_runs
from riobed_results.errors import StoreError
from riobed_results.fault_classes import class_page, class_table
from riobed_results.location import DEFAULT_STORE
from riobed_results.pages import BY_MODE
from riobed_results.phases import phase_page, phase_table
from riobed_results.publish import publish
from riobed_results.queries import trial_rows
from riobed_results.render import render
from riobed_results.soak import load_soak
from riobed_results.soak_page import soak_page
from riobed_results.store import open_store
from riobed_results.trials import trials_json, trials_text

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


@table_app.command("corruption")
def corruption(
    store: StoreOption = DEFAULT_STORE,
    campaign: CampaignOption = None,
    form: FormOption = TableFormat.MD,
    output: OutputOption = None,
) -> None:
    """How often a crash corrupted a file, by fault class and cache mode."""
    emit(render(corruption_page(corruption_table(open_store(store), campaign)), form), output)


@table_app.command("faults")
def faults(
    store: StoreOption = DEFAULT_STORE,
    campaign: CampaignOption = None,
    form: FormOption = TableFormat.MD,
    output: OutputOption = None,
) -> None:
    """What each fault class did: faults injected and activated, and what became of the trials."""
    emit(render(class_page(class_table(open_store(store), campaign)), form), output)


@table_app.command("phases")
def phases(
    store: StoreOption = DEFAULT_STORE,
    campaign: CampaignOption = None,
    form: FormOption = TableFormat.MD,
    output: OutputOption = None,
) -> None:
    """Where a trial's time goes, by phase and cache mode."""
    emit(render(phase_page(phase_table(open_store(store), campaign)), form), output)


@table_app.command("cost")
def cost(
    folder: Annotated[Path, typer.Argument(help="Folder that 'riobed cost' wrote.")],
    form: FormOption = TableFormat.MD,
    output: OutputOption = None,
) -> None:
    """What each part of Rio costs, as ratios of time and of instructions."""
    emit(render(cost_page(cost_table(read_runs(folder))), form), output)


def _add_by_mode(design: Design) -> None:
    """Give `table` the command of a table by mode."""

    @table_app.command(design.name, help=f"{design.title}, by cache mode.")
    def by_mode(
        store: StoreOption = DEFAULT_STORE,
        campaign: CampaignOption = None,
        form: FormOption = TableFormat.MD,
        output: OutputOption = None,
    ) -> None:
        emit(render(mode_page(design, mode_table(open_store(store), design, campaign)), form), output)


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
    """The trials of a campaign; --format json has everything stored of them."""
    opened = open_store(store)
    chosen = opened.campaign(campaign)
    rows = trial_rows(opened, chosen.id)
    if not rows:
        raise StoreError(f"store {opened.location.name}: campaign {chosen.name!r} has no trials yet")
    if form is TrialsFormat.JSON:
        emit(trials_json(chosen.name, rows), output)
    else:
        to_terminal = output is None and sys.stdout.isatty()
        width = shutil.get_terminal_size().columns if to_terminal else PIPE_WIDTH
        emit(trials_text(rows, width), output)


def publish_campaign(
    folder: Annotated[Path, typer.Argument(help="Folder to write, e.g. results/published/NAME.")],
    store: StoreOption = DEFAULT_STORE,
    campaign: CampaignOption = None,
    logs: Annotated[
        Path | None,
        typer.Option(help="Folder with the folder of console logs in it.", show_default="the store's folder"),
    ] = None,
) -> None:
    """Write a campaign's spec, rows, tables and the logs that matter to a folder."""
    opened = open_store(store)
    place = logs or (opened.location.path.parent if opened.location.path else Path.cwd())
    publish(opened, campaign, place, folder)


def mount(app: typer.Typer) -> None:
    """Give `app` the commands `table`, `trials` and `publish`."""
    app.add_typer(table_app, name="table")
    app.command("trials")(trials)
    app.command("publish")(publish_campaign)


def emit(text: str, output: Path | None) -> None:
    """Print `text`, or put it into the file `output`, whole or not at all; StoreError if it cannot be."""
    if output is None:
        typer.echo(text, nl=False)
        return
    try:
        if output.exists() and not output.is_file():
            output.write_text(text, encoding="utf-8")  # a device or pipe cannot be replaced
        else:
            _replace(output.resolve(), text)
    except OSError as error:
        raise StoreError(f"output {output}: {error.strerror}; choose another file") from error


def _replace(path: Path, text: str) -> None:
    new = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        new.write_text(text, encoding="utf-8")
        new.replace(path)
    finally:
        new.unlink(missing_ok=True)
