# SPDX-License-Identifier: Apache-2.0
"""Claims of studies of traces, and of what recording and running a trace costs."""

from pathlib import Path
from statistics import median

from pydantic import BaseModel, TypeAdapter
from riobed_caches.rows import CacheRow
from riobed_results.tables.caches.claims import HOLDS, INPUT, REFUTED, verdicts
from riobed_results.tables.caches.grids import read_study, size_text
from riobed_results.tables.caches.papers import GROUPS, grouped, points
from riobed_results.tables.caches.risk import chosen, risk_rows

from publishing.claims.claim import Claim, count, number, slug

# What harness/tests/tools/trace_costs.py and trace_bounds.py wrote.
COSTS_FILE = "costs.json"
BOUNDS_FILE = "bounds.json"


class Cost(BaseModel, extra="forbid"):
    """Seconds of the same work done in two ways, in interleaved rounds; `over` are those of the second."""

    what: str
    trace: str
    seconds: list[float]
    over: list[float]

    @property
    def ratio(self) -> float:
        """Return the median of the rounds' ratios."""
        return median(second / first for first, second in zip(self.seconds, self.over, strict=True))


class Bound(BaseModel, extra="forbid"):
    """Bytes of which at least so many leave NVRAM of `safe` bytes a client, whatever it gives up."""

    trace: str
    safe: int
    sent: int


def caches_claims(folder: Path) -> list[Claim]:
    """Return the claims of the study in a folder."""
    study = read_study(folder)
    found = [
        count("traces", len(study.traces), "trace"),
        count("events", sum(trace.events for trace in study.traces), "event"),
        count("events_lost", sum(trace.lost for trace in study.traces), "event lost", "events lost"),
        number("seconds_min", seconds := min(trace.seconds for trace in study.traces), f"{seconds:.0f} s"),
    ]
    for trace in study.traces:
        pair = chosen([row for row in risk_rows(study) if row.trace == trace.trace])
        if pair:
            safe, unsafe = pair
            name = trace.trace
            found += [
                number(slug(name, "safe"), safe.safe, size_text(safe.safe)),
                number(slug(name, "avoided"), safe.avoided, f"{100 * safe.avoided:.1f} % of the writes"),
                number(slug(name, "cost"), unsafe.at_risk, size_text(unsafe.at_risk)),
                number(slug(name, "cost_95"), unsafe.at_risk_95, size_text(unsafe.at_risk_95)),
            ]
    told = [verdict for *_, verdict in verdicts(study) if verdict != INPUT]
    found += [
        count("rules", len(told), "rule tried", "rules tried"),
        count("rules_held", told.count(HOLDS), "rule held", "rules held"),
        count("rules_refuted", told.count(REFUTED), "rule did not hold", "rules did not hold"),
    ]
    printed = points(study)
    for _, fitted, unit in GROUPS:
        if mine := grouped(printed, fitted, unit):
            name = ("fitted" if fitted else "heldout") + ("" if unit == "%" else f"_{unit.lower()}")
            said = "points" if unit == "%" else unit
            most, middle = (of(abs(point.difference) for point in mine) for of in (max, median))
            found.append(count(f"{name}_points", len(mine), "point"))
            found.append(number(f"{name}_difference_max", most, f"{most:.1f} {said}"))
            found.append(number(f"{name}_difference_median", middle, f"{middle:.1f} {said}"))
    return [*found, *_gaps(folder / BOUNDS_FILE, study.rows(CacheRow)), *_costs(folder / COSTS_FILE)]


def _gaps(path: Path, rows: list[CacheRow]) -> list[Claim]:
    """Return the claims of how far omniscient NVRAM is from the bound, in points of the bytes written."""
    if not path.exists():
        return []
    bounds = TypeAdapter(list[Bound]).validate_json(path.read_bytes())
    of = {(row.trace, row.safe): row for row in rows if row.model == "omniscient"}
    met = [(of[bound.trace, bound.safe], bound.sent) for bound in bounds]
    gaps = [100 * (row.sent - least) / row.written for row, least in met]
    middle, most = median(gaps), max(gaps)
    return [
        count("omniscient_bounds", len(gaps), "bound"),
        number("omniscient_gap_min", min(gaps), f"{min(gaps):.2f} points"),
        number("omniscient_gap_median", middle, f"{middle:.2f} points"),
        number("omniscient_gap_max", most, f"{most:.2f} points"),
    ]


def _costs(path: Path) -> list[Claim]:
    """Return the claims of costs: of each kind the worst trace."""
    if not path.exists():
        return []
    costs = TypeAdapter(list[Cost]).validate_json(path.read_bytes())
    out = []
    for what in dict.fromkeys(cost.what for cost in costs):
        ratios = [cost.ratio for cost in costs if cost.what == what]
        worst = max(ratios) if what.endswith("_max") else min(ratios)
        out.append(number(what, worst, f"{worst:.2f} times"))
    return out
