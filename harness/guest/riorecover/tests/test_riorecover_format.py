# SPDX-License-Identifier: Apache-2.0
"""riorecover reads the format that the kernel's patches define, to the letter."""

import re
import shutil
import subprocess
from pathlib import Path

from registry_image import Entry, Header
from riorecover_helper import SOURCE, tool

PATCHES = SOURCE.parents[2] / "guest-kernel-patches"
HEADER = "include/uapi/linux/rio_registry.h"


def series() -> list[Path]:
    lines = (PATCHES / "series").read_text().splitlines()
    return [PATCHES / line for line in lines if line and not line.startswith("#")]


def test_header_is_that_of_the_series(tmp_path: Path) -> None:
    touching = [patch for patch in series() if f"+++ b/{HEADER}\n" in patch.read_text()]
    assert touching
    for patch in touching:
        subprocess.run([tool("git"), "apply", f"--include={HEADER}", patch], cwd=tmp_path, check=True)
    assert (tmp_path / HEADER).read_text() == (SOURCE / "rio_registry.h").read_text()


def test_sizes_are_those_of_this_test(tmp_path: Path) -> None:
    """The formats written down here have the sizes that a compiler gives the structures."""
    shutil.copy(SOURCE / "rio_registry.h", tmp_path)
    sizes = {"rio_header": len(Header().pack()), "rio_entry": len(Entry().pack(0)), "rio_pair": 64}
    lines = [f'_Static_assert(sizeof(struct {name}) == {size}, "");' for name, size in sizes.items()]
    source = tmp_path / "sizes.c"
    source.write_text("\n".join(['#include "rio_registry.h"', *lines]) + "\n")
    subprocess.run([tool("cc"), "-fsyntax-only", source], check=True)


def test_constants_are_those_of_this_test() -> None:
    """The numbers used here stand in the header as well."""
    text = (SOURCE / "rio_registry.h").read_text()
    found = dict(re.findall(r"\b(RIO_\w+)\s*=?\s+(\d+|0x[0-9a-f]+)(?:ULL)?\b", text))
    expect = {
        "RIO_MAGIC": int.from_bytes(b"RIOREG", "little"),
        "RIO_VERSION": 2,
        "RIO_CHECKSUMS": 1,
        "RIO_PAGE_SIZE": 4096,
        "RIO_HEADER_STRIDE": 2048,
        "RIO_MAX_FS": 4,
        "RIO_FREE": 0,
        "RIO_CLEAN": 1,
        "RIO_DIRTY": 2,
        "RIO_SHADOWED": 3,
        "RIO_STATE_MASK": 0x0F,
        "RIO_PENDING_OFFSET": 1024,
        "RIO_MAX_PENDING": 128,
        "RIO_METADATA": 0x40,
        "RIO_CHANGING": 0x80,
        "RIO_ACTIVE": 1,
        "RIO_RECOVERED": 2,
    }
    assert {name: int(found[name], 0) for name in expect} == expect
