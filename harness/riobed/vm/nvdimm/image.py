# SPDX-License-Identifier: Apache-2.0
"""The file that is a machine's NVDIMM. QEMU never flushes it, so it need not survive the host."""

from riobed.errors import BootError
from riobed.vm.machine import MachineConfig
from riobed.vm.nvdimm.canary import lay_canary


def make_nvdimm(config: MachineConfig) -> None:
    """Make a machine's NVDIMM anew, of zeros and its canary; nothing if it has none."""
    if config.nvdimm:
        config.nvdimm.path.unlink(missing_ok=True)
        with config.nvdimm.path.open("wb") as file:
            file.truncate(config.nvdimm.size)
        lay_canary(config.nvdimm)


def check_nvdimm(config: MachineConfig) -> None:
    """Raise BootError unless the file of a machine's NVDIMM has its size.

    QEMU would make a missing one and let its guest find zeros.
    """
    if not (nvdimm := config.nvdimm):
        return
    size = nvdimm.path.stat().st_size if nvdimm.path.is_file() else None
    if size != nvdimm.size:
        found = "is missing" if size is None else f"has {size} bytes"
        raise BootError(f"{config.name}: its NVDIMM {nvdimm.path} {found}, want {nvdimm.size} bytes")
