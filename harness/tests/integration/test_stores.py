# SPDX-License-Identifier: Apache-2.0
"""The emulator names the instructions that store into the canary, as a replay with `--propagation` does.

The program that stores (harness/tests/data/lines.c) is the independent count.
"""

import time

import pytest
from riobed.faults.sites.vmlinux import Vmlinux
from riobed.guest.settings.config import MachineSpec
from riobed.guest.settings.modes import cache_mode
from riobed.guest.setup import guest_setup
from riobed.propagation import store_plugin, stores_report, stores_so_far
from riobed.propagation.stores import stores_text

from .conftest import compiled, opened, shell
from .test_lines import KIND, SOURCE

pytestmark = pytest.mark.extended

# How often each kind of lines.c stores into its line. A copy by repetition stores byte by byte.
STORES = (1, 1, 1, 1, 1, 8, 2, 2)


def test_each_store_is_noted_with_its_instruction() -> None:
    setup = guest_setup(MachineSpec(nvdimm_mib=32, canary_mib=16), None, counts_nvdimm=True)
    mode = cache_mode("write-through")
    with opened(setup, mode, "stores", store_plugin(setup, setup.layout(mode))) as guest:
        guest.ready()
        machine, nvdimm = guest.machine, guest.machine.config.nvdimm
        assert nvdimm and stores_so_far(machine.config) == 0
        machine.write_file("/run/lines", compiled(guest, SOURCE, "-O1 -mclwb -mclflushopt"))
        shell(guest, "chmod 755 /run/lines")
        machine.spawn(["/bin/sh", "-c", f"/run/lines {nvdimm.address + nvdimm.used:x} >/run/told"])
        while b"stored" not in shell(guest, "cat /run/told"):
            time.sleep(0.1)
        vmlinux = Vmlinux(setup.products(mode).kernel.vmlinux)
        answer = stores_report(machine.config, KIND, vmlinux)
    assert answer["stores"] + KIND == KIND * sum(STORES)
    first = answer["by"][0]
    assert (first["offset"], first["bytes"], first["source"]) == (nvdimm.used + 64 * KIND, 8, "")
    assert sum(by["stores"] for by in answer["by"]) == answer["stores"]
    assert stores_text(answer)[0] == f"Stores into the canary: {answer['stores']}"
