# SPDX-License-Identifier: Apache-2.0
"""The commands that read results: `table`, `trials`, `log` and `report`.

They need neither QEMU nor libvirt. They raise StoreError; the program that mounts them prints the error as
one line and exits with its `exit_code`.
"""

import gc
import inspect
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, get_args

import typer

from riobed_results.errors import StoreError, StoreUsageError
from riobed_results.export.arrow import trials_parquet
from riobed_results.export.listing import trials_json, trials_text
from riobed_results.files import replacing
from riobed_results.store import DEFAULT_STORE, REPORT_FILE, Links, Logs, label, open_store, read_results
from riobed_results.tables.framework.render import render
from riobed_results.tables.framework.table import CampaignTable, FolderTable, Table
from riobed_results.tables.registry import CAMPAIGN_TABLES, FOLDER_TABLES, RUN_TABLES
from riobed_results.text import printable

PIPE_WIDTH = 200  # columns of output that goes to no terminal
# Rows stay until a table is computed. To look for garbage among them as often as Python does (every
# 700 new objects) takes a third of the time.
_NEW_OBJECTS = 20_000
_PANEL = "Results"  # of --help

table_app = typer.Typer(help="Compute a table from a results store.", no_args_is_help=True)


class TableFormat(StrEnum):
    """The output formats of a table."""

    MD = "md"
    LATEX = "latex"
    CSV = "csv"
    HTML = "html"
    JSON = "json"


class TrialsFormat(StrEnum):
    """The output formats of the list of trials."""

    TEXT = "text"
    JSON = "json"
    PARQUET = "parquet"


StoreOption = Annotated[
    str, typer.Option("--store", help="Database URL, SQLite file, or folder with a store.")
]
CampaignOption = Annotated[
    str | None, typer.Option("--campaign", help="Name of the campaign.", show_default="the latest")
]
FormOption = Annotated[TableFormat, typer.Option("--format", help="Format of the table.")]
OutputOption = Annotated[
    Path | None, typer.Option("--output", help="File to write.", show_default="standard output")
]
LogsOption = Annotated[
    Path | None,
    typer.Option(help="Parent of the folder of console logs.", show_default="the store's folder"),
]


def _add_campaign_table(table: CampaignTable[Any]) -> None:
    """Add the command for a table of a campaign."""

    def command(
        store: StoreOption = DEFAULT_STORE,
        campaign: CampaignOption = None,
        form: FormOption = TableFormat.MD,
        output: OutputOption = None,
        **options: Any,
    ) -> None:
        page = table.of(read_results(open_store(store), campaign), **options)
        emit(render(page, form), output)

    _add_command(table, command)


def _add_folder_table(table: FolderTable[Any]) -> None:
    """Add the command for a table of a folder."""

    def command(
        folder: Annotated[Path, typer.Argument(help=table.folder_help)],
        form: FormOption = TableFormat.MD,
        output: OutputOption = None,
        **options: Any,
    ) -> None:
        emit(render(table.of(folder, **options), form), output)

    _add_command(table, command)


def _add_command(table: Table[Any], command: Callable[..., None]) -> None:
    """Add `command` with the table's options as keyword arguments."""
    *own, _ = inspect.signature(command).parameters.values()
    command.__signature__ = inspect.Signature([*own, *map(_option, table.options)])  # type: ignore[attr-defined]
    table_app.command(table.name, help=table.help)(command)


def _option(parameter: inspect.Parameter) -> inspect.Parameter:
    """Return a parameter of a table as one of its command."""
    kind, option = get_args(parameter.annotation)
    return parameter.replace(annotation=Annotated[kind, typer.Option(help=option.help)])


for _campaign_table in (*CAMPAIGN_TABLES, *RUN_TABLES):
    _add_campaign_table(_campaign_table)
for _folder_table in FOLDER_TABLES:
    _add_folder_table(_folder_table)


