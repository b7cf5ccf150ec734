# SPDX-License-Identifier: Apache-2.0
"""Published seeds replay as long as each stream is drawn from the same text."""

import random

import pytest
from riobed.plan import Stream, generator

SUFFIXES = {
    "TRIAL": "trial",
    "FAULTS": "faults",
    "RESTART": "restart",
    "CHECK": "check",
    "RUN_ON": "run-on",
    "UNDISTURBED": "run-on",
    "PANIC": "panic",
    "POWER": "power",
    "WORKLOAD": "workload",
    "DOSE": "dose",
    "REPLAYS": "replays",
}


@pytest.mark.parametrize("name", Stream.__members__)
def test_a_stream_is_drawn_from_seed_and_name(name: str) -> None:
    stream = Stream.__members__[name]
    assert stream.of("7/none/3").random() == random.Random(f"7/none/3/{SUFFIXES[name]}").random()
    assert stream.of(7, 2).random() == random.Random(f"7/{SUFFIXES[name]}/2").random()


def test_a_stream_without_a_fixed_name() -> None:
    assert (
        generator(7, "memtest/none/1/time", 0).random() == random.Random("7/memtest/none/1/time/0").random()
    )
