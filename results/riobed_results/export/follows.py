# SPDX-License-Identifier: Apache-2.0
"""What follows from a row by riobed's rules: an export has it, so that no reader needs riobed for it."""

from riobed_results.rules.endpoints import corrupted_by, counted_by
from riobed_results.rules.oracles import oracles
from riobed_results.store import TrialRow

FOLLOWS = {"oracles": oracles, "counted_by": counted_by, "corrupted_by": corrupted_by}


def follows(row: TrialRow) -> dict[str, list[str]]:
    """Return which oracles found something, which definitions count the row, and by which it is a hit."""
    return {name: of(row) for name, of in FOLLOWS.items()}
