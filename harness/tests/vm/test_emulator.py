# SPDX-License-Identifier: Apache-2.0
"""Which QEMU is started, and with which accelerator it runs."""

import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from harness_builders import ScriptedMachine, shell_program
from riobed.errors import EnvironmentFault
from riobed.guest.accelerator import for_processors
from riobed.vm.emulator.command import COUNTED, REPEATABLE, SINGLE_THREADED, emulator
from riobed.vm.machine import MachineConfig

EVENTS = ["virtio-blk-pci.ioeventfd=off", "-global", "virtio-serial-pci.ioeventfd=off"]


@pytest.fixture
def qemu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Stands for QEMU in a folder with a blank in its name: prints its arguments, one a line."""
    program = shell_program(tmp_path / "my bin/qemu-system-x86_64", 'printf "%s\\n" "$@"')
    monkeypatch.setenv("PATH", f"{program.parent}:/usr/bin:/bin")
    return program


@pytest.fixture
def config(tmp_path: Path) -> MachineConfig:
    return ScriptedMachine(tmp_path).config


@pytest.mark.parametrize(
    ("accelerator", "vcpus", "used"),
    [("tcg", 1, "tcg"), ("tcg", 2, SINGLE_THREADED), ("kvm", 1, "kvm"), ("kvm", 2, "kvm")],
)
def test_what_is_single_threaded(accelerator: str, vcpus: int, used: str) -> None:
    assert for_processors(accelerator, vcpus) == used


@pytest.mark.parametrize("accelerator", ["tcg", "kvm"])
def test_otherwise_it_is_qemu_itself(
    qemu: Path, config: MachineConfig, accelerator: str, tmp_path: Path
) -> None:
    assert emulator(replace(config, accelerator=accelerator), tmp_path) == qemu


@pytest.mark.parametrize(
    ("accelerator", "before"),
    [
        (SINGLE_THREADED, ["-accel", "tcg,tb-size=256,thread=single"]),
        (COUNTED, ["-accel", "tcg,tb-size=256", "-icount", "shift=0"]),
        (REPEATABLE, ["-accel", "tcg,tb-size=256", "-icount", "shift=2,sleep=off", "-global", *EVENTS]),
    ],
)
def test_what_libvirt_cannot_ask_for(
    qemu: Path, config: MachineConfig, accelerator: str, before: list[str], tmp_path: Path
) -> None:
    script = emulator(replace(config, accelerator=accelerator), tmp_path)

    def arguments(*given: str) -> list[str]:
        return subprocess.check_output([script, *given], text=True).splitlines()

    asked = ["-name", "a guest", "-accel", "tcg", "-smp", "2"]
    assert arguments(*asked) == [*before, *asked]
    probe = ["-machine", "none,accel=kvm:tcg"]
    assert arguments(*probe) == probe


def test_without_qemu(config: MachineConfig, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(EnvironmentFault, match="not installed; run 'make setup'"):
        emulator(config, tmp_path)
