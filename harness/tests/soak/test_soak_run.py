# SPDX-License-Identifier: Apache-2.0
"""Going on with a soak, and which guest the next stressor gets."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from harness_builders import Clock, Kernels, ScriptedMachine, booting_guest, manifest, provenance
from riobed.errors import InfraError, UsageError
from riobed.guest import GuestSetup, MachineSpec
from riobed.guest.guest import Guest
from riobed.soak import life
from riobed.soak import session as run
from riobed.soak.session import Request, environment, open_soak, run_turns
from riobed.soak.suite import Turn
from riobed.vm import AgentLost, ExecResult
from riobed.vm.fake import FakeMachine
from riobed_results.tables.controls.soak import Soak, SoakProvenance, SoakRow, load_soak, save_soak

PLACE = {"mode": "rio", "minutes": 60, "memory_mib": 512, "disk_mib": 1024, "vcpus": 1, "suite": "stress"}
ENVIRONMENT = SoakProvenance.model_validate(provenance(seed="7").model_dump() | PLACE)
PLAN = [Turn(name, "", 10) for name in ("one", "two", "three", "four")]


def request(folder: Path, **fields: Any) -> Request:
    base = {"memory_mib": 512, "disk_mib": 1024, "vcpus": 1} | fields
    return Request("rio", 1, 7, [], folder, folder=folder, **base)


class FakeGuest(Guest):
    """CellCounts power-ons; its machine is a console that was written by hand."""

    def __init__(self, folder: Path) -> None:
        self.machine = ScriptedMachine(folder, Clock())
        self.boots = 0

    def boot(self) -> None:
        self.boots += 1


def test_a_soak_names_the_kernel_of_its_mode(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = manifest(tmp_path, build_id="ffff")
    monkeypatch.setattr("riobed.guest.assembly.kernel_products", lambda kernel: other)
    setup = GuestSetup(manifest(tmp_path), MachineSpec(), "tcg")
    asked = request(tmp_path)
    assert environment(asked, setup).kernel_build_id == "0123abcd"
    assert environment(replace(asked, mode="dax-protected"), setup).kernel_build_id == "ffff"


def test_a_soak_is_gone_on_with_without_its_infra_errors(tmp_path: Path) -> None:
    rows = [SoakRow(stressor="one", what="", files=1), SoakRow(stressor="two", what="", infra_error="lost")]
    assert open_soak(tmp_path, ENVIRONMENT) == Soak(environment=ENVIRONMENT)
    save_soak(tmp_path, Soak(environment=ENVIRONMENT, rows=rows))
    later = ENVIRONMENT.model_copy(update={"created": "2027-01-02T03:04:05.000+00:00"})
    assert open_soak(tmp_path, later) == Soak(environment=ENVIRONMENT, rows=rows[:1])


@pytest.mark.parametrize("what", ["mode", "seed", "kernel_build_id", "vcpus", "accelerator", "minutes"])
def test_a_soak_of_something_else_is_refused(tmp_path: Path, what: str) -> None:
    save_soak(tmp_path, Soak(environment=ENVIRONMENT))
    other = 2 if what in ("vcpus", "minutes") else "other"
    with pytest.raises(UsageError, match=rf"has a soak of something else: {what} is"):
        open_soak(tmp_path, ENVIRONMENT.model_copy(update={what: other}))


@pytest.mark.parametrize("fields", [{"memory_mib": 3}, {"disk_mib": 1}, {"vcpus": 9}])
def test_a_guest_that_cannot_be(tmp_path: Path, fields: dict[str, int]) -> None:
    with pytest.raises(UsageError, match=rf"^guest: {next(iter(fields))}: "):
        request(tmp_path, **fields).machine()


@pytest.mark.parametrize(("mode", "mib"), [("dax", 256), ("nv-journal", 64), ("rio", 0)])
def test_a_file_system_on_an_nvdimm_has_the_size_that_is_asked_for(
    tmp_path: Path, mode: str, mib: int
) -> None:
    asked = replace(request(tmp_path, disk_mib=256), mode=mode)
    assert asked.machine().nvdimm_mib == mib


def test_only_a_guest_that_was_good_is_gone_on_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = {"one": {"files": 5}, "two": {"files": 5, "files_different": 1}, "four": {"files": 5}}
    went_on = []

    def take_turn(guest: Guest, turn: Turn, seed: int, row: SoakRow) -> None:
        assert seed == 7
        if turn.name == "three":
            raise InfraError("agent lost")
        for field, value in found[turn.name].items():
            setattr(row, field, value)

    monkeypatch.setattr(run, "take_turn", take_turn)
    monkeypatch.setattr(run, "go_on", lambda guest: went_on.append(1))
    guest, result = FakeGuest(tmp_path), Soak(environment=ENVIRONMENT)
    run_turns(guest, PLAN, request(tmp_path), result)
    assert load_soak(tmp_path) == result
    good = {"one": True, "two": False, "three": False, "four": True}
    assert {row.stressor: row.good for row in result.rows} == good
    # Before one, three and four; two ran in what one left.
    assert (guest.boots, len(went_on)) == (3, 1)
    assert sorted(path.name for path in tmp_path.glob("*.console")) == ["three.console", "two.console"]
    run_turns(guest, PLAN, request(tmp_path), result)
    assert guest.boots == 3 and len(result.rows) == 4


@pytest.mark.parametrize("status", [0, 1, 2, 70, 137])
def test_the_status_of_a_stressor_is_its_result(status: int) -> None:
    row = SoakRow(stressor="fio", what="", files=1)
    life.judge_end(row, ExecResult(status, b"x" * 9000, b"end"))
    assert (row.status, len(row.output), row.good) == (status, 2000, status == 0)


class Counting(Kernels):
    """A kernel whose counters of pages that were compared have these values, one after the other."""

    def __init__(self, *found: str) -> None:
        super().__init__()
        self.found = list(found)

    def execute(self, machine: FakeMachine, argv: list[str], stdin: bytes) -> ExecResult:
        text = self.found.pop(0)
        if text == "busy":
            raise AgentLost("guest agent: no answer in time")
        return ExecResult(int(not text), text.encode(), b"")


def test_a_mismatch_that_a_later_write_hides_is_found(tmp_path: Path) -> None:
    good, bad = "intact 9\ncorrupt 0\n", "intact 8\ncorrupt 1\n"
    # At last the kernel is asked for its statistics, too; it has none.
    machine = booting_guest(tmp_path, "write-through", Counting(good, bad, "busy", "", "", good)).machine
    machine.config.test_disk.touch()
    machine.start()
    row = SoakRow(stressor="fio", what="", files=1)
    for _ in range(4):
        life.verify_meanwhile(machine, row)
    assert (row.verifications, row.mismatches, row.good) == (2, 1, False)
    life.look_at_kernel(machine, row)
    assert row.mismatches == 1 and row.verify == {"intact": 9, "corrupt": 0}


@pytest.mark.parametrize("status", [69, 126, 127])
def test_a_guest_that_lacks_something_is_no_result(status: int) -> None:
    row = SoakRow(stressor="fio", what="")
    with pytest.raises(InfraError, match=rf"lacks something, status {status}: fio: not found$"):
        life.judge_end(row, ExecResult(status, b"much\n", b"fio: not found\n\n"))
    assert row.output.startswith("much")
