# SPDX-License-Identifier: Apache-2.0
"""How long tables and report of a large campaign take, and how much memory: `make scale`.

The rows are generated. Some thousand trials are drawn at random, with everything that a real trial stores,
and then repeated by the database with other positions and seeds. Each command is a process of its own, as for
a user. Exit status 1 if one exceeds its limit. The limits are of processor time, so that a busy host exceeds
none.
"""

import argparse
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import sqlalchemy as sa
import yaml
from riobed_results.store import (
    SUMMARIES,
    CampaignRow,
    CheckReport,
    FaultRow,
    RecoveryReport,
    Store,
    TrialRow,
    open_store,
    read_results,
)
from riobed_results.store.trial import PANICS
from riobed_results.store.vocabulary import before_vocabularies
from riobed_results.tables.corruption.protocol import monitor
from riobed_results.tables.registry import CAMPAIGN_TABLES

MODES = ["write-through", "rio", "rio-protected"]
TEXT = [f"text_{number}" for number in range(8)]
CLASSES = [*TEXT, "kernel_heap", "kernel_stack", "allocation", "copy_overrun", "synchronization"]
CONTROLS = ["none", "panic", "planted"]
DRAWN = 3000  # trials drawn; the others repeat them
FAULTS = 17  # a trial
TABLE_S, LIST_S, REPORT_S, START_S, MEMORY_MIB = 10.0, 3600.0, 60.0, 10.0, 1024
PHASES = ("restore", "warm_up", "inject", "watch", "reset", "report", "check")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--trials", type=int, default=1_000_000)
    parser.add_argument("--store", help="store to make, or to use if it is there (default: a temporary one)")
    parser.add_argument("--only", nargs="*", help="names of tables, formats of trials, 'report' or 'start'")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="riobed-scale-") as folder:
        store = given.store or f"{folder}/store.sqlite"
        if "://" in store or not Path(store).exists():
            began = time.monotonic()
            generate(open_store(store, create=True), given.trials)
            print(f"{given.trials} trials generated in {time.monotonic() - began:.0f} s", flush=True)
        print(f"{'':16}{'wall s':>8}{'CPU s':>8}{'MiB':>7}", flush=True)
        bad = [name for name, *run in runs(store, Path(folder)) if measured(name, *run, only=given.only)]
    if bad:
        print(f"over the limit: {', '.join(bad)}")
    return 1 if bad else 0


def runs(store: str, folder: Path) -> list[tuple[str, list[str], float]]:
    """Return what to measure: its name, its command, and the seconds it may take."""
    riobed = [sys.executable, "-m", "riobed_results"]
    start = f"from {Path(__file__).stem} import start; start({store!r})"
    from_store = ["--store", store]
    tables = [(table.name, [*riobed, "table", table.name, *from_store], TABLE_S) for table in CAMPAIGN_TABLES]
    lists = [
        (form, [*riobed, "trials", *from_store, "--format", form, "--output", f"{folder}/{form}"], LIST_S)
        for form in ("text", "json", "parquet")
    ]
    report = [*riobed, "report", *from_store, "--output", str(folder / "report.html")]
    return [("start", [sys.executable, "-c", start], START_S), *tables, *lists, ("report", report, REPORT_S)]


def start(store: str) -> None:
    """Read what a campaign with a protocol reads when it starts or goes on."""
    results = read_results(open_store(store, create=True))
    assert results.source.complete_positions(results.campaign.id) and results.trials
    assert monitor(results).states()


def measured(name: str, command: list[str], limit_s: float, only: list[str] | None) -> bool:
    """Run a command and print what it took; return whether that is too much."""
    if only and name not in only:
        return False
    began = time.monotonic()
    path = os.pathsep.join([str(Path(__file__).parent), *sys.path])
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL, env={**os.environ, "PYTHONPATH": path})
    status, mib = Path(f"/proc/{child.pid}/status"), 0.0
    # ru_maxrss would have the memory of this process in it, which the child shares before it executes.
    while (ended := os.wait4(child.pid, os.WNOHANG))[0] == 0:
        found = [int(line.split()[1]) / 1024 for line in status.read_text().splitlines() if "VmHWM" in line]
        mib = max(mib, *found, 0.0)
        time.sleep(0.02)
    _, code, used = ended
    wall_s = time.monotonic() - began
    print(f"{name:16}{wall_s:8.1f}{used.ru_utime + used.ru_stime:8.1f}{mib:7.0f}", flush=True)
    return code != 0 or used.ru_utime + used.ru_stime > limit_s or mib > MEMORY_MIB


