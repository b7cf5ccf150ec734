# SPDX-License-Identifier: Apache-2.0
"""andrew built with the sanitizers."""

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import suppress

import pytest
from andrew_helper import SOURCE, Andrew


@pytest.fixture(scope="session")
def andrew(tmp_path_factory: pytest.TempPathFactory) -> Andrew:
    out = tmp_path_factory.mktemp("andrew-build")
    subprocess.run(["make", "-s", "-C", SOURCE, f"O={out}", "sanitize"], check=True)
    return Andrew(out / "andrew-sanitize")


@pytest.fixture(autouse=True)
def ended(andrew: Andrew) -> Iterator[None]:
    """No run goes on after its test."""
    yield
    for run in andrew.runs:
        with suppress(ProcessLookupError):
            os.killpg(run.pid, signal.SIGKILL)
        run.wait()
    andrew.runs.clear()
