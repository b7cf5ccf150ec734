# SPDX-License-Identifier: Apache-2.0
"""Rows for tests, and a child process to do something in."""

import multiprocessing
import os
import sqlite3
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import yaml
from riobed_results.store import CONTROLS
from riobed_results.store.campaign import CampaignRow, stored_spec
from riobed_results.store.check_report import CheckReport
from riobed_results.store.queries import Results, read_results
from riobed_results.store.recovery_report import RecoveryReport
from riobed_results.store.run import DiskCounts, RunRow
from riobed_results.store.store import Store
from riobed_results.store.trial import FaultRow, Outcome, TrialRow
from riobed_results.store.vocabulary import before_vocabularies

FORK = multiprocessing.get_context("fork")
NOBODY = 65534
Invoke = Callable[..., Any]  # runs a command line, gives typer's result


def campaign(name: str = "first", modes: Sequence[str] = (), classes: Sequence[str] = ()) -> CampaignRow:
    """A campaign whose spec lists these modes and classes."""
    spec = {"name": name, "modes": list(modes), "fault_classes": list(classes)}
    return CampaignRow(
        name=name,
        spec=yaml.safe_dump(spec),
        vocabulary=before_vocabularies(spec),
        seed="7",
        kernel_release="6.12.107",
        kernel_build_id="0123abcd",
        series_commit="feed",
        qemu_version="QEMU emulator version 7.2.0",
        accelerator="tcg",
        host={"cpus": 2},
        created="2026-01-02T03:04:05.000+00:00",
    )


def recovery(**parts: Any) -> RecoveryReport:
    """A recovery that found nothing wrong, but for `parts` of its report."""
    base: dict[str, Any] = {part: {} for part in ("entries", "metadata", "data", "seconds")}
    base |= {"registry": "recovered", "e2fsck_status": 0, "mount_error": 0}
    return RecoveryReport.model_validate(base | parts)


def trial(campaign_id: int, position: int, outcome: Outcome | None = None, **fields: Any) -> TrialRow:
    """A row that the schema allows; a panic that corrupted nothing unless `fields` say more.

    A control survives and is reset. `recovery` may have parts of a report, `check` be what a check prints.
    """
    control = fields.get("fault_class") in CONTROLS
    outcome = outcome or ("survived" if control else "panic")
    base: dict[str, Any] = {
        "attempt": 1,
        "mode": "rio",
        "fault_class": "kernel_text",
        "seed": f"7/{position}",
        "started": "2026-01-02T03:04:05.000+00:00",
        "finished": "2026-01-02T03:04:09.000+00:00",
    }
    if outcome not in ("discard", "infra_error"):
        kind = "reset" if control else "panic"
        base |= {"crash_kind": kind, "crash_title": f"{kind}: it died", "corruption": "none"}
    if (report := fields.get("recovery")) is not None:
        fields["recovery"] = recovery(**report)
    if (check := fields.get("check")) is not None:
        fields["check"] = CheckReport.model_validate({"equal": False} | check)
    return TrialRow(campaign_id=campaign_id, position=position, outcome=outcome, **base | fields)


def measured(
    campaign_id: int, mode: str, number: int = 0, seconds: float | None = 1.0, **fields: Any
) -> RunRow:
    """A measured run of cp_rm, whose copy takes three quarters of the time, or of what `fields` say."""
    base: dict[str, Any] = {
        "workload": "cp_rm",
        "disk": "nvme",
        "vcpus": 1,
        "kind": "time",
        "attempt": 1,
        "outcome": "measured",
        "accelerator": "tcg",
        "seed": f"{number}",
        "started": "2026-01-02T03:04:05.000+00:00",
        "finished": "2026-01-02T03:04:09.000+00:00",
        "permanent": "never" if mode == "memory" else "after write, synchronous",
        "parts": {"cp": 0.75 * seconds, "rm": 0.25 * seconds} if seconds else {},
        "host_s": seconds,
        "delayed_s": 0.0,
        "disk_during": DiskCounts(
            read_requests=1, read_bytes=4096, write_requests=8, write_bytes=2 << 20, flushes=2
        ),
        "disk_after": DiskCounts(
            read_requests=0, read_bytes=0, write_requests=30, write_bytes=64 << 20, flushes=1
        ),
        "clean_s": 2.5,
    }
    return RunRow(
        **base | {"campaign_id": campaign_id, "mode": mode, "round": number, "seconds": seconds} | fields
    )


