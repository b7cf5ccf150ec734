# SPDX-License-Identifier: Apache-2.0
"""What is read of a piece of work that a guest has done: what it printed, and what the emulator counted."""

import itertools
import struct
from pathlib import Path

import pytest
from riobed.errors import InfraError
from riobed.measure.counter import between_marks
from riobed.measure.work import read_measurement

OUTPUT = (
    "status 0\nns 1500000000\nended_us 9500000\nbefore.windows 3\nbefore.nr_written 0\nbefore.idle_ns 1000\n"
)
OUTPUT += "after.windows 8\nafter.nr_written 0\nafter.idle_ns 251000\n"


def test_what_the_guest_printed() -> None:
    found = read_measurement("work", OUTPUT, "")
    assert (found.work, found.seconds, found.idle_s) == ("work", 1.5, 0.00025)
    assert found.ended_s == 9.5
    assert found.before == {"windows": 3, "nr_written": 0}
    assert found.after == {"windows": 8, "nr_written": 0}
    assert found.parts == {}
    parts = read_measurement("work", f"{OUTPUT}part.cp 900000000\npart.rm 600000000\n", "").parts
    assert parts == {"cp": 0.9, "rm": 0.6}
    assert read_measurement("work", f"{OUTPUT}part. 1500000000\n", "").parts == {}
    with pytest.raises(InfraError, match="status 4: cp: no room"):
        read_measurement("work", OUTPUT.replace("status 0", "status 4"), "cp: no room")
    for line in ("status 0", "ns 1500000000", "after.idle_ns 251000"):
        with pytest.raises(InfraError, match="cut short"):
            read_measurement("work", OUTPUT.replace(f"\n{line}\n", "\n").removeprefix(f"{line}\n"), "")


def test_what_the_emulator_counted_between_marks(tmp_path: Path) -> None:
    counters = tmp_path / "counters"

    def count(*marks: tuple[int, ...]) -> None:
        kept = [marks[n] if n < len(marks) else (0,) * 8 for n in range(16)]
        for n in range(16, len(marks)):
            kept[n % 16] = marks[n]
        counters.write_bytes(struct.pack("<129Q", len(marks), *itertools.chain(*kept)))

    count((1, 0, 0, 0, 0, 0, 0, 0), (8, 3, 2, 1, 9, 8, 7, 6), (10, 3, 2, 2, 9, 8, 7, 7))
    cp, rm = between_marks(counters, 0, 2)
    assert [*cp.values()] == [7, 3, 2, 1, 9, 8, 7, 6]
    assert [*rm.values()] == [2, 0, 0, 1, 0, 0, 0, 1]
    assert [*cp][:5] == ["instructions", "repetitions", "invlpg", "wrmsr", "nvdimm_loads"]
    count(*((n * n, 0, 0, n, 0, 0, 0, 0) for n in range(17)))
    assert [[*part.values()] for part in between_marks(counters, 15)] == [[31, 0, 0, 1, 0, 0, 0, 0]]
    with pytest.raises(InfraError, match="3 marks of the work, not 2"):
        between_marks(counters, 14)
    with pytest.raises(InfraError, match="17 marks of the work, not 17"):
        between_marks(counters, 0, 16)
