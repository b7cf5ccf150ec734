# SPDX-License-Identifier: Apache-2.0
"""The rows of measured runs."""

from typing import Literal, get_args

import sqlalchemy as sa
from pydantic import BaseModel, ConfigDict
from sqlalchemy.orm import Mapped, mapped_column

from riobed_results.store.base import AnyText, Base, Events, JsonOf, PartEvents, Seconds, fact, one_of

RunKind = Literal["instructions", "time"]
# `wrong`: the work left something else than it should, so its cost is that of other work.
RunOutcome = Literal["measured", "wrong", "infra_error"]
_MEASURED = "outcome = 'measured'"


class DiskCounts(BaseModel):
    """How the disks under test were used: completed requests of the guest; sizes in bytes."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    read_requests: int
    read_bytes: int
    write_requests: int
    write_bytes: int
    flushes: int


class RunRow(Base):
    """One attempt at a measured run: a workload's piece of work, done once by a guest (`riobed bench`).

    A run whose output is wrong and an infra error have no measured value but a `detail`; the retry of an
    infra error has the next `attempt`.
    """

    __tablename__ = "runs"
    __table_args__ = (
        one_of("kind", get_args(RunKind)),
        one_of("outcome", get_args(RunOutcome)),
        sa.CheckConstraint(f"({_MEASURED}) = (seconds IS NOT NULL)", name="only_measured_has_seconds"),
        # Neither two simultaneous runs of a bench nor a resumed one may measure anything twice.
        sa.Index(
            "one_measured_run",
            *("campaign_id", "workload", "disk", "vcpus", "kind", "mode", "round"),
            unique=True,
            sqlite_where=sa.text(_MEASURED),
            postgresql_where=sa.text(_MEASURED),
        ),
    )

    id: Mapped[int] = mapped_column(primary_key=True, init=False, info=fact("number of the row"))
    campaign_id: Mapped[int] = mapped_column(
        sa.ForeignKey("campaigns.id"), info=fact("campaign that the run belongs to")
    )
    workload: Mapped[str] = mapped_column(info=fact("workload of the spec"))
    disk: Mapped[str] = mapped_column(info=fact("disk of the spec"))
    vcpus: Mapped[int] = mapped_column(info=fact("processors of the guest"))
    kind: Mapped[RunKind] = mapped_column(
        AnyText, info=fact("whether the run measures time or counts instructions")
    )
    mode: Mapped[str] = mapped_column(info=fact("cache mode"))
    round: Mapped[int] = mapped_column(info=fact("round of the campaign"))
    attempt: Mapped[int] = mapped_column(info=fact("attempt at this run, from 1"))
    outcome: Mapped[RunOutcome] = mapped_column(
        AnyText, info=fact("whether it was measured; `wrong`: its output is wrong")
    )
    accelerator: Mapped[str] = mapped_column(info=fact("what executes the guest's instructions"))
    seed: Mapped[str] = mapped_column(info=fact("seed of the workload"))
    started: Mapped[str] = mapped_column(info=fact("when it began", "UTC, ISO 8601"))
    finished: Mapped[str] = mapped_column(info=fact("when it ended", "UTC, ISO 8601"))
    permanent: Mapped[str | None] = mapped_column(
        default=None, info=fact("when the mode makes data permanent")
    )
    work: Mapped[str | None] = mapped_column(default=None, info=fact("commands of the work"))
    operations: Mapped[int | None] = mapped_column(
        sa.BigInteger, default=None, info=fact("operations on files in the work", "operations")
    )
    written_bytes: Mapped[int | None] = mapped_column(
        sa.BigInteger,
        default=None,
        info=fact("bytes that the work writes to files; None if the workload does not say", "bytes", since=5),
    )
    seconds: Mapped[float | None] = mapped_column(
        default=None,
        info=fact("guest's time of the work; in a run that counts, the clock counts instructions", "s"),
    )
    parts: Mapped[Seconds] = mapped_column(
        default_factory=dict, info=fact("the same of each part of the work", "s")
    )
    idle_s: Mapped[float | None] = mapped_column(
        default=None, info=fact("time of it that the guest was idle", "s")
    )
    host_s: Mapped[float | None] = mapped_column(default=None, info=fact("host's time of the work", "s"))
    delayed_s: Mapped[float | None] = mapped_column(
        default=None, info=fact("time that the guest waited for a processor of the host", "s")
    )
    events: Mapped[Events] = mapped_column(
        default_factory=dict,
        info=fact("by how much counters of the emulator and of the guest's kernel rose", "events"),
    )
    part_events: Mapped[PartEvents] = mapped_column(
        default_factory=dict, info=fact("the emulator's counters for each part", "events")
    )
    disk_during: Mapped[DiskCounts | None] = mapped_column(
        JsonOf(DiskCounts), default=None, info=fact("use of the disk until the work ended")
    )
    disk_after: Mapped[DiskCounts | None] = mapped_column(
        JsonOf(DiskCounts), default=None, info=fact("use of the disk from then until it had everything")
    )
    clean_s: Mapped[float | None] = mapped_column(
        default=None, info=fact("guest's time until the disk had everything", "s")
    )
    session: Mapped[str | None] = mapped_column(
        default=None,
        info=fact(
            "when the bench that made the run was started: runs of a session followed each other on one host",
            "UTC, ISO 8601",
            since=5,
        ),
    )
    disk_speedup: Mapped[float | None] = mapped_column(
        default=None, info=fact("how many times faster than its model the disk under test was", since=5)
    )
    disk_model_s: Mapped[float | None] = mapped_column(
        default=None,
        info=fact(
            "time that the requests of slow disks take in their models, at this speed-up; None without one",
            "s",
            since=5,
        ),
    )
    disk_taken_s: Mapped[float | None] = mapped_column(
        default=None, info=fact("time that these requests took", "s", since=5)
    )
    detail: Mapped[str] = mapped_column(default="", info=fact("why it is wrong, or an infra error"))

    @property
    def key(self) -> tuple[str, str, int, str, str, int]:
        """What is measured: workload, disk, vcpus, kind, mode, round."""
        return self.workload, self.disk, self.vcpus, self.kind, self.mode, self.round

    @property
    def cost(self) -> float:
        """What it measures: seconds or instructions, of which a repeated string instruction is none."""
        return self.seconds or 0.0 if self.kind == "time" else _instructions(self.events)

    @property
    def part_costs(self) -> dict[str, float]:
        """The same of each part of the work; empty if it has no parts."""
        if self.kind == "time":
            return self.parts
        return {name: _instructions(events) for name, events in self.part_events.items()}


def _instructions(events: Events) -> float:
    return float(events.get("instructions", 0) - events.get("repetitions", 0))
