# SPDX-License-Identifier: Apache-2.0
"""Lines of an NVDIMM: what the plugin takes for a flush or a fence, and what a loss of power takes."""

import random
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from riobed.guest.memory.layout import MIB
from riobed.products import CHECKOUT
from riobed.vm import LostLines, Nvdimm, Plugin, make_nvdimm
from riobed.vm.machine import MachineConfig
from riobed.vm.nvdimm.persistence import LINE, NAME, flip_bit, lose_lines, mark_durable

SIZE = 4 * MIB


@pytest.fixture
def config(tmp_path: Path) -> MachineConfig:
    """A machine that has just been switched on, with zeros in its NVDIMM."""
    disk = tmp_path / "disk"
    config = MachineConfig("vm", tmp_path, 2 * MIB, 1, "", disk, disk, "", "", disk, disk)
    nvdimm = Nvdimm(tmp_path / "nvdimm", SIZE, 4096 * MIB)
    config = replace(config, nvdimm=nvdimm, plugin=Plugin(tmp_path / "lines.so", NAME))
    make_nvdimm(config)
    (tmp_path / NAME).touch()
    mark_durable(config)
    return config


def content(config: MachineConfig) -> bytes:
    assert config.nvdimm
    return config.nvdimm.path.read_bytes()


def store(config: MachineConfig, *numbers: int) -> None:
    assert config.nvdimm
    with config.nvdimm.path.open("r+b") as file:
        for number in numbers:
            file.seek(number * LINE + number % LINE)
            file.write(b"x")


def test_each_line_that_is_not_durable_is_kept_or_dropped(config: MachineConfig) -> None:
    durable, changed = content(config), random.Random(1).sample(range(SIZE // LINE), 1000)
    store(config, *changed)
    stored = content(config)
    lost = lose_lines(config, 1996)
    found = content(config)
    dropped = 0
    for at in range(0, SIZE, LINE):
        line = slice(at, at + LINE)
        assert found[line] in (stored[line], durable[line])
        dropped += stored[line] != found[line]
    assert lost == LostLines(1000, dropped) and 400 < dropped < 600
    # What is there now survives the next one.
    assert lose_lines(config, 1997) == LostLines(0, 0) and content(config) == found


def test_flushes_of_unknown_lines_are_told_once(config: MachineConfig) -> None:
    """Their number is the fifth in the plugin's file."""
    with (config.folder / NAME).open("r+b") as state:
        state.seek(4 * 8)
        state.write((3).to_bytes(8, "little"))
    assert [lose_lines(config, 1), lose_lines(config, 1)] == [LostLines(0, 0, 3), LostLines(0, 0, 0)]


def test_the_seed_decides_alone(config: MachineConfig) -> None:
    outcomes = []
    for seed in (7, 7, 8):
        make_nvdimm(config)
        mark_durable(config)
        store(config, *range(200))
        lose_lines(config, seed)
        outcomes.append(content(config))
    assert outcomes[0] == outcomes[1] != outcomes[2]


def test_what_is_changed_from_outside_is_durable(config: MachineConfig) -> None:
    """A line with a store in it that is not."""
    store(config, 5)
    flip_bit(config, 5 * LINE, 3)
    for seed in range(20):
        store(config, 5)
        lose_lines(config, seed)
        assert content(config)[5 * LINE] == 1 << 3


def test_a_store_into_the_canary_is_never_lost(config: MachineConfig) -> None:
    assert config.nvdimm
    config = replace(config, nvdimm=replace(config.nvdimm, canary=MIB))
    lines = range((SIZE - MIB) // LINE, SIZE // LINE)
    store(config, *lines)
    stored = content(config)
    assert lose_lines(config, 1996) == LostLines(0, 0) and content(config) == stored


def test_without_the_plugin_all_is_durable(config: MachineConfig) -> None:
    store(config, 5)
    before = content(config)
    assert lose_lines(replace(config, plugin=None), 1) is None and content(config) == before


def test_what_the_plugin_forgets_is_told_by_a_number(config: MachineConfig) -> None:
    def epoch() -> bytes:
        return (config.folder / NAME).read_bytes()[:8]

    before = epoch()
    lose_lines(config, 1)
    assert epoch() != before


def test_instructions_are_known_as_the_assembler_writes_them(tmp_path: Path) -> None:
    source, program = CHECKOUT / "harness/emulator/tests/flush_test.c", tmp_path / "flush_test"
    flags = "-std=gnu11 -O1 -g -Wall -Wextra -Werror -fsanitize=address,undefined -fno-sanitize-recover=all"
    subprocess.run(["gcc", *flags.split(), "-o", program, source], check=True)
    told = subprocess.run([program], capture_output=True, text=True)
    assert (told.stdout, told.stderr, told.returncode) == ("", "", 0)
