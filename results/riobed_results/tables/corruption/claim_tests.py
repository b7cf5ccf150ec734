# SPDX-License-Identifier: Apache-2.0
"""The two tests of a claim: one that may be looked at after every run, and one for the end of a campaign."""

import math
from collections import deque
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from riobed_results.rules.attempts import Attempts, Run
from riobed_results.rules.endpoints import ENDPOINTS, result, results_of
from riobed_results.rules.protocol import Claim, Protocol
from riobed_results.stats.pairs import PairedStrata, RoundMeans, paired_difference, paired_score, round_means
from riobed_results.stats.sequential import dispersion, e_values
from riobed_results.stats.strata import Difference
from riobed_results.store import CONTROLS, Results, Row


def _classes_of(claim: Claim, classes: Iterable[str]) -> list[str]:
    return list(claim.fault_classes or [name for name in classes if name not in CONTROLS])


class SequentialTest:
    """The test of one claim: it is given runs in the order in which they were stored.

    The nth run of a mode in a fault class that counts makes a pair with the nth of the other mode. A block is
    complete once it has a pair of each fault class.
    """

    def __init__(self, claim: Claim, alpha: float, classes: Iterable[str]) -> None:
        self.claim = claim
        self.blocks = self.both = self.only_mode = self.only_than = 0
        self.evidence = self.against = 1.0
        self.shown_at: int | None = None
        self.refuted_at: int | None = None
        self._needed = 1 / alpha
        self._endpoint = ENDPOINTS[claim.endpoint]
        self._hits: dict[tuple[str, str], deque[bool]] = {
            (mode, name): deque() for name in _classes_of(claim, classes) for mode in (claim.mode, claim.than)
        }
        # Of each block, the first's hit minus the other's by class.
        self._differences: list[list[int]] = []

    @property
    def pairs(self) -> int:
        """The number of pairs in complete blocks."""
        return self.blocks * len(self._hits) // 2

    @property
    def dispersion(self) -> float | None:
        """The dispersion of complete blocks; None if no class has runs that differ."""
        return dispersion(self._differences)

    def add(self, row: Row) -> None:
        """Count a run, if it is one that the claim is about."""
        hits = self._hits.get((row.mode, row.fault_class))
        if hits is None or not result(row) or not self._endpoint.runs(row):
            return
        hits.append(self._endpoint.hit(row))
        if all(self._hits.values()):
            self._close_block()

    def _close_block(self) -> None:
        pairs = [
            (hits.popleft(), self._hits[self.claim.than, name].popleft())
            for (mode, name), hits in self._hits.items()
            if mode == self.claim.mode
        ]
        differences = [first - other for first, other in pairs]
        self.both += pairs.count((True, True))
        self.only_mode += differences.count(1)
        self.only_than += differences.count(-1)
        self._differences.append(differences)
        self.blocks += 1
        margin, equal = self.claim.margin / 100, self.pairs - self.only_mode - self.only_than
        self.evidence = max(self.evidence, e_values(self.only_mode, self.only_than, equal, margin))
        self.against = max(self.against, e_values(self.only_than, self.only_mode, equal, -margin))
        if self.shown_at is None and self.evidence >= self._needed:
            self.shown_at = self.blocks
        if self.refuted_at is None and self.against >= self._needed:
            self.refuted_at = self.blocks


