# SPDX-License-Identifier: Apache-2.0
"""The progress of a campaign, computed from its stored rows."""

import math
from dataclasses import dataclass

from riobed_results.rules.controls import control_rates
from riobed_results.store import (
    CONTROLS,
    CampaignRow,
    CellCounts,
    Results,
    cell_counts,
    judges_all,
    stored_spec,
)


@dataclass(frozen=True)
class Progress:
    """CellCounts of trials by outcome; `controls` are trials of controls, `infra_errors` failed attempts.

    `others` says in words how many trials with faults ended otherwise than by a crash.

    `have` of the `wanted` crashes are stored; both are None if the spec does not give a number. `first` and
    `last` are the start of the first trial and the end of the last one, UTC ISO 8601; "" without trials.
    """

    crashes: int
    corrupted: int
    others: str
    infra_errors: int
    have: int | None
    wanted: int | None
    controls: int
    first: str
    last: str


def progress(results: Results) -> Progress:
    """Return the progress of a campaign."""
    rows = results.trials
    cells, wanted = cell_counts(rows), _wanted(results.campaign)
    first, last = results.span()
    faults = sum((cell for (_, name), cell in cells.items() if name not in CONTROLS), CellCounts())
    none = CellCounts()
    return Progress(
        crashes=faults.crashes,
        corrupted=faults.corrupted,
        others=f"{faults.stuck} stuck, {faults.survived} survived"
        if judges_all(rows)
        else f"{faults.discards} discards",
        infra_errors=sum(cell.infra_errors for cell in cells.values()),
        have=sum(min(each, cells.get(at, none).crashes) for at, each in wanted.items()) if wanted else None,
        wanted=sum(wanted.values()) if wanted else None,
        controls=sum(cell.trials for (_, name), cell in cells.items() if name in CONTROLS),
        first=first,
        last=last,
    )


def _wanted(campaign: CampaignRow) -> dict[tuple[str, str], int]:
    """Return the wanted crashes by mode and class; empty if the stored spec does not say."""
    spec = stored_spec(campaign)
    modes, classes, each = (spec.get(key) for key in ("modes", "fault_classes", "crashes_per_cell"))
    if not isinstance(modes, list) or not isinstance(classes, list) or not isinstance(each, int):
        return {}
    rates = dict.fromkeys(map(str, classes), 1.0) | control_rates(spec)
    return {(str(mode), name): math.ceil(rate * each) for mode in modes for name, rate in rates.items()}
