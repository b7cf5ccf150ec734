# SPDX-License-Identifier: Apache-2.0
"""VM: a virtual machine that keeps its RAM across a reset, and the host it runs on.

It knows nothing of what runs inside the guest.
"""

from riobed.vm.agent import AgentLost, ExecResult
from riobed.vm.driver import Driver, driver
from riobed.vm.emulator.command import COUNTED, REPEATABLE, SINGLE_THREADED, emulator_memory
from riobed.vm.emulator.plugins import compiled
from riobed.vm.emulator.version import qemu_version, reading_qemu, reads_registers
from riobed.vm.host.scratch import scratch_dir
from riobed.vm.host.tools import LEAST_ROOM, find_tool, need_memory, need_room, run_inside, run_tool
from riobed.vm.host.unprivileged import qemu_user
from riobed.vm.machine import (
    UNUSED,
    CachePolicy,
    Disk,
    DiskUse,
    HasTerminal,
    LostLines,
    Machine,
    MachineConfig,
    Nvdimm,
    Plugin,
    SavesDevices,
    WritesDisk,
    memory_files,
)
from riobed.vm.nvdimm.canary import CanaryHits, canary_hits
from riobed.vm.nvdimm.image import make_nvdimm
from riobed.vm.nvdimm.persistence import flip_bit, line_plugin
from riobed.vm.qcow2 import Qcow2
from riobed.vm.qemu.connection import connect

__all__ = [
    "COUNTED",
    "LEAST_ROOM",
    "REPEATABLE",
    "SINGLE_THREADED",
    "UNUSED",
    "AgentLost",
    "CachePolicy",
    "CanaryHits",
    "Disk",
    "DiskUse",
    "Driver",
    "ExecResult",
    "HasTerminal",
    "LostLines",
    "Machine",
    "MachineConfig",
    "Nvdimm",
    "Plugin",
    "Qcow2",
    "SavesDevices",
    "WritesDisk",
    "canary_hits",
    "compiled",
    "connect",
    "driver",
    "emulator_memory",
    "find_tool",
    "flip_bit",
    "line_plugin",
    "make_nvdimm",
    "memory_files",
    "need_memory",
    "need_room",
    "qemu_user",
    "qemu_version",
    "reading_qemu",
    "reads_registers",
    "run_inside",
    "run_tool",
    "scratch_dir",
]
