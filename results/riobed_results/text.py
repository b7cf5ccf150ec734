# SPDX-License-Identifier: Apache-2.0
"""Text that may have come from a crashed guest."""


def printable(text: str) -> str:
    """Escape control characters in `text`: names and titles may come from a crashed guest."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
