# SPDX-License-Identifier: Apache-2.0
"""A published profile is read and shown again, and says what its page says."""

from pathlib import Path

import pytest
from riobed.commands.profile import load_profile, profile_text
from riobed.errors import UsageError

PUBLISHED = Path(__file__).parents[3] / "results/published/cost/profile"


@pytest.mark.parametrize("workload", ["cp_rm", "andrew", "sdet", "cp_rm-delayed-no-journal"])
def test_a_published_profile_is_shown_again(workload: str) -> None:
    table = load_profile(PUBLISHED / f"{workload}.json")
    shown = profile_text(table, 40, "md")
    readme = (PUBLISHED / "README.md").read_text()
    for name in ("over", "mode"):
        total = sum(getattr(row, name) for row in table.rows) / 1e6
        assert f"| {total:.1f} |" in readme and f"| {total:.2f} |" in shown.partition("By function")[0]


def test_what_is_no_profile(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="No such file or directory; give a file of"):
        load_profile(tmp_path / "none.json")
    (tmp_path / "cut.json").write_bytes((PUBLISHED / "cp_rm.json").read_bytes()[:-99])
    with pytest.raises(UsageError, match=r"cut\.json: "):
        load_profile(tmp_path / "cut.json")
