# SPDX-License-Identifier: Apache-2.0
"""Groups: trials with equal facts, counted together. Tables are made of them, not of single rows.

A campaign of a million trials has some thousand different facts, so a table costs one pass over narrow rows
and then next to nothing.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import TypeAdapter

from riobed_results.store.summary import GroupKey
from riobed_results.store.trial import TrialRow

_KEY: TypeAdapter[Any] = TypeAdapter(GroupKey)

if TYPE_CHECKING:

    class Group(TrialRow):
        """See below. It has the attributes of a trial that are used as a group key, and no others."""

        group_id: int = 0
        weight: int = 0
        first: int = 0
        numbers: dict[str, list[Any]] = field(default_factory=dict)

else:

    @dataclass(eq=False, kw_only=True)
    class Group(GroupKey):
        """The number of trials with this group key, the `id` of the first, and what they do not share.

        `numbers` maps columns of summaries to the values of the trials that have one, in the order of the
        trials, or to their sum alone. `crash_title` is part of the key, too, where it was asked for. The
        numbers of all trials that differ in nothing else are then in the first of their groups.
        """

        group_id: int = 0
        weight: int = 0
        first: int = 0
        crash_title: str | None = None
        numbers: dict[str, list[Any]] = field(default_factory=dict)


# What the predicates and counts of tables take.
Row = TrialRow | Group
RowType = TypeVar("RowType", bound=Row)


def group_of(key: str, **more: Any) -> Group:
    """Return the empty group of a stored group key; pydantic's ValidationError if it is malformed."""
    return Group(**vars(_KEY.validate_json(key)), **more)


def how_many(rows: Iterable[Row]) -> int:
    """Return the number of trials."""
    return sum(row.weight for row in rows)


def numbers(rows: Iterable[Row], name: str) -> list[Any]:
    """Return the values of all trials that have one; KeyError if groups were made without them."""
    found: list[Any] = []
    for row in rows:
        if isinstance(row, Group):
            found += row.numbers[name]
        elif (value := getattr(row, name)) is not None:
            found.append(value)
    return found