def generate(store: Store, trials: int) -> None:
    """Add a campaign with so many trials, of at least DRAWN."""
    claim = {"mode": "rio-protected", "than": "rio", "endpoint": "judged", "margin": 1.0}
    classes = [*CLASSES, *CONTROLS]
    asked = {
        "name": "scale",
        "modes": MODES,
        "fault_classes": classes,
        "protocol": {"claims": [claim]},
        "machine": {"nvdimm_mib": 64, "canary_mib": 16},
    }
    spec = yaml.safe_dump(asked)
    on = dict.fromkeys(
        ("seed", "kernel_release", "kernel_build_id", "series_commit", "qemu_version"), "scale"
    )
    campaign = store.add_campaign(
        CampaignRow(
            name="scale", spec=spec, vocabulary=before_vocabularies(asked), accelerator="tcg", host={}, **on
        )
    )
    rng = random.Random(7)
    with store.session() as session:
        session.add_all(trial(rng, campaign.id, position) for position in range(DRAWN))
    with store.session() as session:
        first = session.scalar(sa.select(sa.func.min(TrialRow.id))) or 1
        drawn = TrialRow.id < first + DRAWN
        for copy in range(1, trials // DRAWN):
            by = copy * DRAWN
            seed = sa.type_coerce(TrialRow.seed, sa.Text) + f"/{copy}"
            moved = {"position": TrialRow.position + by, "seed": seed}
            _repeat(session, TrialRow, drawn, {"id": TrialRow.id + by, **moved})
            fault = FaultRow.trial_id < first + DRAWN
            _repeat(session, FaultRow, fault, {"trial_id": FaultRow.trial_id + by})
            moved = {
                "position": SUMMARIES.c.position + by,
                "seed": sa.type_coerce(SUMMARIES.c.seed, sa.Text) + f"/{copy}",
            }
            of = SUMMARIES.c.trial_id < first + DRAWN
            _repeat(session, SUMMARIES, of, {"trial_id": SUMMARIES.c.trial_id + by, **moved})


def _repeat(session: Any, model: Any, which: Any, changed: dict[str, Any]) -> None:
    table = model if isinstance(model, sa.Table) else model.__table__
    found = sa.select(*(changed.get(column.name, column) for column in table.columns)).where(which)
    session.execute(sa.insert(table).from_select([column.name for column in table.columns], found))


def trial(rng: random.Random, campaign_id: int, position: int) -> TrialRow:
    """Draw a trial. A third of the classes' crashes share one title; the others have many."""
    number, mode = divmod(position, len(MODES))
    name = rng.choice(CONTROLS) if rng.random() < 0.1 else CLASSES[number % len(CLASSES)]
    control, infra = name in CONTROLS, rng.random() < 0.003
    outcome: Any = (
        "survived" if control else rng.choices(["panic", "hang", "stuck", "survived"], [60, 11, 4, 25])[0]
    )
    bad = name == "planted" or (not control and rng.random() < 0.03)
    row = TrialRow(
        campaign_id=campaign_id,
        position=position,
        attempt=1,
        mode=MODES[mode],
        fault_class=name,
        seed=f"7/{number}",
        outcome="infra_error" if infra else outcome,
        started="2026-01-02T03:04:05.678+00:00",
        finished="2026-01-02T03:04:12.345+00:00",
        workload_status="running",
        requested=0 if name in ("none", "panic") else 1 if control else FAULTS,
        steps_done=rng.randrange(5000),
        worker="w1",
        snapshot=f"{rng.getrandbits(64):016x}",
        fresh_boot=rng.random() < 0.03,
        restore_checked=rng.random() < 0.05,
        restart=rng.choices(["parked", "reset", "both", "power"], [89, 5, 1, 5])[0],
        cache_share=round(rng.uniform(0.55, 0.65), 4),
        dirty_share=round(rng.uniform(0.0, 0.05), 4),
        recovery=None if mode == 0 else recovery(rng, bad),
        phases={phase: round(rng.uniform(0.05, 3.0), 3) for phase in PHASES},
        log=f"logs/1-{position:05d}-1-{MODES[mode]}-{name}.log.gz",
        faults=[]
        if name in ("none", "panic")
        else [fault(rng, index, name) for index in range(1 if control else FAULTS)],
    )
    if not infra:
        row.crash_kind = (
            "reset" if control else rng.choice(["panic", "oops", "trap"]) if outcome == "panic" else "hang"
        )
        row.crash_title = title(rng, name)
        row.corruption = (
            "none" if not bad else "unclassified" if mode == 0 else rng.choice(["direct", "indirect"])
        )
        row.corruption_where = "cache" if bad else None
        row.canary_hits = rng.choices([0, 1], [99, 1])[0]
        row.time_to_crash_s = round(rng.expovariate(0.5), 3)
        row.injection_guest_s, row.crash_guest_s = 20.0, 20.0 + row.time_to_crash_s
        row.victim = rng.choice([None, "memtest", "kworker/0:1", "cc1", "jbd2/vda-8"])
        row.workload_errors = rng.choice([0, 0, 1])
        lost = rng.randrange(1, 9) if bad else 0
        row.files_lost, row.bytes_lost, row.total_loss = lost, lost * 4096, False
        row.check = check(lost)
    return row


def title(rng: random.Random, name: str) -> str:
    if name == "panic":
        return rng.choice(list(PANICS.values()))
    if name in CONTROLS:
        return "reset"
    if rng.random() < 0.3:
        return "hang: no step and no answer"
    return f"BUG: unable to handle page fault in function_number_{int(rng.paretovariate(0.5)) % 1000}"


def recovery(rng: random.Random, bad: bool) -> RecoveryReport:
    page = {"ino": 12, "index": 3, "dirty": True, "metadata": False}
    corrupt = int(bad)
    return RecoveryReport.model_validate(
        {
            "registry": "recovered", "source": "memory", "matched_by": "uuid", "header_damaged": 0,
            "complete": True, "saved": {"pages": 0, "bytes": 0, "refused": 0, "error": None},
            "entries": {"entries": 32000, "free": 9000, "clean": 22000, "dirty_data": rng.randrange(900),
                        "dirty_metadata": rng.randrange(90), "rejected": 0, "inconsistent": 0, "foreign": 0,
                        "unreadable": 0, "duplicates": 0},
            "log": {"operations": 3, "undone": 5, "superseded": 0, "rejected": 0, "inconsistent": 0,
                    "unreadable": 0},
            "checksums": {"intact": 22000, "corrupt": corrupt, "changing": rng.randrange(40),
                          "mismatches": [page] * corrupt},
            "metadata": {"written": rng.randrange(90), "failed": 0},
            "data": {"pages": rng.randrange(900), "bytes": 3000000, "files": 31, "lost_inodes": 0,
                     "beyond_size": 0, "failed": 0},
            "e2fsck_status": 1, "mount_error": 0,
            "seconds": {"save": 0.0, "metadata": 0.012, "e2fsck": 0.286, "data": 0.213},
            "interrupted": {"planned_s": 0.2, "at_s": 0.21, "phase": "data"} if rng.random() < 0.01 else None,
            "production": True if rng.random() < 0.02 else None,
        }
    )  # fmt: skip


def check(lost: int) -> CheckReport:
    path = {"path": "tree/d001984abcdefghijkl", "kind": "differs", "offset": 0, "length": 4096, "detail": ""}
    return CheckReport.model_validate(
        {"equal": not lost, "done": 634, "intent": 635, "files": 83, "dirs": 13, "bytes": 1102926,
         "difference_count": lost, "differences": [path] * lost, "truncated": False}
    )  # fmt: skip


def fault(rng: random.Random, index: int, name: str) -> FaultRow:
    active = name != "planted" and rng.random() < 0.1
    return FaultRow(
        index=index,
        fault_class=name,
        address=f"0xffffffff81{rng.getrandbits(24):06x}",
        function="alloc_pipe_info",
        source="fs/pipe.c:787",
        old="e8bff6e6ff",
        new="e8bffee6ff",
        old_asm="call 0xffffffff81066f90",
        new_asm="call 0xffffffff81067790",
        injected=True,
        activated=None if name == "planted" else active,
        activated_s=round(rng.expovariate(1), 3) if active else None,
        params={"kind": "stray"} if name == "planted" else {},
    )


if __name__ == "__main__":
    sys.exit(main())
