# SPDX-License-Identifier: Apache-2.0
"""Plan: reads a spec, lists the trials that follow from it, and finds the dose. It is pure."""

from riobed.plan.rounds import PlannedTrial, fault_rng, plan, trial_seed
from riobed.plan.spec import CampaignSpec, ComparesModes, load_spec, read_spec
from riobed.plan.stored import comparable, modes_data, spec_data, stored_spec
from riobed.plan.streams import Stream, generator
from riobed.plan.vocabulary import campaign_vocabulary, vocabulary

__all__ = [
    "CampaignSpec",
    "ComparesModes",
    "PlannedTrial",
    "Stream",
    "campaign_vocabulary",
    "comparable",
    "fault_rng",
    "generator",
    "load_spec",
    "modes_data",
    "plan",
    "read_spec",
    "spec_data",
    "stored_spec",
    "trial_seed",
    "vocabulary",
]
