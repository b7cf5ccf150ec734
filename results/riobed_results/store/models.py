# SPDX-License-Identifier: Apache-2.0
"""The tables of a results store. Rows are only added, never changed.

The checks are part of the schema, so no program can store a row that tables would count wrongly. All column
types are generic, so the same models serve SQLite and PostgreSQL.
"""

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any, Literal, get_args

import sqlalchemy as sa
from pydantic import BaseModel, TypeAdapter
from sqlalchemy.engine import Dialect
from sqlalchemy.orm import DeclarativeBase, Mapped, MappedAsDataclass, mapped_column, relationship

from riobed_results.store.check_report import CheckReport
from riobed_results.store.provenance import KernelProvenance, Provenance
from riobed_results.store.recovery_report import RecoveryReport

SCHEMA_VERSION = 2

Outcome = Literal["crash", "discard", "infra_error"]
CrashKind = Literal["panic", "oops", "trap", "hang", "reset"]
Corruption = Literal["none", "direct", "indirect", "unclassified"]
CorruptionWhere = Literal["cache", "disk"]
Json = dict[str, Any]
Kernels = dict[str, KernelProvenance]
Seconds = dict[str, float]


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


def _one_of(column: str, values: Iterable[str]) -> sa.CheckConstraint:
    quoted = ", ".join(f"'{value}'" for value in values)
    return sa.CheckConstraint(f"{column} IN ({quoted})", name=f"known_{column}")


