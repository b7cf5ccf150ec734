# SPDX-License-Identifier: Apache-2.0
"""Waiting for a boot stage."""

from pathlib import Path

import pytest
from harness_builders import ScriptedMachine
from riobed.errors import InfraError
from riobed.guest.boot import STAGE0_READY, wait_stage0


def test_a_machine_that_is_ended_before_its_agent_answers_ends_the_wait(tmp_path: Path) -> None:
    machine = ScriptedMachine(tmp_path)
    machine.say(machine.console, STAGE0_READY + b"\n")
    machine.agent, machine.on_ask = False, machine.destroy
    with pytest.raises(InfraError, match="not running"):
        wait_stage0(machine)
    assert machine.asked == 1
