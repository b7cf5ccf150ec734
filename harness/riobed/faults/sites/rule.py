# SPDX-License-Identifier: Apache-2.0
"""What a fault class that changes kernel text is made of: where its sites are, and what is put there."""

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

    `find` gives the sites of a function; also those the running kernel rewrites, which are left out and
    counted by the catalogue. Of two sites of one instruction the first counts. `changes` gives, for the bytes
    of a site, everything that may be put in their place: at least one, all of the same length, none equal to
    them. Both are pure: they see nothing but their argument.
    """

    name: str
    category: str
    summary: str
    find: Callable[[Function], Iterable[Site]]
    changes: Callable[[bytes], Sequence[bytes]]
