# SPDX-License-Identifier: Apache-2.0
"""The power of one analysis at the end: how probably each claim is shown, if the modes' shares are so."""

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from riobed_results.errors import StoreUsageError
from riobed_results.rules.protocol import Claim, Protocol
from riobed_results.stats.pairs import PairedStrata, paired_score
from riobed_results.tables.framework.render import Grid, Page, csv_text, json_text
from scipy.stats import norm

_CAMPAIGNS = 2000  # simulated for each truth: a probability is off by 0.02 at most (95 %)
_MOST_RUNS = 3000
_LARGEST = 1 << 20  # bytes of a plan

Probability = Annotated[float, Field(ge=0, le=1)]
# What the share of runs with a hit may be, by mode in each fault class.
Truth = dict[str, dict[str, Probability]]


class PowerPlan(BaseModel):
    """A protocol with `runs`, and truths by name."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    protocol: Protocol
    truths: Annotated[dict[str, Truth], Field(min_length=1)]

    @model_validator(mode="after")
    def _is_whole(self) -> "PowerPlan":
        if not 2 <= (self.protocol.runs or 0) <= _MOST_RUNS:
            raise ValueError(f"protocol.runs: want a number from 2 to {_MOST_RUNS}")
        for name, truth in self.truths.items():
            modes = [mode for of_class in truth.values() for mode in of_class]
            if unknown := self.protocol.unknown(modes, list(truth)):
                raise ValueError(f"truth {name!r}: {unknown}")
            if len({frozenset(of_class) for of_class in truth.values()}) != 1:
                raise ValueError(f"truth {name!r}: want the same modes in each class, and a class")
        return self


class PowerTable(BaseModel):
    """Of each claim the probability that it is shown, by truth."""

    runs: int
    claims: dict[str, dict[str, float]]


def read_plan(path: Path) -> PowerPlan:
    """Read a plan from YAML; StoreUsageError says in one line what is wrong with it."""
    try:
        with path.open("rb") as file:
            text = file.read(_LARGEST + 1)
        if len(text) > _LARGEST:
            raise StoreUsageError(f"{path}: larger than {_LARGEST} bytes; that is no plan")
        return PowerPlan.model_validate(yaml.safe_load(text))
    except OSError as error:
        raise StoreUsageError(f"{path}: {error.strerror}; give the file of a plan") from None
    except yaml.YAMLError as error:
        raise StoreUsageError(f"{path}: no YAML: {' '.join(str(error).split())}") from None
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"])) or "plan"
        raise StoreUsageError(f"{path}: {place}: {first['msg']}") from None


def power_table(plan: PowerPlan, seed: int = 1) -> PowerTable:
    """Simulate campaigns whose runs are independent; pairs that are hit together make the power larger."""
    claims: dict[str, dict[str, float]] = {}
    runs, needed = plan.protocol.runs or 0, norm.ppf(plan.protocol.level)
    for name, truth in plan.truths.items():
        rng = np.random.default_rng(seed)
        # By class and mode, hits of each run of each campaign.
        hits = {
            fault_class: {mode: rng.random((_CAMPAIGNS, runs)) < share for mode, share in shares.items()}
            for fault_class, shares in truth.items()
        }
        shown = {claim.chain: np.ones(_CAMPAIGNS, dtype=bool) for claim in plan.protocol.claims}
        for claim in plan.protocol.claims:
            shown[claim.chain] &= _score(claim, hits, runs) <= needed
            claims.setdefault(f"{claim.chain} {claim}".strip(), {})[name] = float(shown[claim.chain].mean())
    return PowerTable(runs=runs, claims=claims)


def _score(claim: Claim, hits: dict[str, dict[str, Any]], runs: int) -> Any:
    pairs = [(hits[name][claim.mode], hits[name][claim.than]) for name in claim.fault_classes or hits]
    only_first = np.stack([(first & ~other).sum(axis=1) for first, other in pairs], axis=-1)
    only_other = np.stack([(other & ~first).sum(axis=1) for first, other in pairs], axis=-1)
    strata = PairedStrata(only_first, only_other, np.full(len(pairs), runs))
    return paired_score(strata, claim.margin / 100)


NOTE = (
    "A claim counts only if those before it in its chain are shown. Runs of a pair are simulated as "
    "independent. If they are hit together, the power is larger."
)


def power_page(table: PowerTable) -> Page:
    """Return the page of the table."""
    truths = list(next(iter(table.claims.values())))
    lines = [[claim, *(f"{of[name]:.2f}" for name in truths)] for claim, of in table.claims.items()]
    grid = Grid(f"Probability of being shown, {table.runs} runs a cell", ["Claim", *truths], lines, [])
    csv = csv_text(["claim", *truths], ([claim, *of.values()] for claim, of in table.claims.items()))
    return Page(f"{_CAMPAIGNS} simulated campaigns for each truth.", [grid], NOTE, csv, json_text(table))
