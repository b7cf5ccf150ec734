# SPDX-License-Identifier: Apache-2.0
"""What an analysis may count: endpoints, each of runs and hits, by the names that protocols use.

No run counts that is a control, an infra error, or a reset in recovery that came too late.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from riobed_results.store import CONTROLS, Row, RowType, crashed, judged

Rule = Callable[[Row], bool]


def result(row: Row) -> bool:
    """Whether this is a run with faults that has a result, judged or not."""
    return row.outcome != "infra_error" and row.fault_class not in CONTROLS and not row.late


def results_of(rows: Iterable[RowType]) -> list[RowType]:
    """Return the rows that an endpoint may count."""
    return list(filter(result, rows))


def down(row: Row) -> bool:
    """Whether the machine itself went down: a crash by the definition of every store."""
    return crashed(row) and not row.stuck


def differs(row: Row) -> bool:
    """Whether a file differed after recovery."""
    return row.corruption not in (None, "none")


@dataclass(frozen=True)
class Endpoint:
    """Of the `runs` of a mode, count those that are a `hit`.

    `per_seed`: modes are compared run by run, over the seeds that both have a result of. What only tells how
    a file became wrong, or how a run ended, `compares` no modes: protection itself changes it.
    """

    name: str
    title: str
    runs: Rule
    hit: Rule
    per_seed: bool = False
    compares: bool = True


def _every(row: Row) -> bool:
    return True


def _any_oracle(row: Row) -> bool:
    return differs(row) or bool(row.direct) or row.workload_mismatch


CORRUPTION = Endpoint("corruption", "crashes, a file differs", crashed, differs)
# The first is what `table corruption` counts.
CORRUPTIONS = (
    CORRUPTION,
    Endpoint("without-stuck", "crashes but for stuck workloads", down, differs),
    Endpoint(
        "panics",
        "panics alone: no hang, no stuck workload",
        lambda row: down(row) and row.crash_kind != "hang",
        differs,
    ),
    Endpoint(
        "wrong-read",
        "crashes, a file differs or the workload read wrong bytes before",
        crashed,
        lambda row: differs(row) or row.workload_mismatch,
    ),
    Endpoint(
        "checksums",
        "crashes, a file differs or a checksum is wrong",
        crashed,
        lambda row: differs(row) or bool(row.direct),
        compares=False,
    ),
    Endpoint("any-oracle", "crashes, any of these oracles", crashed, _any_oracle, compares=False),
    Endpoint("judged", "judged runs, however they ended; a file differs", judged, differs),
    Endpoint(
        "per-run",
        "runs, crashed and a file differs; same seeds",
        _every,
        lambda row: crashed(row) and differs(row),
        per_seed=True,
    ),
    Endpoint(
        "visible",
        "runs, a file differs, or without a crash the workload met any error",
        _every,
        lambda row: differs(row) or (row.met_error and not crashed(row)),
    ),
    Endpoint(
        "damage-seen",
        "runs, the same, of errors only wrong bytes and EUCLEAN",
        _every,
        lambda row: differs(row) or (row.met_damage and not crashed(row)),
    ),
)


def _crash_told(row: Row) -> bool:
    return crashed(row) and row.direct is not None


def _judged_told(row: Row) -> bool:
    return judged(row) and row.direct is not None


WRONG_CHECKSUM = Endpoint(
    "wrong-checksum",
    "a file differs, and a checksum is wrong or the canary was hit",
    _crash_told,
    lambda row: row.corruption == "direct",
    compares=False,
)
WRONG_CHECKSUMS = (
    WRONG_CHECKSUM,
    Endpoint(
        "wrong-checksum-dirty",
        "a file differs, and a dirty page has a wrong checksum",
        _crash_told,
        lambda row: differs(row) and row.wrong_dirty_page,
        compares=False,
    ),
    Endpoint(
        "wrong-page",
        "any page has a wrong checksum",
        _crash_told,
        lambda row: row.wrong_page,
        compares=False,
    ),
    Endpoint(
        "read-wrong",
        "the workload read wrong bytes before",
        _crash_told,
        lambda row: row.workload_mismatch,
        compares=False,
    ),
)
WRONG_CHECKSUMS_JUDGED = tuple(
    replace(each, name=f"{each.name}-judged", title=f"{each.title} (all judged runs)", runs=_judged_told)
    for each in WRONG_CHECKSUMS
)
# Of modes with a canary, whose files have no checksums.
CANARIES = (
    Endpoint(
        "canary",
        "the canary of the NVDIMM was hit",
        lambda row: crashed(row) and row.canary is not None,
        lambda row: bool(row.canary),
        compares=False,
    ),
    Endpoint(
        "canary-corrupted",
        "the canary of the NVDIMM was hit, and a file differs",
        lambda row: crashed(row) and row.canary is not None,
        lambda row: bool(row.canary) and differs(row),
        compares=False,
    ),
)
# Protection turns a stray store into a crash, so to count crashes alone would favour a mode without it.
CANARIES_JUDGED = tuple(
    replace(
        each,
        name=f"{each.name}-judged",
        title=f"{each.title} (all judged runs)",
        runs=lambda row: judged(row) and row.canary is not None,
    )
    for each in CANARIES
)
# How judged runs ended, by the console's last word: kinds of crashes, then the ends without one.
_KINDS = {
    "panic": "panic",
    "oops": "oops",
    "trap": "protection trap",
    "hang": "hang",
    "reset": "reset of the processor",
}


def _of_kind(kind: str) -> Rule:
    return lambda row: down(row) and row.crash_kind == kind


_ENDS: dict[str, tuple[str, Rule]] = {
    "ended": ("every judged run", judged),
    **{f"ended-{kind}": (title, _of_kind(kind)) for kind, title in _KINDS.items()},
    "ended-stuck": ("stuck workload", lambda row: row.stuck),
    "ended-survived": ("survived, brought down", lambda row: row.outcome == "survived"),
}
ENDS = tuple(Endpoint(name, title, runs, differs, compares=False) for name, (title, runs) in _ENDS.items())
ENDPOINTS = {
    each.name: each
    for each in (*CORRUPTIONS, *WRONG_CHECKSUMS, *WRONG_CHECKSUMS_JUDGED, *CANARIES, *CANARIES_JUDGED)
}


# By which modes may be compared.
COMPARING = [name for name, each in ENDPOINTS.items() if each.compares]


def endpoints_of(row: Row) -> list[str]:
    """Return the names of the endpoints of whose runs this is one."""
    if not result(row):
        return []
    return [name for name, each in ENDPOINTS.items() if each.runs(row)]


def endpoints_hit(row: Row) -> list[str]:
    """Return those of them by which the run is a hit."""
    return [name for name in endpoints_of(row) if ENDPOINTS[name].hit(row)]
