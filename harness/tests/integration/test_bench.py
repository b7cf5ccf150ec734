# SPDX-License-Identifier: Apache-2.0
"""Real runs of a bench: what a mode writes and when, how long it takes, and what is written afterwards."""

from pathlib import Path
from typing import Any

import pytest
from riobed.bench import Bench, BenchSpec, bench_setups
from riobed_results.store import DiskCounts, RunRow, open_store

MODES = ("delayed-no-journal", "rio")
WRITE_IOPS = 20
# Requests that wait for the disk when the work ends.
QUEUED = 60
# Of random bytes, of nothing, and of blocks apart. The first needs the disk, the second only a processor, the
# third waits for the disk after as much as the second did, the fourth leaves its requests to the disk. The
# second one wants what comes before the work.
WORKLOAD = """
name: writing
description: A MiB that is written, a loop, and blocks that are still to be written at the end.
start: "true"
check: cmp -s /tmp/bytes {dir}/file || exit 3
prepare: >-
  mkdir -p {dir} && head -c 1048576 /dev/urandom >/tmp/bytes && head -c 8388608 /dev/urandom >{dir}/prepared
measure:
  write: cat /tmp/bytes >{dir}/file && sync
  loop: >-
    test -e /tmp/before || exit;
    for block in $(seq 20); do n=0; while [ $n -lt 1000 ]; do n=$((n + 1)); done; sync /tmp/bytes; done
  wait: >-
    for block in $(seq 20); do n=0; while [ $n -lt 1000 ]; do n=$((n + 1)); done;
    echo $block >>{dir}/log; sync {dir}/log; done
  queue: >-
    for n in $(seq 60); do
    dd if=/tmp/bytes of={dir}/apart bs=4k count=1 seek=$((2 * n)) conv=notrunc status=none; done;
    sync & sleep 1
"""


def made(
    folder: Path, workload: str, modes: tuple[str, ...], counted_rounds: int, **fields: Any
) -> list[RunRow]:
    """One round of each kind."""
    (folder / "workload.yaml").write_text(workload)
    spec = BenchSpec.model_validate(
        {
            "name": "small",
            "modes": modes,
            "workloads": {"writing": {"path": folder}},
            "disks": {"slow": {"write_iops": WRITE_IOPS}},
            "machine": {"disk_mib": 64},
            "before": {mode: {"script": "touch /tmp/before"} for mode in modes},
        }
        | fields
    ).model_copy(update={"rounds": 1, "counted_rounds": counted_rounds})
    store = open_store(str(folder / "store.sqlite"), create=True)
    Bench(spec, bench_setups(spec, None), store).run(lambda row: None)
    return store.runs(store.campaign("small").id)


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> list[RunRow]:
    return made(tmp_path_factory.mktemp("writing"), WORKLOAD, MODES, 0)


def of(rows: list[RunRow], mode: str, kind: str = "time") -> RunRow:
    return next(row for row in rows if (row.mode, row.kind) == (mode, kind))


def used(counts: DiskCounts | None) -> DiskCounts:
    assert counts
    return counts


def test_every_mode_is_measured(rows: list[RunRow]) -> None:
    assert [(row.mode, row.kind, row.outcome) for row in rows] == [
        (mode, "time", "measured") for mode in MODES
    ]


def test_what_is_written_during_the_work_and_after_it(rows: list[RunRow]) -> None:
    delayed, rio = (of(rows, mode) for mode in MODES)
    # sync writes the file in one mode. In the other nothing is written until the disk must have it.
    assert used(delayed.disk_during).write_bytes > 1 << 20 > 100 * used(rio.disk_during).write_bytes
    assert used(rio.disk_after).write_bytes > 1 << 20 > 2 * used(delayed.disk_after).write_bytes
    assert used(rio.disk_after).write_requests > 0 and (rio.clean_s or 0) > 0
    # What `prepare` wrote was on the disk before.
    assert used(rio.disk_after).write_bytes < 4 << 20


def test_what_waits_for_the_disk_at_the_end_takes_its_time_afterwards(rows: list[RunRow]) -> None:
    delayed = of(rows, MODES[0])
    after = used(delayed.disk_after).write_requests
    assert after > QUEUED / 3
    assert (delayed.clean_s or 0) > 0.5 * after / WRITE_IOPS


@pytest.mark.extended
def test_a_run_that_breaks_its_own_output_is_wrong(tmp_path: Path) -> None:
    breaks = WORKLOAD.replace("sleep 1", "echo x >{dir}/file")
    (row,) = made(tmp_path, breaks, ("rio",), 0)
    assert (row.outcome, row.seconds) == ("wrong", None) and "the output is wrong" in row.detail


@pytest.mark.extended
def test_a_disk_is_as_fast_as_the_processor_is_beside_its_own(tmp_path: Path) -> None:
    # No host takes a thousand seconds to write a MiB.
    pace = {"workload": {"path": tmp_path}, "mode": "delayed-no-journal", "seconds": 1000.0}
    short, _ = WORKLOAD.split("  loop:")
    (row,) = made(tmp_path, short, ("delayed-no-journal",), 0, times={"slow": pace})
    assert row.outcome == "measured" and row.disk_speedup and row.disk_speedup > 1


def test_the_disk_takes_its_time(rows: list[RunRow]) -> None:
    delayed, rio = (of(rows, mode) for mode in MODES)
    for row in (delayed, rio):
        assert set(row.parts) == {"write", "loop", "wait", "queue"}
        assert 0 < sum(row.parts.values()) <= row.seconds * 1.01
        assert row.host_s > 0.5 * row.seconds
    requests = used(delayed.disk_during).write_requests
    assert delayed.seconds - delayed.parts["loop"] > 0.9 * requests / WRITE_IOPS > 0.1
    # It says itself what its requests take: in its model, and indeed. Nothing is done in advance while the
    # program computes.
    requests += used(delayed.disk_after).write_requests
    assert delayed.disk_model_s and delayed.disk_model_s == pytest.approx(requests / WRITE_IOPS, rel=0.1)
    assert delayed.disk_taken_s and delayed.disk_taken_s > 0.9 * delayed.disk_model_s


@pytest.mark.extended
def test_instructions_are_those_of_the_parts(tmp_path: Path) -> None:
    rows = made(tmp_path, WORKLOAD, MODES, 1)
    assert {(row.mode, row.kind) for row in rows} == {(m, k) for m in MODES for k in ("time", "instructions")}
    for mode in MODES:
        row = of(rows, mode, "instructions")
        assert row.cost == pytest.approx(sum(row.part_costs.values())) and row.cost > 1e6
        assert row.disk == "none" and row.part_costs["loop"] > 0
    loops = [of(rows, mode, "instructions").part_costs["loop"] for mode in MODES]
    assert loops[0] == pytest.approx(loops[1], rel=0.1)
