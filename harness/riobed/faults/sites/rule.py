# SPDX-License-Identifier: Apache-2.0
"""The rule of a fault class that changes kernel text: where its sites are, and what replaces them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from riobed.faults.sites.disassembly import Instruction
from riobed.faults.sites.flow import Function


class Site(NamedTuple):
    """An instruction that a class may change, and why it qualifies, in a few words."""

    instruction: Instruction
    why: str


@dataclass(frozen=True, slots=True)
class TextRule:
    """A class that replaces one whole instruction.

    `find` yields the sites of a function, including those that the running kernel rewrites; the catalogue
    excludes and counts these. If an instruction has two sites, the first counts. `changes` returns every
    replacement for the bytes of a site: at least one, all of the same length, none equal to them. Both are
    pure functions.
    """

    name: str
    category: str
    summary: str
    find: Callable[[Function], Iterable[Site]]
    changes: Callable[[bytes], Sequence[bytes]]