class Base(MappedAsDataclass, DeclarativeBase, kw_only=True):
    """Common base: every row is a dataclass with keyword-only fields."""

    type_annotation_map = {  # noqa: RUF012 (SQLAlchemy's own way to declare it)
        str: AnyText,
        Outcome: AnyText,
        CrashKind: AnyText,
        Corruption: AnyText,
        CorruptionWhere: AnyText,
        Json: sa.JSON(none_as_null=True),
        RecoveryReport: JsonOf(RecoveryReport),
        CheckReport: JsonOf(CheckReport),
        Kernels: JsonOf(Kernels),
        Seconds: JsonOf(Seconds),
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


class CampaignRow(Base):
    """One campaign: its spec (YAML text), its provenance, and the host it was started on."""

    __tablename__ = "campaigns"

    id: Mapped[int] = mapped_column(primary_key=True, init=False)
    name: Mapped[str] = mapped_column(unique=True)
    spec: Mapped[str]
    seed: Mapped[str]
    kernel_release: Mapped[str]
    kernel_build_id: Mapped[str]
    series_commit: Mapped[str]
    qemu_version: Mapped[str]
    accelerator: Mapped[str]
    host: Mapped[Json]
    kernels: Mapped[Kernels] = mapped_column(default_factory=dict)
    harness: Mapped[str | None] = mapped_column(default=None)
    image: Mapped[str | None] = mapped_column(default=None)
    workload: Mapped[str | None] = mapped_column(default=None)
    created: Mapped[str] = mapped_column(default_factory=utc_now)

    @property
    def provenance(self) -> Provenance:
        """The provenance of the campaign's trials."""
        return Provenance.model_validate(self, from_attributes=True)


class TrialRow(Base):
    """One attempt at one position of a campaign's plan.

    `*_s` are seconds since injection, `phases` maps a phase's name to its seconds, `started` and `finished`
    are UTC ISO 8601, `log` is a path relative to the store's folder. `requested`, `injected` and
    `activated` count faults. `restore_checked`: restored memory was compared with the snapshot's.
    `workload_mismatch`: before the crash the workload read something other than it had written. `log_damage`
    says what the crash report on the console lacks. An infra error is a row of its own; its retry has the
    next `attempt`.
    """

    __tablename__ = "trials"
    __table_args__ = (
        _one_of("outcome", get_args(Outcome)),
        _one_of("crash_kind", get_args(CrashKind)),
        _one_of("corruption", get_args(Corruption)),
        _one_of("corruption_where", get_args(CorruptionWhere)),
        sa.CheckConstraint("(outcome = 'crash') = (crash_kind IS NOT NULL)", name="only_crashes_have_a_kind"),
        sa.CheckConstraint("(outcome = 'crash') = (corruption IS NOT NULL)", name="only_crashes_are_judged"),
        sa.CheckConstraint(
            "corruption_where IS NULL OR (corruption IS NOT NULL AND corruption <> 'none')",
            name="only_corruption_has_a_place",
        ),
        sa.UniqueConstraint("campaign_id", "position", "attempt", name="one_row_per_attempt"),
        # Neither two simultaneous runs of a campaign nor a resumed one may count a position twice.
        sa.Index(
            "one_result_per_position",
            "campaign_id",
            "position",
            unique=True,
            sqlite_where=sa.text("outcome <> 'infra_error'"),
            postgresql_where=sa.text("outcome <> 'infra_error'"),
        ),
    )

    id: Mapped[int] = mapped_column(primary_key=True, init=False)
    campaign_id: Mapped[int] = mapped_column(sa.ForeignKey("campaigns.id"))
    position: Mapped[int]
    attempt: Mapped[int]
    mode: Mapped[str]
    fault_class: Mapped[str]
    seed: Mapped[str]
    outcome: Mapped[Outcome]
    started: Mapped[str]
    finished: Mapped[str]
    crash_kind: Mapped[CrashKind | None] = mapped_column(default=None)
    crash_title: Mapped[str | None] = mapped_column(default=None)
    corruption: Mapped[Corruption | None] = mapped_column(default=None)
    corruption_where: Mapped[CorruptionWhere | None] = mapped_column(default=None)
    workload_status: Mapped[str | None] = mapped_column(default=None)
    workload_mismatch: Mapped[bool] = mapped_column(default=False)
    requested: Mapped[int] = mapped_column(default=0)
    injected: Mapped[int] = mapped_column(default=0)
    activated: Mapped[int] = mapped_column(default=0)
    first_activation_s: Mapped[float | None] = mapped_column(default=None)
    time_to_crash_s: Mapped[float | None] = mapped_column(default=None)
    steps_done: Mapped[int] = mapped_column(default=0)
    fresh_boot: Mapped[bool] = mapped_column(default=False)
    restore_checked: Mapped[bool] = mapped_column(default=False)
    detail: Mapped[str] = mapped_column(default="")
    recovery: Mapped[RecoveryReport | None] = mapped_column(default=None)
    check: Mapped[CheckReport | None] = mapped_column(default=None)
    phases: Mapped[Seconds] = mapped_column(default_factory=dict)
    log: Mapped[str | None] = mapped_column(default=None)
    log_damage: Mapped[str | None] = mapped_column(default=None)
    faults: Mapped[list["FaultRow"]] = relationship(default_factory=list, order_by="FaultRow.index")


class FaultRow(Base):
    """One fault of a trial; `activated` is None where it cannot be known.

    `address` is hexadecimal text (`0x…`), because kernel addresses exceed SQL's signed 64 bits. `old` and
    `new` are bytes as hexadecimal digits, `activated_s` is in seconds since injection.
    """

    __tablename__ = "faults"

    trial_id: Mapped[int] = mapped_column(sa.ForeignKey("trials.id"), primary_key=True, init=False)
    index: Mapped[int] = mapped_column(primary_key=True)
    fault_class: Mapped[str]
    address: Mapped[str | None] = mapped_column(default=None)
    function: Mapped[str] = mapped_column(default="")
    source: Mapped[str] = mapped_column(default="")
    old: Mapped[str] = mapped_column(default="")
    new: Mapped[str] = mapped_column(default="")
    old_asm: Mapped[str] = mapped_column(default="")
    new_asm: Mapped[str] = mapped_column(default="")
    injected: Mapped[bool] = mapped_column(default=False)
    activated: Mapped[bool | None] = mapped_column(default=None)
    activated_s: Mapped[float | None] = mapped_column(default=None)
    params: Mapped[Json] = mapped_column(default_factory=dict)
