# SPDX-License-Identifier: Apache-2.0
"""Return addresses get the name of the function that called, also where the call was its last instruction."""

from types import SimpleNamespace
from typing import cast

from riobed.faults.sites.vmlinux import Symbol, Vmlinux
from riobed.propagation.symbols import Symbols

NAMES = ["__traceiter_rio_entry", "rio_set", "rio_page_settle", "ext4_write_end", "rio_later"]
FUNCTIONS = [Symbol(0x1000 + 0x100 * number, 0x80, name) for number, name in enumerate(NAMES)]
SYMBOLS = Symbols(cast(Vmlinux, SimpleNamespace(functions=lambda: FUNCTIONS)))


def test_names() -> None:
    assert [SYMBOLS.name(address) for address in (0x1001, 0x1080, 0x1101)] == [NAMES[0], NAMES[0], NAMES[1]]
    # Before the first function, between two, behind the last.
    assert [SYMBOLS.name(address) for address in (0x1000, 0x1081, 0x2000)] == ["0x1000", "0x1081", "0x2000"]


def test_callers_begin_with_the_hook_that_was_called() -> None:
    assert SYMBOLS.callers((0x1010, 0x1110, 0x1210, 0x1310, 0x1410)) == NAMES[2:]
    assert SYMBOLS.callers((0x1310, 0x1210)) == ["ext4_write_end", "rio_page_settle"]
    assert SYMBOLS.callers((0x1110,)) == ["rio_set"]
    assert SYMBOLS.callers(()) == []
