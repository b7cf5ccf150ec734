# SPDX-License-Identifier: Apache-2.0
"""A campaign is run by one process at a time, and a killed one holds nothing."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from riobed_results.errors import StoreError
from riobed_results.store.lock import locked

_HOLD = """
import subprocess, sys, time
from riobed_results.store.lock import locked
with locked(sys.argv[1], "overnight"):
    # As a QEMU, it outlives the process that held it.
    subprocess.Popen(["sleep", "20"], start_new_session=True)
    print("held", flush=True)
    time.sleep(600)
"""


@contextmanager
def other_runner(url: str) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen([sys.executable, "-c", _HOLD, url], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout and process.stdout.readline() == "held\n"
        yield process
        process.kill()


def test_a_second_runner_is_refused(url: str) -> None:
    with other_runner(url):
        with pytest.raises(StoreError, match="is being run by another") as caught, locked(url, "overnight"):
            pass
        assert caught.value.exit_code == 1
        # The same store, another campaign.
        with locked(url, "weekend"):
            pass


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_a_runner_that_died_holds_nothing(url: str, number: int) -> None:
    with other_runner(url) as process:
        process.send_signal(number)
        process.wait()
        with locked(url, "overnight"):
            pass


def test_a_folder_that_may_not_be_written(path: Path) -> None:
    path.with_name(path.name + ".lock").mkdir()
    with (
        pytest.raises(StoreError, match="its lock file: Is a directory; choose another place"),
        locked(str(path), "overnight"),
    ):
        pass
