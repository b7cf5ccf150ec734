# SPDX-License-Identifier: Apache-2.0
"""A sweep explains every state of mode rio, and finds those that are torn without its log."""

import signal
import subprocess
import time
from pathlib import Path

import pytest
from riobed.sweep.session import Request, sweep
from riobed_results.tables.controls.sweep import SweepRow, load_sweep

from .conftest import RIOBED

# Mode rio without the log of operations
TORN = """
torn:
  like: rio
  summary: rio without its log
  kernel_parameters: [rio.atomic_metadata=0]
"""


def swept(request: Request) -> list[SweepRow]:
    status = sweep(request, "md", None)
    rows = load_sweep(request.folder).rows
    assert [row.infra_error for row in rows] == [None] * len(rows)
    assert status == (0 if all(row.good for row in rows) else 1)
    return rows


def test_a_crash_at_a_store_leaves_a_tree_as_before_or_after(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names = ("rename-over", "truncate-down")
    request = Request("rio", None, names, ("disk",), ("nothing",), 256, 2, tmp_path / "sweep")
    rows = swept(request)
    assert [line for row in rows for line in row.said] == []
    # Each of the operations changes the registry, its log and blocks.
    assert all(row.points > row.compared > 40 for row in rows)
    assert "rename-over" in capsys.readouterr().out
    # What is there is not swept again.
    assert swept(request) == rows


@pytest.mark.extended
@pytest.mark.parametrize(
    ("beside", "names"),
    [
        *((beside, ("rename-over", "truncate-down")) for beside in ("read", "fault", "truncate")),
        # Both change one inode.
        ("hole", ("rename-onto", "write-into-hole")),
    ],
)
def test_a_second_task_while_an_operation_stands(tmp_path: Path, beside: str, names: tuple[str, ...]) -> None:
    folder = tmp_path / "sweep"
    alone, together = (
        swept(Request("rio", None, names, ("disk",), (task,), 256, 2, folder / task))
        for task in ("nothing", beside)
    )
    assert [line for row in together for line in row.said] == []
    # It has changed something, too.
    assert all(two.vcpus == 2 and two.points > one.points for one, two in zip(alone, together, strict=True))


@pytest.mark.extended
def test_a_sweep_finds_operations_that_are_torn(tmp_path: Path) -> None:
    modes = tmp_path / "modes.yaml"
    modes.write_text(TORN)
    request = Request("torn", modes, ("rename-over",), ("disk",), ("nothing",), 256, 2, tmp_path / "sweep")
    (row,) = swept(request)
    assert row.unexplained and "/it/" in row.said[0]
    kept = list((request.folder / "unexplained/rename-over-disk-nothing").glob("point-*"))
    assert kept and all((point / "memory").stat().st_size == 256 << 20 for point in kept)


@pytest.mark.extended
def test_a_reset_at_a_write_of_recovery_loses_nothing(tmp_path: Path) -> None:
    names = ("write-new", "setxattr-in-block")
    request = Request("rio", None, names, ("newer",), ("nothing",), 1, 2, tmp_path / "sweep", recovery=True)
    rows = swept(request)
    assert [line for row in rows for line in row.said] == []
    # Its states are not told apart: each is recovered.
    assert all(row.recovery and row.points == row.compared > 10 for row in rows)


@pytest.mark.extended
@pytest.mark.parametrize("mode", ["rio", "rio-protected"])
def test_all_operations(tmp_path: Path, mode: str) -> None:
    rows = swept(Request(mode, None, (), (), ("nothing",), 64, 2, tmp_path / "sweep"))
    assert len({row.operation for row in rows}) > 40
    assert [(row.operation, row.data, row.said) for row in rows if not row.good] == []


@pytest.mark.extended
def test_a_sweep_that_is_told_to_end_goes_on(tmp_path: Path) -> None:
    only = ("--only", "rename-over", "--data", "disk", "--beside", "nothing", "--workers", "2")
    command = [*RIOBED, "sweep", *only, "--folder", str(tmp_path / "sweep")]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
    # Recoveries are at work in the middle of the case: they mount what they recovered.
    deadline = time.monotonic() + 300
    while process.poll() is None and f"riobed-{process.pid}-" not in Path("/proc/mounts").read_text():
        assert time.monotonic() < deadline
        time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    _, said = process.communicate(timeout=60)
    assert (process.returncode, said) == (130, "riobed: stopped; run the same command to go on\n")
    assert not (tmp_path / "sweep").exists()
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    assert [row.good for row in load_sweep(tmp_path / "sweep").rows] == [True]
