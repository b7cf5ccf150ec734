# SPDX-License-Identifier: Apache-2.0
"""From the emulator's log of translated code to functions of the catalogue."""

from riobed.commands.executed import addresses
from riobed.faults import Catalogue

LOG = b"""----------------
IN:
0xffffffff81419c05:  80 bb c6 00 00 00 00     cmpb     $0, 0xc6(%rbx)
0xffffffff81419c11:  74 ce                    je       0xffffffff81419be1

0x00007f12a0b3c4d5:  c3                       retq
0xffffffff8141:  c3
 0xffffffff81419c13:  c3
OBJD-T: 9090
\xff\xfe0x
"""


def test_only_whole_lines_of_instructions_count() -> None:
    assert list(addresses(LOG.splitlines(keepends=True))) == [
        0xFFFFFFFF81419C05,
        0xFFFFFFFF81419C11,
        0x00007F12A0B3C4D5,
    ]


def test_addresses_outside_the_functions_are_passed_over(catalogue: Catalogue) -> None:
    (site,) = (catalogue.site("off_by_one", rank) for rank in range(1))
    inside = site.instruction.address
    name = catalogue.function_at(inside)
    far = [0, 0x7F12A0B3C4D5, 0xFFFFFFFF80000000, 2**64 - 1]
    assert catalogue.functions_at([inside, inside, *far]) == {name}
    assert catalogue.functions_at([]) == catalogue.functions_at(far) == set()
