# SPDX-License-Identifier: Apache-2.0
"""How far a campaign has come, from its stored rows."""

import math
from collections import Counter
from dataclasses import dataclass

from riobed_results.controls import CONTROLS
from riobed_results.models import CampaignRow, TrialRow
from riobed_results.queries import stored_spec


@dataclass(frozen=True)
class Progress:
    """Counts of attempts by outcome; `corrupted` without controls.

    `have` of the `wanted` crashes are there, None if the spec says none.
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
    wanted = _wanted(campaign)
    crashes = Counter((row.mode, row.fault_class) for row in rows if row.outcome == "crash")
    return Progress(
        crashes=count["crash"],
        corrupted=sum(
            row.corruption not in (None, "none") and row.fault_class not in CONTROLS for row in rows
        ),
        discards=count["discard"],
        infra_errors=count["infra_error"],
        have=sum(min(each, crashes[cell]) for cell, each in wanted.items()) if wanted else None,
        wanted=sum(wanted.values()) if wanted else None,
        first=min((row.started for row in rows), default=""),
        last=max((row.finished for row in rows), default=""),
    )


def _wanted(campaign: CampaignRow) -> dict[tuple[str, str], int]:
    """Return the crashes asked for by mode and class; none if the stored spec does not say."""
    spec = stored_spec(campaign)
    modes, classes, each = (spec.get(key) for key in ("modes", "fault_classes", "crashes_per_cell"))
    if not isinstance(modes, list) or not isinstance(classes, list) or not isinstance(each, int):
        return {}
    controls = spec.get("controls")
    rates = dict.fromkeys(map(str, classes), 1.0)
    for name, rate in controls.items() if isinstance(controls, dict) else ():
        if isinstance(rate, int | float) and rate:
            rates[str(name)] = rate
    return {(str(mode), name): math.ceil(rate * each) for mode in modes for name, rate in rates.items()}
