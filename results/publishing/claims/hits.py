# SPDX-License-Identifier: Apache-2.0
"""Claims about judged runs: corruptions and activated faults by mode, overruns, effects of a share of RAM."""

from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import Any

import numpy as np
from riobed_results.stats.strata import Stratum
from riobed_results.stats.two_shares import fisher_p
from riobed_results.store import CONTROLS, Results, TrialRow, crashed, judged
from riobed_results.tables.corruption.exposure import ALL, exposure_table
from riobed_results.tables.corruption.rates import sensitivity

from publishing.claims.claim import Claim, count, interval, number, of, part, probability, slug

# How often these faults happen depends on how many steps a run makes.
WITH_THE_LOAD = ("allocation", "copy_overrun")
# Addresses of a program's stack begin here.
STACK = 0x7F00_0000_0000


def _runs(results: Results) -> list[TrialRow]:
    return [row for row in results.rows if row.fault_class not in CONTROLS and judged(row) and not row.late]


def _bad(rows: Sequence[TrialRow]) -> int:
    return sum(row.corruption != "none" for row in rows)


def _fisher_p(first: Sequence[TrialRow], other: Sequence[TrialRow]) -> float | None:
    return fisher_p(Stratum(_bad(first), len(first), _bad(other), len(other)))


def judged_by_mode(results: Results) -> Iterator[Claim]:
    """Return the corruptions of all judged runs, and the faults that took effect, by mode and class."""
    rows = _runs(results)
    modes = dict.fromkeys(row.mode for row in rows)
    of_mode = {mode: [row for row in rows if row.mode == mode] for mode in modes}
    for mode, mine in of_mode.items():
        yield part(slug("judged corrupted", mode), _bad(mine), len(mine))
        yield interval(slug("judged corrupted", mode, "interval"), _bad(mine), len(mine))
        for name in WITH_THE_LOAD:
            of_class = [row for row in mine if row.fault_class == name]
            yield of(slug("judged corrupted", name, mode), _bad(of_class), len(of_class))
            mean = sum(bool(fault.activated) for row in of_class for fault in row.faults) / len(of_class)
            yield number(slug("activated mean", name, mode), mean, f"{mean:.1f} a run")
        others = [row for row in mine if row.fault_class not in WITH_THE_LOAD]
        yield of(slug("judged corrupted others", mode), _bad(others), len(others))
    for first, second in combinations(of_mode, 2):
        if (p := _fisher_p(of_mode[first], of_mode[second])) is not None:
            yield probability(slug("judged fisher p", first, second), p)
    for rate in sensitivity(results).rates:
        for pair in rate.pairs if rate.name == "judged" else ():
            if pair.within is not None:
                yield probability(slug("judged within p", pair.first, pair.second), pair.within)


def ends(results: Results) -> Iterator[Claim]:
    """Return whether crashed runs are corrupted more often than others, and how many faults corrupted."""
    down, up = ([row for row in _runs(results) if crashed(row) == wanted] for wanted in (True, False))
    yield part("corrupted_without_crash", _bad(up), len(up))
    if (p := _fisher_p(down, up)) is not None:
        yield probability("fisher_p_crashed", p)
    bad = {(row.fault_class, row.seed) for row in _runs(results) if row.corruption != "none"}
    yield count("corrupting_draws", len(bad), "draw of faults", "draws of faults")
    for name in ("kernel_heap", "kernel_stack"):
        mine = [row for row in down if row.fault_class == name]
        known = sum(row.latency_s is not None for row in mine)
        yield of(slug("latency known", name), known, len(mine))


def overruns(results: Results) -> Iterator[Claim]:
    """Return how many overruns went to a program's memory, and in how many runs one hit a program's stack."""
    rows = [row for row in _runs(results) if row.fault_class == "copy_overrun"]
    copies = [fault.params for row in rows for fault in row.faults if fault.activated]
    yield part("overruns_to_user", sum(map(_to_user, copies)), len(copies))
    bad = [row for row in rows if row.corruption != "none"]
    kernel = sum(any(f.activated and not _to_user(f.params) for f in row.faults) for row in bad)
    yield part("corrupted_overrun_to_kernel", kernel, len(bad))
    hit = sum(any(f.activated and _on_stack(f.params) for f in row.faults) for row in rows)
    yield part("runs_stack_overrun", hit, len(rows))


def _to_user(params: dict[str, Any]) -> bool:
    return bool(params["direction"] == "to_user")


def _on_stack(params: dict[str, Any]) -> bool:
    return _to_user(params) and params["extra"] > 1 and int(params["to"], 16) >= STACK


def slopes(results: Results) -> Iterator[Claim]:
    """Return how the hazard of an end grows with the cache's share of RAM, on logarithmic scales.

    1 is proportional, 0 is no effect: a binomial model with complementary log-log link over the arms.
    """
    import statsmodels.api as sm  # the import takes seconds

    lines = [line for line in exposure_table(results).lines if line.fault_class != ALL]
    for name in dict.fromkeys(line.fault_class for line in lines):
        arms = [line for line in lines if line.fault_class == name]
        for end, hits in (
            ("checksum", [line.wrong_checksum.count for line in arms]),
            ("corrupted", [line.corrupted.count for line in arms]),
            ("crashed", [line.crashes for line in arms]),
        ):
            if min(hits):
                runs = np.array([line.runs for line in arms])
                shares = np.log([line.cache[1] for line in arms])
                model = sm.GLM(
                    np.column_stack([hits, runs - hits]),
                    sm.add_constant(shares),
                    family=sm.families.Binomial(sm.families.links.CLogLog()),
                ).fit()
                slope, (low, high) = model.params[1], model.conf_int()[1]
                # Fitted by steps, so rounded more than a count's quotient.
                text = f"{slope:.2f} ({low:.2f} to {high:.2f})"
                yield number(slug("slope", name, end), round(slope, 3), text)
        for line in arms:
            yield part(slug("exposure", name, line.mode, "crashed"), line.crashes, line.runs)
