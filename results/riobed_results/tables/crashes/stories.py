# SPDX-License-Identifier: Apache-2.0
"""The story of each corruption: the faults, the crash, which bytes differ, and which oracle found it."""

from collections.abc import Sequence
from typing import Any, Literal

from pydantic import BaseModel

from riobed_results.rules.clock import CRASH_NOTE, Moment, activation_text, crash_moment
from riobed_results.rules.endpoints import endpoints_hit
from riobed_results.rules.explained import explained_by
from riobed_results.rules.oracles import oracles
from riobed_results.store import (
    MECHANISM,
    OTHERS,
    Difference,
    FaultRow,
    Mismatch,
    Provenance,
    Results,
    Row,
    TrialRow,
    judged,
    with_symbols,
)
from riobed_results.tables.framework.render import Grid, Page, csv_text
from riobed_results.tables.framework.table import CampaignTable, campaign_page
from riobed_results.text import printable

HEAD = [
    "Position",
    "Mode",
    "Fault class",
    "Activated first",
    "Crash",
    "Seconds",
    "Differs",
    "Corruption",
    "Oracle",
]
# Pages and entries of the registry have checksums. What found no damage is left out.
_SHORT = {"registry": "checksums", "trap": "", "fsck": "", "first-mount": ""}
NOTE = "Crashes after which something differed, but for planted changes."
LEGEND = {
    "Activated first": "of its faults, with the bytes before and after; when, is by the guest's clock, too.",
    "Seconds": f"{CRASH_NOTE} -: not known.",
    "Corruption": "what checksums and the canary of an NVDIMM say of it; unclassified: neither tells.",
    "Differs": "the first difference the workload's check named, and how many more there are.",
    "Oracle": "the workload's check, block checksums, the mount, a read of the workload itself before the "
    "crash, or recovery, which failed for good.",
}
OTHERS_NOTE = (
    " Beside crashes: stuck workloads, and machines that survived and were brought down (panic on request)."
)


class Story(BaseModel):
    """One corruption; `activated` describes each activated fault, in order of activation.

    `seconds` are those from injection to crash by this `clock`. `complaints` counts what the kernel reported
    and outlived, of which `first_complaint` is a title; None in stores that do not say.
    `endpoints_hit` names the endpoints by which it is a hit (rules/endpoints.py). `differences`
    are those the check listed, `differing` counts all; empty and None if the check gave none. `explained_by`
    names the overruns that have the place and length of wrong bytes; None if that is not known.
    """

    position: int
    mode: str
    fault_class: str
    outcome: str
    seed: str
    injected: int
    activated: list[str]
    crash_kind: str
    crash_title: str
    seconds: float | None
    clock: Literal["guest", "trial"] | None
    complaints: int | None
    first_complaint: str | None
    corruption: str
    where: str | None
    oracles: list[str]
    endpoints_hit: list[str]
    differing: int | None
    differences: list[Difference]
    mismatches: list[str]
    explained_by: list[str] | None
    workload_said: str
    log: str | None

    @property
    def mechanism(self) -> str:
        """What checksums and the canary say of it, in words."""
        return MECHANISM.get(self.corruption, self.corruption)

    @property
    def moment(self) -> Moment | None:
        """When it crashed."""
        return None if self.seconds is None or self.clock is None else Moment(self.seconds, self.clock)


class StoryTable(BaseModel):
    """The stories in the order of the plan."""

    campaign: str
    stories: list[Story]
    environment: Provenance


def story_table(results: Results) -> StoryTable:
    """Collect the corruptions of a campaign, except planted ones; StoreError if it has none."""
    campaign = results.campaign
    if not any(map(told, results.trials)):
        raise results.without("corruption to tell of")
    ids = [trial for of_mode in told_trials(results).values() for trial in of_mode]
    return StoryTable(
        campaign=campaign.name, stories=read_stories(results, ids), environment=campaign.provenance
    )


def told_trials(results: Results) -> dict[str, list[int]]:
    """Return the ids of the trials that are stories, by mode and in the order of the plan."""
    found: dict[str, list[tuple[int, int]]] = {}
    for row, trial, position in results.each("position", told):
        found.setdefault(row.mode, []).append((position, trial))
    return {mode: [trial for _, trial in sorted(places)] for mode, places in found.items()}


def read_stories(results: Results, ids: Sequence[int]) -> list[Story]:
    """Read the stories of the trials with these ids, in the order of the plan."""
    return sorted(map(_story, results.rows_at(ids)), key=lambda story: story.position)


def told(row: Row) -> bool:
    """Whether this row is a corruption that is not planted."""
    return judged(row) and row.corruption != "none" and row.fault_class != "planted"


