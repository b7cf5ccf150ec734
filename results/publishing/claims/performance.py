# SPDX-License-Identifier: Apache-2.0
"""Claims of a bench's measured runs."""

from collections import Counter
from collections.abc import Iterator
from itertools import product
from statistics import median

from riobed_results.stats.ratios import Ratio
from riobed_results.store import Results, stored_spec
from riobed_results.tables.cost.performance import (
    PerformanceRow,
    PerformanceTable,
    Said,
    performance_table,
    runs_of,
)
from riobed_results.tables.nvdimm.nvram import has_nvdimm
from riobed_results.tables.nvdimm.nvram_speed import speed_table

from publishing.claims.claim import Claim, count, number, slug

# Digits after the point: times scatter by more than their second digit.
_DIGITS = {"instructions": 3, "time": 2}
_PROTECTED = ("rio-protected", "rio-protected-pks", "rio-protected-code")
_WORDS = {True: "holds", False: "does not hold", None: "cannot be told"}


def performance_claims(results: Results) -> list[Claim]:
    """Return what was measured, medians, ratios and whether the paper's hold; StoreError without runs."""
    table = performance_table(results)
    return [
        *_sizes(table),
        *_fewest(results),
        *_highest(results),
        *_waited(table),
        *_paces(table),
        *(claim for row in table.rows for claim in _row(row)),
        *_said("paper", table.said),
        *_over_memory(results),
        *_nvdimm(results),
    ]


def _sizes(table: PerformanceTable) -> Iterator[Claim]:
    yield count("systems", len({row.mode for row in table.rows}), "system")
    yield count("workloads", len({row.workload for row in table.rows}), "workload")
    timed = [row for row in table.rows if row.kind == "time"]
    yield count("profiles", len({row.disk for row in timed}), "disk model")
    yield count("infra_errors", table.infra_errors, "infra error")
    yield count("wrong_outputs", table.wrong, "run with wrong output", "runs with wrong output")


def _fewest(results: Results) -> Iterator[Claim]:
    """Return the fewest runs of what the spec wants to be measured; 0 if something was not."""
    spec = stored_spec(results.campaign)
    # Instructions are counted without a disk model.
    for kind, disks, name in (
        ("time", spec.get("disks") or (), "runs_per_cell_min"),
        ("instructions", (), "counted_runs_per_cell_min"),
    ):
        runs = [run for run in results.runs if (run.outcome, run.kind) == ("measured", kind)]
        made = Counter((run.mode, run.workload, run.disk, run.vcpus) for run in runs)
        listed = (spec.get("modes") or (), spec.get("workloads") or (), disks, spec.get("vcpus") or ())
        if made or kind == "time" or spec.get("counted_rounds"):
            seen = zip(*made, strict=True) if made else ((), (), (), ())
            wanted = product(*({*each, *found} for each, found in zip(listed, seen, strict=True)))
            yield count(name, min((made[cell] for cell in wanted), default=0), "run")


def _highest(results: Results) -> Iterator[Claim]:
    """Return of the ratios of protection the highest median, and the highest end of an interval.

    Over all workloads, disks and processors. A bound is kept only if the interval's upper end keeps it.
    """
    over = performance_table(results, "rio") if "rio" in runs_of(results) else None
    for mode, kind in product(_PROTECTED, _DIGITS):
        rows = over.rows if over else ()
        found = [row.over for row in rows if (row.mode, row.kind) == (mode, kind) and row.over]
        if found:
            highest = max(found, key=lambda ratio: ratio.median)
            key = slug(mode, "over rio", kind)
            yield number(f"{key}_max", highest.median, _text(highest, _DIGITS[kind]))
            upper = max(ratio.high for ratio in found)
            yield number(f"{key}_upper_max", upper, f"{upper:.{_DIGITS[kind]}f}")


def _waited(table: PerformanceTable) -> Iterator[Claim]:
    """Return for each disk the largest share of a run in which the guest waited for the host."""
    for disk in dict.fromkeys(row.disk for row in table.rows if row.waited is not None):
        most = max(row.waited or 0 for row in table.rows if row.disk == disk)
        yield number(slug("waited max", disk), most, f"{100 * most:.0f} % of a run")


