# SPDX-License-Identifier: Apache-2.0
"""The table survival: crash and corruption by guest time."""

from typing import Any

import pytest
from results_builders import fill
from riobed_results.errors import StoreError
from riobed_results.report.report import report
from riobed_results.store.logs import Links
from riobed_results.store.store import Store
from riobed_results.tables.corruption.survival import SURVIVAL, survival_table


def run(seconds: float, outcome: str = "panic", corruption: str = "none", **fields: Any) -> dict[str, Any]:
    times = {"injection_guest_s": 5.0, "crash_guest_s": 5.0 + seconds}
    return {"outcome": outcome, "corruption": corruption} | times | fields


def test_survivors_are_censored_and_sound_crashes_stay_at_risk(store: Store) -> None:
    results = fill(
        store,
        run(1, corruption="direct"),
        run(2),
        run(3, "survived"),
        # These two write no crash report.
        run(4, "hang", corruption="indirect", crash_guest_s=None, time_to_crash_s=4.0),
        run(8, "stuck", corruption="indirect", crash_guest_s=None, time_to_crash_s=8.0),
        run(1, fault_class="none"),
        run(1, injection_guest_s=None),
    )
    crash, corruption = survival_table(results).curves
    assert (crash.event, crash.runs, crash.events, crash.longest_s) == ("crash", 5, 3, 8.0)
    # By hand: at 4 s two runs are left, because the one that survived was brought down at 3 s.
    shares = {point.seconds: point.share for point in crash.points}
    assert shares == pytest.approx({0.0: 0.0, 1.0: 1 / 5, 2.0: 2 / 5, 4.0: 1 - 3 / 5 / 2})
    # The sound crash at 2 s is still one of the three at risk at 4 s.
    shares = {point.seconds: point.share for point in corruption.points}
    assert shares == pytest.approx({0.0: 0.0, 1.0: 1 / 5, 4.0: 1 - 4 / 5 * 2 / 3, 8.0: 1 - 4 / 5 * 2 / 3 / 2})
    assert corruption.points[1].low < 1 / 5 < corruption.points[1].high
    assert (crash.at(0.5), crash.at(9.0)) == (crash.points[0], None)
    page = report(store, None, Links(store.location.folder, store.location.folder))
    assert 'aria-label="Crash and corruption by the guest' in page and '<th scope="row">crash</th>' in page


def test_many_steps_are_thinned_but_for_the_last(store: Store) -> None:
    results = fill(store, *(run(n / 100) for n in range(1, 1000)))
    crash, _ = survival_table(results).curves
    assert len(crash.points) < 400 and (crash.points[-1].seconds, crash.points[-1].share) == (9.99, 1.0)


def test_a_store_that_does_not_know_guest_times_has_no_curves(store: Store) -> None:
    results = fill(store, {})
    assert not SURVIVAL.present(results.rows)
    with pytest.raises(StoreError, match="guest's time"):
        survival_table(results)
