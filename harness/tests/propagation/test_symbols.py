# SPDX-License-Identifier: Apache-2.0
"""Return addresses get the name of the function that called, also where the call was its last instruction."""

from dataclasses import replace
from types import SimpleNamespace
from typing import cast

from harness_builders import spec, text_fault
from riobed.faults.sites.vmlinux import Symbol, Vmlinux
from riobed.guest.guest import Guest
from riobed.plan import plan
from riobed.propagation import EventLog, Symbols, propagation_report, propagation_text
from riobed.trial import Evidence, TrialRecord

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


def test_who_called_a_function_that_a_fault_changed_at_run_time() -> None:
    fault = replace(text_fault(0), address=None, function="", old=b"", new=b"")
    hits: dict[int, dict[str, int | str]] = {0: {"routine": "memcpy", "caller": "1310"}}
    record = TrialRecord(next(plan(spec())), [fault], evidence=Evidence({0: 5}, {0: 5}, {}, hits))
    answer = propagation_report(cast(Guest, SimpleNamespace()), record, EventLog([]), SYMBOLS)
    assert "  +0.000000 s  fault 0: routine memcpy, caller ext4_write_end" in propagation_text(answer)
    (activated,) = answer["activated"]
    assert activated["params"]["caller"] == "1310"
