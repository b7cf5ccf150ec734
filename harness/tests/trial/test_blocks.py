# SPDX-License-Identifier: Apache-2.0
"""A change behind the guest's back is on the device that the file system is on."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from riobed.errors import InfraError
from riobed.guest.memory.layout import MIB, PAGE
from riobed.guest.settings.modes import cache_mode
from riobed.trial.control.blocks import at_once, change_on_disk
from riobed.trial.control.ext4 import Bit
from riobed.vm import Nvdimm, make_nvdimm
from riobed.vm.agent import ExecResult
from riobed.vm.fake import FakeMachine, Program
from riobed.vm.machine import MachineConfig


class Reads(Program):
    """A guest that reads a block of a device: of the NVDIMM's file, or of a disk that is all zeros."""

    def execute(self, machine: FakeMachine, argv: list[str], stdin: bytes) -> ExecResult | None:
        words = dict(word.split("=") for word in argv[1:])
        block = int(words["skip"]) * PAGE
        nvdimm = machine.config.nvdimm
        content = bytes(PAGE)
        if words["if"] == "/dev/pmem0" and nvdimm:
            content = nvdimm.path.read_bytes()[block : block + PAGE]
        return ExecResult(0, content, b"")


@pytest.mark.parametrize("mode", ["dax", "nv-journal"])
def test_a_block_of_the_nvdimm_changes_where_the_file_system_is_on_it(tmp_path: Path, mode: str) -> None:
    disk = tmp_path / "disk"
    disk.touch()
    config = MachineConfig("vm", tmp_path, 2 * MIB, 1, "", disk, disk, "", "", disk, disk)
    nvdimm = Nvdimm(tmp_path / "nvdimm", MIB, 4096 * MIB)
    machine = FakeMachine(replace(config, nvdimm=nvdimm), Reads())
    make_nvdimm(machine.config)
    machine.start()
    guest: Any = SimpleNamespace(machine=machine, mode=cache_mode(mode))
    change = at_once(Bit(7, 3))
    if mode == "dax":
        assert change_on_disk(guest, 2, change) == Bit(7, 3, where="nvdimm")
        content = bytearray(MIB)
        content[2 * PAGE + 7] = 1 << 3
    else:
        # This machine cannot write its disk from outside.
        with pytest.raises(InfraError, match="cannot write its disk"):
            change_on_disk(guest, 2, change)
        content = bytearray(MIB)
    assert nvdimm.path.read_bytes() == content
