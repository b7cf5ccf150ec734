# SPDX-License-Identifier: Apache-2.0
"""Deleting an instruction: no-operations in its place, because what follows cannot move."""

from __future__ import annotations

# The recommended no-operations of 1 to 9 bytes: Intel SDM volume 2, NOP, table 4-12.
NOPS = tuple(
    bytes.fromhex(code)
    for code in (
        "90",
        "6690",
        "0f1f00",
        "0f1f4000",
        "0f1f440000",
        "660f1f440000",
        "0f1f8000000000",
        "0f1f840000000000",
        "660f1f840000000000",
    )
)


def deleted(code: bytes) -> list[bytes]:
    """Return the bytes that delete an instruction: one no-operation of its length, or two above 9 bytes."""
    whole, rest = divmod(len(code), len(NOPS))
    return [NOPS[-1] * whole + (NOPS[rest - 1] if rest else b"")]
