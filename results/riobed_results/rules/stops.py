# SPDX-License-Identifier: Apache-2.0
"""What stops a campaign under a protocol for good, whatever its claims say: after it no claim is shown."""

from collections import deque
from collections.abc import Iterator
from operator import itemgetter

from pydantic import BaseModel

from riobed_results.rules.attempts import Attempts
from riobed_results.rules.controls import deceives, differing
from riobed_results.rules.protocol import Protocol
from riobed_results.store import Group, Results, Row, Vocabulary
from riobed_results.text import printable


class Stop(BaseModel):
    """The trial that stopped a campaign, by its position in the plan, when it ended (UTC), and why."""

    position: int
    finished: str
    reason: str

    def __str__(self) -> str:
        return f"by trial {self.position}, which ended {self.finished}: {self.reason}"


def failed_control(row: Row, protocol: Protocol, vocabulary: Vocabulary) -> str:
    """Say how a control failed that claims rest on; empty if it did not, or is of an arm of no claim."""
    how = deceives(row, vocabulary) if row.mode in protocol.arms else ""
    return f"Control failed in mode {row.mode}: {how}" if how else ""


def each_attempt(results: Results) -> Iterator[tuple[Attempts, Group, int]]:
    """Yield each attempt's row and id in the order in which they were stored, and the attempts up to it.

    It is one object, which grows.
    """
    found = Attempts()
    for row, trial, seed in results.each("seed"):
        found.add((row.mode, row.fault_class, seed), row.outcome == "infra_error")
        yield found, row, trial


def attempts_of(results: Results) -> Attempts:
    """Return all attempts of a campaign."""
    last = deque(each_attempt(results), maxlen=1)
    return last[0][0] if last else Attempts()


def stopped(results: Results, protocol: Protocol) -> Stop | None:
    """Return what stopped a campaign first, by its rows; None if nothing did."""
    trial, reason = min(_stops(results, protocol), default=(0, ""))
    if not reason:
        return None
    (row,) = results.rows_at([trial])
    return Stop(position=row.position, finished=row.finished, reason=printable(reason))


def _stops(results: Results, protocol: Protocol) -> Iterator[tuple[int, str]]:
    """Yield the id of the trial at which each reason to stop arose. Controls count in the plan's order."""

    def fails(row: Row) -> bool:
        return bool(failed_control(row, protocol, results.campaign.vocabulary))

    for row, trial, _ in sorted(results.each("position", fails), key=itemgetter(2))[:1]:
        yield trial, failed_control(row, protocol, results.campaign.vocabulary)
    for row, trial, _ in results.each("position", lambda row: bool(differing(row))):
        yield trial, differing(row)
    for attempts, row, trial in each_attempt(results):
        claimed = row.outcome == "infra_error" and row.mode in protocol.arms
        if claimed and (said := attempts.too_many(row.mode, protocol.infra_errors)):
            yield trial, said
            return
