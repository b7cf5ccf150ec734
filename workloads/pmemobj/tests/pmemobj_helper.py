# SPDX-License-Identifier: Apache-2.0
"""Runs pmemobj in tests, and changes its pool."""

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

SOURCE = Path(__file__).parents[1]
SEED = 1996
APIS = ("tx", "atomic", "libpmem", "btree", "hashmap_tx")
# Those that keep a step in flight out of the pool.
TRANSACTIONS = ("tx", "btree", "hashmap_tx")
# Where the offset of an object's slot is behind the counter's, and how long an object's identifier is.
SLOTS_AT, OID = 8, 16
# Without PMEM_IS_PMEM_FORCE all that is flushed goes to the host's disk.
# A damaged pool kills the process that looks at it as it would without the sanitizers.
# A run that fails leaves its pool open, with all that PMDK has allocated.
SIGNALS = ("segv", "sigbus", "abort", "sigfpe", "sigill")
ENVIRONMENT = {
    **os.environ,
    "ASAN_OPTIONS": ":".join(
        [*(f"handle_{name}=0" for name in SIGNALS), "detect_leaks=0", "verify_asan_link_order=0"]
    ),
    "PMEM_IS_PMEM_FORCE": "1",
}
POOL_BYTES = 16 << 20


class Pmemobj:
    """A pmemobj binary, and a library with which its msync() copies to another file."""

    def __init__(self, binary: Path, losing: Path) -> None:
        self.binary, self.losing = binary, losing

    def __call__(self, *args: object, **keywords: Any) -> subprocess.CompletedProcess[str]:
        keywords = {"env": ENVIRONMENT, "capture_output": True, "text": True, "timeout": 300, **keywords}
        return subprocess.run([str(self.binary), *map(str, args)], check=False, **keywords)

    def prepare(self, root: Path, api: str) -> None:
        assert self("prepare", "--dir", root, "--api", api).returncode == 0

    def run(self, root: Path, api: str, steps: int, *args: object, seed: int = SEED, **keywords: Any) -> None:
        """Make a pool and do so many steps; memory is lost in `root` if `shadow` names another file."""
        self.prepare(root, api)
        done = self("run", "--dir", root, "--api", api, "--seed", seed, "--steps", steps, *args, **keywords)
        assert done.returncode == 0, done.stderr

    def losing_memory(self, shadow: Path) -> dict[str, str]:
        """The environment in which what is synced is copied to that file."""
        return {
            **ENVIRONMENT,
            "PMEM_IS_PMEM_FORCE": "0",
            "LD_PRELOAD": str(self.losing),
            "SHADOW": str(shadow),
        }

    def verify(self, root: Path, api: str, done: int, *args: object, seed: int = SEED) -> dict[str, Any]:
        """What verify says; its exit status must go with it."""
        result = self("verify", "--dir", root, "--api", api, "--seed", seed, "--done", done, *args, "--json")
        assert result.returncode in (0, 3), (result.returncode, result.stderr)
        report: dict[str, Any] = json.loads(result.stdout)
        assert (result.returncode == 3) == (report["difference_count"] > 0)
        return report

    def kinds(self, root: Path, api: str, done: int, *args: object) -> list[str]:
        return [found["kind"] for found in self.verify(root, api, done, *args)["differences"]]


def change(path: Path, offset: int, new: Callable[[bytes], bytes], length: int = 1) -> None:
    """Replace the bytes at an offset."""
    with path.open("r+b") as file:
        file.seek(offset)
        old = file.read(length)
        file.seek(offset)
        file.write(new(old))


def flip(path: Path, offset: int) -> None:
    change(path, offset, lambda old: bytes([old[0] ^ 4]))


def number(value: int) -> Callable[[bytes], bytes]:
    return lambda _: (value % (1 << 64)).to_bytes(8, "little")
