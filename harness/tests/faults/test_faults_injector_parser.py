# SPDX-License-Identifier: Apache-2.0
"""The injector module's command parser, built for the host with sanitizers."""

import random
import subprocess
from pathlib import Path
from typing import get_args

import pytest
from riobed.faults import CLASSES, Catalogue, commands
from riobed.faults.classes.data_flips import HeapKind

INJECTOR = Path(__file__).parents[3] / "injectors" / "riobed_inject"


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("parser") / "parse_test"
    subprocess.run(
        ["gcc", "-std=gnu11", "-O1", "-g", "-Wall", "-Wextra", "-Werror", "-fsanitize=address,undefined"]
        + ["-fno-sanitize-recover=all", "-o", str(out)]
        + [str(INJECTOR / "parse.c"), str(INJECTOR / "tests" / "parse_test.c")],
        check=True,
    )
    return out


def parse(program: Path, text: str) -> list[str]:
    """What the parser makes of each line."""
    run = subprocess.run([program], input=text, capture_output=True, text=True, check=True)
    return run.stdout.splitlines()


@pytest.mark.parametrize("name", CLASSES)
def test_understands_every_drawn_batch(program: Path, catalogue: Catalogue, name: str) -> None:
    for seed in range(20):
        when = ["", "nmi", "after 1500"][seed % 3]
        batch = commands(CLASSES[name].draw(catalogue, random.Random(seed), 20), when)
        assert parse(program, batch) == batch.splitlines()


X16, TOO_MUCH = "90" * 16, 1000000001
# By what the parser names.
REFUSED = {
    "unknown command": ["", "stop", "g", "gone", " go", "GO", "heaps 1 5"],
    "more words": [
        *(
            "go nmi nmi",
            "go after 1 1",
            "text 1 1000 90 91 1 1",
            "heap 1 5 slab slab",
            "allocation 1 1 5 5",
            "synchronization 1 1 1",
        )
    ],
    "go is followed by": ["go 1", "go now", "go NMI"],
    "ID": [
        *(
            "text",
            "text 65536 1000 90 91 1",
            "text -1 1000 90 91 1",
            "text 99999999999999999999 1000 90 91 1",
        ),
        *("text  1 1000 90 91 1", "heap", "stack 65536 5"),
    ],
    "ADDR": ["text 1 0 90 91 1", "text 1 0x1000 90 91 1", "text 1 10000000000000000 90 91 1"],
    "OLD": ["text 1 1000 9 9 1", "text 1 1000 9g 90 1", f"text 1 1000 {X16} {X16} 1"],
    "NEW": ["text 1 1000 90 9190 1", "text 1 1000 90"],
    "PROBE": ["text 1 1000 90 91", "text 1 1000 90 91 2", "text 1 1000 90 91 9"],
    "CALLS": [
        *("copy_overrun 1 0 1", f"copy_overrun 1 {TOO_MUCH} 1", "allocation 1", "allocation 1 0 5"),
        *("synchronization 1", "synchronization 1 0", f"synchronization 1 {TOO_MUCH}"),
        *(f"synchronization 1 {time}" for time in ("ms", "0ms", "3600001ms", "5s", "ms5", "5msms")),
    ],
    "EXTRA": ["copy_overrun 1 1 0", "copy_overrun 1 1 1048577", "copy_overrun 1 1"],
    "SEED": ["heap 1", "heap 1 -1", "heap 1 4294967296", "stack 1 a"],
    "KIND": ["heap 1 5 6", "heap 1 5 Slab", "heap 1 5 slabs"],
    "MS": ["go after", "go after 0", "go after 3600001", "allocation 1 1", "allocation 1 1 60001"],
}


@pytest.mark.parametrize("why", REFUSED)
def test_refuses_with_the_reason(program: Path, why: str) -> None:
    answers = parse(program, "\n".join(REFUSED[why]) + "\n")
    for line, answer in zip(REFUSED[why], answers, strict=True):
        assert answer.startswith("refused: ") and why in answer, line


def test_extremes_are_accepted(program: Path) -> None:
    lines = [
        f"text 65535 ffffffffffffffff {'ff' * 15} {'00' * 15} 0",
        "text 0 1 00 01 1",
        "copy_overrun 0 1 1",
        "copy_overrun 65535 1000000000 1048576",
        "heap 0 0",
        *(f"heap 65535 4294967295 {kind}" for kind in get_args(HeapKind)),
        "stack 65535 4294967295",
        "allocation 0 1 0",
        "allocation 65535 1000000000 60000",
        "synchronization 0 1",
        "synchronization 65535 1000000000",
        *("go", "go nmi", "go after 1", "go after 3600000"),
        "synchronization 0 1ms",
        "copy_overrun 0 3600000ms 1",
        "allocation 0 15000ms 9",
    ]
    assert parse(program, "\n".join(lines) + "\n") == lines


def test_damaged_commands_are_refused_or_understood(program: Path, longer: int) -> None:
    count = 100_000 * longer
    run = subprocess.run([program, "fuzz", str(count)], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
    accepted = int(run.stdout.split()[0])
    assert 0 < accepted < count
