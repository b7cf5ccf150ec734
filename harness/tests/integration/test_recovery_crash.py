# SPDX-License-Identifier: Apache-2.0
"""A reset in the middle of recovery costs nothing: the next recovery does it all."""

from collections.abc import Callable

import pytest
from riobed.guest.guest import Guest
from riobed.plan.rounds import PlannedTrial
from riobed.plan.spec import CampaignSpec
from riobed.trial.record import TrialRecord
from riobed.trial.trial import run_trial
from riobed_results.store.recovery_report import ENDED, cut_short

# Seconds after recovery's first line; on a fast and idle host the whole takes 0.2 s.
MOMENTS = [0.0, 0.01, 0.03, 0.05, 0.08, 0.12, 0.16]


@pytest.mark.parametrize("mode", ["rio", "rio-protected"])
def test_a_recovery_cut_short_loses_nothing(
    guest_in: Callable[[str], Guest], spec: CampaignSpec, mode: str
) -> None:
    phases = set()
    for number, moment in enumerate(MOMENTS):
        planned = PlannedTrial(number, mode, "none", f"cut/{number}", 0.5 + number % 3 * 0.3, False, moment)
        record = TrialRecord(planned, [])
        run_trial(guest_in(mode), spec, record)
        assert record.check is not None and record.check.equal, record.recovery
        assert record.recovery is not None
        phase = cut_short(record.recovery)
        if phase != ENDED:
            # The first recovery left the registry valid, and all came from memory again.
            assert record.recovery.registry == "recovered"
            assert record.recovery.restored_pages > 100
        phases.add(phase)
    assert len(phases - {ENDED}) >= 2, f"the moments do not spread: {phases}"
