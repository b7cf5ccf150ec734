# SPDX-License-Identifier: Apache-2.0
"""How far a campaign has come, from its stored rows."""

from collections import Counter
from dataclasses import dataclass

from riobed_results.models import CampaignRow, TrialRow
from riobed_results.queries import stored_spec


@dataclass(frozen=True)
class Progress:
    """Counts of attempts by outcome; `have` of the `wanted` crashes are there, None if the spec says none.

    `first` and `last` are when the first trial began and the last one ended, UTC ISO 8601; "" without trials.
    """

    crashes: int
    corrupted: int
    discards: int
    infra_errors: int
    have: int | None
    wanted: int | None
    first: str
    last: str


def progress(campaign: CampaignRow, rows: list[TrialRow]) -> Progress:
    """Return how far the campaign with these rows has come."""
    count = Counter(row.outcome for row in rows)
    each, cells = _asked(campaign)
    crashes = Counter((row.mode, row.fault_class) for row in rows if row.outcome == "crash")
    return Progress(
        crashes=count["crash"],
        corrupted=sum(row.corruption not in (None, "none") for row in rows),
        discards=count["discard"],
        infra_errors=count["infra_error"],
        have=sum(min(each, crashes[cell]) for cell in cells) if cells else None,
        wanted=each * len(cells) if cells else None,
        first=min((row.started for row in rows), default=""),
        last=max((row.finished for row in rows), default=""),
    )


def _asked(campaign: CampaignRow) -> tuple[int, list[tuple[str, str]]]:
    """Return the crashes asked for in each cell and the cells; none if the stored spec does not say."""
    spec = stored_spec(campaign)
    modes, classes, each = (spec.get(key) for key in ("modes", "fault_classes", "crashes_per_cell"))
    if not isinstance(modes, list) or not isinstance(classes, list) or not isinstance(each, int):
        return 0, []
    return each, [(str(mode), str(name)) for mode in modes for name in classes]
