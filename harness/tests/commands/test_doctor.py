# SPDX-License-Identifier: Apache-2.0
"""`riobed doctor`: its verdict, its JSON, and what it looks at when something is missing."""

import json
from pathlib import Path
from typing import Any

import pytest
from harness_builders import shell_program
from riobed import guest
from riobed.commands import doctor
from riobed.commands.doctor import Finding
from riobed.errors import EnvironmentFault

LOOKS = ["_qemu", "_lines", "_mke2fs", "_libvirt", "_products", "_room"]
Capture = pytest.CaptureFixture[str]


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """A host where everything is there and both accelerators boot a guest."""
    for look in LOOKS:
        monkeypatch.setattr(doctor, look, lambda uri, name=look: Finding(name, True, "there"))
    monkeypatch.setattr(doctor, "load_manifest", lambda: None)
    boots(monkeypatch, kvm="", tcg="")
    return monkeypatch


def boots(monkeypatch: pytest.MonkeyPatch, **complaints: str) -> None:
    monkeypatch.setattr(guest, "boots", lambda name, manifest, uri: complaints[name])


def report(capsys: Capture, status: int) -> Any:
    assert doctor.doctor(as_json=True, uri=None) == status
    output = capsys.readouterr().out
    assert output.count("\n") == 1
    return json.loads(output)


def test_a_host_that_has_all(host: pytest.MonkeyPatch, capsys: Capture) -> None:
    found = report(capsys, 0)
    assert (found["ready"], found["accelerator"]) == (True, "kvm")
    there = dict.fromkeys(LOOKS, "there") | dict.fromkeys(("kvm", "tcg"), "boots a guest")
    assert found["findings"] == [
        {"what": name, "good": True, "found": said, "mend": ""} for name, said in there.items()
    ]


def test_a_host_where_only_tcg_boots(host: pytest.MonkeyPatch, capsys: Capture) -> None:
    boots(host, kvm="no stage 0 within 20 s", tcg="")
    found = report(capsys, 0)
    assert (found["ready"], found["accelerator"]) == (True, "tcg")
    kvm = found["findings"][-2]
    assert (kvm["good"], kvm["found"]) == (False, "no stage 0 within 20 s")
    assert "tcg does the same" in kvm["mend"]
    boots(host, kvm="no stage 0 within 20 s", tcg="QEMU does not start")
    found = report(capsys, 1)
    assert (found["ready"], found["accelerator"]) == (False, None)
    assert found["findings"][-1]["mend"] == "make setup"


@pytest.mark.parametrize("missing", LOOKS)
def test_nothing_is_booted_without_all(host: pytest.MonkeyPatch, capsys: Capture, missing: str) -> None:
    host.setattr(doctor, missing, lambda uri: Finding(missing, False, "not there", "make setup"))
    host.setattr(guest, "boots", lambda name, manifest, uri: pytest.fail("a guest was booted"))
    found = report(capsys, 1)
    assert (found["ready"], found["accelerator"]) == (False, None)
    bad = [finding for finding in found["findings"] if not finding["good"]]
    assert [finding["what"] for finding in bad] == [missing, "kvm", "tcg"]
    assert bad[0] == {"what": missing, "good": False, "found": "not there", "mend": "make setup"}
    assert [finding["found"] for finding in bad[1:]] == ["not tried", "not tried"]


def test_for_people(host: pytest.MonkeyPatch, capsys: Capture) -> None:
    host.setenv("COLUMNS", "120")
    host.setattr(doctor, "_room", lambda uri: Finding("room", False, "3 MiB in /x", "free 2048 MiB there"))
    assert doctor.doctor(as_json=False, uri=None) == 1
    output = capsys.readouterr().out
    assert all(said in output for said in ("3 MiB in /x", "free 2048 MiB there", "not tried"))


def test_tools_and_products_that_are_missing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def fault(*arguments: object) -> str:
        raise EnvironmentFault("it is missing: run make setup")

    monkeypatch.setattr(doctor, "run_tool", fault)
    monkeypatch.setattr(doctor, "load_manifest", fault)
    monkeypatch.setenv("PATH", str(tmp_path))
    # Not in PATH, but where every Debian has it.
    assert doctor._mke2fs(None) == Finding("e2fsprogs", True, "/usr/sbin/mke2fs")
    for look in (doctor._qemu, doctor._products):
        finding = look(None)
        assert (finding.good, finding.mend) == (False, "make setup")
        assert "missing" in finding.found


def test_a_tool_that_is_there_says_its_version(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    shell_program(tmp_path / "qemu-system-x86_64", "echo 'QEMU 9.9.9'; echo Copyright")
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    assert doctor._qemu(None) == Finding("QEMU", True, "QEMU 9.9.9")


@pytest.mark.parametrize(("free", "good"), [(2047, False), (2048, True)])
def test_room_on_disk(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, free: int, good: bool) -> None:
    monkeypatch.setenv("RIOBED_CACHE", str(tmp_path / "not" / "yet" / "there"))
    monkeypatch.setattr(doctor.shutil, "disk_usage", lambda path: type("Usage", (), {"free": free << 20}))
    finding = doctor._room(None)
    assert (finding.good, finding.found) == (good, f"{free} MiB in {tmp_path}")
    assert finding.mend == ("" if good else "free 2048 MiB there")
    assert list(tmp_path.iterdir()) == []
