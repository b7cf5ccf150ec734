# SPDX-License-Identifier: Apache-2.0
"""Attempts at runs: which gave no result, for reasons of the harness."""

from collections import Counter
from dataclasses import dataclass, field

# What is drawn for a run, and so a position in the plan: its mode, fault class and seed.
Run = tuple[str, str, str]
# Attempts at a run that fails for reasons of the harness; after the last, a campaign goes on without it.
ATTEMPTS = 4
# A share of infra errors is taken of at least so many first attempts of an arm.
FEW = 500


@dataclass
class Attempts:
    """Attempts in the order in which they were stored.

    `first` counts the first ones by mode. `failed_first` has the runs whose first attempt was an infra error,
    `failures` the number of infra errors of those that have no result.
    """

    first: Counter[str] = field(default_factory=Counter)
    failed_first: set[Run] = field(default_factory=set)
    failures: Counter[Run] = field(default_factory=Counter)

    def add(self, run: Run, failed: bool) -> None:
        """Count an attempt. A run whose first attempt gave a result has no other."""
        if run not in self.failed_first:
            self.first[run[0]] += 1
        if failed:
            self.failed_first.add(run)
            self.failures[run] += 1
        else:
            self.failures.pop(run, None)

    @property
    def given_up(self) -> set[Run]:
        """The runs without a result that have no attempt left."""
        return {run for run, failures in self.failures.items() if failures >= ATTEMPTS}

    def failed(self, mode: str) -> int:
        """Return how many of a mode's first attempts were infra errors."""
        return sum(run[0] == mode for run in self.failed_first)

    def too_many(self, mode: str, most: float | None) -> str:
        """Say that more of a mode's first attempts failed than a share `most`; empty if that is not so."""
        failed, first = self.failed(mode), self.first[mode]
        if most is None or failed <= most * max(first, FEW):
            return ""
        return (
            f"{failed} of {first} first attempts in mode {mode} are infra errors, and the protocol allows "
            f"{most:.1%}"
        )
