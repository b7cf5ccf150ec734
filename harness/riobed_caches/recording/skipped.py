# SPDX-License-Identifier: Apache-2.0
"""Recording/Skipped: counts the lines of a log that were not understood."""

KEPT = 10


class Skipped:
    """How many lines were not understood, and the numbers of the first of them."""

    def __init__(self) -> None:
        self.count = 0
        self.first: list[int] = []

    def add(self, number: int) -> None:
        """Count the line with this number."""
        self.count += 1
        if len(self.first) < KEPT:
            self.first.append(number)
