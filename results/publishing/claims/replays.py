# SPDX-License-Identifier: Apache-2.0
"""Claims of replays: crashes replayed once each, and corruptions replayed several times."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import BaseModel
from riobed_results.store import CRASHES, Results, read_lines
from riobed_results.tables.controls.replays import JUDGED, ReplayRun

from publishing.claims.claim import Claim, count, interval, part, slug

# The output of `riobed replay ID --times N --json`, one line per corruption.
AGAIN_FILE = "corruptions.jsonl"


class Again(BaseModel):
    """A stored corruption that was replayed several times, as `riobed replay --json` prints it."""

    campaign: str
    position: int
    fault_class: str
    then: dict[str, Any]
    replays: list[dict[str, Any]]

    @property
    def hits(self) -> int:
        """The number of replays with corruption of any class."""
        return sum(corrupted(each["now"]) for each in self.replays)

    @property
    def relabelled(self) -> bool:
        """Whether a replay's corruption was classified differently."""
        labels = {each["now"]["corruption"] for each in self.replays if corrupted(each["now"])}
        return bool(labels - {self.then["corruption"]})


def corrupted(ending: dict[str, Any]) -> bool:
    """Whether a trial with this ending corrupted anything."""
    return ending["corruption"] not in (None, "none")


def read_again(path: Path) -> list[Again]:
    """Return the stored answers; StoreError if one cannot be read."""
    return read_lines(path, Again, "riobed replay --json")


def replay_claims(runs: list[ReplayRun], results: Results | None) -> list[Claim]:
    """Return how many replays ended the same way: in total, by mode, and by what the fault changed."""
    same = sum(run.same["crash_title"] for run in runs)
    activated = [run for run in runs if run.then.first_activation_s is not None]
    modes = dict.fromkeys(run.mode for run in runs)
    return [
        count("replayed_crashes", len(runs), "crash"),
        *(part(f"same_{name}", sum(run.same[name] for run in runs), len(runs)) for name in JUDGED),
        interval("same_crash_title_interval", same, len(runs)),
        part("crashed_again", sum(run.now.outcome in CRASHES for run in runs), len(runs)),
        part("same_moment", sum(run.same_moment for run in activated), len(activated)),
        count("without_moment", len(runs) - len(activated), "crash"),
        *(_same(slug("same_title", mode), [run for run in runs if run.mode == mode]) for mode in modes),
        *_by_kind(runs, _changing(results) if results else frozenset()),
    ]


def _changing(results: Results) -> frozenset[str]:
    """Return the fault classes that change instructions."""
    return frozenset(row.fault_class for row in results.rows if any(fault.new_asm for fault in row.faults))


def _by_kind(runs: list[ReplayRun], changing: frozenset[str]) -> Iterator[Claim]:
    if changing:
        yield _same("same_title_instructions", [run for run in runs if run.fault_class in changing])
        yield _same("same_title_others", [run for run in runs if run.fault_class not in changing])


def _same(key: str, runs: list[ReplayRun]) -> Claim:
    return part(key, sum(run.same["crash_title"] for run in runs), len(runs))


def again_claims(found: list[Again], results: Results | None) -> list[Claim]:
    """Return how many corruptions occurred again at least once, in total and by fault class."""
    classes = dict.fromkeys(again.fault_class for again in found)
    changing = _changing(results) if results else frozenset()
    return [
        *_again("corrupted_again_instructions", [each for each in found if each.fault_class in changing]),
        *_again("corrupted_again", found),
        count("relabelled", sum(again.relabelled for again in found), "corruption"),
        *(
            claim
            for name in classes
            for claim in _again(
                slug("corrupted_again", name), [again for again in found if again.fault_class == name]
            )
        ),
        *(claim for again in found for claim in _again(f"corrupted_again_{again.position}", [again])[1:]),
    ]


def _again(key: str, found: list[Again]) -> list[Claim]:
    replays = sum(len(again.replays) for again in found)
    hit, hits = sum(again.hits > 0 for again in found), sum(again.hits for again in found)
    return [
        Claim(key=key, value=hit, text=f"{hit} of {len(found)} corruptions"),
        Claim(key=f"{key}_replays", value=hits, text=f"{hits} of {replays} replays"),
    ]
