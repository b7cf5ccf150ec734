# SPDX-License-Identifier: Apache-2.0
"""Progress output: one line per trial, cut to fit the terminal."""

import os
from typing import IO

from riobed_results.store import OTHERS, TrialRow
from riobed_results.tables.controls.replays import Ending, ReplayRun
from riobed_results.text import printable

# Columns for a file or a pipe, the same on every host.
_NO_TERMINAL = 100


def columns(stream: IO[str]) -> int:
    """Return the number of columns of a line to this stream."""
    return os.get_terminal_size(stream.fileno()).columns if stream.isatty() else _NO_TERMINAL


def fitted(text: str, width: int, end: str = "") -> str:
    """Join `text` and `end` in at most `width` columns; a text that is too long ends in an ellipsis."""
    text, room = printable(text), width - len(end)
    return (text if len(text) <= room else f"{text[: max(room - 1, 0)]}…") + end


def named(trial: TrialRow | ReplayRun) -> str:
    """Return the columns that identify a trial."""
    return f"{trial.position:4d} {trial.mode:<13} {trial.fault_class:<15}"


def ending(trial: TrialRow | Ending) -> str:
    """Say how a trial ended: what it was, seconds since injection and crash title, or no crash."""
    if trial.outcome in OTHERS:
        return f"{trial.outcome} {trial.time_to_crash_s:.1f} s: {trial.crash_title}"
    if trial.outcome == "discard":
        return f"discard, {trial.activated} faults activated"
    return f"{trial.crash_kind} {trial.time_to_crash_s:.1f} s: {trial.crash_title}"
