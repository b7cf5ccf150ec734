# SPDX-License-Identifier: Apache-2.0
"""A clock that is the test's, for all of riobed."""

import time

import pytest
from harness_builders import Clock


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(time, "monotonic", clock.monotonic)
    monkeypatch.setattr(time, "sleep", clock.sleep)
    return clock
