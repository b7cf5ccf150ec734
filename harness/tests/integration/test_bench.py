# SPDX-License-Identifier: Apache-2.0
"""Real runs of a bench: what a mode writes and when, how long it takes, and what is written afterwards."""

import pytest
from riobed.bench import Bench, BenchSpec, bench_setups
from riobed_results.store import DiskCounts, RunRow, open_store

MODES = ("delayed-no-journal", "rio")
WRITE_IOPS = 20
# Of random bytes, and of nothing. The first needs the disk, the second only a processor.
WORKLOAD = """
name: writing
description: A MiB that is written and a loop.
start: "true"
check: "true"
prepare: mkdir -p {dir} && head -c 1048576 /dev/urandom >/tmp/bytes
measure:
  write: cat /tmp/bytes >{dir}/file && sync
  loop: n=0; while [ $n -lt 20000 ]; do n=$((n + 1)); done
"""


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> list[RunRow]:
    """One round of each kind."""
    folder = tmp_path_factory.mktemp("writing")
    (folder / "workload.yaml").write_text(WORKLOAD)
    spec = BenchSpec.model_validate(
        {
            "name": "small",
            "modes": MODES,
            "workloads": {"writing": {"path": folder}},
            "disks": {"slow": {"write_iops": WRITE_IOPS}},
            "machine": {"disk_mib": 64},
        }
    ).model_copy(update={"rounds": 1, "counted_rounds": 1})
    store = open_store(str(folder / "store.sqlite"), create=True)
    Bench(spec, bench_setups(spec, None), store).run(lambda row: None)
    return store.runs(store.campaign("small").id)


def of(rows: list[RunRow], mode: str, kind: str = "time") -> RunRow:
    return next(row for row in rows if (row.mode, row.kind) == (mode, kind))


def used(counts: DiskCounts | None) -> DiskCounts:
    assert counts
    return counts


def test_everything_is_measured_at_once(rows: list[RunRow]) -> None:
    assert [row.outcome for row in rows] == ["measured"] * 4
    assert {(row.mode, row.kind) for row in rows} == {(m, k) for m in MODES for k in ("time", "instructions")}


def test_what_is_written_during_the_work_and_after_it(rows: list[RunRow]) -> None:
    delayed, rio = (of(rows, mode) for mode in MODES)
    # sync writes the file in one mode. In the other nothing is written until the disk must have it.
    assert used(delayed.disk_during).write_bytes > 1 << 20 > 100 * used(rio.disk_during).write_bytes
    assert used(rio.disk_after).write_bytes > 1 << 20 > 2 * used(delayed.disk_after).write_bytes
    assert used(rio.disk_after).write_requests > 0 and (rio.clean_s or 0) > 0


def test_the_disk_takes_its_time(rows: list[RunRow]) -> None:
    delayed, rio = (of(rows, mode) for mode in MODES)
    for row in (delayed, rio):
        assert set(row.parts) == {"write", "loop"}
        assert 0 < sum(row.parts.values()) <= row.seconds * 1.01
        assert row.host_s > 0.5 * row.seconds
    # A few requests may come at once; how long a guest takes beside its disk says nothing here.
    requests = used(delayed.disk_during).write_requests
    assert delayed.parts["write"] > 0.5 * requests / WRITE_IOPS > 0.1


def test_instructions_are_those_of_the_parts(rows: list[RunRow]) -> None:
    for mode in MODES:
        row = of(rows, mode, "instructions")
        assert row.cost == pytest.approx(sum(row.part_costs.values())) and row.cost > 1e6
        assert row.disk == "none" and row.part_costs["loop"] > 0
    loops = [of(rows, mode, "instructions").part_costs["loop"] for mode in MODES]
    assert loops[0] == pytest.approx(loops[1], rel=0.1)
