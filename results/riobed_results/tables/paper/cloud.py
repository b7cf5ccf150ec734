# SPDX-License-Identifier: Apache-2.0
"""What "NVRAM in the cloud" says of its Figure 4, as ratios of seconds between the modes of nvram-cloud.yaml.

Kim et al., "Improving Cloud System Performances by Adopting NVRAM-Based Storage Systems": IOzone (here fio)
and Memzone (here the workload allocator) with DRAM only, and with NVRAM as memory, as swap space or as a
journal. Whether the journal had data, too, is not said, so both are compared.
"""

from math import inf

from riobed_results.tables.paper.table2 import Statement


def _slower(key: str, text: str, modes: tuple[str, ...], than: str) -> Statement:
    return Statement(key, text, modes, than, 1, inf, exact=True)


_OTHERS = ("plain", "as-memory", "as-swap")
_MEMORY = _slower("memory over swap", "memory before swap space", ("as-swap",), "as-memory")
# By the part of a workload's name before the first hyphen. What a mode of the left takes is over the other's.
ORDERS = {
    # Figure 4a names no numbers, but that memory is only slightly better than swap space.
    "fio": (
        _slower("journal best", "journal before all others", _OTHERS, "as-journal"),
        _slower("data journal best", "journal of data, too, before all others", _OTHERS, "as-data-journal"),
        _MEMORY,
    ),
    # Figure 4b: 65.6 % with memory, 15.2 % with swap space. The sizes follow from the machine.
    "allocator": (
        _slower("memory helps", "memory before none (65.6 %)", ("plain",), "as-memory"),
        _slower("swap helps", "swap space before none (15.2 %)", ("plain",), "as-swap"),
        _MEMORY,
    ),
}
