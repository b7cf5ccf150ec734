# SPDX-License-Identifier: Apache-2.0
"""Class `none`: the control without a fault; the trial ends with a reset at its drawn moment."""

from __future__ import annotations

import random

from riobed.faults.base import Fault, FaultClass
from riobed.faults.catalogue import Catalogue


def draw(catalogue: Catalogue, rng: random.Random, count: int) -> list[Fault]:
    """No faults, however many are asked for."""
    return []


def command(fault: Fault) -> str:
    """Never called: there is no fault of this class."""
    raise ValueError("class none has no faults")


NONE = FaultClass(
    name="none",
    category="control",
    summary="no fault: a reset at a random moment",
    draw=draw,
    command=command,
)
