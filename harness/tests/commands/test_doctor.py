# SPDX-License-Identifier: Apache-2.0
"""`riobed doctor`: its verdict, and what it says of a host that lacks something."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from harness_builders import shell_program
from riobed.commands.doctor import Finding, examine, room

NAMES = ["one", "two"]


def looks(*missing: str) -> list[Callable[[], Finding]]:
    return [partial(Finding, name, name not in missing, "what is there") for name in NAMES]


@pytest.mark.parametrize(
    ("kvm", "tcg", "accelerator"),
    [("", "", "kvm"), ("no stage 0", "", "tcg"), ("no stage 0", "no QEMU", None)],
)
def test_the_first_accelerator_that_boots_a_guest_is_used(
    kvm: str, tcg: str, accelerator: str | None
) -> None:
    report = examine(looks(), {"kvm": kvm, "tcg": tcg}.__getitem__)
    assert (report.ready, report.accelerator) == (accelerator is not None, accelerator)
    assert [(each.what, each.good) for each in report.findings[-2:]] == [("kvm", not kvm), ("tcg", not tcg)]
    assert all(bool(each.mend) != each.good for each in report.findings[-2:])


@pytest.mark.parametrize("missing", NAMES)
def test_nothing_is_booted_without_all(missing: str) -> None:
    report = examine(looks(missing), lambda name: pytest.fail("a guest was booted"))
    assert (report.ready, report.accelerator) == (False, None)
    assert [each.what for each in report.findings if not each.good] == [missing, "kvm", "tcg"]


def doctor(**environment: str) -> dict[str, dict[str, Any]]:
    """What the command says of a host that cannot boot a guest, by what it looks at."""
    command = [sys.executable, "-m", "riobed.cli", "doctor", "--json"]
    done = subprocess.run(command, env=os.environ | environment, capture_output=True, text=True)
    assert (done.returncode, done.stdout.count("\n")) == (1, 1), done.stderr
    report = json.loads(done.stdout)
    assert (report["ready"], report["accelerator"]) == (False, None)
    return {finding["what"]: finding for finding in report["findings"]}


def test_a_host_without_tools(tmp_path: Path) -> None:
    found = doctor(PATH=str(tmp_path))
    assert (found["QEMU"]["good"], found["QEMU"]["mend"]) == (False, "make setup")
    # Not in PATH, but where every Debian has it.
    assert found["e2fsprogs"]["found"] == "/usr/sbin/mke2fs"
    assert [found[name]["found"] for name in ("kvm", "tcg")] == ["not tried", "not tried"]


def test_a_tool_that_is_there_says_its_version(tmp_path: Path) -> None:
    shell_program(tmp_path / "qemu-system-x86_64", "echo 'QEMU 9.9.9'; echo Copyright")
    found = doctor(PATH=f"{tmp_path}:/bin:/usr/bin")
    assert (found["QEMU"]["good"], found["QEMU"]["found"]) == (True, "QEMU 9.9.9")


def test_for_people(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "riobed.cli", "doctor"]
    environment = os.environ | {"PATH": str(tmp_path), "COLUMNS": "140"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 1 and "make setup" in done.stdout and "not tried" in done.stdout


@pytest.mark.parametrize(("free", "good"), [(2047, False), (2048, True)])
def test_room_on_disk(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, free: int, good: bool) -> None:
    monkeypatch.setenv("RIOBED_CACHE", str(tmp_path / "not" / "yet" / "there"))
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=free << 20))
    finding = room()
    assert (finding.good, finding.found) == (good, f"{free} MiB in {tmp_path}")
    assert finding.mend == ("" if good else "free 2048 MiB there")
    assert list(tmp_path.iterdir()) == []
