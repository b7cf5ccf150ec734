# SPDX-License-Identifier: Apache-2.0
"""A copy of a crash has all that a recovery may change."""

from dataclasses import replace
from pathlib import Path

from riobed.guest.memory.layout import MIB
from riobed.guest.parking import Copy
from riobed.vm import Nvdimm, make_nvdimm, memory_files
from riobed.vm.fake import FakeMachine
from riobed.vm.machine import MachineConfig


class Keeps(FakeMachine):
    """A machine whose processors and devices have no state."""

    def save_devices(self, name: str, disks: bool = False) -> None:
        assert disks

    def load_devices(self, name: str, disks: bool = False) -> None:
        assert disks

    def tell(self, line: str) -> None:
        raise AssertionError


def test_a_copy_is_of_all_memory(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.touch()
    config = MachineConfig("vm", tmp_path, 2 * MIB, 1, "", disk, disk, "", "", disk, disk)
    machine = Keeps(replace(config, nvdimm=Nvdimm(tmp_path / "nvdimm", MIB, 4096 * MIB)))
    make_nvdimm(machine.config)
    machine.start()
    ram, nvdimm = memory_files(machine)
    ram.write_bytes(b"r" * 2 * MIB)
    nvdimm.write_bytes(b"n" * MIB)
    copy = Copy(machine, tmp_path / "crash")
    copy.take()
    for path in (ram, nvdimm):
        path.write_bytes(bytes(path.stat().st_size))
    copy.restore()
    assert (ram.read_bytes(), nvdimm.read_bytes()) == (b"r" * 2 * MIB, b"n" * MIB)
    assert not (tmp_path / "crash").exists()
