# SPDX-License-Identifier: Apache-2.0
"""The emulator counts what goes to an NVDIMM and comes from it, and nothing where it is not used."""

from dataclasses import replace
from pathlib import Path

import pytest
from riobed.guest import MachineSpec, WorkloadSpec, guest_setup
from riobed.guest.settings.modes import cache_mode
from riobed.measure import guests, measure
from riobed.vm import COUNTED

pytestmark = pytest.mark.extended
SIZE = 4 << 20
# A file of twice the size of the modelled cache; it is read when others have taken its place there.
WORKLOAD = """
name: writing
description: A file that is written and read.
start: "true"
check: "true"
prepare: mkdir -p {dir} && head -c 4194304 /dev/urandom >/tmp/bytes
measure:
  write: cat /tmp/bytes >{dir}/file && sync
  read: cat {dir}/file >/dev/null
measure_mib: "{option:one} + 3"
options: {one: 1}
"""


def test_what_goes_to_an_nvdimm_is_counted(tmp_path: Path) -> None:
    modes = {name: cache_mode(name) for name in ("dax", "delayed")}
    (tmp_path / "workload.yaml").write_text(WORKLOAD)
    machine = MachineSpec(nvdimm_mib=64, accelerator="tcg")
    setup = guest_setup(machine, None, WorkloadSpec(path=tmp_path), counts_nvdimm=True)
    counted = {}
    with guests(replace(setup, accelerator=COUNTED), modes, "instructions", "traffic") as opened:
        for name, guest in opened.items():
            guest.ready()
            counted[name] = measure(guest, 1).part_events
            assert guest.workload.measure_bytes == SIZE
    written, read = counted["dax"]["write"], counted["dax"]["read"]
    # ext4 clears the blocks of a new file before DAX copies into them; the journal is the rest.
    assert 2 * SIZE <= written["nvdimm_lines_written"] * 64 < 2.2 * SIZE
    assert written["nvdimm_stores"] >= 2 * SIZE // 8
    # The copy to the reader's memory is a string instruction: byte by byte to the emulator.
    assert SIZE // 8 <= read["nvdimm_loads"] < 1.1 * SIZE
    # Now and then the buffer takes the place of a line of which the copy has read only a part.
    assert SIZE <= read["nvdimm_lines_read"] * 64 < 1.5 * SIZE
    assert read["nvdimm_lines_written"] * 64 < 0.1 * SIZE
    for events in counted["delayed"].values():
        assert not any(count for name, count in events.items() if name.startswith("nvdimm_"))