@dataclass(frozen=True)
class Paired:
    """Pairs of runs, for each fault class by seed: whether the first has a hit, and the other.

    They are tested as independent of each other, or by rounds if the dispersion is larger than `bound`. A
    round has the runs whose seeds end with one number.
    """

    classes: Mapping[str, Mapping[str, tuple[bool, bool]]]
    bound: float | None = None

    def of(self, classes: Iterable[str]) -> "Paired":
        """Return the pairs of some of the fault classes."""
        return Paired({name: self.classes[name] for name in classes}, self.bound)

    @property
    def both(self) -> int:
        """The number of pairs in which both have a hit."""
        return sum(list(pairs.values()).count((True, True)) for pairs in self.classes.values())

    @cached_property
    def strata(self) -> PairedStrata:
        """The pairs of each fault class that has any."""
        found = []
        for pairs in filter(None, self.classes.values()):
            both = list(pairs.values())
            found.append((both.count((True, False)), both.count((False, True)), len(both)))
        return PairedStrata(*zip(*found, strict=True)) if found else PairedStrata((), (), ())

    @cached_property
    def _by_round(self) -> list[dict[str, int]]:
        """Of each class that has pairs, the first's hit minus the other's by round."""
        return [
            {seed.rpartition("/")[2]: first - other for seed, (first, other) in pairs.items()}
            for pairs in filter(None, self.classes.values())
        ]

    @cached_property
    def dispersion(self) -> float | None:
        """The dispersion of rounds with each class; None if no class has runs that differ."""
        rounds = set.intersection(*map(set, self._by_round)) if self._by_round else set()
        return dispersion([[each[number] for each in self._by_round] for number in sorted(rounds)])

    @cached_property
    def _rounds(self) -> RoundMeans | None:
        """The rounds, if the test goes by them."""
        if self.bound is None or self.dispersion is None or self.dispersion <= self.bound:
            return None
        numbers = sorted(set().union(*self._by_round))
        return round_means([[each.get(number, math.nan) for each in self._by_round] for number in numbers])

    @property
    def variance(self) -> Literal["pairs", "rounds"]:
        """What the variance of the test is that of."""
        return "rounds" if self._rounds else "pairs"

    def difference(self, level: float) -> Difference:
        """Return the mean difference of the shares with its interval at the one-sided `level`."""
        confidence = 1 - 2 * level
        return (
            self._rounds.difference(confidence)
            if self._rounds
            else paired_difference(self.strata, confidence)
        )

    def p(self, margin: float) -> float:
        """Return the one-sided p-value of a smaller share, or of one larger by less than `margin`.

        1 minus it is that of the contrary.
        """
        if self._rounds:
            return self._rounds.p(margin)
        from scipy.stats import norm

        return float(norm.cdf(paired_score(self.strata, margin)))


class FixedTest:
    """The test of one claim on all runs of a campaign, those of one seed paired.

    It says nothing before `fewest` is the protocol's `runs`. An earlier look could choose the end.
    """

    def __init__(
        self, claim: Claim, protocol: Protocol, results: Results, classes: Iterable[str], attempts: Attempts
    ) -> None:
        self.claim = claim
        self._bound = protocol.dispersion
        self.attempts = attempts
        self._endpoint = ENDPOINTS[claim.endpoint]
        self.classes = _classes_of(claim, classes)
        self._hits: dict[tuple[str, str], dict[str, bool]] = {
            (mode, name): {} for name in self.classes for mode in (claim.mode, claim.than)
        }
        # The runs with a result, or without an attempt left, of the cell that has the fewest.
        self.fewest = min(self._ended(results).values(), default=0)
        for row, _, seed in results.each("seed", self._counts):
            self._hits[row.mode, row.fault_class][seed] = self._endpoint.hit(row)

    def _ended(self, results: Results) -> dict[tuple[str, str], int]:
        """Return by cell how many runs have a result, or no attempt left."""
        counts = dict.fromkeys(self._hits, 0)
        for mode, name, weight in (
            *((row.mode, row.fault_class, row.weight) for row in results_of(results.trials)),
            *((mode, name, 1) for mode, name, _ in self.attempts.given_up),
        ):
            if (mode, name) in counts:
                counts[mode, name] += weight
        return counts

    def _counts(self, row: Row) -> bool:
        return (row.mode, row.fault_class) in self._hits and result(row) and self._endpoint.runs(row)

    def lost(self, runs: Iterable[Run]) -> set[tuple[str, str]]:
        """Return fault class and seed of the claim's pairs with one of these runs."""
        return {(name, seed) for mode, name, seed in runs if (mode, name) in self._hits}

    def paired(self, lost: Collection[tuple[str, str]], against: bool = True) -> Paired:
        """Return the pairs; those `lost` have a hit in the first alone, or without `against` in the other."""
        classes = {}
        for name in self.classes:
            mine, theirs = self._hits[self.claim.mode, name], self._hits[self.claim.than, name]
            pairs = {seed: (mine[seed], theirs[seed]) for seed in mine.keys() & theirs.keys()}
            classes[name] = pairs | {seed: (against, not against) for of, seed in lost if of == name}
        return Paired(classes, self._bound)
