# SPDX-License-Identifier: Apache-2.0
"""A reset in the middle of recovery costs nothing: the next recovery does it all."""

import pytest
from riobed.plan.spec import CampaignSpec
from riobed_results.store.recovery_report import ENDED, cut_short

from .conftest import GuestIn, trial

# Seconds after recovery's first line; on a fast and idle host the whole takes 0.2 s.
MOMENTS = {"rio": [0.0, 0.01, 0.03, 0.05, 0.08, 0.12, 0.16], "rio-protected": [0.0, 0.03, 0.08, 0.16]}


@pytest.mark.parametrize("mode", MOMENTS)
def test_a_recovery_cut_short_loses_nothing(guest_in: GuestIn, spec: CampaignSpec, mode: str) -> None:
    phases = set()
    for number, moment in enumerate(MOMENTS[mode]):
        planned = {"position": number, "mode": mode, "warmup_s": 0.5 + number % 3 * 0.3}
        record = trial(guest_in(mode), spec, f"cut/{number}", recovery_reset_s=moment, **planned)
        assert record.check is not None and record.check.equal, record.recovery
        assert record.recovery is not None
        phase = cut_short(record.recovery)
        if phase != ENDED:
            # The first recovery left the registry valid, and all came from memory again.
            assert record.recovery.registry == "recovered"
            assert record.recovery.restored_pages > 30
        phases.add(phase)
    assert len(phases - {ENDED}) >= 2, f"the moments do not spread: {phases}"
