# SPDX-License-Identifier: Apache-2.0
"""Tallies: trials with equal facts, counted together. Tables are made of them, not of single rows.

A campaign of a million trials has some thousand different facts, so a table costs one pass over narrow rows
and then next to nothing.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from pydantic import TypeAdapter

from riobed_results.store.models import Facts, TrialRow

_FACTS = TypeAdapter(Facts)


@dataclass(eq=False, kw_only=True)
class Tally(Facts):
    """The number of trials that have these facts, the `id` of the first, and what they do not have in common.

    `numbers` maps columns of DigestRow to the values of the trials that have one, in the order of the trials,
    or to their sum alone. `crash_title` is a fact, too, where it was asked for. The numbers of all trials
    that differ in nothing else are then in the first of their tallies.
    """

    facts_id: int = 0
    times: int = 0
    first: int = 0
    crash_title: str | None = None
    numbers: dict[str, list[Any]] = field(default_factory=dict)


# What the predicates and counts of tables take.
Row = TrialRow | Tally
RowType = TypeVar("RowType", bound=Row)


def tally_of(facts: str, **more: Any) -> Tally:
    """Return the empty tally of stored facts; pydantic's ValidationError if they are malformed."""
    return Tally(**vars(_FACTS.validate_json(facts)), **more)


def how_many(rows: Iterable[Row]) -> int:
    """Return the number of trials."""
    return sum(row.times for row in rows)


def numbers(rows: Iterable[Row], name: str) -> list[Any]:
    """Return the values of all trials that have one; KeyError if tallies were made without them."""
    found: list[Any] = []
    for row in rows:
        if isinstance(row, Tally):
            found += row.numbers[name]
        elif (value := getattr(row, name)) is not None:
            found.append(value)
    return found
