# SPDX-License-Identifier: Apache-2.0
"""What follows from a row by riobed's rules: an export has it, so that no reader needs riobed for it."""

from riobed_results.rules.endpoints import endpoints_hit, endpoints_of
from riobed_results.rules.oracles import oracles
from riobed_results.store import TrialRow

FOLLOWS = {"oracles": oracles, "endpoints": endpoints_of, "endpoints_hit": endpoints_hit}


def follows(row: TrialRow) -> dict[str, list[str]]:
    """Return which oracles found something, of which endpoints the row is a run, and by which it is a hit."""
    return {name: of(row) for name, of in FOLLOWS.items()}
