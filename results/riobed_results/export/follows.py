# SPDX-License-Identifier: Apache-2.0
"""What follows from a row by riobed's rules: an export has it, so that no reader needs riobed for it."""

from collections.abc import Callable

from riobed_results.rules.endpoints import endpoints_hit, endpoints_of
from riobed_results.rules.explained import explained_by
from riobed_results.rules.oracles import oracles
from riobed_results.store import TrialRow

FOLLOWS: dict[str, Callable[[TrialRow], list[str] | None]] = {
    "oracles": oracles,
    "endpoints": endpoints_of,
    "endpoints_hit": endpoints_hit,
    "explained_by": explained_by,
}


def follows(row: TrialRow) -> dict[str, list[str] | None]:
    """Return lists of names by what they say of the row; None where that is not known."""
    return {name: of(row) for name, of in FOLLOWS.items()}