def trials(
    store: StoreOption = DEFAULT_STORE,
    campaign: CampaignOption = None,
    form: Annotated[TrialsFormat, typer.Option("--format", help="Format of the list.")] = TrialsFormat.TEXT,
    output: OutputOption = None,
) -> None:
    """List the trials of a campaign; json and parquet have every column, oracles and endpoints."""
    results = read_results(open_store(store), campaign, faults=form is not TrialsFormat.TEXT)
    name = results.campaign.name
    if not results.trials:
        raise results.without("trials yet")
    if form is TrialsFormat.JSON:
        emit(trials_json(name, results.stream()), output)
    elif form is TrialsFormat.PARQUET:
        if output is None:
            raise StoreUsageError("trials: Parquet is not text; give a file with --output")
        with _writing(output) as new:
            trials_parquet(name, results.stream(), new)
    else:
        to_terminal = output is None and sys.stdout.isatty()
        width = shutil.get_terminal_size().columns if to_terminal else PIPE_WIDTH
        emit(trials_text(results, width), output)


def log(
    which: Annotated[
        str, typer.Argument(metavar="ID", help="A trial's position, or the short name of a log.")
    ],
    store: StoreOption = DEFAULT_STORE,
    campaign: CampaignOption = None,
    logs: LogsOption = None,
    output: OutputOption = None,
) -> None:
    """Print the console log of a trial, from a file or from the archive of a published campaign."""
    opened = open_store(store)
    found = opened.campaign(campaign)
    stored = opened.logs(found.id)
    named = {label(log): log for _, log in stored}
    # Only the last attempt at a position can have a result.
    named |= {str(position): log for position, log in stored}
    if which not in named:
        raise StoreUsageError(
            f"campaign {found.name!r} has no log {which!r}; 'riobed trials' lists its trials"
        )
    text = Logs(logs or opened.location.folder).read(named[which])
    if output is None and sys.stdout.isatty():
        # A crashing guest may have written control characters.
        text = "".join(
            f"{printable(line)}\n" for line in text.decode(errors="backslashreplace").splitlines()
        ).encode()
    emit(text, output)


def report_page(
    store: StoreOption = DEFAULT_STORE,
    campaign: CampaignOption = None,
    logs: LogsOption = None,
    output: Annotated[
        Path | None, typer.Option(help="File to write.", show_default="report.html in the store's folder")
    ] = None,
    figure: Annotated[
        Path | None,
        typer.Option(help="Instead of the page write the figure of its protocol to this SVG file."),
    ] = None,
    reload: Annotated[
        int | None, typer.Option(min=1, hidden=True, help="Seconds after which a browser reloads the page.")
    ] = None,
) -> None:
    """Write a campaign's tables, plots, corruptions and provenance as one self-contained page."""
    from riobed_results.report.answer import figure_file  # plots take a second to import
    from riobed_results.report.report import report

    opened = open_store(store)
    if figure:
        emit(figure_file(read_results(opened, campaign)), figure)
        return
    place = output or opened.location.folder / REPORT_FILE
    link = Links(logs or opened.location.folder, place.parent)
    emit(report(opened, campaign, link, reload), place)


def mount(app: typer.Typer) -> None:
    """Add the commands `table`, `trials`, `log` and `report` to `app`.

    Python's garbage collector then runs less often in the whole program.
    """
    gc.set_threshold(_NEW_OBJECTS)
    app.add_typer(table_app, name="table", rich_help_panel=_PANEL)
    app.command("trials", rich_help_panel=_PANEL)(trials)
    app.command("log", rich_help_panel=_PANEL)(log)
    app.command("report", rich_help_panel=_PANEL)(report_page)


def run(app: typer.Typer) -> None:
    """Run a program; an error prints one line and ends it with its status."""
    try:
        app()
    except StoreError as error:
        print(f"riobed: {error}", file=sys.stderr)
        sys.exit(error.exit_code)


def emit(content: str | bytes | Iterable[str], output: Path | None) -> None:
    """Print `content`, or write the file `output` atomically; StoreError if it cannot be written."""
    parts = [content] if isinstance(content, str | bytes) else content
    if output is None:
        for part in parts:
            typer.echo(part, nl=False)
        return
    with _writing(output) as new, new.open("wb") as file:
        file.writelines(part if isinstance(part, bytes) else part.encode() for part in parts)


@contextmanager
def _writing(output: Path) -> Iterator[Path]:
    try:
        with replacing(output.resolve()) as new:
            yield new
    except OSError as error:
        raise StoreError(f"output {output}: {error.strerror}; choose another file") from error
