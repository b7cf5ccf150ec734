# SPDX-License-Identifier: Apache-2.0
"""Keep a report up to date while a campaign runs, in a separate process of low priority.

The process is separate because drawing plots must not delay the threads that watch guests, and because an
error in the report must not end the campaign.
"""

import subprocess
import sys
import threading
import time
from pathlib import Path

EVERY_S = 60.0
# Upper limit of the proportion of time that is spent on reports.
SHARE = 0.1
_COMMAND = ("nice", "-n", "10", sys.executable, "-m", "riobed_results", "report")


class FreshReport:
    """Writes a campaign's report to `output` every `every_s` seconds during a `with` block, and at its end.

    The rows' `log` is relative to the folder `logs`. `error` is the error of the last write, "" if it
    succeeded.
    """

    def __init__(self, store: str, campaign: str, logs: Path, output: Path, every_s: float = EVERY_S) -> None:
        self.output = output
        self.error = ""
        self._arguments = ["--store", store, "--campaign", campaign]
        self._arguments += ["--logs", str(logs), "--output", str(output)]
        self._every_s = every_s
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._write_again, name="report", daemon=True)

    def __enter__(self) -> "FreshReport":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
        self._write()

    def _write_again(self) -> None:
        pause_s = 0.0
        while not self._over.wait(pause_s):
            began = time.monotonic()
            self._write("--reload", str(max(1, round(self._every_s))))
            pause_s = max(self._every_s, (time.monotonic() - began) / SHARE)

    def _write(self, *more: str) -> None:
        # In its own session, so Ctrl-C reaches only the campaign, which then has the last page written.
        done = subprocess.run(
            [*_COMMAND, *self._arguments, *more],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            start_new_session=True,
            check=False,
        )
        lines = done.stderr.strip().splitlines() if done.returncode else []
        self.error = lines[-1] if lines else ""
