# SPDX-License-Identifier: Apache-2.0
"""Claims of campaigns whose machines have an NVDIMM: what crashes did to it, and what trials cost."""

import statistics
from collections.abc import Iterator
from typing import Any

from riobed_results.store import CampaignRow, Results, stored_spec
from riobed_results.tables.crashes.phases import timed
from riobed_results.tables.nvdimm.nvram import has_nvdimm, nvram_table, wanted

from publishing.claims.claim import Claim, count, interval, number, of, part, seconds_of, slug

# Keys of a spec in which campaigns may differ whose trials are compared.
_APART = {"name", "seed", "restart"}


def nvdimm(results: Results) -> Iterator[Claim]:
    """Return corruptions, hits of the canary and protection traps, by mode and kind of crash.

    Corruptions by fault class, too. Without faults: after how many crashes anything was lost or changed.
    """
    if not has_nvdimm(results.campaign) or not any(map(wanted, results.trials)):
        return
    table = nvram_table(results)
    for cell in table.cells:
        yield of(slug("nvram", cell.mode, cell.crash, cell.fault_class), cell.corrupted, cell.runs)
    for line in table.lines:
        key = slug("nvram", line.mode, line.crash)
        if not line.faults:
            lost = line.corrupted + line.lost_steps
            yield part(f"{key}_no_fault_lost", lost, line.runs)
            yield interval(f"{key}_no_fault_lost_interval", lost, line.runs)
            if line.canary:
                yield part(f"{key}_no_fault_canary_hit", line.canary_hit, line.canary)
            continue
        yield count(f"{key}_runs", line.runs, "judged run")
        for end, found, total in (
            ("corrupted", line.corrupted, line.runs),
            ("direct", line.wrong_checksum, line.runs),
            ("indirect", line.right_checksums, line.runs),
            ("unclassified", line.unclassified, line.runs),
            ("canary_hit", line.canary_hit, line.canary),
            ("hit_alone", line.hit_alone, line.canary),
            ("trapped", line.trapped, line.runs),
        ):
            if total:
                yield part(f"{key}_{end}", found, total)
                yield interval(f"{key}_{end}_interval", found, total)


def restart_costs(*campaigns: Results) -> Iterator[Claim]:
    """Return how much longer a trial takes that ends with a loss of power than one that ends with a reset.

    Compared are campaigns without faults whose specs are alike in all else.
    """
    resets = [each for each in campaigns if _restart(each.campaign) == "reset"]
    for results in campaigns:
        restart, others = _restart(results.campaign), _others(results.campaign)
        base = next((each for each in resets if _others(each.campaign) == others), None)
        if (
            restart == "reset"
            or base is None
            or not (mine := _seconds(results))
            or not (plain := _seconds(base))
        ):
            continue
        mine_s, plain_s = statistics.median(mine), statistics.median(plain)
        yield number(slug(restart, "over reset s"), mine_s - plain_s, f"{mine_s - plain_s:+.2f} s")
        yield number(slug(restart, "over reset"), mine_s / plain_s, f"{mine_s / plain_s:.2f} times")


def _restart(campaign: CampaignRow) -> str:
    return str(stored_spec(campaign).get("restart", "reset"))


def _others(campaign: CampaignRow) -> dict[str, Any]:
    return {key: value for key, value in stored_spec(campaign).items() if key not in _APART}


def _seconds(results: Results) -> list[float]:
    return [seconds_of(row) for row in results.rows if row.fault_class == "none" and timed(row)]
