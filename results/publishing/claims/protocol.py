# SPDX-License-Identifier: Apache-2.0
"""Claims of a campaign with a protocol: when it was fixed, what it counted, and what became of its claims."""

import subprocess
from collections import Counter
from collections.abc import Iterator
from datetime import datetime
from itertools import product
from pathlib import Path

from riobed_results.errors import StoreError
from riobed_results.rules.endpoints import result
from riobed_results.rules.protocol import Protocol, seed_of, stored_protocol
from riobed_results.store import CONTROLS, Results, in_order, judged
from riobed_results.tables.controls.processors import one_kernel_a_mode
from riobed_results.tables.corruption.protocol import Ended, protocol_table
from riobed_results.tables.crashes.activated import activated_table

from publishing.claims.claim import Claim, count, number, of, part, probability
from publishing.claims.controls import alarms_upper

# The checkout, whose history has the commits of protocols.
CHECKOUT = Path(__file__).parents[3]
# The baseline on the file system of Rio, and the arms without protection: a trap ends a run, so with
# protection fewer faults may take effect.
MATCHED = "write-through-same-fs"
UNPROTECTED = ("write-through", "rio-full")
# Of its faults only those are watched that debug registers have room for: 4 of 67.
NOT_WATCHED = "kernel_heap"


def protocol(results: Results) -> Iterator[Claim]:
    """Return the claims of a campaign with a protocol, none of another."""
    found = stored_protocol(results.campaign)
    if found is None:
        return
    yield from _fixed(results, found)
    yield from _counted(results, found)
    yield from _ratio(results, found)
    yield from _decided(results)


def false_positives(results: Results, *controls: Results) -> Iterator[Claim]:
    """Return how often a control of an arm may be a false alarm at most; `controls` are campaigns beside it.

    Resets and panics without a fault of one arm are pooled. The largest upper end of the exact 95 %
    intervals of all arms counts. StoreError if an arm ran on different kernels.
    """
    if stored_protocol(results.campaign) is None:
        return
    one_kernel_a_mode([results, *controls])
    modes = {row.mode for row in results.trials}
    if (upper := alarms_upper(modes, results, *controls)) is not None:
        yield number("control_false_positives_upper_max", upper, f"{100 * upper:.2f} %")


def _fixed(results: Results, found: Protocol) -> Iterator[Claim]:
    """Return whether the commit came before the first trial, by git, and whether the seed follows from it."""
    if found.commit is None:
        return
    begun, _ = results.span()
    before = _committed(found.commit) < datetime.fromisoformat(begun)
    text = f"the commit of the protocol is from {'before' if before else 'after'} the first trial"
    yield Claim(key="protocol_commit_before_first_trial", value=int(before), text=text)
    follows = results.campaign.seed == str(seed_of(found.commit))
    text = f"the seed {'follows' if follows else 'does not follow'} from the commit"
    yield Claim(key="seed_matches_commit", value=int(follows), text=text)


def _committed(commit: str) -> datetime:
    """Return when a commit was made; StoreError if the checkout does not have it."""
    command = ["git", "-C", str(CHECKOUT), "show", "-s", "--format=%cI", f"{commit}^{{commit}}"]
    try:
        said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        return datetime.fromisoformat(said.strip())
    except (OSError, subprocess.CalledProcessError, ValueError):
        raise StoreError(
            f"commit {commit[:12]} of a protocol: git does not find it in {CHECKOUT.name}; fetch the tags"
        ) from None


def _counted(results: Results, found: Protocol) -> Iterator[Claim]:
    """Return the fewest judged runs of a cell of the claims, and those of the arm on Rio's file system."""
    cells: Counter[tuple[str, str]] = Counter()
    for row in results.trials:
        cells[row.mode, row.fault_class] += row.weight * (judged(row) and result(row))
    if found.claims:
        least = min(cells[cell] for cell in product(found.arms, _classes(results, found)))
        yield count(
            "judged_per_cell", least, "judged run in each cell of the claims",
            "judged runs in each cell of the claims",
        )  # fmt: skip
    begun = {seed for row, _, seed in results.each("position") if _is_matched(row.mode, row.fault_class)}
    if begun:
        runs = sum(runs for cell, runs in cells.items() if _is_matched(*cell))
        yield part("matched_judged", runs, len(begun))


def _is_matched(mode: str, fault_class: str) -> bool:
    return mode.startswith(MATCHED) and fault_class not in CONTROLS


def _classes(results: Results, found: Protocol) -> list[str]:
    """Return the fault classes that claims are about."""
    every = in_order(results.campaign, "fault_classes", (row.fault_class for row in results.trials))
    faulty = [name for name in every if name not in CONTROLS]
    return [name for name in faulty if any(name in (claim.fault_classes or faulty) for claim in found.claims)]


def _ratio(results: Results, found: Protocol) -> Iterator[Claim]:
    """Return the smallest ratio of mean activated faults between the two arms without protection.

    Of each class of the claims it is the smaller mean over the larger one, 1 if both are 0.
    """
    arms = [arm for name in UNPROTECTED for arm in sorted(found.arms) if arm.startswith(name)]
    if len(arms) != len(UNPROTECTED):
        return
    means = {(line.mode, line.fault_class): line.mean for line in activated_table(results).lines}
    ratios = {}
    for name in _classes(results, found):
        both = [means.get((arm, name), 0.0) for arm in arms]
        if name != NOT_WATCHED:
            ratios[name] = min(both) / max(both) if max(both) else 1.0
    if ratios:
        worst = min(ratios, key=lambda name: ratios[name])
        yield number(
            "activated_ratio_min", ratios[worst], f"{ratios[worst]:.2f} times as many activated faults"
        )
        yield Claim(key="activated_ratio_min_class", value=worst, text=f"in {worst}")


def _decided(results: Results) -> Iterator[Claim]:
    """Return how many claims are decided, and of each its state, estimate, interval and p-value."""
    claims = protocol_table(results).claims
    if claims:
        decided = sum(each.state in ("shown", "refuted") for each in claims)
        yield of("claims_decided", decided, len(claims))
    for order, each in enumerate(claims, 1):
        key = f"claim_{order}"
        yield Claim(key=f"{key}_state", value=each.state, text=f"claim {order} is {each.state}")
        if isinstance(each, Ended) and each.tested:
            low, found, high = (
                100 * getattr(each.tested.difference, end) for end in ("low", "estimate", "high")
            )
            yield number(f"{key}_difference", found, f"{found:+.2f} points")
            yield Claim(key=f"{key}_interval", value=(text := f"{low:+.2f} to {high:+.2f}"), text=text)
            yield probability(f"{key}_p", each.tested.p)
            yield count(
                f"{key}_no_result", each.tested.no_result, "pair without a result", "pairs without a result"
            )
            yield Claim(
                key=f"{key}_variance", value=each.tested.variance, text=f"variance of {each.tested.variance}"
            )
