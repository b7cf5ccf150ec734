# SPDX-License-Identifier: Apache-2.0
"""Differences of two modes by fault class, for the pairs of modes that the claims of a protocol are about."""

from collections.abc import Iterable, Iterator

from pydantic import BaseModel

from riobed_results.rules.attempts import Attempts
from riobed_results.rules.protocol import Claim, Protocol
from riobed_results.stats.strata import Difference
from riobed_results.store import Results
from riobed_results.tables.corruption.claim_tests import FixedTest, Paired


class Compared(BaseModel):
    """Pairs of runs of two modes, in so many of which both, or only one, have a hit.

    `difference` is the first mode's share minus the other's, from -1 to 1, each end of its interval at the
    level of the claims.
    """

    pairs: int
    both: int
    only_mode: int
    only_than: int
    difference: Difference


class Contrast(BaseModel):
    """`mode` against `than` in each of the fault `classes` that have pairs, and in all of them `together`.

    `claimed` says whether a claim is about the two.
    """

    mode: str
    than: str
    endpoint: str
    claimed: bool
    classes: dict[str, Compared]
    together: Compared


class Part(BaseModel):
    """What the `classes` of an earlier claim have `added` to a difference, and that of the `others` alone.

    Both are from -1 to 1. `number` is that of the other fault classes.
    """

    classes: tuple[str, ...]
    added: float
    number: int
    others: Difference


def contrasts(
    results: Results, protocol: Protocol, classes: Iterable[str], modes: Iterable[str], attempts: Attempts
) -> list[Contrast]:
    """Compare the modes of each claim, then each of the `modes` of no claim with `than` of the first."""
    first = protocol.claims[0]
    claimed = dict.fromkeys((each.mode, each.than, each.endpoint) for each in protocol.claims)
    beside = [(mode, first.than, first.endpoint) for mode in modes if mode not in protocol.arms]
    found = []
    for mode, than, endpoint in (*claimed, *beside):
        claim = Claim(mode=mode, than=than, endpoint=endpoint)
        test = FixedTest(claim, protocol, results, classes, attempts)
        pairs = test.paired(test.lost(attempts.given_up))
        if pairs.strata.pairs:
            found.append(
                Contrast(
                    mode=mode,
                    than=than,
                    endpoint=endpoint,
                    claimed=(mode, than, endpoint) in claimed,
                    classes=dict(_by_class(pairs, protocol.level)),
                    together=_compared(pairs, protocol.level),
                )
            )
    return found


def _by_class(pairs: Paired, level: float) -> Iterator[tuple[str, Compared]]:
    for name, of_class in pairs.classes.items():
        if of_class:
            yield name, _compared(pairs.of([name]), level)


def _compared(pairs: Paired, level: float) -> Compared:
    return Compared(
        pairs=sum(pairs.strata.pairs),
        both=pairs.both,
        only_mode=sum(pairs.strata.only_first),
        only_than=sum(pairs.strata.only_other),
        difference=pairs.difference(level),
    )


def part_of(claim: Claim, pairs: Paired, earlier: Iterable[Claim], level: float) -> Part | None:
    """Return the part of an `earlier` claim about the same modes in fewer fault classes; None without one."""
    for each in earlier:
        inner = each.fault_classes or ()
        same = (each.mode, each.than, each.endpoint) == (claim.mode, claim.than, claim.endpoint)
        if not same or not set(inner) < set(pairs.classes):
            continue
        mine, others = pairs.of(inner), pairs.of(name for name in pairs.classes if name not in inner)
        strata = [len(some.strata.pairs) for some in (mine, others)]
        if all(strata):
            added = mine.difference(level).estimate * strata[0] / sum(strata)
            return Part(classes=inner, added=added, number=strata[1], others=others.difference(level))
    return None
