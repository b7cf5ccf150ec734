# SPDX-License-Identifier: Apache-2.0
"""riorecover reads the format that the kernel's patches define, to the letter."""

import subprocess
from pathlib import Path

import registry_image as image
from registry_image import Entry, Header, undo
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


def test_sizes_and_constants_are_those_of_these_tests(tmp_path: Path) -> None:
    """A compiler gives the structures the sizes, and the names the values, that are written down here."""
    sizes = {"rio_header": len(Header().pack()), "rio_entry": len(Entry().pack(0))}
    sizes |= {"rio_undo": len(undo(0, 0)), "rio_log_page": image.PAGE}
    expect = {f"sizeof(struct {name})": size for name, size in sizes.items()} | {
        **{"RIO_MAGIC": image.MAGIC, "RIO_VERSION": Header().version, "RIO_MAX_FS": 4},
        **{"RIO_PAGE_SIZE": image.PAGE, "RIO_HEADER_STRIDE": image.STRIDE, "RIO_STATE_MASK": 0x0F},
        **{
            f"RIO_{name}": getattr(image, name)
            for name in ["CHECKSUMS", "FREE", "CLEAN", "DIRTY", "METADATA"]
        },
        **{f"RIO_{name}": getattr(image, name) for name in ["CHANGING", "ACTIVE", "RECOVERED", "RECOVERING"]},
        **{f"RIO_{name}": getattr(image, name) for name in ["LOG_FREE", "LOG_FIRST", "LOG_NEXT"]},
        **{f"RIO_{name}": getattr(image, name) for name in ["UNDO_BYTES", "UNDO_SUPERSEDED", "UNDO_NEXT"]},
        **{"RIO_WORD_STATE_SHIFT": 32, "RIO_WORD_CHECK_SHIFT": 48},
        **{"RIO_WORD_KIND_SHIFT": 16, "RIO_WORD_OPERATION_SHIFT": 24},
    }
    lines = [f'_Static_assert({what} == {value}, "");' for what, value in expect.items()]
    source = tmp_path / "expect.c"
    source.write_text("\n".join([f'#include "{SOURCE}/rio_registry.h"', *lines]) + "\n")
    subprocess.run([tool("cc"), "-fsyntax-only", source], check=True)
