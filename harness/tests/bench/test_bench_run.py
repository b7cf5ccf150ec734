# SPDX-License-Identifier: Apache-2.0
"""One run of a bench, in a guest of the fake machine that does the work at once."""

from collections.abc import Mapping
from dataclasses import asdict, astuple, replace
from pathlib import Path
from typing import Any

import pytest
from harness_builders import Kernels, booting_guest
from riobed.bench import PlannedRun
from riobed.bench.before import Steps
from riobed.bench.run import make_run
from riobed.errors import InfraError
from riobed.guest import MIB, Guest, Throttle
from riobed.guest.workload.description import Workload
from riobed.vm import DiskUse, ExecResult
from riobed.vm.fake import FakeMachine
from riobed_results.store import DiskCounts

DURING, AFTER = DiskUse(1, 4096, 8, 2 << 20, 2), DiskUse(0, 0, 30, 64 << 20, 1)
# The host's clock stands still.
pytestmark = pytest.mark.usefixtures("clock")
# What the script that measures prints: 40 ms, less than what clocks may differ by.
OUTPUT = """status 0
part.cp 30000000
part.rm 10000000
ns 40000000
ended_us 9000000
before.nr_written 3
before.idle_ns 0
after.nr_written 10
after.idle_ns 5000000
"""
WORK = Workload.model_validate(
    {"name": "w", "description": "d", "start": "x", "check": "end", "measure": {"cp": "copy", "rm": "remove"}}
    | {"measure_operations": "500", "measure_mib": "3"}
)
SLOW = {"": Throttle(iops=59)}


class Work(Kernels):
    """What the guest runs; what a test sees of it is kept by the machine, which no snapshot takes back."""

    def execute(self, machine: FakeMachine, argv: list[str], stdin: bytes) -> ExecResult:
        assert isinstance(machine, Host)
        text, words = (argv[2], argv[3:]) if argv[1:2] == ["-c"] else ("", [])
        if argv[1:2] == ["-ec"]:
            machine.ran.append(argv[2].splitlines()[0] + stdin.decode())
            return ExecResult(*machine.prepared)
        if words[:1] == ["measure"]:
            machine.ran.append("measure")
            machine.say(machine.progress, b"begin\nend\n")
            return machine.uses(DURING, machine.output)
        if words[:1] == ["slow"]:
            machine.ran.append(" ".join(words))
        elif text.startswith("cd /workload"):
            machine.ran.append(text.splitlines()[-1])
            status, said = machine.ends.get(machine.ran[-1], (0, ""))
            return ExecResult(status, said.encode(), b"bad")
        elif "taken_ns" in text:
            return ExecResult(0, b"10000000000 12500000000\n", b"")
        elif "echo none" in text:
            machine.ran.append("full speed")
        elif "EPOCHREALTIME" in text:
            return machine.uses(AFTER, "11500000\n")
        return ExecResult(0, b"", b"")


class Host(FakeMachine):
    """Status and output of each command that does not end well are in `ends`."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.ran: list[str] = []
        self.ends: dict[str, tuple[int, str]] = {}
        self.output = OUTPUT
        self.prepared = 0, b"", b""

    def uses(self, disk: DiskUse, said: str) -> ExecResult:
        self.used = DiskUse(*map(sum, zip(astuple(self.used), astuple(disk), strict=True)))
        return ExecResult(0, said.encode(), b"")


def guest_of(folder: Path, **changes: Any) -> Guest:
    work = WORK.model_copy(update=changes)
    return booting_guest(folder, "delayed", Work(), Host, workload=work, settled=True)


def made(guest: Guest, disks: Mapping[str, Throttle] | None = None, **changes: Any) -> dict[str, Any]:
    planned = PlannedRun("w", "old", 1, "time", "delayed", 0, 77, False)
    return make_run(replace(planned, **changes), guest, disks or {})


def host(guest: Guest) -> Host:
    assert isinstance(guest.machine, Host)
    return guest.machine


def ran(guest: Guest) -> list[str]:
    """Since the last call."""
    said, host(guest).ran = host(guest).ran, []
    return said


def test_all_that_is_measured(tmp_path: Path) -> None:
    assert made(guest_of(tmp_path), SLOW) == {
        "outcome": "measured",
        "work": "cd /workload || exit\ncopy\ncd /workload || exit\nremove",
        "operations": 500,
        "written_bytes": 3 * MIB,
        "seconds": 0.04,
        "parts": {"cp": 0.03, "rm": 0.01},
        "idle_s": 0.005,
        "host_s": 0.0,
        "delayed_s": 0.0,
        "events": {"nr_written": 7},
        "part_events": {},
        "disk_during": DiskCounts(**asdict(DURING)),
        "disk_after": DiskCounts(**asdict(AFTER)),
        "clean_s": 2.5,
        "disk_model_s": 10.0,
        "disk_taken_s": 12.5,
    }


def test_until_its_disk_has_everything_it_is_slow(tmp_path: Path) -> None:
    guest = guest_of(tmp_path)
    made(guest, SLOW)
    slow = " ".join(["slow ", *(f"{name}={value}" for name, value in SLOW[""].delays().items())])
    assert ran(guest) == [slow, "measure", "full speed", "end"]
    assert made(guest)["disk_model_s"] is None
    assert ran(guest) == ["measure", "end"]


def test_what_comes_before_the_work_is_not_measured(tmp_path: Path) -> None:
    guest = guest_of(tmp_path)
    planned, before = (
        PlannedRun("w", "old", 1, "time", "delayed", 0, 77, False),
        Steps("fill", "heap 0 0\ngo\n"),
    )
    assert make_run(planned, guest, {}, before)["outcome"] == "measured"
    assert ran(guest) == ["fillheap 0 0\ngo\n", "measure", "end"]
    host(guest).prepared = 1, b"", b"no batch"
    with pytest.raises(InfraError, match="before the work ends with 1: no batch"):
        make_run(planned, guest, {}, before)


def test_only_time_wants_clocks_that_agree(tmp_path: Path) -> None:
    guest = guest_of(tmp_path)
    host(guest).output = OUTPUT.replace("ns 40000000", "ns 40000000000000")
    with pytest.raises(InfraError, match="clocks differ"):
        made(guest)
    assert made(guest, kind="instructions")["outcome"] == "measured"


DIFFERS = (3, '{"differences": [{"kind": "content", "path": "u1/log"}]}')


def test_wrong_output_is_no_measurement(tmp_path: Path) -> None:
    guest = guest_of(tmp_path)
    host(guest).ends = {"end": DIFFERS}
    assert made(guest) == {"outcome": "wrong", "detail": "the output is wrong: u1/log: content"}


def test_a_check_that_fails_says_nothing_of_the_output(tmp_path: Path) -> None:
    guest = guest_of(tmp_path)
    host(guest).ends = {"end": (2, "")}
    with pytest.raises(InfraError, match="the workload's check failed with status 2: bad"):
        made(guest)


def test_what_a_part_leaves_to_the_next_is_checked_in_a_rehearsal(tmp_path: Path) -> None:
    guest = guest_of(tmp_path, check_measured={"cp": "same", "rm": "end"})
    assert made(guest, rehearsed=True)["outcome"] == "measured"
    assert ran(guest) == ["copy", "same", "remove", "end", "measure", "end"]
    host(guest).ends = {"same": DIFFERS}
    said = "after cp: the output is wrong: u1/log: content"
    assert made(guest, rehearsed=True) == {"outcome": "wrong", "detail": said}
    # With one check only there is nothing to rehearse.
    plain = guest_of(tmp_path)
    made(plain, rehearsed=True)
    assert ran(plain) == ["measure", "end"]
