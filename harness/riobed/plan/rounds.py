# SPDX-License-Identifier: Apache-2.0
"""From spec and seed to ordered trials. Pure: the same spec gives the same plan.

Trials come in rounds; a round has each fault class in each mode once, and the controls as often as
their rate says, so a campaign that is stopped at any time is balanced. The seed of a trial names its
class and round but not its mode: the same faults, at the same moments, in every mode.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass

from riobed.plan.spec import CampaignSpec

# Long against the agent's work in the guest, which ends the warm-up at no random moment.
_RUN_ON_S = 0.1


@dataclass(frozen=True)
class PlannedTrial:
    """One trial to be run.

    `warmup_s` is when the faults go in, `recovery_reset_s` when recovery is cut short (None: never);
    `check_restore`: whether restored memory is compared with the snapshot's.
    """

    position: int
    mode: str
    fault_class: str
    seed: str
    warmup_s: float
    fresh_boot: bool
    recovery_reset_s: float | None = None
    check_restore: bool = False

    @property
    def workload_seed(self) -> int:
        """Seed of the workload's stream, 64 bits."""
        return random.Random(f"{self.seed}/workload").getrandbits(63)

    @property
    def run_on_s(self) -> float:
        """How long the guest is left alone before a reset without a fault."""
        return random.Random(f"{self.seed}/run-on").uniform(0.0, _RUN_ON_S)

    def fault_rng(self) -> random.Random:
        """The generator the faults are drawn from."""
        return fault_rng(self.seed)


def trial_seed(seed: int, fault_class: str, number: int) -> str:
    """Seed of a class's trials of that number, from 0, in all modes; `seed` is the campaign's."""
    return f"{seed}/{fault_class}/{number}"


def fault_rng(seed: str) -> random.Random:
    """The generator that the faults of trials with that seed are drawn from."""
    return random.Random(f"{seed}/faults")


def plan(spec: CampaignSpec) -> Iterator[PlannedTrial]:
    """Every trial the campaign may need, in order; the caller skips cells that have enough."""
    position = 0
    for fault_class, number in rounds(spec):
        seed = trial_seed(spec.seed, fault_class, number)
        rng = random.Random(f"{seed}/trial")
        warmup_s = rng.uniform(*spec.warmup_s)
        fresh_boot = rng.random() < spec.fresh_boot_share
        recovery_reset_s = rng.uniform(*spec.recovery_reset_s) if spec.recovery_reset_s else None
        check_restore = rng.random() < spec.restore_check_share
        for mode in spec.modes:
            yield PlannedTrial(
                position, mode, fault_class, seed, warmup_s, fresh_boot, recovery_reset_s, check_restore
            )
            position += 1


def rounds(spec: CampaignSpec) -> Iterator[tuple[str, int]]:
    """Classes in their order, round by round, with the trial's number in its class."""
    for done in range(spec.max_trials_per_cell):
        for fault_class in spec.classes:
            for number in range(spec.trials_by(done, fault_class), spec.trials_by(done + 1, fault_class)):
                yield fault_class, number
