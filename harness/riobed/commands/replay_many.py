# SPDX-License-Identifier: Apache-2.0
"""`riobed replay --crashes`: replay many stored crashes once each, and compute the match rate.

It can be stopped at any time. Each replay is stored when it is complete, and the next call with the same
folder continues with the missing ones.
"""

import sys
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain, zip_longest
from pathlib import Path

from riobed_results.store import SERIES, CampaignRow, TrialRow, in_order, open_store, trial_rows
from riobed_results.tables.controls.replays import FILE, REPLAYS, ReplayRun, add_replay, read_replays
from riobed_results.tables.crashes.titles import titled
from riobed_results.tables.framework.render import render

from riobed.commands.replay import Replayer, Request, find, make_folder, redraw, replay_setup
from riobed.commands.run import beside
from riobed.commands.trial_line import columns, ending, fitted, named
from riobed.errors import UsageError
from riobed.guest import GuestSetup, provenance
from riobed.plan import Stream, stored_spec


@dataclass(frozen=True)
class Many:
    """How many crashes of which campaign to replay; `folder` None means beside the store."""

    crashes: int
    store: str
    campaign: str | None = None
    folder: Path | None = None


def replay_many(request: Many, form: str, uri: str | None) -> str:
    """Run the missing replays and write the table as Markdown; return the table in the requested form."""
    store = open_store(request.store)
    campaign = store.campaign(request.campaign)
    spec = stored_spec(campaign.name, campaign.spec)
    setup = replay_setup(campaign, spec, request.store, uri)
    chosen = choose(campaign, trial_rows(store, campaign.id, faults=False), request.crashes)
    folder = make_folder(request.folder or beside(request.store, "replays") / campaign.name)
    done = {run.position for run in stored_replays(folder, campaign, setup)}
    # One mode after another, because a guest has one mode.
    for mode in dict.fromkeys(row.mode for row in chosen):
        missing = [row for row in chosen if row.mode == mode and row.position not in done]
        if missing:
            with Replayer(setup, spec, mode) as replayer:
                for row in missing:
                    one = Request(row.position, request.store, campaign.name)
                    add_replay(folder, run_one(replayer, one, folder, setup))
    page = REPLAYS.of(folder)
    (folder / "replays.md").write_text(render(page, "md"), encoding="utf-8")
    return render(page, form)


def choose(campaign: CampaignRow, rows: Iterable[TrialRow], count: int) -> list[TrialRow]:
    """Choose `count` crashes, balanced over fault classes as far as possible; the choice is deterministic.

    UsageError if the campaign has no crash that a fault caused.
    """
    of_class: dict[str, list[TrialRow]] = {}
    for row in filter(titled, rows):
        of_class.setdefault(row.fault_class, []).append(row)
    for name, crashes in of_class.items():
        Stream.REPLAYS.of(campaign.seed, name).shuffle(crashes)
    ordered = [of_class[name] for name in in_order(campaign, "fault_classes", of_class) if name in of_class]
    if not ordered:
        raise UsageError(f"campaign {campaign.name!r} has no crash to replay; choose another with --campaign")
    return [row for row in chain.from_iterable(zip_longest(*ordered)) if row][:count]


def stored_replays(folder: Path, campaign: CampaignRow, setup: GuestSetup) -> list[ReplayRun]:
    """Return the stored replays; UsageError if they have another campaign or provenance."""
    runs = read_replays(folder) if (folder / FILE).exists() else []
    here = provenance(setup, campaign.seed, modes=stored_spec(campaign.name, campaign.spec).cache_modes)
    for run in runs:
        difference = run.on.difference(here, SERIES)
        if difference or run.campaign != campaign.name:
            raise UsageError(
                f"{folder / FILE} has replays of something else: "
                f"{difference or f'campaign {run.campaign!r}'}; choose another --folder"
            )
    return runs


def run_one(replayer: Replayer, request: Request, folder: Path, setup: GuestSetup) -> ReplayRun:
    """Run one replay and print a line about it; EnvironmentFault if every attempt is an infra error."""
    stored = find(request)
    faults = redraw(stored, setup)
    run = replayer.run(stored, faults, make_folder(folder / f"{request.position:05d}")).run
    print(_line(run, columns(sys.stderr)), file=sys.stderr)
    return run


def _line(run: ReplayRun, width: int) -> str:
    same = "" if run.same["crash_title"] else f"  (was: {run.then.crash_title})"
    return fitted(f"{named(run)} {'same' if not same else 'other'}, {ending(run.now)}{same}", width)
