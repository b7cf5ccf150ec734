# SPDX-License-Identifier: Apache-2.0
"""Plan: what a campaign's spec says, the ordered trials that follow from it, and the search for a dose. Pure.

May import guest and faults, for the names that a spec may use.
"""

from riobed.plan.rounds import PlannedTrial, fault_rng, plan, trial_seed
from riobed.plan.spec import CampaignSpec, ComparesModes, load_spec, read_spec
from riobed.plan.stored import comparable, modes_data, spec_data, stored_spec

__all__ = [
    "CampaignSpec",
    "ComparesModes",
    "PlannedTrial",
    "comparable",
    "fault_rng",
    "load_spec",
    "modes_data",
    "plan",
    "read_spec",
    "spec_data",
    "stored_spec",
    "trial_seed",
]
