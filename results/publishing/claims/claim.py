# SPDX-License-Identifier: Apache-2.0
"""A claim is one figure: a key for programs, a value, and the text that prose must use."""

import math
import re

from pydantic import BaseModel, Field
from riobed_results.stats.proportions import share_of
from riobed_results.store import CONTROLS, Results, TrialRow
from riobed_results.tables.framework.shares import count_text, interval_text, p_text

DIGITS = 6  # significant digits of a value that is not a count; few enough to agree on every host


class Claim(BaseModel):
    """One figure. `text` includes noun and unit, so prose cannot use the number for something else."""

    key: str = Field(pattern=r"^[a-z][a-z0-9_]*$")
    value: int | float | str
    text: str


def slug(*parts: str) -> str:
    """Join the parts of a key, e.g. to `corrupted_rio_protected`."""
    return "_".join(re.sub(r"[^a-z0-9]+", "_", part.lower()).strip("_") for part in parts)


def number(key: str, value: float, text: str) -> Claim:
    """Return a figure that is not a count."""
    return Claim(key=key, value=float(f"{value:.{DIGITS}g}"), text=text)


def count(key: str, value: int, noun: str, plural: str | None = None) -> Claim:
    """Return a count, e.g. `4 infra errors`."""
    many = plural or noun + ("es" if noun.endswith(("s", "sh", "ch")) else "s")
    return Claim(key=key, value=value, text=f"{value} {noun if value == 1 else many}")


def part(key: str, value: int, total: int) -> Claim:
    """Return a count out of a total, e.g. `18 of 650 (2.8 %)`; its value is the count."""
    return Claim(key=key, value=value, text=count_text(value, total))


def of(key: str, value: int, total: int) -> Claim:
    """Return a count out of a total that is too small for a percentage, e.g. `3 of 17`."""
    return Claim(key=key, value=value, text=f"{value} of {total}")


def interval(key: str, value: int, total: int) -> Claim:
    """Return the exact 95 % interval of a proportion as text, e.g. `1.6 to 4.3 %`."""
    text = interval_text(share_of(value, total))
    return Claim(key=key, value=text, text=text)


def probability(key: str, p: float) -> Claim:
    """Return a p-value, e.g. `p = 0.59`."""
    text = p_text(p)
    return number(key, p, f"p {text}" if text.startswith("<") else f"p = {text}")


def rows_of(results: Results) -> list[TrialRow]:
    """Return a campaign's results without those of controls."""
    return [row for row in results.rows if row.fault_class not in CONTROLS and is_result(row)]


def seconds_of(row: TrialRow) -> float:
    """Return how long a trial took; the sum is exact, because that of floats differs between Pythons."""
    return math.fsum(map(float, row.phases.values()))


def is_result(row: TrialRow) -> bool:
    """Whether the row is a result, not an infra error."""
    return row.outcome != "infra_error"