def _paces(table: PerformanceTable) -> Iterator[Claim]:
    """Return for each disk with a pace of its own the smallest and the largest of all rounds."""
    for disk in dict.fromkeys(each.disk for each in table.paces):
        here = [each for each in table.paces if each.disk == disk]
        for end, times in (("min", min(p.low for p in here)), ("max", max(p.high for p in here))):
            yield number(slug("times", end, disk), times, f"{times:.3g} times")


def _nvdimm(results: Results) -> Iterator[Claim]:
    """Return what disks and the NVDIMM had to take for what the work wrote, and the delays of the NVDIMM."""
    if not has_nvdimm(results.campaign):
        return
    table = speed_table(results)
    yield from _said("order", table.orders)
    for row in table.rows:
        key = slug(row.mode, row.workload, row.disk, *([f"{row.vcpus} vcpus"] if row.vcpus > 1 else []))
        for what, traffic in (("disk", row.disk_traffic), ("nvdimm", row.nvdimm_traffic)):
            if traffic is not None:
                yield number(f"{key}_{what}_traffic", traffic, f"{traffic:.2f} MiB")
        if row.delay_s is not None:
            yield number(f"{key}_delay", row.delay_s, f"{row.delay_s:.2f} s")


def _row(row: PerformanceRow) -> Iterator[Claim]:
    where = (row.workload, row.disk, *([f"{row.vcpus} vcpus"] if row.vcpus > 1 else []))
    key = slug(row.mode, *where, row.kind)
    unit = f"{row.cost:.2f} s" if row.kind == "time" else f"{row.cost / 1e6:.1f} million instructions"
    yield number(key, row.cost, unit)
    if row.over:
        yield number(f"{key}_over", row.over.median, _text(row.over, _DIGITS[row.kind]))
    for name, over in row.part_over.items():
        yield number(slug(key, name, "over"), over.median, _text(over, _DIGITS[row.kind]))
        # A bound is kept only if the interval's upper end keeps it.
        yield number(slug(key, name, "over upper"), over.high, f"{over.high:.{_DIGITS[row.kind]}f}")
    if row.rate is not None:
        yield number(f"{key}_rate", row.rate, f"{row.rate:.0f} operations a second")
    for when, use in (("during", row.during), ("after", row.after)):
        if use and row.kind == "time":
            yield number(f"{key}_written_{when}", use.written_mib, f"{use.written_mib:.1f} MiB")


def _over_memory(results: Results) -> Iterator[Claim]:
    """Return the instructions of `rio` over those of `memory`, without and with string repetitions."""
    of_mode = runs_of(results)
    counted = {
        mode: [run for run in of_mode.get(mode, ()) if run.kind == "instructions" and run.vcpus == 1]
        for mode in ("rio", "memory")
    }
    for workload in dict.fromkeys(run.workload for run in counted["memory"]):
        for end, less in ((), 1), (("with repetitions",), 0):
            rio, memory = (
                [
                    run.events["instructions"] - less * run.events.get("repetitions", 0)
                    for run in counted[mode]
                    if run.workload == workload
                ]
                for mode in ("rio", "memory")
            )
            if rio:
                ratio = median(rio) / median(memory)
                yield number(slug("rio over memory", workload, *end), ratio, f"{ratio:.2f} times")


def _said(prefix: str, statements: list[Said]) -> Iterator[Claim]:
    for said in statements:
        vcpus = [f"{said.vcpus} vcpus"] if said.vcpus > 1 else []
        key = slug(prefix, said.key, said.workload, said.disk, *vcpus)
        yield Claim(key=key, value=_WORDS[said.holds], text=_WORDS[said.holds])
        for mode, found in said.ratios.items():
            yield number(slug(key, mode), found.median, _text(found, 2))


def _text(ratio: Ratio, digits: int) -> str:
    return f"{ratio.median:.{digits}f} ({ratio.low:.{digits}f} to {ratio.high:.{digits}f})"
