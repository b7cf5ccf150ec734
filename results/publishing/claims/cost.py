# SPDX-License-Identifier: Apache-2.0
"""Claims of a bench whose modes differ in one thing each."""

from collections.abc import Iterator

from riobed_results.stats.ratios import Ratio
from riobed_results.tables.cost.cost import COSTLY, CostRow, CostTable

from publishing.claims.claim import Claim, count, number, slug

# Digits after the point: times scatter by more than their second digit.
_DIGITS = {"instructions": 3, "time": 2}
_PER_UNIT = 1e6
# Over the first mode, this one differs in all parts that Rio needs.
_ALL = {"pte": "all"}
# What mode `rio` is as it is shipped, and as a bench measures it.
_RIO = {"checksums": "rio", "atomic-metadata": "rio without checksums"}


def cost_claims(table: CostTable) -> list[Claim]:
    """Return medians and ratios: `cp_rm_all_over_off` is one of instructions, with `_time` one of times."""
    first = {row.workload: row.mode for row in reversed(table.rows)}
    rows = {(row.workload, row.mode): row for row in table.rows}
    claims = [
        claim
        for row in table.rows
        for claim in (
            *_ratios(row, first[row.workload]),
            *_medians(row),
            *_added(row, rows.get((row.workload, row.over or ""))),
        )
    ]
    return [*claims, *_rio_over_off(table), *_registry(table)]


def _registry(table: CostTable) -> Iterator[Claim]:
    if size := table.registry_bytes_per_page:
        yield count(
            "registry_bytes_per_page", size, "byte for each page of RAM", "bytes for each page of RAM"
        )


def _ratios(row: CostRow, first: str) -> Iterator[Claim]:
    sides = {row.over: row.to_over, first: row.to_first}
    for over, ratios in sides.items():
        for kind, ratio in ratios.items() if over else ():
            if over != row.mode:
                end = "" if kind == "instructions" else f"_{kind}"
                mode = _ALL.get(row.mode, row.mode) if over == first else row.mode
                key = slug(row.workload, mode, "over", over or "") + end
                yield number(key, ratio.median, _text(ratio, _DIGITS[kind]))
                yield count(f"{key}_rounds", ratio.n, f"round of {kind}", f"rounds of {kind}")
                if kind == "instructions":
                    more = (ratio.median - 1) * 100
                    yield number(f"{key}_percent", more, f"{more:.1f} % more instructions")


def _rio_over_off(table: CostTable) -> Iterator[Claim]:
    """Return Rio without protection over the same file system without it, and the most of all workloads."""
    for mode, what in _RIO.items():
        found = [
            (row.workload, kind, row.to_off[kind])
            for row in table.rows
            if row.mode == mode
            for kind in row.to_off
        ]
        for workload, kind, ratio in found:
            end = [] if kind == "instructions" else [kind]
            yield number(slug(workload, what, "over off", *end), ratio.median, _text(ratio, _DIGITS[kind]))
        for kind in _DIGITS:
            if ratios := [ratio for _, each, ratio in found if each == kind]:
                most = max(ratios, key=lambda ratio: ratio.median)
                yield number(slug(what, "over off", kind, "max"), most.median, _text(most, _DIGITS[kind]))


def _added(row: CostRow, base: CostRow | None) -> Iterator[Claim]:
    """Return the instructions that a part adds, in total and for each operation that only it does."""
    if not base or "instructions" not in row.cost or "instructions" not in base.cost:
        return
    added = row.cost["instructions"] - base.cost["instructions"]
    key = slug(row.workload, row.mode)
    yield number(f"{key}_added", added, f"{added / _PER_UNIT:.1f} million instructions")
    for name in row.counters:
        # What the whole machine does is not counted for a part.
        if name not in COSTLY and added > 0 and row.counters[name] and not base.counters[name]:
            one = name.removesuffix("es") if name.endswith("shes") else name.removesuffix("s")
            each, what = added / row.counters[name], one.replace("_", " ")
            yield number(f"{key}_per_{slug(what)}", each, f"{each:.0f} instructions for each {what}")


def _text(ratio: Ratio, digits: int) -> str:
    return f"{ratio.median:.{digits}f} ({ratio.low:.{digits}f} to {ratio.high:.{digits}f})"


def _medians(row: CostRow) -> Iterator[Claim]:
    for name in COSTLY:
        if (rate := row.per_thousand(name)) is not None:
            key = slug(row.workload, row.mode, name, "per_thousand")
            yield number(key, rate, f"{rate:.1f} {name} per thousand operations")
    for name, value in row.counters.items():
        if value:
            words = name.removeprefix("nr_").replace("_", " ")
            yield count(slug(row.workload, row.mode, name), round(value), words, words)
