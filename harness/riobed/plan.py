# SPDX-License-Identifier: Apache-2.0
"""From spec and seed to ordered trials. Pure: the same spec gives the same plan.

Trials come in rounds; a round has each fault class in each mode once, so a campaign that is
stopped at any time is balanced. The seed of a trial names its class and round but not its
mode: the same faults, at the same moments, in every mode.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass

from riobed.spec import CampaignSpec


@dataclass(frozen=True)
class PlannedTrial:
    """One trial to be run; `warmup_s` is when the faults go in."""

    position: int
    mode: str
    fault_class: str
    seed: str
    warmup_s: float
    fresh_boot: bool

    @property
    def workload_seed(self) -> int:
        """Seed of the workload's stream, 64 bits."""
        return random.Random(f"{self.seed}/workload").getrandbits(63)

    def fault_rng(self) -> random.Random:
        """The generator the faults are drawn from."""
        return random.Random(f"{self.seed}/faults")


def plan(spec: CampaignSpec) -> Iterator[PlannedTrial]:
    """Every trial the campaign may need, in order; the caller skips cells that have enough."""
    position = 0
    for number in range(spec.max_trials_per_cell):
        for fault_class in spec.fault_classes:
            seed = f"{spec.seed}/{fault_class}/{number}"
            rng = random.Random(f"{seed}/trial")
            warmup_s = rng.uniform(*spec.warmup_s)
            fresh_boot = rng.random() < spec.fresh_boot_share
            for mode in spec.modes:
                yield PlannedTrial(position, mode, fault_class, seed, warmup_s, fresh_boot)
                position += 1
