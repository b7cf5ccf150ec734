# SPDX-License-Identifier: Apache-2.0
"""A reset in the middle of recovery costs nothing: the next recovery does it all."""

import pytest
from riobed.plan.spec import CampaignSpec
from riobed_results.store.recovery_report import ENDED, cut_short

from .conftest import GuestIn, trial

# From one reset to the next the time since recovery's first line grows by this factor, until recovery ends
# before. On a fast and idle host all of it takes 0.2 s, on others many times as long. Where that passed over
# all phases but one, the next moments lie between the last that was in time and the first that was late.
FACTORS = {"rio": 1.8, "rio-protected": 3.0}
FIRST_S, LAST_S, MOST_TRIALS = 0.01, 30.0, 16


@pytest.mark.extended
@pytest.mark.parametrize("mode", FACTORS)
def test_a_recovery_cut_short_loses_nothing(guest_in: GuestIn, spec: CampaignSpec, mode: str) -> None:
    phases, in_time, late = set(), 0.0, LAST_S
    moment = FIRST_S
    for number in range(MOST_TRIALS):
        planned = {"position": number, "mode": mode, "warmup_s": 0.5 + number % 3 * 0.3}
        record = trial(guest_in(mode), spec, f"cut/{number}", recovery_reset_s=moment, **planned)
        assert record.check is not None and record.check.equal, record.recovery
        assert record.recovery is not None
        phase = cut_short(record.recovery)
        phases.add(phase)
        if phase == ENDED:
            late = moment
        else:
            in_time = moment
            # The first recovery left the registry valid, and all came from memory again.
            assert record.recovery.registry == "recovered"
            assert record.recovery.restored_pages > 30
        if ENDED in phases and len(phases) > 2:
            return
        moment = (in_time + late) / 2 if ENDED in phases else min(moment * FACTORS[mode], LAST_S)
    pytest.fail(f"the moments do not spread: {phases}")
