# SPDX-License-Identifier: Apache-2.0
"""Replays: stored crashes run again, and the match rate."""

from collections.abc import Iterable
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from riobed_results.errors import StoreError
from riobed_results.stats.proportions import Share, share_of
from riobed_results.store import Provenance, add_line, read_lines
from riobed_results.tables.framework.render import Grid, Page, csv_text, json_text, source_text
from riobed_results.tables.framework.shares import count_text, interval_text
from riobed_results.tables.framework.table import FolderTable
from riobed_results.text import printable

FILE = "replays.jsonl"
# The fields of two endings that are compared.
JUDGED = ("outcome", "crash_title", "corruption")
NOTE = "Crashes of the campaign, run again once each from snapshot and seed."
LEGEND = {
    "Same title": "what the kernel said without addresses and numbers, the stored one read anew from its "
    "console log; in brackets the share.",
    "Interval": "95 %, exact, of the same title.",
    "Same corruption": "none, or what checksums say of it, as then.",
    "Same moment": "the first fault was activated the same number of nanoseconds of the guest after "
    "injection.",
}


class Ending(BaseModel):
    """How a trial ended; `first_activation_s` uses the guest's clock, `time_to_crash_s` the host's."""

    model_config = ConfigDict(extra="forbid", frozen=True, from_attributes=True)

    outcome: str
    crash_kind: str | None
    crash_title: str | None
    time_to_crash_s: float | None
    activated: int
    first_activation_s: float | None
    corruption: str | None
    corruption_where: str | None


class ReplayRun(BaseModel):
    """One replay: the endings of original (`then`) and replay (`now`), and the replay's provenance (`on`)."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    campaign: str
    position: int
    mode: str
    fault_class: str
    seed: str
    accelerator: str
    then: Ending
    now: Ending
    on: Provenance

    @property
    def same(self) -> dict[str, bool]:
        """For each compared field, whether original and replay are equal."""
        return {name: getattr(self.then, name) == getattr(self.now, name) for name in JUDGED}

    @property
    def same_moment(self) -> bool:
        """Whether the first fault was activated at the same guest nanosecond after injection."""
        moment = self.then.first_activation_s
        return moment is not None and moment == self.now.first_activation_s


def read_replays(folder: Path) -> list[ReplayRun]:
    """Read all replays stored in a folder; StoreError if one cannot be read."""
    return read_lines(folder / FILE, ReplayRun, "riobed replay --crashes")


def add_replay(folder: Path, run: ReplayRun) -> None:
    """Append a replay, whole or not at all."""
    add_line(folder / FILE, run)


class Matches(BaseModel):
    """The number of replays, and how many had the same outcome, title, corruption; `share` is of the title.

    `moment` counts replays whose first fault was activated at the same time of the guest's clock.
    """

    replays: int
    outcome: int
    crash_title: int
    corruption: int
    moment: int
    share: Share


class ReplayTable(BaseModel):
    """The match rate, by fault class and in total."""

    campaign: str
    classes: dict[str, Matches]
    total: Matches
    accelerator: str
    environment: Provenance


def replay_table(runs: list[ReplayRun]) -> ReplayTable:
    """Compute the table from stored replays alone; StoreError if there are none."""
    if not runs:
        raise StoreError("no replay is stored yet; make some with 'riobed replay --crashes'")
    classes = dict.fromkeys(run.fault_class for run in runs)
    return ReplayTable(
        campaign=runs[-1].campaign,
        classes={name: _matches(run for run in runs if run.fault_class == name) for name in classes},
        total=_matches(runs),
        accelerator=runs[-1].accelerator,
        environment=runs[-1].on,
    )


def _matches(runs: Iterable[ReplayRun]) -> Matches:
    every = list(runs)
    counts = {name: sum(run.same[name] for run in every) for name in JUDGED}
    return Matches(
        replays=len(every),
        **counts,
        moment=sum(run.same_moment for run in every),
        share=share_of(counts["crash_title"], len(every)),
    )


def replay_page(table: ReplayTable) -> Page:
    """Return the page of the match rate."""
    head = ["Fault class", "Same title", "Interval", "Same outcome", "Same corruption", "Same moment"]
    grid = Grid(
        f"{table.total.replays} crashes replayed",
        head,
        [_cells(printable(name), matches) for name, matches in table.classes.items()],
        [_cells("Total", table.total)],
    )
    first = printable(f" Run on {table.accelerator} then.")
    source = source_text(table.campaign, table.environment) + first
    return Page(source, [grid], NOTE, _csv(table), json_text(table), legend=LEGEND)


def _cells(name: str, matches: Matches) -> list[str]:
    title = count_text(matches.crash_title, matches.replays)
    others = (matches.outcome, matches.corruption, matches.moment)
    return [name, title, interval_text(matches.share), *map(str, others)]


def _csv(table: ReplayTable) -> str:
    counts = [name for name in Matches.model_fields if name != "share"]
    lines = (
        [name, *(getattr(matches, count) for count in counts), *matches.share.model_dump().values()]
        for name, matches in [*table.classes.items(), ("total", table.total)]
    )
    return csv_text(["fault_class", *counts, *Share.model_fields], lines)


REPLAYS = FolderTable(
    name="replays",
    title="Replays",
    help="How many replayed crashes ended the same way, by fault class.",
    compute=lambda folder: replay_table(read_replays(folder)),
    page=replay_page,
    folder_help="Folder that 'riobed replay --crashes' wrote.",
)
