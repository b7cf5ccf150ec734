# SPDX-License-Identifier: Apache-2.0
"""Console logs that rows name: what they name is stored text, so it is looked at before it is followed."""

import os
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

# How a row's detail begins to say that the crash report in its log is not whole, and what it lacks.
DAMAGED_LOG = "damaged log: "


def inside(logs: Path, log: str) -> bool:
    """Is `log` a file below the folder it should be in?"""
    try:
        path = (logs / log).resolve()
        return path.is_file() and path.is_relative_to(logs.resolve())
    except (OSError, ValueError):  # a name too long, or with a NUL
        return False


@dataclass(frozen=True)
class Links:
    """From a log's name, relative to `logs`, to what a page in `folder` says to get there."""

    logs: Path
    folder: Path

    def __call__(self, log: str | None) -> str | None:
        """Return a relative address; None if there is no such log."""
        if not log or not inside(self.logs, log):
            return None
        return quote(os.path.relpath((self.logs / log).resolve(), self.folder.resolve()))
