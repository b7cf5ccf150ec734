# SPDX-License-Identifier: Apache-2.0
"""One figure: a key for programs, its value, and the text that prose states it with."""

import re

from pydantic import BaseModel, Field

from riobed_results.store import Results, TrialRow
from riobed_results.tables.comparison import p_text
from riobed_results.tables.controls import CONTROLS
from riobed_results.tables.proportions import count_text, interval_text, share_of

DIGITS = 6  # of a value that is no count: enough for any use, few enough to be the same everywhere


class Claim(BaseModel):
    """`text` holds the noun and the unit of the figure, so that prose cannot use it for something else."""

    key: str = Field(pattern=r"^[a-z][a-z0-9_]*$")
    value: int | float | str
    text: str


def slug(*parts: str) -> str:
    """Return the parts of a key as one, e.g. `corrupted_rio_protected`."""
    return "_".join(re.sub(r"[^a-z0-9]+", "_", part.lower()).strip("_") for part in parts)


def number(key: str, value: float, text: str) -> Claim:
    """Return a figure that is no count."""
    return Claim(key=key, value=float(f"{value:.{DIGITS}g}"), text=text)


def count(key: str, value: int, noun: str, plural: str | None = None) -> Claim:
    """Return a count of something, e.g. `4 infra errors`."""
    many = plural or noun + ("es" if noun.endswith(("s", "sh", "ch")) else "s")
    return Claim(key=key, value=value, text=f"{value} {noun if value == 1 else many}")


def part(key: str, value: int, total: int) -> Claim:
    """Return a count out of a total, e.g. `18 of 650 (2.8 %)`; its value is the count."""
    return Claim(key=key, value=value, text=count_text(value, total))


def of(key: str, value: int, total: int) -> Claim:
    """Return the same without the percentage, e.g. `3 of 17`: too few for one."""
    return Claim(key=key, value=value, text=f"{value} of {total}")


def interval(key: str, value: int, total: int) -> Claim:
    """Return the exact 95 % interval of such a share as text, e.g. `1.6 to 4.3 %`."""
    text = interval_text(share_of(value, total))
    return Claim(key=key, value=text, text=text)


def probability(key: str, p: float) -> Claim:
    """Return a p-value, e.g. `p = 0.59`."""
    text = p_text(p)
    return number(key, p, f"p {text}" if text.startswith("<") else f"p = {text}")


def rows_of(results: Results) -> list[TrialRow]:
    """Return the results of a campaign that no control made."""
    return [row for row in results.rows if row.fault_class not in CONTROLS and is_result(row)]


def is_result(row: TrialRow) -> bool:
    """Is this no failure of our own?"""
    return row.outcome != "infra_error"
