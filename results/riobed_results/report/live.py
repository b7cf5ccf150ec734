# SPDX-License-Identifier: Apache-2.0
"""A report that is kept fresh while a campaign runs, by a process of its own and of low priority.

Of its own: drawing plots must not hold up the threads that look after guests, and a store of which no
report can be made must not end a campaign.
"""

import subprocess
import sys
import threading
import time
from pathlib import Path

EVERY_S = 60.0
# A report takes no more than this share of the time, whatever it costs.
SHARE = 0.1
_COMMAND = ("nice", "-n", "10", sys.executable, "-m", "riobed_results", "report")


class FreshReport:
    """The report of a campaign, written to `output` again and again in a block, and at its end.

    `logs` is the folder that the rows' `log` is relative to. `error` is then what the last writing said,
    "" if it went well.
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
        # A session of its own: Ctrl-C is for the campaign, which then has the last page written.
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
