# SPDX-License-Identifier: Apache-2.0
"""The plan: ordered trials from a spec and its seed. It is deterministic.

Trials come in rounds. A round has each fault class in each mode once, and the controls at their rate, so a
campaign is balanced whenever it stops. The seed of a trial depends on its class and round but not on its
mode: every mode gets the same faults at the same times.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

from riobed_results.store import PANICS, Restart

from riobed.faults import Kind
from riobed.plan.kinds import in_turn
from riobed.plan.spec import CampaignSpec
from riobed.plan.streams import Stream

# In the guest, on the host, or on the host and then in the guest, which is compared.
CheckPlace = Literal["guest", "host", "both"]

# Long compared with the agent's work in the guest, so that the reset comes at a random moment.
_UNDISTURBED_S = 0.1


@dataclass(frozen=True)
class PlannedTrial:
    """One trial to be run.

    `warmup_s`: time of injection. With `run_on_s` it is the duration of the warm-up that the trials of
    `round_seed` share, and `run_on_s` the time of injection after its end.

    `recovery_reset_s`: time of the reset during recovery (None: no reset).
    `check_restore`: whether the restored memory is compared with the snapshot's. `restart`: by a reset, by
    the parked stage 0, by one after the other from a copy of the crash, or after a loss of power. `change`:
    what class `planted` changes, and with `in_step` in the middle of a step of the workload. `check`: where
    the bytes of files are compared.
    """

    position: int
    mode: str
    fault_class: str
    seed: str
    warmup_s: float
    fresh_boot: bool
    recovery_reset_s: float | None = None
    check_restore: bool = False
    restart: Restart = "reset"
    check: CheckPlace = "guest"
    round_seed: str = ""
    run_on_s: float | None = None
    change: Kind = "written"
    in_step: bool = False

    @property
    def workload_seed(self) -> int:
        """Seed of the workload's stream, 63 bits."""
        seed = self.seed if self.run_on_s is None else self.round_seed
        return Stream.WORKLOAD.of(seed).getrandbits(63)

    @property
    def undisturbed_s(self) -> float:
        """Seconds the guest runs undisturbed before a reset without a fault."""
        return Stream.UNDISTURBED.of(self.seed).uniform(0.0, _UNDISTURBED_S)

    @property
    def noise_seed(self) -> int:
        """Seed of the noise that a loss of power leaves in RAM, 63 bits."""
        return Stream.POWER.of(self.seed).getrandbits(63)

    @property
    def panic_by(self) -> str:
        """How a trial of class `panic` panics, a key of PANICS."""
        return Stream.PANIC.of(self.seed).choice(sorted(PANICS))

    def fault_rng(self) -> random.Random:
        """Return the generator that the faults are drawn from."""
        return fault_rng(self.seed)


def trial_seed(seed: int, fault_class: str, number: int) -> str:
    """Return the seed of the trials with that number (from 0) of a class, in all modes."""
    return f"{seed}/{fault_class}/{number}"


def fault_rng(seed: str) -> random.Random:
    """Return the generator for the faults of the trials with that seed."""
    return Stream.FAULTS.of(seed)


def plan(spec: CampaignSpec) -> Iterator[PlannedTrial]:
    """Yield every trial the campaign may need, in order; the caller skips cells that are complete."""
    position = 0
    for done, fault_class, number in rounds(spec):
        trial = planned(spec, done, fault_class, number)
        for mode in spec.modes:
            here = replace(trial, position=position, mode=mode)
            if fault_class == "planted":
                change, in_step = in_turn(spec.planted_kinds(spec.mode(mode)), number)
                here = replace(here, change=change, in_step=in_step)
            yield here
            position += 1


def planned(spec: CampaignSpec, done: int, fault_class: str, number: int) -> PlannedTrial:
    """Draw a trial of the round after `done` rounds, without position and mode."""
    seed, round_seed = trial_seed(spec.seed, fault_class, number), f"{spec.seed}/round/{done}"
    rng = Stream.TRIAL.of(seed)
    warmup_s = rng.uniform(*spec.warmup_s)
    fresh_boot = rng.random() < spec.fresh_boot_share
    recovery_reset_s = rng.uniform(*spec.recovery_reset_s) if spec.recovery_reset_s else None
    check_restore = rng.random() < spec.restore_check_share
    trial = PlannedTrial(0, "", fault_class, seed, warmup_s, fresh_boot, recovery_reset_s, check_restore)
    check = draw_check(spec, seed)
    trial = replace(trial, restart=draw_restart(spec, seed), check=check, round_seed=round_seed)
    if not spec.run_on_s:
        return trial
    shared = Stream.TRIAL.of(round_seed).uniform(*spec.warmup_s)
    run_on_s = Stream.RUN_ON.of(seed).uniform(*spec.run_on_s)
    return replace(trial, warmup_s=shared, run_on_s=run_on_s)


def rounds(spec: CampaignSpec) -> Iterator[tuple[int, str, int]]:
    """Yield the classes in order, round by round, after the number of rounds before.

    The last is the trial's number in its class.
    """
    for done in range(spec.max_trials_per_cell):
        for fault_class in spec.classes:
            for number in range(spec.trials_by(done, fault_class), spec.trials_by(done + 1, fault_class)):
                yield done, fault_class, number


def draw_restart(spec: CampaignSpec, seed: str) -> Restart:
    """Return how the machine restarts after the crashes of the trials with that seed."""
    if not spec.parked:
        return spec.restart
    drawn = Stream.RESTART.of(seed).random() - spec.parked.reset
    return "reset" if drawn < 0 else "both" if drawn < spec.parked.both else "parked"


def draw_check(spec: CampaignSpec, seed: str) -> CheckPlace:
    """Return where the bytes of files are compared after the trials with that seed."""
    if not spec.host_check:
        return "guest"
    return "both" if Stream.CHECK.of(seed).random() < spec.host_check.both else "host"
