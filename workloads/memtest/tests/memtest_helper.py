# SPDX-License-Identifier: Apache-2.0
"""Running memtest, and an independent reading of what it leaves: trees and progress records."""

import json
import os
import re
import shutil
import struct
import subprocess
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import Any

from elsewhere import compare_elsewhere

SOURCE = Path(__file__).resolve().parents[1]
MAX_BYTES = 4 << 20
SEED = 1996
STEPS = 340  # of the tree that the tests share
# The search for leaks doubles the time of a process; one test is made for it.
QUICK = {**os.environ, "ASAN_OPTIONS": "detect_leaks=0"}


def _step(crc: int, _: int) -> int:
    return (crc >> 1) ^ (0x82F63B78 if crc & 1 else 0)


_TABLE = [reduce(_step, range(8), index) for index in range(256)]


def crc32c(data: bytes) -> int:
    """CRC32C (RFC 3720, appendix B.4) of `data`."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = (crc >> 8) ^ _TABLE[(crc ^ byte) & 0xFF]
    return crc ^ 0xFFFFFFFF


@dataclass
class Record:
    letter: str
    step: int
    text: str


def parse_progress(data: bytes, seed: int) -> list[Record]:
    """The records in a progress log; a line that is not one fails the test."""
    records = []
    for line in data.decode("ascii").splitlines():
        match = re.fullmatch(r"(([SIDFE]) (\d+) )([0-9a-f]{8})(?: (.+))?", line)
        assert match, line
        assert int(match[4], 16) == crc32c(struct.pack("<Q", seed) + match[1].encode()), line
        assert match[2] in "EF" if match[5] else match[2] != "E", line
        records.append(Record(match[2], int(match[3]), match[5] or ""))
    return records


def last(records: list[Record], letter: str) -> int:
    """The step of the last record of that letter; 0 if there is none."""
    return max((record.step for record in records if record.letter == letter), default=0)


def listing(root: Path) -> dict[str, dict[str, Any]]:
    """What is on disk below `root`, in the form of `memtest model --json`."""

    def entry(path: Path) -> dict[str, Any]:
        if path.is_dir():
            return {"type": "dir"}
        data = path.read_bytes()
        return {"type": "file", "size": len(data), "crc32c": f"{crc32c(data):08x}"}

    return {str(path.relative_to(root)): entry(path) for path in root.rglob("*")}


class Memtest:
    """One memtest binary and the options that its tests share."""

    def __init__(self, binary: Path, max_bytes: int = MAX_BYTES):
        self.binary = binary
        self.limit = ["--max-bytes", str(max_bytes)]

    def __call__(self, *args: object, **keywords: Any) -> subprocess.CompletedProcess[str]:
        command = [str(self.binary), *map(str, args)]
        keywords = {"capture_output": True, "text": True, "timeout": 60, "env": QUICK, **keywords}
        return subprocess.run(command, check=False, **keywords)

    def output(self, *args: object) -> str:
        """What a command prints that does well."""
        result = self(*args)
        assert result.returncode == 0, result.stderr
        return result.stdout

    def prepare(self, root: Path) -> None:
        """Makes `root` a copy of a directory prepared once: each prepare waits for the disk."""
        fresh = self.binary.with_name("prepared")
        if not fresh.exists():
            self.output("prepare", "--dir", fresh)
        shutil.copytree(fresh, root)

    def run(self, root: Path, seed: int, steps: int, *args: object) -> list[Record]:
        """Prepares `root` and runs `steps` steps there."""
        log = root.with_name(root.name + ".progress")
        log.touch()  # or it would not be made if the test runs below /dev
        self.prepare(root)
        self.output(
            "run", "--dir", root, "--seed", seed, "--steps", steps, "--progress", log, *self.limit, *args
        )
        return parse_progress(log.read_bytes(), seed)

    def verify(
        self,
        root: Path,
        seed: int,
        done: int,
        intent: int = 0,
        failed: str = "",
        oldest: int | None = None,
        every: int = 0,
        **keywords: Any,
    ) -> dict[str, Any]:
        """What verify says, also if bytes are compared elsewhere; its exit status must go with it."""
        moment = ["--seed", seed, "--done", done, "--intent", intent, "--failed", failed, *self.limit]
        options = ["--json", *(() if oldest is None else ("--oldest", oldest)), "--fsync-every", every]
        result = self("verify", "--dir", root, *moment, *options, **keywords)
        if oldest in (None, done) and not keywords and result.returncode in (0, 3):
            compare_elsewhere(self, self.binary, root, moment, options, result, QUICK)
        assert result.returncode in (0, 3), result.stderr
        report: dict[str, Any] = json.loads(result.stdout)
        assert (report["done"], report["intent"]) == (done, intent)
        assert (result.returncode == 3) == (report["difference_count"] > 0)
        assert len(report["differences"]) == min(100, report["difference_count"])
        assert report["truncated"] == (report["difference_count"] > 100)
        return report

    def differences(self, *args: Any, **keywords: Any) -> list[tuple[str, str]]:
        """Path and kind of each difference that verify finds."""
        report = self.verify(*args, **keywords)
        return [(difference["path"], difference["kind"]) for difference in report["differences"]]

    def model(self, seed: int, steps: int) -> dict[str, dict[str, Any]]:
        answer = json.loads(self.output("model", "--seed", seed, "--steps", steps, "--json", *self.limit))
        assert answer["steps"] == steps
        return {entry.pop("path"): entry for entry in answer["entries"]}

    def steps(self, seed: int, steps: int) -> list[dict[str, Any]]:
        lines = self.output("steps", "--seed", seed, "--steps", steps, *self.limit).splitlines()
        return [json.loads(line) for line in lines]


def flip(path: Path, offset: int) -> None:
    """Changes one bit of the byte at `offset`, but not the file's times, like a stray store."""
    stat, data = path.stat(), bytearray(path.read_bytes())
    data[offset] ^= 0x10
    path.write_bytes(data)
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
