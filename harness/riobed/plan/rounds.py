# SPDX-License-Identifier: Apache-2.0
"""The plan: ordered trials from a spec and its seed. It is deterministic.

Trials come in rounds. A round has each fault class in each mode once, and the controls at their rate, so a
campaign is balanced whenever it stops. The seed of a trial depends on its class and round but not on its
mode: every mode gets the same faults at the same times.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass

from riobed_results.store import PANICS

from riobed.plan.spec import CampaignSpec

# Long compared with the agent's work in the guest, so that the reset comes at a random moment.
_RUN_ON_S = 0.1


@dataclass(frozen=True)
class PlannedTrial:
    """One trial to be run.

    `warmup_s`: time of injection. `recovery_reset_s`: time of the reset during recovery (None: no reset).
    `check_restore`: whether the restored memory is compared with the snapshot's.
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
        """Seed of the workload's stream, 63 bits."""
        return random.Random(f"{self.seed}/workload").getrandbits(63)

    @property
    def run_on_s(self) -> float:
        """Seconds the guest runs undisturbed before a reset without a fault."""
        return random.Random(f"{self.seed}/run-on").uniform(0.0, _RUN_ON_S)

    @property
    def panic_by(self) -> str:
        """How a trial of class `panic` panics, a key of PANICS."""
        return random.Random(f"{self.seed}/panic").choice(sorted(PANICS))

    def fault_rng(self) -> random.Random:
        """Return the generator that the faults are drawn from."""
        return fault_rng(self.seed)


def trial_seed(seed: int, fault_class: str, number: int) -> str:
    """Return the seed of the trials with that number (from 0) of a class, in all modes."""
    return f"{seed}/{fault_class}/{number}"


def fault_rng(seed: str) -> random.Random:
    """Return the generator for the faults of the trials with that seed."""
    return random.Random(f"{seed}/faults")


def plan(spec: CampaignSpec) -> Iterator[PlannedTrial]:
    """Yield every trial the campaign may need, in order; the caller skips cells that are complete."""
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
    """Yield the classes in order, round by round, with the trial's number in its class."""
    for done in range(spec.max_trials_per_cell):
        for fault_class in spec.classes:
            for number in range(spec.trials_by(done, fault_class), spec.trials_by(done + 1, fault_class)):
                yield fault_class, number
