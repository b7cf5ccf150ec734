# SPDX-License-Identifier: Apache-2.0
"""A published profile's table says what the counts beside it say."""

from pathlib import Path

import pytest
from riobed.commands.profile import ProfileTable, profile_text

PUBLISHED = Path(__file__).parents[3] / "results/published/cost/profile"


@pytest.mark.parametrize("workload", ["cp_rm", "andrew", "sdet", "cp_rm-delayed-no-journal"])
def test_a_published_profile_comes_out_of_its_counts_again(workload: str) -> None:
    counted = PUBLISHED / f"{workload}.json"
    table = ProfileTable.model_validate_json(counted.read_text())
    assert counted.with_suffix(".md").read_text() == profile_text(table, 40, "md")
    totals = [sum(getattr(row, name) for row in table.rows) / 1e6 for name in ("over", "mode")]
    readme = (PUBLISHED / "README.md").read_text()
    assert all(f"| {total:.1f} |" in readme for total in totals)
