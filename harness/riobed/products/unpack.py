# SPDX-License-Identifier: Apache-2.0
"""Debian 13's packages, unpacked in the toolchain root, for a program that has all it needs with it."""

from collections.abc import Sequence
from pathlib import Path

_SCRIPT = Path(__file__).with_name("unpack.sh")


def unpacking(packages: Sequence[str]) -> str:
    """Return a text for sh that unpacks packages to ./unpacked; they are the text's arguments afterwards."""
    return f"set -- {' '.join(packages)}\n{_SCRIPT.read_text(encoding='utf-8')}"