def fill(
    store: Store,
    *trials: dict[str, Any],
    name: str = "first",
    modes: Sequence[str] = (),
    classes: Sequence[str] = (),
    spec: str = "",
    **columns: Any,
) -> Results:
    """Add a campaign with a trial of these fields at each position; `spec` is the end of its spec."""
    row = campaign(name, modes, classes)
    row.spec += spec
    row.vocabulary = before_vocabularies(stored_spec(row))
    for column, value in columns.items():
        setattr(row, column, value)
    campaign_id = store.add_campaign(row).id
    with store.session() as session:
        session.add_all(trial(campaign_id, **{"position": n} | fields) for n, fields in enumerate(trials))
    return read_results(store)


def recovered(
    pages: int = 100, rejected: int = 0, corrupt: int = 0, phase: str = "", changing: int = 1, **more: Any
) -> dict[str, Any]:
    """Parts of a recovery's report; `phase` is the one in which it was cut short."""
    sums = {"intact": 90, "corrupt": corrupt, "changing": changing, "mismatches": []}
    made = {"entries": {"rejected": rejected}, "metadata": {"written": 10}, "data": {"pages": pages}}
    cut = {"interrupted": {"planned_s": 0.1, "at_s": 0.11, "phase": phase}} if phase else {}
    return made | {"checksums": sums, "mount_error": 0} | cut | more


def planted(
    kind: str, corruption: str, params: dict[str, Any] | None = None, **fields: Any
) -> dict[str, Any]:
    """The fields of a trial in which a change of that kind was planted."""
    fault = FaultRow(index=0, fault_class="planted", injected=True, params={"kind": kind} | (params or {}))
    return {"fault_class": "planted", "corruption": corruption, "faults": [fault]} | fields


def faults(count: int, fault_class: str = "kernel_text") -> list[FaultRow]:
    """`count` faults in kernel text, the first of them activated."""
    return [
        FaultRow(
            index=index,
            fault_class=fault_class,
            address=f"{0xFFFFFFFF81000000 + index:#018x}",
            function="vfs_read",
            source="fs/read_write.c:450",
            old="4889e5",
            new="4889e4",
            old_asm="mov rbp, rsp",
            new_asm="mov rsp, rsp",
            injected=True,
            activated=index == 0,
            activated_s=0.25 if index == 0 else None,
        )
        for index in range(count)
    ]


def in_child(function: Callable[[], str], root: bool = True) -> str:
    """Return what `function` returns in a child process, which is never root if `root` is false."""
    receiver, sender = FORK.Pipe(duplex=False)

    def child() -> None:
        if not root and os.geteuid() == 0:
            os.setuid(NOBODY)
        sender.send(function())

    process = FORK.Process(target=child)
    process.start()
    sender.close()
    try:
        return str(receiver.recv())
    finally:
        process.join()


def as_schema_4(path: Path, **lacks: Iterable[str]) -> None:
    """Give an SQLite store the names of schema 4, without the columns that it `lacks`, by table."""
    with sqlite3.connect(path) as database:
        database.executescript(
            """ALTER TABLE summaries RENAME TO digests; ALTER TABLE group_keys RENAME TO facts;
            ALTER TABLE digests RENAME COLUMN group_id TO facts_id;
            ALTER TABLE runs RENAME COLUMN session TO sitting;
            ALTER TABLE runs RENAME COLUMN disk_speedup TO times; UPDATE meta SET value = '4'"""
        )
        for table, columns in lacks.items():
            for column in columns:
                database.execute(f"ALTER TABLE {table} DROP COLUMN {column}")
