# SPDX-License-Identifier: Apache-2.0
"""Summaries: what tables count of each trial, in rows so narrow that a million of them are read in seconds.

They follow from the declarations of TrialRow: facts used as `group` are the group key, which many trials have
in common, and those used as `value` are the columns of a summary.
"""

import json
import types
from collections.abc import Iterable
from dataclasses import MISSING, field, make_dataclass
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Union, get_args, get_origin, get_type_hints

import sqlalchemy as sa
from sqlalchemy.orm import Mapped, mapped_column

from riobed_results.store.base import Base, columns
from riobed_results.store.trial import TrialRow

_LARGEST = (1 << 63) - 1


def facts_used_as(use: str) -> dict[str, Any]:
    """Return the names of the facts of a trial that have a use, each with its type."""
    hints = get_type_hints(TrialRow)
    found = {
        column.name: get_args(hints[column.name])[0]
        for column in columns(TrialRow)
        if column.info.get("use") == use
    }
    for name, member in vars(TrialRow).items():
        if isinstance(member, property) and vars(member.fget).get("use") == use:
            found[name] = get_type_hints(member.fget)["return"]
    return found


def _without_none(of: Any) -> tuple[Any, bool]:
    """Return a type without None, and whether None was part of it."""
    if get_origin(of) not in (Union, types.UnionType):
        return of, False
    kept = [each for each in get_args(of) if each is not type(None)]
    return kept[0], len(kept) < len(get_args(of))


def _default(of: Any) -> Any:
    """Return the value that a group key leaves out of its text; MISSING for a fact that each trial has."""
    plain, may_be_none = _without_none(of)
    if may_be_none:
        return None
    return {bool: False, tuple: ()}.get(get_origin(plain) or plain, MISSING)


_GROUPED = facts_used_as("group")
_DEFAULTS = {name: _default(of) for name, of in _GROUPED.items()}

if TYPE_CHECKING:
    # It has some of the attributes of a TrialRow, with the same types.
    GroupKey = TrialRow
else:
    GroupKey = make_dataclass(
        "GroupKey",
        [(name, of, field(default=_DEFAULTS[name])) for name, of in _GROUPED.items()],
        kw_only=True,
        eq=False,
    )


class GroupRow(Base):
    """A group key that trials of a campaign have in common: `text` is JSON of it without its defaults.

    `id` is a hash of the text, so that a writer need not look for it.
    """

    __tablename__ = "group_keys"

    campaign_id: Mapped[int] = mapped_column(sa.ForeignKey("campaigns.id"), primary_key=True)
    id: Mapped[int] = mapped_column(sa.BigInteger, primary_key=True)
    text: Mapped[str]


def _column(name: str, of: Any) -> sa.Column[Any]:
    plain, may_be_none = _without_none(of)
    kinds: dict[Any, Any] = {int: sa.BigInteger, float: sa.Float}
    return sa.Column(name, kinds.get(plain, Base.type_annotation_map[str]), nullable=may_be_none)


_VALUES = facts_used_as("value")
# One row for each trial, stored in the same transaction; its values are those of the trial's attributes.
SUMMARIES = sa.Table(
    "summaries",
    Base.metadata,
    sa.Column("trial_id", sa.ForeignKey("trials.id"), primary_key=True),
    sa.Column("campaign_id", sa.ForeignKey("campaigns.id"), nullable=False),
    sa.Column("group_id", sa.BigInteger, nullable=False),
    *(_column(name, of) for name, of in _VALUES.items()),
)


def add_summaries(connection: sa.Connection, rows: Iterable[tuple[TrialRow, dict[str, Any]]]) -> None:
    """Store the summaries of trials that have an `id`, each with attributes that need not be computed."""
    groups, summaries = {}, []
    for row, known in rows:
        text = _text(row, known)
        group_id = int.from_bytes(blake2b(text.encode(), digest_size=8).digest()) >> 1
        groups[row.campaign_id, group_id] = text
        copied = {name: _stored(_value(row, name, known)) for name in _VALUES}
        keys = {"trial_id": row.id, "campaign_id": row.campaign_id, "group_id": group_id}
        summaries.append(keys | copied)
    for (campaign_id, group_id), text in groups.items():
        key = (GroupRow.campaign_id == campaign_id) & (GroupRow.id == group_id)
        if not connection.scalar(sa.select(sa.literal(1)).where(key)):
            new = {"campaign_id": campaign_id, "id": group_id, "text": text}
            connection.execute(sa.insert(GroupRow), new)
    connection.execute(sa.insert(SUMMARIES), summaries)


def _value(row: TrialRow, name: str, known: dict[str, Any]) -> Any:
    return known[name] if name in known else getattr(row, name)


def _text(row: TrialRow, known: dict[str, Any]) -> str:
    found = {name: _value(row, name, known) for name in _DEFAULTS}
    return json.dumps({name: value for name, value in found.items() if value != _DEFAULTS[name]})


def _stored(value: Any) -> Any:
    """Return the value of a column: a damaged machine may report counts that no database holds."""
    return min(value, _LARGEST) if isinstance(value, int) else value


@sa.event.listens_for(TrialRow, "after_insert")
def _add_summary(_: Any, connection: sa.Connection, row: TrialRow) -> None:
    add_summaries(connection, [(row, {})])
