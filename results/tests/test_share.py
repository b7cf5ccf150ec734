# SPDX-License-Identifier: Apache-2.0
"""Years to a corruption: the paper's own figures, and the ends of the interval."""

import pytest
from riobed_results.stats.proportions import Share, mean_time
from riobed_results.store.queries import CellCounts
from riobed_results.tables.framework.shares import corrupted_share, mean_time_text


@pytest.mark.parametrize(("corrupted", "years"), [(7, 15), (10, 11)])
def test_the_papers_years(corrupted: int, years: int) -> None:
    """Section 3.3: 15 years for the disk-based system, 11 for Rio without protection."""
    found = mean_time(corrupted_share(CellCounts(crashes=650, corrupted=corrupted)))
    assert found.years == pytest.approx(650 / corrupted * 2 / 12)
    assert found.years and round(found.years, 0) == pytest.approx(years, abs=0.5)
    assert mean_time_text(found).startswith(f"{found.years:.0f} (")


def test_the_ends_are_those_of_the_share_changed_about() -> None:
    share = corrupted_share(CellCounts(crashes=50, corrupted=5))
    found = mean_time(share)
    assert share.low and share.high and found.low and found.high and found.years
    assert found.low < found.years < found.high
    assert (found.low * share.high, found.high * share.low) == (pytest.approx(1 / 6), pytest.approx(1 / 6))


def test_what_is_not_known_is_not_said() -> None:
    found = mean_time(corrupted_share(CellCounts(crashes=20)))
    assert (found.years, found.high) == (None, None)
    assert found.low == pytest.approx(1 / 6 / (1 - 0.025 ** (1 / 20)))
    assert mean_time_text(found) == "more than 1.0"
    assert mean_time(Share()).model_dump() == {"years": None, "low": None, "high": None}
    assert mean_time_text(mean_time(Share())) == "-"
