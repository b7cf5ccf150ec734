# SPDX-License-Identifier: Apache-2.0
"""The dose: the number of faults with which about half of a class's runs crash, as in the paper.

Stages of trials search it. Each class begins with the paper's number of faults, or with the spec's own dose.
As long as more than half of the trials crash in each stage, the next dose is a quarter of the lowest. As long
as they do in none, it is four times the highest. Then it is the estimate so far (Wu, Journal of the American
Statistical Association 80, 1985). The search ends after the last stage, or when 1 is too high or the largest
dose too low.

The estimate is where a logistic regression of crashes on the logarithm of the dose, over all stages, crosses
one half. A few trials may separate the doses perfectly, and maximum likelihood would diverge. So each stage
gets 2/g trials more, g being the number of stages, that crashed as often as all trials did: the prior of
Clogg et al., Journal of the American Statistical Association 86, 1991. The interval is by the delta method.
"""

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from riobed.plan.spec import PAPER_FAULTS, CampaignSpec
from riobed.plan.streams import Stream

MOST = 100  # FaultCount
_STEP = 4
_Z = 1.959964  # of a 95 % interval


@dataclass(frozen=True)
class Stage:
    """One stage of a class: of `runs` trials with `dose` faults each, `crashes` crashed."""

    dose: int
    crashes: int
    runs: int

    @property
    def too_high(self) -> bool:
        """Whether more than half of the runs crashed."""
        return 2 * self.crashes > self.runs

    @property
    def distance(self) -> float:
        """How far the share that crashed is from one half."""
        return abs(self.crashes / self.runs - 0.5)


@dataclass(frozen=True)
class Estimate:
    """A class's dose. Half of the runs crash at `half` faults, with its 95 % interval; None if not known."""

    dose: int
    half: float | None = None
    low: float | None = None
    high: float | None = None


def next_dose(stages: Sequence[Stage], most: int = MOST, first: int = PAPER_FAULTS) -> int | None:
    """Return the dose of a class's next stage, from 1 to `most`; None if no dose is left to try.

    The first stage has `first` faults.
    """
    if not stages:
        return min(first, most)
    low = max((stage.dose for stage in stages if not stage.too_high), default=None)
    high = min((stage.dose for stage in stages if stage.too_high), default=None)
    if low is not None and high is not None:
        return estimate(stages, most).dose
    dose = min(low * _STEP, most) if low is not None else max((high or 1) // _STEP, 1)
    return None if dose in (low, high) else dose


def estimate(stages: Sequence[Stage], most: int = MOST) -> Estimate:
    """Return a class's dose from 1 to `most`.

    Where the regression cannot say it, that is the tried dose at which the share that crashed was nearest to
    one half; of equals the smallest that was too high, or the largest that was too low.
    """
    nearest = min(stages, key=lambda stage: (stage.distance, stage.dose if stage.too_high else -stage.dose))
    crossing = _crossing(stages)
    if not crossing:
        return Estimate(nearest.dose)
    half, low, high = (2.0**log for log in crossing)
    return Estimate(min(max(round(half), 1), most), half, low, high)


def _crossing(stages: Sequence[Stage]) -> tuple[float, float, float] | None:
    """Return where the curve crosses one half, and its interval, as binary logarithms of the dose."""
    overall = sum(stage.crashes for stage in stages) / sum(stage.runs for stage in stages)
    if len(stages) < 2 or overall in (0, 1):
        return None
    import numpy as np
    import statsmodels.api as sm  # the import takes seconds

    prior = 2 / len(stages)
    counts = [
        (stage.crashes + prior * overall, stage.runs - stage.crashes + prior * (1 - overall))
        for stage in stages
    ]
    logs = sm.add_constant(np.log2([stage.dose for stage in stages]))
    with warnings.catch_warnings():
        # It warns of a perfect fit, which two doses always have.
        warnings.simplefilter("ignore")
        fit = sm.GLM(np.array(counts), logs, family=sm.families.Binomial()).fit()
    constant, slope = map(float, fit.params)
    if slope <= 0:
        return None
    at = -constant / slope
    gradient = np.array([-1 / slope, constant / slope**2])
    error = _Z * math.sqrt(float(gradient @ fit.cov_params() @ gradient))
    # Beyond these the interval says nothing, and a power of two would overflow.
    return at, max(at - error, -32.0), min(at + error, 32.0)


def stage_spec(
    spec: CampaignSpec, mode: str, number: int, doses: Mapping[str, int], trials: int
) -> CampaignSpec:
    """Return the campaign of one stage: `trials` trials of each class in `doses`, in one mode.

    Its seed differs from the campaign's and from other stages', so no dose is chosen by the trials that it is
    for. It does not depend on the spec's own `faults`.
    """
    update = {
        "name": f"{spec.name[:54]}-dose-{number}",
        "seed": Stream.DOSE.of(spec.seed, number).getrandbits(63),
        "modes": [mode],
        "fault_classes": list(doses),
        "faults": dict(doses),
        "parameters": {name: given for name, given in spec.parameters.items() if name in doses},
        "controls": {},
        "protocol": None,
        "crashes_per_cell": trials,
        "max_trials_per_cell": trials,
        "recovery_reset_s": None,
        "boot_production": False,
    }
    return spec.model_copy(update=update)