def _story(row: TrialRow) -> Story:
    sums = row.recovery.checksums if row.recovery else None
    activated, crash = activated_faults(row)
    return Story(
        position=row.position,
        mode=row.mode,
        fault_class=row.fault_class,
        outcome=row.outcome,
        seed=row.seed,
        injected=row.injected,
        activated=[fault_text(fault, crash) for fault in activated],
        crash_kind=row.crash_kind or "",
        crash_title=row.crash_title or "",
        seconds=crash.seconds if crash else None,
        clock=crash.clock if crash else None,
        complaints=row.complaints,
        first_complaint=row.first_complaint,
        corruption=row.corruption or "",
        where=row.corruption_where,
        oracles=_oracles(row),
        endpoints_hit=endpoints_hit(row),
        differing=row.check.difference_count if row.check else None,
        differences=row.check.differences if row.check else [],
        mismatches=list(map(_page, sums.mismatches)) if sums else [],
        explained_by=explained_by(row),
        workload_said=row.workload_error or row.workload_status or "",
        log=row.log,
    )


def activated_faults(row: TrialRow) -> tuple[list[FaultRow], Moment | None]:
    """Return the activated faults of a trial, in order of activation, and when it crashed."""
    activated = sorted((f for f in row.faults if f.activated), key=lambda f: f.activated_s or 0.0)
    return activated, crash_moment(row, activated[-1].activated_s if activated else None)


def _oracles(row: TrialRow) -> list[str]:
    """Return the oracles that found the corruption; the checks of all workloads are one here.

    If recovery failed every time, no other oracle could run, and recovery itself is the oracle.
    """
    names = (_SHORT.get(name, name.partition(":")[0]) for name in oracles(row))
    return [name for name in dict.fromkeys(names) if name]


def fault_text(fault: FaultRow, crash: Moment | None) -> str:
    """Describe in one line what a fault changed, where, and when it was activated."""
    what = _change(fault) if fault.old_asm or fault.new_asm else ""
    drawn = ", ".join(f"{name} {value}" for name, value in with_symbols(_dict(fault.params)).items())
    at = f" at {fault.source}" if fault.source else ""
    where = f"in {fault.function}{at}" if fault.function else at.strip()
    return ", ".join(part for part in (what, drawn, where, activation_text(fault, crash)) if part)


def _change(fault: FaultRow) -> str:
    """Describe the instructions and bytes before and after a fault."""
    before, after = (f" ({code})" if code else "" for code in (fault.old, fault.new))
    if fault.old_asm == fault.new_asm:
        return f"{fault.old_asm}{before} became the same instruction{after}, without effect"
    return f"{fault.old_asm}{before} became {fault.new_asm}{after}"


def _dict(found: Any) -> dict[str, Any]:
    """Return stored JSON if it is a mapping, else {}: a workload or a damaged store may hold anything."""
    return found if isinstance(found, dict) else {}


def _page(page: Mismatch) -> str:
    """Describe a page whose checksum differs from the recorded one."""
    kind = "metadata" if page.metadata else "data"
    state = "dirty" if page.dirty else "clean"
    return f"{state} {kind}, inode {page.ino}, page {page.index}"


def story_page(table: StoryTable) -> Page:
    """Return the page of the stories, with a line for each."""
    grid = Grid(f"{len(table.stories)} corruptions", HEAD, list(map(_cells, table.stories)), [])
    alive = any(story.outcome in OTHERS for story in table.stories)
    return campaign_page(table, [grid], NOTE + (OTHERS_NOTE if alive else ""), _csv(table), LEGEND)


def differs_text(story: Story) -> str:
    """Describe the first difference, and say how many more there are."""
    if not story.differences:
        return f"{story.differing} places" if story.differing else "not told"
    more = max(story.differing or 0, len(story.differences)) - 1
    return f"{story.differences[0]}" + (f" and {more} more" if more else "")


def _cells(story: Story) -> list[str]:
    where = f" ({story.where})" if story.where else ""
    cells = [
        str(story.position),
        story.mode,
        story.fault_class,
        story.activated[0] if story.activated else f"none known of {story.injected}",
        story.crash_title,
        str(story.moment or "-"),
        differs_text(story),
        story.mechanism + where,
        " and ".join(story.oracles),
    ]
    return list(map(printable, cells))


def _csv(table: StoryTable) -> str:
    more = ("seed", "log", "clock", "complaints", "first_complaint")
    head = [*(name.lower().replace(" ", "_") for name in HEAD), *more, "explained_by"]
    return csv_text(head, (_csv_line(story, more) for story in table.stories))


def _csv_line(story: Story, more: Sequence[str]) -> list[Any]:
    cells: list[Any] = _cells(story)
    cells[HEAD.index("Seconds")] = None if story.seconds is None else round(story.seconds, 3)
    known = None if story.explained_by is None else ", ".join(story.explained_by) or "none"
    return [*cells, *(getattr(story, name) for name in more), known]


STORIES = CampaignTable(
    name="stories",
    title="Corruption stories",
    help="Each corruption: which fault, which crash, what differs, which oracle said so.",
    compute=story_table,
    page=story_page,
    present=lambda rows: any(map(told, rows)),
)
