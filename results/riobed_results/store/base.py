# SPDX-License-Identifier: Apache-2.0
"""What the tables of a store have in common: the types of columns, and what is told of each column.

All column types are generic, so the same models serve SQLite and PostgreSQL.
"""

from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Any, Literal, TypedDict, TypeVar

import sqlalchemy as sa
from pydantic import BaseModel, TypeAdapter
from sqlalchemy.engine import Dialect
from sqlalchemy.orm import DeclarativeBase, Mapped, MappedAsDataclass, mapped_column

Json = dict[str, Any]
Seconds = dict[str, float]
Events = dict[str, int]
PartEvents = dict[str, Events]

# What the summaries of trials do with a fact: trials are grouped by it, or its values are copied.
Use = Literal["group", "value"]


class Fact(TypedDict):
    """What is told of a column: its meaning, its unit, the schema that brought it, its use in summaries."""

    meaning: str
    unit: str
    since: int
    use: Use | None


def fact(meaning: str, unit: str = "", *, since: int = 1, use: Use | None = None) -> Any:
    """Describe a column, for its `info`; see Fact. Docs, summaries and migrations follow from it."""
    return Fact(meaning=meaning, unit=unit, since=since, use=use)


_Function = TypeVar("_Function", bound=Callable[..., Any])


def used_as(use: Use) -> Callable[[_Function], _Function]:
    """Say the same of a property of a row, which is no column: summaries have its value."""

    def mark(function: _Function) -> _Function:
        function.__dict__["use"] = use
        return function

    return mark


class AnyText(sa.types.TypeDecorator[str]):
    """Text from a crashed guest: NUL and lone surrogates become escapes, because databases refuse them."""

    impl = sa.Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        """Return the stored form of `value`; ordinary text is unchanged."""
        if value is None:
            return None
        return value.encode("utf-8", "backslashreplace").decode().replace("\0", "\\x00")


class JsonOf(sa.types.TypeDecorator[Any]):
    """JSON of one type, validated when written and read; pydantic's ValidationError if the shape is wrong.

    Unset fields of a model are not stored, so a row reads back exactly as it was written.
    """

    impl = sa.JSON(none_as_null=True)
    cache_ok = True

    def __init__(self, of: Any) -> None:
        super().__init__()
        self.of = of
        self._adapter: TypeAdapter[Any] = TypeAdapter(of)

    def process_bind_param(self, value: Any, dialect: Dialect) -> Any:
        """Return the stored form of `value`."""
        if value is None:
            return None
        checked = self._adapter.validate_python(value)
        return self._adapter.dump_python(checked, exclude_unset=True)

    def process_result_value(self, value: Any, dialect: Dialect) -> Any:
        """Return the value of a row."""
        return None if value is None else self._adapter.validate_python(value)


def utc_now() -> str:
    """Return the current time as the store keeps all times: UTC, ISO 8601 with milliseconds."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def one_of(column: str, values: Iterable[str]) -> sa.CheckConstraint:
    """Make the constraint that a column has one of these values, or none."""
    quoted = ", ".join(f"'{value}'" for value in values)
    return sa.CheckConstraint(f"{column} IN ({quoted})", name=f"known_{column}")


class Base(MappedAsDataclass, DeclarativeBase, kw_only=True):
    """Common base: every row is a dataclass with keyword-only fields."""

    type_annotation_map = {  # noqa: RUF012 (SQLAlchemy's own way to declare it)
        str: AnyText,
        Json: sa.JSON(none_as_null=True),
        Seconds: JsonOf(Seconds),
        Events: JsonOf(Events),
        PartEvents: JsonOf(PartEvents),
    }


def columns(model: type[Base]) -> list[Any]:
    """Return the columns of a table in order; each has the name of the row's attribute."""
    return list(model.__table__.columns)


def values(row: "Base") -> dict[str, Any]:
    """Return a row's columns by name, with models as plain JSON values."""
    found = {column.name: getattr(row, column.name) for column in columns(type(row))}
    return {
        name: value.model_dump(exclude_unset=True) if isinstance(value, BaseModel) else value
        for name, value in found.items()
    }


class MetaRow(Base):
    """Facts about the store itself; `schema_version` is the only key."""

    __tablename__ = "meta"

    key: Mapped[str] = mapped_column(primary_key=True)
    value: Mapped[str]
