# SPDX-License-Identifier: Apache-2.0
"""The commands of `python -m publishing`: `publish`, `claims`, `adjudicate` and `power`."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer
from riobed_results.cli import (
    CampaignOption,
    FormOption,
    LogsOption,
    OutputOption,
    StoreOption,
    TableFormat,
    emit,
)
from riobed_results.errors import StoreUsageError
from riobed_results.store import DEFAULT_STORE, Logs, open_store, read_results
from riobed_results.tables.framework.render import render

from publishing.adjudication import adjudicate, adjudication_page, cases, read_answers
from publishing.blind import check_cases, write_cases
from publishing.claims import read_claims, unbacked, write_claims
from publishing.power import power_page, power_table, read_plan
from publishing.publish import publish

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Publish campaigns, and check what their pages state.",
)


@app.command("publish")
def publish_campaign(
    folder: Annotated[Path, typer.Argument(help="Folder to write, e.g. results/published/NAME.")],
    store: StoreOption = DEFAULT_STORE,
    campaign: CampaignOption = None,
    logs: LogsOption = None,
) -> None:
    """Write a campaign's spec, claims, compressed rows and most relevant logs to a folder."""
    opened = open_store(store)
    publish(opened, campaign, logs or opened.location.folder, folder)


@app.command("claims")
def claims(
    folder: Annotated[Path, typer.Argument(help="A published folder.", show_default=False)],
) -> None:
    """Write the figures of a folder's rows to claims.json; list figures of its README that no claim backs."""
    write_claims(folder)
    if figures := unbacked(folder, read_claims(folder)):
        typer.echo("\n".join(figures))
        raise typer.Exit(1)


@app.command("adjudicate")
def adjudicate_corruptions(
    store: Annotated[str, typer.Argument(help="Database URL, SQLite file, or folder with a store.")],
    folder: Annotated[Path, typer.Argument(help="Folder of the cases; without ANSWERS they are written.")],
    answers: Annotated[
        list[Path] | None, typer.Argument(help="The answers of two readers, made from answers.csv.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the order of the cases.")] = 1,
    reveal: Annotated[bool, typer.Option("--reveal", help="Show the modes.")] = False,
    campaign: CampaignOption = None,
    logs: LogsOption = None,
    form: FormOption = TableFormat.MD,
    output: OutputOption = None,
) -> None:
    """Write each corruption as a case without its mode; compare what two readers say of its cause."""
    opened = open_store(store)
    results = read_results(opened, campaign)
    if not answers:
        count = write_cases(results, Logs(logs or opened.location.folder), folder, seed)
        typer.echo(f"{folder}: {count} cases; README.md there says how to answer")
        return
    if len(answers) != 2:
        raise StoreUsageError(f"answers: want the files of two readers, not {len(answers)}")
    check_cases(folder, results, seed)
    known = list(cases(results, seed))
    first, second = (read_answers(path, known) for path in answers)
    table = adjudicate(results, seed, first, second, reveal)
    page = replace(adjudication_page(table), title=f"Adjudication of {table.campaign}")
    emit(render(page, form), output)


@app.command("power")
def power(
    plan: Annotated[Path, typer.Argument(help="YAML with a protocol that has runs, and truths.")],
    form: FormOption = TableFormat.MD,
    output: OutputOption = None,
) -> None:
    """Say how probably each claim of a fixed-size campaign is shown, if the modes' shares are so."""
    page = replace(power_page(power_table(read_plan(plan))), title="Power")
    emit(render(page, form), output)
