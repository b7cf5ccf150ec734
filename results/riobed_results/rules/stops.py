# SPDX-License-Identifier: Apache-2.0
"""What stops a campaign under a protocol for good, whatever its claims say: after it no claim is shown."""

from operator import itemgetter

from pydantic import BaseModel

from riobed_results.rules.controls import deceives
from riobed_results.rules.protocol import Protocol
from riobed_results.store import Results, Row, Vocabulary
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
    return printable(f"Control failed in mode {row.mode}: {how}") if how else ""


def stopped(results: Results, protocol: Protocol) -> Stop | None:
    """Return what stopped a campaign, by its rows: the first in the order of the plan; None if nothing."""
    vocabulary = results.campaign.vocabulary

    def stops(row: Row) -> bool:
        return bool(failed_control(row, protocol, vocabulary))

    found = min(results.each("position", stops), key=itemgetter(2), default=None)
    if found is None:
        return None
    row, trial, position = found
    (ended,) = results.rows_at([trial])
    return Stop(position=position, finished=ended.finished, reason=failed_control(row, protocol, vocabulary))
