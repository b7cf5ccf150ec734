# SPDX-License-Identifier: Apache-2.0
"""Claims of soaks: one in the folder, or one in each of its subfolders."""

from collections import Counter

from riobed_results.tables.controls.soak import Soak, SoakRow

from publishing.claims.claim import Claim, count, slug


def soak_claims(soaks: dict[str, Soak]) -> list[Claim]:
    """Return the sums of each soak, by its folder's name, and the sums over all soaks."""
    every = [row for soak in soaks.values() for row in soak.rows]
    resets: Counter[int] = Counter()
    for soak in soaks.values():
        # One when the stressor has ended, or those while it ran.
        resets[soak.environment.vcpus] += sum(row.resets or 1 for row in soak.rows)
    return [
        *(claim for name, soak in soaks.items() for claim in _sums(name, soak.rows)),
        *_sums("all", every),
        *(
            count(f"resets_{vcpus}_vcpu{'s' * (vcpus > 1)}", number, "reset")
            for vcpus, number in resets.items()
        ),
    ]


def _sums(name: str, rows: list[SoakRow]) -> list[Claim]:
    mismatches = sum((row.mismatches or 0) + (row.recovery_mismatches or 0) for row in rows)
    good = sum(row.good for row in rows)
    return [
        Claim(key=slug(name, "good"), value=good, text=f"{good} of {len(rows)} stressors"),
        count(slug(name, "seconds"), round(sum(row.seconds for row in rows)), "s", "s"),
        count(slug(name, "traps"), sum(row.traps or 0 for row in rows), "trap"),
        count(slug(name, "mismatches"), mismatches, "mismatch"),
        count(slug(name, "pages"), sum(row.recovery.restored_pages for row in rows if row.recovery), "page"),
        count(slug(name, "files"), sum(row.files or 0 for row in rows), "file"),
        count(slug(name, "different"), sum(row.files_different or 0 for row in rows), "different file"),
        count(slug(name, "resets_under_stress"), sum(row.resets or 0 for row in rows), "reset"),
    ]
